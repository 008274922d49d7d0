//! `trace-error-spans`: the number of failed spans in the agent's trace.

use std::sync::{Arc, LazyLock};

use kindlm_types::{
    AssertionResult, Bound, Class, Problem, ResultEvidence, Severity, Span, Trace, ecma, schema_of,
};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::recorded::whole_trace;
use crate::core::result_evidence::{measure, trajectory};
use crate::shared::glob;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "trace-error-spans";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The number of failed spans in the agent's trace is within a limit.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "More spans failed than allowed; with `not-` no more than allowed.",
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

/// The highest number of failed spans that a reason names.
const SHOWN: usize = 3;

/// The limit for failed spans.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The highest number of failed spans that passes; 0 by default.
    ///
    /// An object can have more conditions.
    #[serde(default)]
    value: Option<Limit>,
}

/// The limit for failed spans.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TraceErrorSpansValue")]
enum Limit {
    /// The highest number of failed spans that passes.
    Count(f64),
    /// The spans to check, and the limits for failed spans.
    Of(Spans),
}

/// The spans to check, and the limits for failed spans.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TraceErrorSpansLimit")]
struct Spans {
    /// The highest number of failed spans that passes; 0 by default, unless `max_percentage` is set.
    max_count: Option<f64>,
    /// The highest share of failed spans that passes, in percent.
    max_percentage: Option<f64>,
    /// The name of the spans: `*` is any text, `?` is one character. Case does not matter. By default, all spans.
    pattern: Option<String>,
}

#[derive(Debug)]
struct TraceErrorSpans {
    max_count: Option<f64>,
    max_percentage: Option<f64>,
    pattern: String,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config: Config = parse_config(config)?;
    let spans = match config.value {
        None => Spans::default(),
        Some(Limit::Count(count)) => Spans { max_count: Some(count), ..Spans::default() },
        Some(Limit::Of(spans)) => spans,
    };
    Ok(Arc::new(TraceErrorSpans {
        max_count: spans.max_count.or(spans.max_percentage.is_none().then_some(0.0)),
        max_percentage: spans.max_percentage,
        pattern: spans.pattern.filter(|it| !it.is_empty()).unwrap_or_else(|| "*".to_owned()),
        negate: own.negate,
    }))
}

static ERROR_WORDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("(?i)error|failed|failure|exception|timeout|abort").ok());

/// Returns true if a span failed, by its status, attributes or message.
fn failed(span: &Span) -> bool {
    let attribute = |key: &str| span.attributes.as_ref().and_then(|it| it.get(key));
    let flagged = ["error", "exception", "failed", "failure"].iter().any(|key| {
        attribute(key).is_some_and(|it| match it {
            Value::Bool(flag) => *flag,
            Value::String(text) => text == "true",
            it => it.is_object() || it.is_array(),
        })
    });
    let http = attribute("http.status_code").and_then(|it| match it {
        Value::String(text) => text.trim().parse().ok(),
        it => it.as_f64(),
    });
    let told = ["otel.status_code", "status.code"]
        .iter()
        .any(|key| attribute(key).and_then(Value::as_str) == Some("ERROR"));
    let worded = span
        .status_message
        .as_deref()
        .is_some_and(|message| ERROR_WORDS.as_ref().is_some_and(|words| words.is_match(message)));
    span.status_code.is_some_and(|it| it == 2 || it >= 400)
        || flagged
        || http.is_some_and(|it: f64| it >= 400.0)
        || told
        || worded
}

/// Describes a failed span by its name and its message or status.
fn described(span: &Span) -> String {
    let message = span.status_message.as_deref().filter(|it| !it.is_empty());
    match (message, span.status_code) {
        (Some(message), _) => format!("{} ({message})", span.name),
        (None, Some(code)) if code != 0 => format!("{} (status: {code})", span.name),
        _ => span.name.clone(),
    }
}

impl TraceErrorSpans {
    /// Returns the evidence of a failure: the number and the share of failed spans.
    ///
    /// A number or share that does not violate its limit is left out. Without `not-`, the evidence also has the failed
    /// spans.
    fn evidence(&self, trace: &Trace) -> Vec<ResultEvidence> {
        let meant = || trace.spans.iter().filter(|it| glob::matches(&it.name, &self.pattern));
        let errors: Vec<String> = meant().filter(|it| failed(it)).map(described).collect();
        #[expect(clippy::cast_precision_loss, reason = "traces have far fewer than 2^52 spans")]
        let (count, all) = (errors.len() as f64, meant().count() as f64);
        let rate = if all > 0.0 { count / all * 100.0 } else { 0.0 };
        let bound = if self.negate { Bound::MoreThan } else { Bound::AtMost };
        let is_wrong = |actual: f64, max: f64| (actual > max) != self.negate;
        let by_count = self.max_count.filter(|max| is_wrong(count, *max));
        let by_share = self.max_percentage.filter(|max| is_wrong(rate, *max));
        let by_count = by_count.map(|it| measure("error spans", count, (it, bound), None));
        let by_share = by_share.map(|it| measure("error rate", rate, (it, bound), Some("%")));
        let listed = trajectory(Vec::<String>::new(), errors);
        by_count.into_iter().chain(by_share).chain((!self.negate).then_some(listed)).collect()
    }

    fn grade(&self, trace: &Trace) -> (bool, String) {
        let Self { pattern, .. } = self;
        let spans = trace.spans.iter().filter(|it| glob::matches(&it.name, pattern));
        let spans: Vec<&Span> = spans.collect();
        if spans.is_empty() {
            return (true, format!("No spans found matching pattern \"{pattern}\""));
        }
        let errors: Vec<&Span> = spans.iter().copied().filter(|it| failed(it)).collect();
        let (failed, all) = (errors.len(), spans.len());
        #[expect(clippy::cast_precision_loss, reason = "traces have far fewer than 2^52 spans")]
        let (count, rate) = (failed as f64, failed as f64 / all as f64 * 100.0);
        let shown_rate = ecma::to_fixed(rate, 1);
        if let Some(max) = self.max_count.filter(|max| count > *max) {
            let named: Vec<String> = errors.iter().take(SHOWN).map(|it| described(it)).collect();
            let more = match failed.saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let (max, named) = (ecma::number(max), named.join(", "));
            let reason = format!(
                "Found {failed} error spans, expected at most {max}. Errors: {named}{more}"
            );
            return (false, reason);
        }
        if let Some(max) = self.max_percentage.filter(|max| rate > *max) {
            let max = ecma::number(max);
            let reason = format!(
                "Error rate {shown_rate}% exceeds threshold {max}% ({failed} errors out of {all} spans)"
            );
            return (false, reason);
        }
        if failed == 0 {
            return (
                true,
                format!("No errors found in {all} spans matching pattern \"{pattern}\""),
            );
        }
        let mut reason = format!("Found {failed} error(s) in {all} spans ({shown_rate}%)");
        for (max, sign) in [(self.max_count, ""), (self.max_percentage, "%")] {
            if let Some(max) = max {
                reason.push_str(", within threshold of ");
                reason.push_str(&ecma::number(max));
                reason.push_str(sign);
            }
        }
        (true, reason)
    }
}

impl Assertion for TraceErrorSpans {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let label = format!("Trace errors: {}", self.pattern);
        let trace = match whole_trace(evidence.execution, ID, &label) {
            Ok(trace) => trace,
            Err(results) => return results,
        };
        let (holds, reason) = self.grade(trace);
        let result = Grade::with(holds != self.negate, reason).result(ID, &label);
        vec![result.with_failure_evidence(|| self.evidence(trace))]
    }
}
