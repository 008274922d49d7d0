//! One repeat of one case, in version 1 of the JSON report. A line of a run's journal has the same format.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AssertionResult, WireError};
use kindlm_types::{
    Channel, CommandEnd, Completeness, Coverage, Event, ExecutionResult, FailureCode, FinishReason,
    JudgeSpending, MalformedKind, Message, Outcome, ProviderError, ProviderErrorKind, Spend,
    ToolCall, Trace, Usage, Workspace,
};

/// One repeat of one test case on one model: the evidence, and the results of the checks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Execution {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite; `command` for command tests, `transcript` for transcript tests.
    pub model: String,
    /// The index of the repeat, from 0.
    pub repeat: u32,
    /// The outcome.
    pub outcome: Outcome,
    /// True if the outcome is `passed` or `scored`.
    pub pass: bool,
    /// The reason why the execution could not be carried out; absent if the execution was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ExecutionError>,
    /// The results of the checks, in the order of the suite file.
    #[serde(default)]
    pub results: Vec<AssertionResult>,
    /// The weighted mean of the scores of the checks; absent if no check has a score. Derived from `results`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The weighted mean of each named score. Derived from `results`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub named_scores: Map<String, Value>,
    /// The messages at the start of the conversation.
    #[serde(default)]
    pub input: Vec<Message>,
    /// The last text of the model or the agent, or the text that a command printed.
    #[serde(default)]
    pub output: String,
    /// The reason why the output is only a part of the answer; absent if the output is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// The structured output, if the source reports it separately from the text.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub output_json: Option<Value>,
    /// The tool calls of all turns, in order.
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
    /// The labelled turns of a conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// The number of answered requests.
    #[serde(default)]
    pub requests: u32,
    /// The tokens of all requests; absent if none were reported.
    #[serde(default, skip_serializing_if = "Usage::is_unreported")]
    pub usage: Usage,
    /// The time spent waiting for the provider, in milliseconds; `null` if it was not measured.
    #[serde(default)]
    pub latency_ms: Option<f64>,
    /// The longest time from a request to the first part of its answer, in milliseconds; absent if it was not measured.
    ///
    /// Only streamed answers have this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<f64>,
    /// The cost of the tokens in US dollars; `null` if the price is not known.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// The money spent on the replies that did not come from the response store, in US dollars. Present only if
    /// `cached`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_usd: Option<f64>,
    /// The cost of earlier attempts in US dollars, including their judges.
    ///
    /// Present if a resumed run repeated this execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_usd: Option<f64>,
    /// The reason why the model stopped: `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the provider's
    /// own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// True if `maxTurns` ended the conversation.
    #[serde(default)]
    pub truncated: bool,
    /// The reasons why evidence is missing; absent if none is known to be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// True if a reply came from the response store.
    #[serde(default)]
    pub cached: bool,
    /// The exit code of a command; absent if none was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The stderr of a command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// The test case's variables.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub vars: Map<String, Value>,
    /// The metadata of the test case.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub test_metadata: Map<String, Value>,
    /// The natural logarithms of the probabilities of the answer's tokens; absent if they were not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_probs: Option<Vec<f64>>,
    /// Other data of the source.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The provider's full response to the last request, for scripts; absent if it was not recorded.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_response: Option<Value>,
    /// The events in order, if the source records more than texts and tool calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The kinds of evidence that the source records completely; absent if these are all kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_for: Option<BTreeSet<Channel>>,
    /// The kinds of evidence of which a part is known to be lost.
    ///
    /// A kind is listed even if the suite declares it complete.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub lost_evidence: BTreeSet<Channel>,
    /// The kinds of evidence that are complete only because the suite declares it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub declared_complete: BTreeSet<Channel>,
    /// The spans of an instrumented agent; absent for other agents and for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Box<Trace>>,
    /// The changes in the agent's workspace, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Box<Workspace>>,
    /// The cost of judging the execution in US dollars; `null` if a price is not known.
    #[serde(default)]
    pub judge_cost_usd: Option<f64>,
    /// The tokens that the judges used.
    #[serde(default)]
    pub judge_usage: Usage,
    /// The answers, tokens and money of each judge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judge_spending: Vec<JudgeSpending>,
}

