//! `trace-span-count`: the number of spans with a certain name in the agent's trace.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::range::Range;
use crate::core::recorded::whole_trace;
use crate::core::result_evidence::{counted, trajectory};
use crate::shared::glob;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "trace-span-count";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent's trace has a certain number of spans with a name.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "There are too few or too many spans; with `not-` the number is within the limits.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The execution has no trace, or some of its spans are missing.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

const LABEL: &str = "Trace spans";

/// The spans to count, and the allowed number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The spans to count, and the allowed number.
    value: Spans,
}

/// The spans to count, and the allowed number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TraceSpanCountValue")]
struct Spans {
    /// The name of the spans: `*` is any text, `?` is one character. Case does not matter.
    #[schemars(length(min = 1))]
    pattern: String,
    /// The lowest number of spans that passes; by default, no minimum.
    #[serde(default)]
    min: Option<u64>,
    /// The highest number of spans that passes; by default, no maximum.
    #[serde(default)]
    max: Option<u64>,
}

#[derive(Debug)]
struct TraceSpanCount {
    pattern: String,
    range: Range,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config { value: Spans { pattern, min, max } } = parse_config(config)?;
    let range = Range::new(min, max, "/value")?;
    Ok(Arc::new(TraceSpanCount { pattern, range, negate: own.negate }))
}

impl TraceSpanCount {
    fn grade(&self, names: &[&str]) -> Grade {
        let (pattern, count) = (&self.pattern, names.len());
        let holds = self.range.holds(count);
        if self.negate {
            let reason = if holds {
                format!("forbidden count {count} satisfied the range for pattern \"{pattern}\"")
            } else {
                format!(
                    "count {count} did not satisfy the forbidden range for pattern \"{pattern}\""
                )
            };
            return Grade::with(!holds, format!("not-trace-span-count: {reason}"));
        }
        let expected = match self.range.missed(count) {
            Some(missed) => format!(", expected {missed}"),
            None => self.range.expected().map(|it| format!(" (expected {it})")).unwrap_or_default(),
        };
        let mut reason = format!("Found {count} spans matching pattern \"{pattern}\"{expected}");
        let mut distinct: Vec<&str> = Vec::new();
        for name in names {
            if !distinct.contains(name) {
                distinct.push(name);
            }
        }
        if !distinct.is_empty() {
            reason.push_str(". Matched spans: ");
            reason.push_str(&distinct.join(", "));
        }
        Grade::with(holds, reason)
    }
}

impl Assertion for TraceSpanCount {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let label = format!("{LABEL}: {}", self.pattern);
        let trace = match whole_trace(evidence.execution, ID, &label) {
            Ok(trace) => trace,
            Err(results) => return results,
        };
        let names = trace.spans.iter().map(|it| it.name.as_str());
        let names: Vec<&str> = names.filter(|it| glob::matches(it, &self.pattern)).collect();
        vec![self.grade(&names).result(ID, &label).with_failure_evidence(|| {
            let count = counted("spans", names.len(), self.range, self.negate);
            [count, trajectory(Vec::<&str>::new(), names)]
        })]
    }
}
