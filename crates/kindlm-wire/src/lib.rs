//! The JSON that leaves and enters the program: versioned, and apart from the types it works with.
//!
//! [`v1`] is the report; [`evaluate`] is what `kindlm evaluate` reads and writes. A field that is not known is
//! ignored when reading, so that an older KindLM reads what a newer one wrote within the same version; another
//! `schemaVersion` is refused.

pub mod evaluate;
mod read;
pub mod v1;

use serde::Deserialize;
use serde_json::Value;

use kindlm_types::Report;
pub use read::{OnCase, parse_case, read_report};

/// Why a JSON report could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// It is not JSON, or not of the form that its version promises.
    #[error("not a KindLM report: {0}")]
    Json(#[from] serde_json::Error),
    /// It does not say which version it has.
    #[error(
        "the report has no `schemaVersion`: give a file that `--reporter json` or `kindlm test` wrote"
    )]
    NoVersion,
    /// It has a version that this program does not support.
    #[error(
        "the report has `schemaVersion` {found}, and this KindLM reads {}: use the KindLM that wrote it, or a newer one",
        v1::VERSION
    )]
    Version {
        /// The value found, as JSON.
        found: String,
    },
    /// Two of its fields contradict each other, or one has an impossible value.
    #[error("the report's {place}: {message}")]
    Invalid {
        /// The part, in words.
        place: String,
        /// The problem.
        message: String,
    },
}

/// Reads a report of any known version.
pub fn parse_report(json: &[u8]) -> Result<Report, WireError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        schema_version: Option<Value>,
    }
    // The version comes first: a later version may look quite different, and the error should say so.
    let Version { schema_version } = serde_json::from_slice(json)?;
    match schema_version {
        None => Err(WireError::NoVersion),
        Some(found) if found != v1::VERSION => Err(WireError::Version { found: found.to_string() }),
        Some(_) => Report::try_from(serde_json::from_slice::<v1::Report>(json)?),
    }
}

/// For lists and maps of user input in which `null` means "none".
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