/// One labelled turn of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Turn {
    /// The turn's label in the suite.
    pub label: String,
    /// The user's message; absent if the turn continues the previous turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The last text of the agent in this turn.
    #[serde(default)]
    pub text: String,
    /// The reason why the text is incomplete; absent if the text is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// The turn's structured output, if the source reports it separately from the text.
    #[serde(
        default,
        deserialize_with = "kindlm_types::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub output_json: Option<Value>,
    /// The range of this turn in the execution's `toolCalls`.
    pub tool_calls: CallRange,
    /// The range of this turn in the execution's `events`; absent if no events were recorded.
    #[serde(default, skip_serializing_if = "CallRange::is_empty")]
    pub events: CallRange,
    /// The number of answered requests in this turn; absent if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// The tokens of this turn; absent if none were reported.
    #[serde(default, skip_serializing_if = "Usage::is_unreported")]
    pub usage: Usage,
    /// The time spent waiting for the provider, in milliseconds.
    #[serde(default)]
    pub latency_ms: f64,
    /// The maximum time to first token over the requests in this turn, in milliseconds; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<f64>,
}

/// A range in one of the execution's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallRange {
    /// The index of the first item, from 0.
    pub start: usize,
    /// The index after the last item.
    pub end: usize,
}

impl CallRange {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// The reason why an execution could not be carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ExecutionError {
    /// A provider failed, after all retries.
    Provider {
        /// The failure code for reports.
        failure_code: FailureCode,
        /// The kind of error.
        reason: ProviderErrorKind,
        /// The provider's key in the suite.
        provider: String,
        /// The error message, with advice.
        message: String,
        /// The HTTP status, if there was an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// True if the same request may succeed later.
        #[serde(default)]
        retryable: bool,
        /// The time to wait before a retry, in seconds, if the provider reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_seconds: Option<f64>,
        /// The number of attempts; 0 if nothing was sent.
        #[serde(default)]
        attempts: u32,
    },
    /// The run stopped before the execution was started or finished.
    NotRun {
        /// The reason why the run stopped.
        reason: String,
    },
    /// An internal error of KindLM.
    Internal {
        /// The failure code for reports.
        failure_code: FailureCode,
        /// The error message.
        message: String,
    },
}

impl From<&kindlm_types::ExecutionError> for ExecutionError {
    fn from(error: &kindlm_types::ExecutionError) -> Self {
        match error {
            kindlm_types::ExecutionError::Provider(err) => Self::Provider {
                failure_code: err.kind.failure_code(),
                reason: err.kind,
                provider: err.provider.clone(),
                message: err.message.clone(),
                status: err.status,
                retryable: err.retryable,
                retry_after_seconds: err.retry_after.map(|it| it.as_secs_f64()),
                attempts: err.attempts,
            },
            kindlm_types::ExecutionError::NotRun { reason } => {
                Self::NotRun { reason: reason.clone() }
            }
            kindlm_types::ExecutionError::Internal { message } => Self::Internal {
                failure_code: FailureCode::INTERNAL_ERROR,
                message: message.clone(),
            },
        }
    }
}

impl TryFrom<ExecutionError> for kindlm_types::ExecutionError {
    type Error = WireError;

    fn try_from(wire: ExecutionError) -> Result<Self, WireError> {
        Ok(match wire {
            ExecutionError::Provider {
                failure_code: _,
                reason,
                provider,
                message,
                status,
                retryable,
                retry_after_seconds,
                attempts,
            } => Self::Provider(ProviderError {
                kind: reason,
                provider,
                message,
                status,
                retryable,
                retry_after: retry_after_seconds
                    .map(Duration::try_from_secs_f64)
                    .transpose()
                    .map_err(|err| WireError::Invalid {
                        place: "`retryAfterSeconds`".to_owned(),
                        message: err.to_string(),
                    })?,
                attempts,
                // The cost of this execution is final, so it no longer matters if the last request is charged.
                lost: false,
                not_sent: false,
                // The message already includes the advice.
                malformed: MalformedKind::Unknown,
            }),
            ExecutionError::NotRun { reason } => Self::NotRun { reason },
            ExecutionError::Internal { failure_code: _, message } => Self::Internal { message },
        })
    }
}

impl From<kindlm_types::Turn> for Turn {
    fn from(turn: kindlm_types::Turn) -> Self {
        Self {
            label: turn.label,
            user: turn.user,
            text: turn.text,
            unread: turn.unread,
            output_json: turn.output_json,
            tool_calls: CallRange { start: turn.tool_calls.start, end: turn.tool_calls.end },
            events: CallRange { start: turn.events.start, end: turn.events.end },
            requests: Some(turn.requests).filter(|it| *it > 0),
            usage: turn.usage,
            latency_ms: turn.latency_ms,
            first_token_ms: turn.first_token_ms,
        }
    }
}

