//! Serializes executions as lines of a journal, without copying them.
//!
//! The format is that of [`Execution`](super::Execution).

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::execution::{CallRange, ExecutionError};
use super::facts;
use super::result::Status;
use super::same::{Json, Same};
use kindlm_types::{
    AssertionResult, Channel, Class, Completeness, Event, Execution, ExecutionResult, FailureCode,
    FinishReason, Message, NamedScore, Outcome, Score, Severity, Spend, ToolCall, Trace, Usage,
    Verdict, Workspace,
};

/// The JSON of an execution, serialized directly from an [`ExecutionResult`].
///
/// The format is that of [`Execution`](super::Execution).
///
/// A journal has one line for each execution. Most of its texts are long, so they are not copied.
///
/// ```
/// use kindlm_wire::v1;
/// use kindlm_types::{Execution, ExecutionResult, Outcome, Usage};
///
/// let result = ExecutionResult {
///     execution: Execution { output: "Shipped.".to_owned(), ..Execution::default() },
///     results: Vec::new(),
///     outcome: Outcome::Passed,
///     error: None,
///     judge_cost_usd: Some(0.0),
///     judge_usage: Usage::default(),
/// };
/// let line = serde_json::to_string(&v1::Line(&result))?;
/// assert_eq!(line, serde_json::to_string(&v1::Execution::from(&result))?);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Line<'a>(pub &'a ExecutionResult);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Borrowed::of(self.0, Json::ToMake(Results(&self.0.results))).serialize(serializer)
    }
}

/// Writes [`Line`]s. Results of checks that are the same in consecutive executions are serialized only once.
///
/// ```
/// use kindlm_wire::v1;
/// # fn show(first: &kindlm_types::ExecutionResult, second: &kindlm_types::ExecutionResult) -> serde_json::Result<()> {
/// let (mut writer, mut text) = (v1::LineWriter::default(), Vec::new());
/// writer.write(first, &mut text)?;
/// writer.write(second, &mut text)?;
/// let mut same = serde_json::to_vec(&v1::Line(first))?;
/// same.extend(serde_json::to_vec(&v1::Line(second))?);
/// assert_eq!(text, same);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct LineWriter(Same<AssertionResult>);

impl LineWriter {
    /// Appends the line of an execution, without a line end. After an error, the output may end with a partial line.
    pub fn write(&mut self, result: &ExecutionResult, to: &mut Vec<u8>) -> serde_json::Result<()> {
        let results = &result.results;
        let is_plain = !results.is_empty() && results.iter().all(is_plain);
        let made = if is_plain { self.0.json(results, || Results(results))? } else { None };
        let json = Json::of(made, || Results(results));
        serde_json::to_writer(to, &Borrowed::of(result, json))
    }
}

/// Returns true if a result is short, common, and its JSON depends only on equality.
///
/// Equal metadata may differ in the order of keys, and -0.0 equals 0.0, so both are excluded.
fn is_plain(it: &AssertionResult) -> bool {
    matches!(it.verdict, Verdict::Pass)
        && it.metadata.is_empty()
        && it.judging.is_none()
        && it.set.is_none()
        && it.named_scores.is_empty()
        && it.weight.is_sign_positive()
        && it.score.is_none_or(|it| it.get().is_sign_positive())
}

impl<'a> Borrowed<'a> {
    #[expect(clippy::too_many_lines, reason = "each field is named")]
    fn of(result: &'a ExecutionResult, results: Json<'a, Results<'a>>) -> Self {
        let ExecutionResult {
            execution: it,
            results: _,
            outcome,
            error,
            judge_cost_usd,
            judge_usage,
        } = result;
        // Name all fields, so that the compiler reports a new one.
        let Execution {
            case,
            model,
            repeat,
            input,
            output,
            output_json,
            tool_calls,
            turns,
            requests,
            usage,
            latency_ms,
            spend: Spend { cost_usd, cached, paid_usd, earlier_usd },
            command: _,
            completeness: Completeness { unread, truncated, gaps, coverage, declared: _ },
            finish_reason,
            vars,
            test_metadata,
            log_probs,
            metadata,
            provider_response,
            recorded_events,
            trace,
            workspace,
            // The test case holds these fields.
            tools: _,
            written: _,
        } = it;
        Self {
            case,
            model,
            repeat: *repeat,
            outcome: *outcome,
            pass: outcome.held(),
            error: error.as_ref().map(ExecutionError::from),
            results,
            score: result.score(),
            named_scores: Named(result.named_scores()),
            input,
            output,
            unread: unread.as_deref(),
            output_json: output_json.as_ref(),
            tool_calls,
            turns: Turns(turns),
            requests: *requests,
            usage: *usage,
            latency_ms: *latency_ms,
            cost_usd: *cost_usd,
            spent_usd: *paid_usd,
            earlier_usd: Some(*earlier_usd).filter(|it| *it > 0.0),
            finish_reason: finish_reason.as_ref().map(FinishReason::as_str),
            truncated: *truncated,
            gaps,
            cached: *cached,
            exit_code: it.exit_code(),
            stderr: it.stderr(),
            vars: Object(vars),
            test_metadata: Object(test_metadata),
            log_probs: log_probs.as_deref(),
            metadata: Object(metadata),
            provider_response: provider_response.as_ref(),
            events: recorded_events,
            complete_for: coverage.complete_for(),
            lost_evidence: coverage.lost(),
            declared_complete: it.only_declared(),
            trace: trace.as_deref(),
            workspace: workspace.as_deref(),
            judge_cost_usd: *judge_cost_usd,
            judge_usage: *judge_usage,
        }
    }
}

