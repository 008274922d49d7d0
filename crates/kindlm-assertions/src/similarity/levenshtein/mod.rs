//! `levenshtein`: the number of single-letter edits that turn the output into a text.

use std::sync::Arc;

use kindlm_types::{
    AssertionResult, Bound, Class, Problem, ResultEvidence, Severity, ecma, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, CHECK_GIVEN_UP};
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::result_evidence::{measure, text_diff};
use crate::shared::edit_distance::{Distance, distance};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "levenshtein";

/// The default threshold: the highest distance that passes.
const DEFAULT: f64 = 5.0;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The edit distance of the output and a text is within a threshold.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The edit distance is above the threshold.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The text to compare the output with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The text to compare the output with.
    value: String,
}

#[derive(Debug)]
struct Levenshtein {
    /// The text in UTF-16 units, because JavaScript counts them.
    value: Vec<u16>,
    threshold: f64,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let threshold = own.threshold.unwrap_or(DEFAULT);
    if threshold < 0.0 {
        let problem = Problem::new("/threshold", "a distance cannot be below 0")
            .with_help("write the highest number of letters that may differ");
        return Err(vec![problem]);
    }
    let label = own.label("Levenshtein distance");
    let value = config.value.encode_utf16().collect();
    Ok(Arc::new(Levenshtein { value, threshold, label, negate: own.negate }))
}

impl Levenshtein {
    fn grade(&self, distance: &Distance) -> Option<Grade> {
        #[expect(clippy::cast_precision_loss, reason = "no text has 2^53 letters")]
        let (near, shown) = match distance {
            Distance::Exactly(distance) => {
                (*distance as f64 <= self.threshold, distance.to_string())
            }
            Distance::MoreThan(least) => (false, format!("of more than {least}")),
            Distance::Unknown => return None,
        };
        let relation = if near { "less than or equal to" } else { "greater than" };
        Some(Grade::from_pass(near != self.negate, || {
            let threshold = ecma::number(self.threshold);
            format!("Levenshtein distance {shown} is {relation} threshold {threshold}")
        }))
    }
}

impl Levenshtein {
    /// Returns the distance with its limit; without `not-`, also the difference of the texts.
    fn evidence(&self, distance: &Distance, output: &str) -> Vec<ResultEvidence> {
        #[expect(clippy::cast_precision_loss, reason = "no text has 2^53 letters")]
        let actual = match distance {
            Distance::Exactly(distance) => *distance as f64,
            Distance::MoreThan(_) | Distance::Unknown => f64::NAN,
        };
        if self.negate {
            // A distance is a whole number, so the lowest passing distance is the next number above the threshold.
            let limit = (self.threshold.floor() + 1.0, Bound::AtLeast);
            return vec![measure("distance", actual, limit, None)];
        }
        let limit = (self.threshold, Bound::AtMost);
        let value = String::from_utf16_lossy(&self.value);
        vec![measure("distance", actual, limit, None), text_diff(&value, output)]
    }
}

impl Assertion for Levenshtein {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), measures: true, ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let output: Vec<u16> = evidence.execution.output.encode_utf16().collect();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "thresholds are not negative, and one above the length means the length"
        )]
        let distance = distance(&output, &self.value, self.threshold as usize);
        let result = match self.grade(&distance) {
            Some(grade) => grade
                .result(ID, &self.label)
                .with_failure_evidence(|| self.evidence(&distance, &evidence.execution.output)),
            None => AssertionResult::errored(
                ID,
                &self.label,
                CHECK_GIVEN_UP,
                format!(
                    "comparing texts of {} and {} letters up to a distance of {} takes too long; \
                     choose a smaller `threshold`, or another check for long texts",
                    output.len(),
                    self.value.len(),
                    ecma::number(self.threshold),
                ),
            ),
        };
        vec![result]
    }
}