impl From<Turn> for kindlm_types::Turn {
    fn from(wire: Turn) -> Self {
        Self {
            label: wire.label,
            user: wire.user,
            text: wire.text,
            unread: wire.unread,
            output_json: wire.output_json,
            tool_calls: wire.tool_calls.start..wire.tool_calls.end,
            events: wire.events.start..wire.events.end,
            requests: wire.requests.unwrap_or_default(),
            usage: wire.usage,
            latency_ms: wire.latency_ms,
            first_token_ms: wire.first_token_ms,
        }
    }
}

impl From<&ExecutionResult> for Execution {
    fn from(result: &ExecutionResult) -> Self {
        result.clone().into()
    }
}

impl From<ExecutionResult> for Execution {
    fn from(result: ExecutionResult) -> Self {
        let (score, named_scores) = (result.score(), result.named_scores());
        let declared_complete = result.execution.only_declared();
        let execution = result.execution;
        let command = execution.command.unwrap_or_default();
        Self {
            case: execution.case,
            model: execution.model,
            repeat: execution.repeat,
            outcome: result.outcome,
            pass: result.outcome.held(),
            error: result.error.as_ref().map(ExecutionError::from),
            results: result.results.into_iter().map(AssertionResult::from).collect(),
            score,
            named_scores: named_scores
                .into_iter()
                .map(|it| (it.name, it.score.get().into()))
                .collect(),
            input: execution.input,
            output: execution.output,
            unread: execution.completeness.unread,
            output_json: execution.output_json,
            tool_calls: execution.tool_calls,
            turns: execution.turns.into_iter().map(Turn::from).collect(),
            requests: execution.requests,
            usage: execution.usage,
            latency_ms: execution.latency_ms,
            first_token_ms: execution.first_token_ms,
            cost_usd: execution.spend.cost_usd,
            earlier_usd: Some(execution.spend.earlier_usd).filter(|it| *it > 0.0),
            spent_usd: execution.spend.paid_usd,
            finish_reason: execution.finish_reason.map(|it| it.as_str().to_owned()),
            truncated: execution.completeness.truncated,
            gaps: execution.completeness.gaps,
            cached: execution.spend.cached,
            exit_code: command.exit_code,
            stderr: command.stderr,
            vars: execution.vars,
            test_metadata: execution.test_metadata,
            log_probs: execution.log_probs,
            metadata: execution.metadata,
            provider_response: execution.provider_response,
            events: execution.recorded_events,
            complete_for: execution.completeness.coverage.complete_for().cloned(),
            lost_evidence: execution.completeness.coverage.lost().clone(),
            declared_complete,
            trace: execution.trace,
            workspace: execution.workspace,
            judge_cost_usd: result.judge_cost_usd,
            judge_usage: result.judge_usage,
            judge_spending: result.judge_spending,
        }
    }
}

impl TryFrom<Execution> for ExecutionResult {
    type Error = WireError;

    fn try_from(wire: Execution) -> Result<Self, WireError> {
        Ok(Self {
            execution: kindlm_types::Execution {
                case: wire.case,
                model: wire.model,
                repeat: wire.repeat,
                input: wire.input,
                output: wire.output,
                completeness: Completeness {
                    unread: wire.unread,
                    truncated: wire.truncated,
                    gaps: wire.gaps,
                    unsupported: crate::unsupported::unsupported_parts(&wire.metadata),
                    coverage: Coverage::new(wire.complete_for, wire.lost_evidence),
                    declared: wire.declared_complete,
                },
                output_json: wire.output_json,
                tool_calls: wire.tool_calls,
                turns: wire.turns.into_iter().map(Into::into).collect(),
                requests: wire.requests,
                usage: wire.usage,
                latency_ms: wire.latency_ms,
                first_token_ms: wire.first_token_ms,
                spend: Spend {
                    cost_usd: wire.cost_usd,
                    earlier_usd: wire.earlier_usd.filter(|it| *it > 0.0).unwrap_or_default(),
                    paid_usd: wire.spent_usd,
                    cached: wire.cached,
                },
                finish_reason: wire.finish_reason.map(FinishReason::from),
                command: CommandEnd::from_parts(wire.exit_code, wire.stderr),
                vars: wire.vars,
                test_metadata: wire.test_metadata,
                log_probs: wire.log_probs,
                metadata: wire.metadata,
                provider_response: wire.provider_response,
                recorded_events: wire.events,
                trace: wire.trace,
                workspace: wire.workspace,
                images: Vec::new(),
                // Reports omit these fields, because they belong to the test case.
                tools: Vec::new(),
                written: None,
            },
            results: wire.results.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            outcome: wire.outcome,
            error: wire.error.map(TryInto::try_into).transpose()?,
            judge_cost_usd: wire.judge_cost_usd,
            judge_usage: wire.judge_usage,
            judge_spending: wire.judge_spending,
        })
    }
}
