//! `similarity`: the similarity of the value and a text, letter by letter.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, CHECK_GIVEN_UP, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::grade::text;
use crate::core::on::judged_value;
use crate::shared::edit_distance::{Distance, distance};
use crate::similarity::likeness::Limit;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

/// The default threshold.
const DEFAULT: f64 = 0.6;

const ID: &str = "similarity";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The value is similar to a text, by their edit distance.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Soft,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The similarity is below the threshold; with `not-` it is not.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source did not record the output." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The text to compare the value with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The text to compare with. If the judged value is not a text, its JSON is compared.
    value: String,
}

#[derive(Debug)]
struct Similarity {
    value: Vec<char>,
    limit: Limit,
    label: String,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    let limit = Limit::new(own, DEFAULT);
    if !(0.0..=1.0).contains(&limit.threshold) {
        let message = format!("a similarity cannot be {}", ecma::number(limit.threshold));
        let problem = Problem::new("/threshold", message)
            .with_help("write a number from 0 (nothing alike) to 1 (the same)");
        return Err(vec![problem]);
    }
    let label = own.label("Similarity");
    Ok(Arc::new(Similarity { value: value.chars().collect(), limit, label }))
}

impl Assertion for Similarity {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            threshold: Some(self.limit.turned(self.limit.threshold)),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let value = match judged_value(evidence.execution, ID, &self.label) {
            Ok(value) => value,
            Err(results) => return results,
        };
        let letters: Vec<char> = text(&value).chars().collect();
        let longest = letters.len().max(self.value.len());
        let Distance::Exactly(distance) = distance(&letters, &self.value, longest) else {
            let (value, reference) = (letters.len(), self.value.len());
            let message = format!(
                "comparing texts of {value} and {reference} letters takes too long; compare a part of it (`on`)"
            );
            return vec![AssertionResult::errored(ID, &self.label, CHECK_GIVEN_UP, message)];
        };
        #[expect(clippy::cast_precision_loss, reason = "no text has 2^53 letters")]
        let measure = if longest == 0 { 1.0 } else { 1.0 - distance as f64 / longest as f64 };
        let grade = self.limit.grade("Similarity", measure);
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            let reference = [self.value.iter().collect::<String>()];
            self.limit.evidence("similarity", measure, &text(&value), &reference)
        })]
    }
}
