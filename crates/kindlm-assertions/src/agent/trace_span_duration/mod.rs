//! `trace-span-duration`: the duration of the spans in the agent's trace.

use std::sync::Arc;

use kindlm_types::{
    AssertionResult, Bound, Class, Problem, ResultEvidence, Severity, Span, Trace, ecma, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::recorded::{missing, whole_trace};
use crate::core::result_evidence::measure;
use crate::shared::glob;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "trace-span-duration";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The spans with a name in the agent's trace are within a time limit.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "Spans took longer; with `not-` none did." },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The execution has no trace, some of its spans are missing, or the duration of a span is unknown.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The highest number of slow spans that a reason names.
const SHOWN: usize = 3;

/// The spans to measure, and the limit for their duration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The spans to measure, and the limit for their duration.
    value: Limit,
}

/// The spans to measure, and the limit for their duration.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TraceSpanDurationValue")]
struct Limit {
    /// The name of the spans: `*` is any text, `?` is one character. Case does not matter. By default, all spans.
    #[serde(default = "any")]
    pattern: String,
    /// The longest duration that passes, in milliseconds.
    max: f64,
    /// The share of the spans that must stay within the limit, in percent; by default, all spans.
    ///
    /// For example, 95 ignores the slowest 5 percent.
    #[serde(default)]
    #[schemars(with = "f64", range(min = 0, max = 100))]
    percentile: Option<f64>,
}

fn any() -> String {
    "*".to_owned()
}

#[derive(Debug)]
struct TraceSpanDuration {
    limit: Limit,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config { value: limit } = parse_config(config)?;
    Ok(Arc::new(TraceSpanDuration { limit, negate: own.negate }))
}

/// A span's name and its duration in milliseconds.
type Took<'a> = (&'a str, f64);

/// Returns the duration of a span in milliseconds; `None` without an end time, or if the end is before the start.
fn took(span: &Span) -> Option<f64> {
    span.end_time.map(|end| end - span.start_time).filter(|it| *it >= 0.0)
}

/// Returns the percentile of sorted values by the nearest-rank method.
///
/// `share` is in percent. Without values, the result is 0. See
/// <https://en.wikipedia.org/wiki/Percentile#The_nearest-rank_method>.
fn percentile(sorted: &[Took<'_>], share: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "traces have far fewer than 2^52 spans")]
    let rank = (share / 100.0 * sorted.len() as f64).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the share is between 0 and 100"
    )]
    let index = (rank as usize).saturating_sub(1);
    sorted.get(index).or(sorted.last()).map_or(0.0, |(_, took)| *took)
}

/// Formats the slowest spans. The spans must come in descending order of their durations.
fn slowest<'a>(spans: impl Iterator<Item = &'a Took<'a>>) -> String {
    let words = spans.take(SHOWN).map(|(name, took)| format!("{name} ({}ms)", ecma::number(*took)));
    words.collect::<Vec<_>>().join(", ")
}

impl Limit {
    /// Returns the name of the first matching span without a duration; `None` if all matching spans have a duration.
    fn untimed<'t>(&self, trace: &'t Trace) -> Option<&'t str> {
        let meant = trace.spans.iter().filter(|it| glob::matches(&it.name, &self.pattern));
        meant.filter(|it| took(it).is_none()).map(|it| it.name.as_str()).next()
    }

    /// Returns true if spans of unknown duration could not change the verdict.
    ///
    /// A pass is never certain. A failure is certain unless only a share of the spans must stay within the limit.
    fn is_certain(&self, holds: bool) -> bool {
        !holds && self.percentile.is_none()
    }

    /// Returns the longest duration, or the percentile, with its limit.
    fn evidence(&self, trace: &Trace, negate: bool) -> ResultEvidence {
        let meant = trace.spans.iter().filter(|it| glob::matches(&it.name, &self.pattern));
        let mut spans: Vec<Took<'_>> =
            meant.filter_map(|it| Some((it.name.as_str(), took(it)?))).collect();
        spans.sort_by(|a, b| a.1.total_cmp(&b.1));
        let bound = if negate { Bound::MoreThan } else { Bound::AtMost };
        let (name, actual) = match self.percentile {
            Some(share) => (format!("p{}", ecma::number(share)), percentile(&spans, share)),
            None => ("longest span".to_owned(), spans.last().map_or(f64::NAN, |it| it.1)),
        };
        measure(&name, actual, (self.max, bound), Some("ms"))
    }

    /// Returns the verdict on the spans with a known duration, with the reason.
    fn grade(&self, trace: &Trace) -> (bool, String) {
        let Self { pattern, .. } = self;
        let max = ecma::number(self.max);
        let meant = trace.spans.iter().filter(|it| glob::matches(&it.name, pattern));
        let mut spans: Vec<Took<'_>> =
            meant.filter_map(|it| Some((it.name.as_str(), took(it)?))).collect();
        if spans.is_empty() {
            let reason =
                format!("No spans found matching pattern \"{pattern}\" with complete timing data");
            return (true, reason);
        }
        spans.sort_by(|a, b| a.1.total_cmp(&b.1));
        // Spans of the same duration stay in the order of the trace.
        let mut descending = spans.clone();
        descending.sort_by(|a, b| b.1.total_cmp(&a.1));
        let Some(share) = self.percentile else {
            let slow: Vec<_> = descending.iter().filter(|(_, took)| *took > self.max).collect();
            if slow.is_empty() {
                let longest = ecma::number(spans.last().map_or(0.0, |(_, took)| *took));
                let count = spans.len();
                let reason = format!(
                    "All {count} spans matching pattern \"{pattern}\" completed within {max}ms (max: {longest}ms)"
                );
                return (true, reason);
            }
            let (count, slow) = (slow.len(), slowest(slow.into_iter()));
            let reason =
                format!("{count} span(s) exceed duration threshold {max}ms. Slowest: {slow}");
            return (false, reason);
        };
        let value = percentile(&spans, share);
        let (share, shown) = (ecma::number(share), ecma::number(value));
        if value <= self.max {
            let reason =
                format!("{share}th percentile duration ({shown}ms) is within threshold {max}ms");
            return (true, reason);
        }
        let slow = slowest(descending.iter().filter(|(_, took)| *took >= value));
        let reason = format!(
            "{share}th percentile duration ({shown}ms) exceeds threshold {max}ms. Slowest spans: {slow}"
        );
        (false, reason)
    }
}

impl Assertion for TraceSpanDuration {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let label = format!("Trace durations: {}", self.limit.pattern);
        let trace = match whole_trace(evidence.execution, ID, &label) {
            Ok(trace) => trace,
            Err(results) => return results,
        };
        let (holds, reason) = self.limit.grade(trace);
        if let Some(span) = self.limit.untimed(trace)
            && !self.limit.is_certain(holds)
        {
            let message = format!(
                "the duration of `{span}` is unknown: the trace lacks its start or end time"
            );
            return missing(ID, &label, &message);
        }
        let result = Grade::with(holds != self.negate, reason).result(ID, &label);
        vec![result.with_failure_evidence(|| [self.limit.evidence(trace, self.negate)])]
    }
}
