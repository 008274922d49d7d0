//! `regex`: the output matches a regular expression, written as in JavaScript.

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, CHECK_GIVEN_UP};
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::needles::quoted;
use crate::core::result_evidence::{absent, found as places, matches_of};
use crate::shared::pattern::Pattern;
use crate::{
    Assertion, BeginningRule, Build, Built, Code, EntryOptions, Evidence, Meta, Registration,
    Setup, StaysValid, Traits,
};

const ID: &str = "regex";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output matches a regular expression.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code { code: ASSERTION_FAILED, summary: "Nothing in the output matches." }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The pattern to search for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The pattern as in JavaScript, without `/` around it and without flags. It may match anywhere.
    value: String,
}

#[derive(Debug)]
struct Regex {
    pattern: Pattern,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    if value.is_empty() {
        let problem = Problem::new("/value", "the pattern is empty")
            .with_help("an empty pattern matches every output: write one, or remove the check");
        return Err(vec![problem]);
    }
    let pattern = Pattern::compile(&value).map_err(|err| vec![err.problem("/value")])?;
    let label = own.label(&format!("Matches: {}", quoted(&value)));
    Ok(Arc::new(Regex { pattern, label, negate: own.negate }))
}

impl Assertion for Regex {
    fn traits(&self) -> Traits {
        let pattern = self.pattern.clone();
        let is_decided = BeginningRule::new(move |output| pattern.matches_whatever_follows(output));
        Traits {
            label: Some(self.label.clone()),
            stays_valid: StaysValid::Beginning(is_decided),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let found = match self.pattern.is_match(&evidence.execution.output) {
            Ok(found) => found,
            Err(err) => {
                let message = format!("{err}; write a pattern without nested repetitions");
                return vec![AssertionResult::errored(ID, &self.label, CHECK_GIVEN_UP, message)];
            }
        };
        let grade = Grade::from_pass(found != self.negate, || {
            let not = if self.negate { "not " } else { "" };
            format!("Expected output to {not}match regex \"{}\"", self.pattern.as_str())
        });
        let output = &evidence.execution.output;
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            let pattern = &self.pattern;
            [if found {
                places(CheckedText::Output, output, matches_of(pattern, output))
            } else {
                absent([format!("/{}/", pattern.as_str())])
            }]
        })]
    }
}
