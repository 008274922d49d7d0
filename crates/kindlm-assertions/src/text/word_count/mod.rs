//! `word-count`: the number of words in the output.

use std::sync::Arc;

use kindlm_types::{
    AssertionResult, Bound, Class, Problem, ResultEvidence, Severity, ecma, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::result_evidence::measure;
use crate::shared::words::split_words;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "word-count";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The number of words in the output is exact, or within limits.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code { code: ASSERTION_FAILED, summary: "The output has more or fewer words." }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The allowed number of words in the output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WordCountConfig")]
struct Config {
    /// The exact number of words, or the lowest and the highest number.
    value: Words,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Words {
    /// The exact number of words.
    Number(f64),
    /// The exact number of words, as a text.
    Text(String),
    /// The lowest and the highest number of words.
    Range(Range),
}

/// The lowest and the highest number of words; one of the two may be left out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WordRange")]
struct Range {
    /// The lowest number of words that passes.
    min: Option<f64>,
    /// The highest number of words that passes.
    max: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Limits {
    Exactly(f64),
    Between(f64, f64),
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Debug)]
struct WordCount {
    limits: Limits,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let limits = limits(&config.value).map_err(|problem| vec![problem])?;
    Ok(Arc::new(WordCount { limits, label: own.label("Word count"), negate: own.negate }))
}

fn limits(value: &Words) -> Result<Limits, Problem> {
    match value {
        Words::Number(number) => Ok(Limits::Exactly(*number)),
        Words::Text(text) => match text.trim().parse() {
            Ok(number) => Ok(Limits::Exactly(number)),
            Err(_) => Err(Problem::new("/value", format!("`{text}` is not a number of words"))
                .with_help("write a number, or `{ min: …, max: … }`")),
        },
        Words::Range(Range { min: None, max: None }) => {
            Err(Problem::new("/value", "`min` or `max` is required")
                .with_help("add one of them, or both"))
        }
        Words::Range(Range { min: Some(min), max: Some(max) }) if min > max => {
            let (min, max) = (ecma::number(*min), ecma::number(*max));
            Err(Problem::new("/value", format!("no number is at least {min} and at most {max}"))
                .with_help("`min` must not be greater than `max`"))
        }
        Words::Range(Range { min: Some(min), max: Some(max) }) => Ok(Limits::Between(*min, *max)),
        Words::Range(Range { min: Some(min), max: None }) => Ok(Limits::AtLeast(*min)),
        Words::Range(Range { min: None, max: Some(max) }) => Ok(Limits::AtMost(*max)),
    }
}

impl Limits {
    #[expect(clippy::float_cmp, reason = "a whole number was asked for; others are never met")]
    fn hold(self, count: f64) -> bool {
        match self {
            Self::Exactly(number) => count == number,
            Self::Between(min, max) => (min..=max).contains(&count),
            Self::AtLeast(min) => count >= min,
            Self::AtMost(max) => count <= max,
        }
    }

    fn missed(self, count: &str) -> String {
        let show = ecma::number;
        match self {
            Self::Exactly(number) => {
                format!("Word count {count} does not equal expected {}", show(number))
            }
            Self::Between(min, max) => {
                format!("Word count {count} is not between {} and {}", show(min), show(max))
            }
            Self::AtLeast(min) => format!("Word count {count} is less than minimum {}", show(min)),
            Self::AtMost(max) => {
                format!("Word count {count} is greater than maximum {}", show(max))
            }
        }
    }

    /// Returns the evidence of a failure: the violated limit.
    ///
    /// With `negate`, the limit is `max` plus 1. Without a `max`, the limit is `min` minus 1.
    fn evidence(self, count: f64, negate: bool) -> ResultEvidence {
        let (min, max) = match self {
            Self::Exactly(number) => (Some(number), Some(number)),
            Self::Between(min, max) => (Some(min), Some(max)),
            Self::AtLeast(min) => (Some(min), None),
            Self::AtMost(max) => (None, Some(max)),
        };
        let limit = match (negate, min, max) {
            (false, Some(min), _) if count < min => (min, Bound::AtLeast),
            (false, _, max) => (max.unwrap_or(count), Bound::AtMost),
            (true, _, Some(max)) => (max + 1.0, Bound::AtLeast),
            (true, min, None) => (min.unwrap_or(count) - 1.0, Bound::AtMost),
        };
        measure("words", count, limit, None)
    }

    fn met(self, count: &str) -> String {
        let show = ecma::number;
        let wanted = match self {
            Self::Exactly(number) => format!("not equal {}", show(number)),
            Self::Between(min, max) => format!("not be between {} and {}", show(min), show(max)),
            Self::AtLeast(min) => format!("be less than {}", show(min)),
            Self::AtMost(max) => format!("be greater than {}", show(max)),
        };
        format!("Expected word count to {wanted}, but got {count}")
    }
}

impl Assertion for WordCount {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let count = split_words(&evidence.execution.output).count();
        #[expect(clippy::cast_precision_loss, reason = "no output has 2^53 words")]
        let number = count as f64;
        let held = self.limits.hold(number);
        let count = count.to_string();
        let grade = Grade::from_pass(held != self.negate, || {
            if self.negate { self.limits.met(&count) } else { self.limits.missed(&count) }
        });
        vec![
            grade
                .result(ID, &self.label)
                .with_failure_evidence(|| [self.limits.evidence(number, self.negate)]),
        ]
    }
}
