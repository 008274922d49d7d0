//! `tool-call-f1`: the agreement of the called tools with the expected tools, as an F1 score.

mod names;

use std::collections::BTreeSet;
use std::sync::Arc;

use kindlm_types::{AssertionResult, Bound, Class, Execution, Problem, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::check::TOLERANCE;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::{Grade, text};
use crate::core::missing_evidence::missing_calls;
use crate::core::recorded::{missing, structured};
use crate::core::result_evidence::{measure, trajectory};
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "tool-call-f1";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The called tools agree with the expected ones: their F1 score reaches a threshold.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The score is below the threshold; with `not-` it is not.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all tool calls, and the output contains none.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

const LABEL: &str = "Tool call F1";

/// The tools that should be called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The names of the tools, as a list or comma-separated.
    value: Names,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ToolNames")]
enum Names {
    /// Comma-separated names.
    Text(String),
    /// A list of names.
    List(Vec<Value>),
}

#[derive(Debug)]
struct ToolCallF1 {
    expected: BTreeSet<String>,
    threshold: f64,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config { value } = parse_config(config)?;
    let names: Vec<String> = match value {
        Names::Text(text) => text.split(',').map(str::to_owned).collect(),
        Names::List(list) => list.iter().map(|it| text(it).into_owned()).collect(),
    };
    let expected = names.iter().map(|it| it.trim()).filter(|it| !it.is_empty()).map(str::to_owned);
    let expected: BTreeSet<String> = expected.collect();
    if expected.is_empty() {
        let problem = Problem::new("/value", "the list of tools is empty");
        return Err(vec![problem.with_help("name at least one tool that must be called")]);
    }
    let threshold = own.threshold.unwrap_or(1.0);
    Ok(Arc::new(ToolCallF1 { expected, threshold, negate: own.negate }))
}

/// Returns the names of the called tools, or the reason why some may be unknown.
fn called(execution: &Execution) -> Result<BTreeSet<String>, String> {
    let seen: BTreeSet<String> = execution.tool_calls.iter().map(|it| it.name.clone()).collect();
    // Calls that were parsed from the output count as complete.
    let said = match structured(execution) {
        _ if !seen.is_empty() => BTreeSet::new(),
        Some(value) => names::in_value(value),
        None => names::in_text(&execution.output),
    };
    match missing_calls(execution).filter(|_| said.is_empty()) {
        Some(why) => Err(format!("the tool calls are incomplete: {why}")),
        None if seen.is_empty() => Ok(said),
        None => Ok(seen),
    }
}

/// Precision, recall, and the F1 score, which is their harmonic mean.
///
/// Source: van Rijsbergen, "Information Retrieval", 1979.
struct F1 {
    precision: f64,
    recall: f64,
    score: f64,
}

impl F1 {
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^52 tools")]
    fn new(expected: &BTreeSet<String>, called: &BTreeSet<String>) -> Self {
        let common = expected.intersection(called).count() as f64;
        let share = |all: usize| if all == 0 { 0.0 } else { common / all as f64 };
        let (precision, recall) = (share(called.len()), share(expected.len()));
        let sum = precision + recall;
        let score = if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 };
        Self { precision, recall, score }
    }
}

fn listed(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "(none)".to_owned();
    }
    // JavaScript sorts by UTF-16 code units.
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
    names.join(", ")
}

impl Assertion for ToolCallF1 {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let called = match called(evidence.execution) {
            Ok(called) => called,
            Err(why) => return missing(ID, LABEL, &why),
        };
        let F1 { precision, recall, score } = F1::new(&self.expected, &called);
        let pass = (score >= self.threshold - TOLERANCE) != self.negate;
        let [shown, precision, recall] = [score, precision, recall].map(|it| ecma::to_fixed(it, 3));
        let lists =
            format!("Expected: [{}], Called: [{}]", listed(&self.expected), listed(&called));
        let reason = if pass {
            format!("Tool Call F1: {shown} (precision={precision}, recall={recall}). {lists}")
        } else {
            let side = if self.negate { "above" } else { "below" };
            let threshold = ecma::number(self.threshold);
            format!(
                "Tool Call F1 score {shown} is {side} threshold {threshold}. {lists}. Precision={precision}, Recall={recall}"
            )
        };
        let bound = if self.negate { Bound::LessThan } else { Bound::AtLeast };
        vec![Grade { pass, score, reason }.result(ID, LABEL).with_failure_evidence(|| {
            let limit = (self.threshold, bound);
            let expected = self.expected.iter().filter(|_| !self.negate);
            [measure("F1", score, limit, None), trajectory(expected.cloned(), called)]
        })]
    }
}
