//! The JSON formats that KindLM reads and writes: versioned, and independent of the internal types.
//!
//! [`v1`] is the report; [`evaluate`] is the input and output of `kindlm evaluate`. The modules [`mutation`],
//! [`history`], [`bisect`] and [`plan`] are the results of `kindlm mutate`, `kindlm history`, `kindlm bisect` and
//! `kindlm plan`.
//!
//! Unknown fields are ignored. So an older KindLM can read a report of a newer KindLM, if both versions use the same
//! `schemaVersion`. Any other `schemaVersion` is rejected.

pub mod bisect;
pub mod evaluate;
pub mod history;
pub mod mutation;
pub mod plan;
mod read;
mod unsupported;
pub mod v1;

use serde::Deserialize;
use serde_json::Value;

use kindlm_types::Report;
pub use read::{OnCase, parse_case, read_report};
pub use unsupported::unsupported_parts;

/// The reason why a JSON report could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The data is not JSON, or does not match the format of its version.
    #[error("not a KindLM report: {0}")]
    Json(#[from] serde_json::Error),
    /// The report has no `schemaVersion`.
    #[error(
        "the report has no `schemaVersion`: give a file that `--reporter json` or `kindlm test` wrote"
    )]
    NoVersion,
    /// The report has an unsupported `schemaVersion`.
    #[error(
        "the report has `schemaVersion` {found}, and this KindLM reads {}: use the KindLM that wrote it, or a newer one",
        v1::VERSION
    )]
    Version {
        /// The value found, as JSON.
        found: String,
    },
    /// Fields of the report contradict each other, or have an impossible value.
    #[error("the report's {place}: {message}")]
    Invalid {
        /// A description of the part of the report.
        place: String,
        /// The problem.
        message: String,
    },
}

/// Parses a report of any supported version. Fails if the data is not a valid report.
pub fn parse_report(json: &[u8]) -> Result<Report, WireError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        schema_version: Option<Value>,
    }
    // Check the version first: a later version may have another format, and the error must name the version.
    let Version { schema_version } = serde_json::from_slice(json)?;
    match schema_version {
        None => return Err(WireError::NoVersion),
        Some(found) if found != v1::VERSION => {
            return Err(WireError::Version { found: found.to_string() });
        }
        Some(_) => {}
    }
    let mut cases = Vec::new();
    let mut report = read_report(json, &mut |case, _| cases.push(case))?;
    report.cases = cases;
    Ok(report)
}

/// Deserializes a list or map of user input. `null` means empty.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