/// The fields of [`Execution`](super::Execution), borrowed.
///
/// The order and the conditions for omitting fields are the same.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Borrowed<'a> {
    case: &'a str,
    model: &'a str,
    repeat: u32,
    outcome: Outcome,
    pass: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ExecutionError>,
    results: Json<'a, Results<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Named::is_empty")]
    named_scores: Named,
    input: &'a [Message],
    output: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_json: Option<&'a Value>,
    tool_calls: &'a [ToolCall],
    #[serde(skip_serializing_if = "Turns::is_empty")]
    turns: Turns<'a>,
    requests: u32,
    #[serde(skip_serializing_if = "Usage::is_unreported")]
    usage: Usage,
    latency_ms: Option<f64>,
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spent_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    truncated: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    gaps: &'a [String],
    cached: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    stderr: &'a str,
    #[serde(skip_serializing_if = "Object::is_empty")]
    vars: Object<'a>,
    #[serde(skip_serializing_if = "Object::is_empty")]
    test_metadata: Object<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_probs: Option<&'a [f64]>,
    #[serde(skip_serializing_if = "Object::is_empty")]
    metadata: Object<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_response: Option<&'a Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    events: &'a [Event],
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_for: Option<&'a BTreeSet<Channel>>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    lost_evidence: &'a BTreeSet<Channel>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    declared_complete: BTreeSet<Channel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a Trace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<&'a Workspace>,
    judge_cost_usd: Option<f64>,
    judge_usage: Usage,
}

#[derive(Serialize)]
#[serde(transparent)]
struct Object<'a>(&'a Map<String, Value>);

impl Object<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn is_empty(metadata: &Map<String, Value>) -> bool {
    metadata.is_empty()
}

struct Named(Vec<NamedScore>);

impl Named {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for it in &self.0 {
            map.serialize_entry(&it.name, &it.score.get())?;
        }
        map.end()
    }
}

struct Turns<'a>(&'a [kindlm_types::Turn]);

impl Turns<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Turns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Turn::from))
    }
}

/// The fields of [`Turn`](super::Turn), borrowed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Turn<'a> {
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_json: Option<&'a Value>,
    tool_calls: CallRange,
    #[serde(skip_serializing_if = "CallRange::is_empty")]
    events: CallRange,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u32>,
    #[serde(skip_serializing_if = "Usage::is_unreported")]
    usage: Usage,
    latency_ms: f64,
}

impl<'a> From<&'a kindlm_types::Turn> for Turn<'a> {
    fn from(it: &'a kindlm_types::Turn) -> Self {
        let kindlm_types::Turn {
            label,
            user,
            text,
            unread,
            output_json,
            tool_calls,
            events,
            requests,
            usage,
            latency_ms,
        } = it;
        Self {
            label,
            user: user.as_deref(),
            text,
            unread: unread.as_deref(),
            output_json: output_json.as_ref(),
            tool_calls: CallRange { start: tool_calls.start, end: tool_calls.end },
            events: CallRange { start: events.start, end: events.end },
            requests: Some(*requests).filter(|it| *it > 0),
            usage: *usage,
            latency_ms: *latency_ms,
        }
    }
}

struct Results<'a>(&'a [AssertionResult]);

impl Results<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Judged::from))
    }
}

/// The fields of [`AssertionResult`](super::AssertionResult), borrowed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Judged<'a> {
    #[serde(rename = "type")]
    assertion: &'a str,
    label: &'a str,
    status: Status,
    pass: bool,
    score: Option<f64>,
    severity: Severity,
    class: Class,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_code: Option<&'a FailureCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'a FailureCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<&'a str>,
    weight: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<&'a str>,
    #[serde(skip_serializing_if = "Results::is_empty")]
    component_results: Results<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    named_scores: &'a [NamedScore],
    #[serde(skip_serializing_if = "is_empty")]
    metadata: Cow<'a, Map<String, Value>>,
}

impl<'a> From<&'a AssertionResult> for Judged<'a> {
    fn from(it: &'a AssertionResult) -> Self {
        let AssertionResult {
            assertion,
            label,
            verdict,
            score,
            severity,
            class,
            weight,
            metric,
            turn,
            reasoning,
            cause,
            judging: _,
            set: _,
            components,
            named_scores,
            metadata: _,
        } = it;
        let (failure_code, failure_message, skip_reason) = match verdict {
            Verdict::Pass => (None, None, None),
            Verdict::Fail { code, message } | Verdict::Errored { code, message } => {
                (Some(code), Some(message.as_str()), None)
            }
            Verdict::Skipped { reason } => (None, None, Some(reason.as_str())),
        };
        Self {
            assertion,
            label,
            status: Status::from(verdict),
            pass: verdict.held(),
            score: score.map(Score::get),
            severity: *severity,
            class: *class,
            failure_code,
            cause: cause.as_ref(),
            failure_message,
            skip_reason,
            reasoning: reasoning.as_deref(),
            turn: turn.as_deref(),
            weight: *weight,
            metric: metric.as_deref(),
            component_results: Results(components),
            named_scores,
            metadata: facts::metadata(it),
        }
    }
}
