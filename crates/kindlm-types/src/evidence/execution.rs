//! Executions: the evidence of one run of a test case on one model.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    AssertionResult, CallForm, Channel, Coverage, Event, FailureCode, FinishReason, JudgeSpending,
    Media, Message, Outcome, Params, ProviderError, Role, Speaker, ToolCall, ToolSpec, Trace,
    UnsupportedPart, Usage, Workspace,
};

/// One labelled turn of a conversation, with its messages and tool calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The turn's label in the suite.
    pub label: String,
    /// The user's message; `None` if the turn continues the previous turn.
    pub user: Option<String>,
    /// The last text of the agent in this turn.
    pub text: String,
    /// The reason why the text is incomplete; `None` if the text is complete.
    pub unread: Option<String>,
    /// The turn's structured output, if the source reports it separately from the text.
    pub output_json: Option<Value>,
    /// The range of this turn in [`Execution::tool_calls`].
    pub tool_calls: std::ops::Range<usize>,
    /// The range of this turn in [`Execution::recorded_events`]; empty if no events were recorded.
    pub events: std::ops::Range<usize>,
    /// The number of answered requests in this turn; 0 if they were not counted.
    pub requests: u32,
    /// The tokens of this turn.
    pub usage: Usage,
    /// Time spent waiting for the provider, in milliseconds.
    pub latency_ms: f64,
    /// The maximum time to first token over the requests in this turn; see [`Execution::first_token_ms`].
    pub first_token_ms: Option<f64>,
}

/// One repeat of one test case on one model: all data that checks can use.
///
/// An execution does not change once it is recorded. All checks can be repeated from it offline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite; `command` or `transcript` for tests that run on no model.
    pub model: String,
    /// The index of the repeat, from 0.
    pub repeat: u32,
    /// The messages at the start of the conversation.
    pub input: Vec<Message>,
    /// The last text of the model or the agent, or the text that a command printed.
    pub output: String,
    /// The structured output, if the source reports it separately from the text.
    ///
    /// For a command, the structured output is the `output_json` that the command reported.
    pub output_json: Option<Value>,
    /// The tool calls of all turns, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The labelled turns; empty unless the test case has a `conversation`.
    pub turns: Vec<Turn>,
    /// The number of answered requests.
    pub requests: u32,
    /// The tokens of all requests.
    pub usage: Usage,
    /// The time spent waiting for the provider over all requests, in milliseconds; for a command, its duration.
    ///
    /// Retries and back-off are not included. `None` if no time was measured.
    pub latency_ms: Option<f64>,
    /// The longest time from a request to the first part of its answer, in milliseconds.
    ///
    /// The part is text, reasoning or a tool call. `None` if the time of a request was not measured, for example
    /// because the answer was not streamed.
    pub first_token_ms: Option<f64>,
    /// The cost in US dollars.
    pub spend: Spend,
    /// The end of a command, or of an agent that is a program; `None` for a model.
    pub command: Option<CommandEnd>,
    /// The parts of the evidence that were recorded, and those that are missing.
    pub completeness: Completeness,
    /// The reason why the model stopped at the last request; `None` if it was not reported.
    pub finish_reason: Option<FinishReason>,
    /// The test case's variables.
    pub vars: Map<String, Value>,
    /// The metadata of the test case, for scripts.
    pub test_metadata: Map<String, Value>,
    /// The log probabilities of the answer's tokens (natural logarithms), if reported.
    pub log_probs: Option<Vec<f64>>,
    /// Other data of the source: skill calls, guardrail flags, …
    pub metadata: Map<String, Value>,
    /// The provider's full response to the last request, for scripts; `None` if it was not recorded.
    pub provider_response: Option<Value>,
    /// The images of the last answer, with their data, for judges. Reports and journals omit them.
    pub images: Vec<Media>,
    /// The events in order; empty if the source records only texts and tool calls.
    ///
    /// [`events`](Self::events) returns these events, or events derived from the texts and tool calls.
    pub recorded_events: Vec<Event>,
    /// The spans of an instrumented agent; `None` for other agents and for models.
    pub trace: Option<Box<Trace>>,
    /// The state of the agent's workspace after the agent finished; `None` without a workspace.
    pub workspace: Option<Box<Workspace>>,
    /// The tools offered to the model. Reports omit them, because they belong to the test case.
    pub tools: Vec<ToolSpec>,
    /// The test case and its model as written in the suite, for scripts.
    ///
    /// Reports omit this field, so the field is `None` for an execution from a report.
    pub written: Option<Arc<Written>>,
}

/// The cost of an execution in US dollars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spend {
    /// The cost of the tokens in US dollars, including stored replies; `None` if it is not known.
    pub cost_usd: Option<f64>,
    /// True if a reply came from the response store.
    pub cached: bool,
    /// The money spent on replies that did not come from the response store, in US dollars.
    ///
    /// `None` if `cached` is false, or if the amount is not known. See [`spent`](Execution::spent).
    pub paid_usd: Option<f64>,
    /// The known cost of earlier attempts in US dollars, including their judges; 0 without earlier attempts.
    ///
    /// Earlier attempts exist if a run was resumed and this execution ran again.
    pub earlier_usd: f64,
}

/// The end of a command, or of an agent that is a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandEnd {
    /// The exit code; `None` if none was recorded, for example after a signal.
    pub exit_code: Option<i32>,
    /// The stderr; empty if nothing was recorded.
    pub stderr: String,
}

impl CommandEnd {
    /// Returns the end of a command; `None` if there is neither an exit code nor stderr.
    pub fn from_parts(exit_code: Option<i32>, stderr: String) -> Option<Self> {
        (exit_code.is_some() || !stderr.is_empty()).then_some(Self { exit_code, stderr })
    }
}

/// The parts of the evidence that were recorded, and those that are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completeness {
    /// The reason why the output is only a part of the answer; `None` if there is no such reason.
    ///
    /// Either a part of the answer has an unsupported type, or an earlier answer was cut off. The finish reason can
    /// also show that the output is incomplete: see [`incomplete_output`](Execution::incomplete_output).
    pub unread: Option<String>,
    /// True if `maxTurns` ended the conversation.
    pub truncated: bool,
    /// The reasons why evidence is missing; empty if no evidence is known to be missing.
    ///
    /// For example, spans were lost, or a conversation was saved before it ended.
    pub gaps: Vec<String>,
    /// The recorded data of unsupported types, by type. If there is such data, any evidence may be missing.
    pub unsupported: Vec<UnsupportedPart>,
    /// The kinds of evidence that the source records completely.
    pub coverage: Coverage,
    /// The kinds of evidence that the suite declares complete.
    ///
    /// A declaration has no effect on evidence that is known to be lost.
    pub declared: BTreeSet<Channel>,
}

/// The parts of a test case and its model that scripts can use, as written in the suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The test's `expect` block, as JSON; `None` without such a block.
    pub expect: Option<Arc<str>>,
    /// The minimum score of the test, from 0 to 1; `None` if the test sets none.
    pub threshold: Option<f64>,
    /// The parameters of the request to the model.
    pub params: Params,
    /// The options of the test, for scripts.
    pub options: Map<String, Value>,
    /// True if the prompt is written as messages.
    pub is_chat: bool,
    /// The format in which checks see tool calls as the output; `None` if checks see only the text.
    pub calls_as_output: Option<CallForm>,
}

/// Returns the maximum time to first token over all requests, including the next request.
///
/// Returns `None` if one of the times is unknown. `requests` is the number of requests before the next request.
fn longest_first_token(requests: u32, longest: Option<f64>, next: Option<f64>) -> Option<f64> {
    if requests == 0 { next } else { longest.zip(next).map(|(longest, next)| longest.max(next)) }
}

impl Turn {
    /// Adds the time to first token of the next request. Must be called before `requests` is incremented for this
    /// request.
    pub fn add_first_token(&mut self, next: Option<f64>) {
        self.first_token_ms = longest_first_token(self.requests, self.first_token_ms, next);
    }
}

impl Execution {
    /// Adds the time to first token of the next request. Must be called before `requests` is incremented for this
    /// request.
    pub fn add_first_token(&mut self, next: Option<f64>) {
        self.first_token_ms = longest_first_token(self.requests, self.first_token_ms, next);
    }

    /// Returns the exit code of a command.
    ///
    /// Returns `None` if there is no command or no exit code.
    pub fn exit_code(&self) -> Option<i32> {
        self.command.as_ref()?.exit_code
    }

    /// Returns the stderr of a command; empty without a command.
    pub fn stderr(&self) -> &str {
        self.command.as_ref().map_or("", |it| &it.stderr)
    }

    /// Returns the events in order.
    ///
    /// A plain conversation has no recorded events. Its events are derived from its texts and tool calls.
    pub fn events(&self) -> Cow<'_, [Event]> {
        if self.recorded_events.is_empty() {
            Cow::Owned(self.conversation())
        } else {
            Cow::Borrowed(&self.recorded_events)
        }
    }

    /// Derives the events of a plain conversation.
    ///
    /// The events are in this order: the user's messages, the usage, the tool calls and their results, and the output.
    /// A call without a response has no result event.
    fn conversation(&self) -> Vec<Event> {
        let user = self.input.iter().filter(|it| it.role == Role::User);
        let mut events: Vec<Event> = user
            .map(|it| Event::Message { role: Speaker::User, text: it.content.clone() })
            .collect();
        events.extend(Event::of_usage(self.usage));
        events.extend(Event::of_calls(&self.tool_calls));
        if !self.output.is_empty() {
            events.push(Event::Message { role: Speaker::Assistant, text: self.output.clone() });
        }
        events
    }

    /// Returns true if the source recorded all events of a kind.
    ///
    /// Either the source reports this, or the suite declares the evidence complete. If evidence of this kind is known
    /// to be missing, the result is false in spite of a declaration.
    pub fn is_complete_for(&self, channel: Channel) -> bool {
        self.known_missing(channel).is_none()
            && (self.completeness.coverage.includes(channel)
                || self.completeness.declared.contains(&channel))
    }

    /// Returns the reason why evidence of a kind is missing.
    ///
    /// Returns `None` if no evidence of this kind is known to be missing. A declaration of the suite does not change
    /// the result.
    pub fn known_missing(&self, channel: Channel) -> Option<Cow<'_, str>> {
        let is_of_answers = matches!(
            channel,
            Channel::Messages
                | Channel::Actions
                | Channel::Subagents
                | Channel::Skills
                | Channel::InputRequests
        );
        let gap = self.completeness.gaps.first().map(|it| Cow::Borrowed(it.as_str()));
        let lost = || {
            let is_lost = self.completeness.coverage.lost().contains(&channel);
            is_lost.then_some(Cow::Borrowed("the source did not report all of it"))
        };
        gap.or_else(lost).or_else(|| self.incomplete_answer().filter(|_| is_of_answers))
    }

    /// Returns the reason why [`output`](Self::output) is incomplete.
    ///
    /// Returns `None` if the output is complete.
    ///
    /// Reasons are an unsupported part, a cut-off answer, and a failure that stopped the model.
    pub fn incomplete_output(&self) -> Option<Cow<'_, str>> {
        let unread = self.completeness.unread.as_deref().map(Cow::Borrowed);
        unread.or_else(|| self.finish_reason.as_ref()?.cut().map(Cow::Owned))
    }

    /// Returns the reason why an answer of any turn is incomplete.
    ///
    /// Returns `None` if all answers are complete.
    pub fn incomplete_answer(&self) -> Option<Cow<'_, str>> {
        let earlier = || self.turns.iter().find_map(|it| it.unread.as_deref()).map(Cow::Borrowed);
        self.incomplete_output().or_else(earlier)
    }

    /// Returns the kinds of evidence that are complete only according to the suite's declaration.
    ///
    /// Kinds of which some evidence is known to be lost are omitted.
    pub fn only_declared(&self) -> BTreeSet<Channel> {
        let is_known = |it: &Channel| {
            self.completeness.coverage.includes(*it)
                || self.completeness.coverage.lost().contains(it)
        };
        self.completeness.declared.iter().copied().filter(|it| !is_known(it)).collect()
    }

    /// Returns a note for reports that lists the kinds of [`only_declared`](Self::only_declared).
    ///
    /// Returns `None` without such kinds.
    pub fn declared_note(&self) -> Option<String> {
        let kinds: Vec<&str> = self.only_declared().into_iter().map(Channel::as_str).collect();
        (!kinds.is_empty())
            .then(|| format!("declared complete by the suite, not observed: {}", kinds.join(", ")))
    }

    /// Returns the money spent on the execution in US dollars.
    ///
    /// Returns `None` if this amount is not known.
    ///
    /// The amount is [`Spend::cost_usd`] without the cost of stored replies, plus the cost of earlier attempts.
    /// Checks use the recorded cost of a stored reply, although the run does not pay for the reply again.
    pub fn spent(&self) -> Option<f64> {
        self.spent_now().map(|it| it + self.spend.earlier_usd)
    }

    /// Returns the money spent on this attempt, without earlier attempts.
    ///
    /// Returns `None` if this amount is not known.
    fn spent_now(&self) -> Option<f64> {
        if self.spend.cached { self.spend.paid_usd } else { self.spend.cost_usd }
    }

    /// Returns a lower bound of the money spent on the execution, in US dollars.
    ///
    /// Returns `None` if no cost is known.
    ///
    /// If only some events report a cost, the bound is the sum of these costs and the cost of earlier attempts.
    pub fn spent_at_least(&self) -> Option<f64> {
        let told = || Event::reported_usd(&self.recorded_events).filter(|_| !self.spend.cached);
        let known = self.spent_now().or_else(told);
        let earlier = Some(self.spend.earlier_usd).filter(|it| *it > 0.0);
        known.map(|it| it + self.spend.earlier_usd).or(earlier)
    }

    /// Returns true if requests were answered, but the numbers of input and output tokens are not fully known.
    pub fn is_uncounted(&self) -> bool {
        self.requests > 0 && !self.usage.has_parts()
    }

    /// Returns the reason why the cost of [uncounted](Self::is_uncounted) requests is unknown.
    ///
    /// Returns `None` if all requests are counted. The text is a clause that ends a sentence.
    pub fn why_uncounted(&self) -> Option<&'static str> {
        if !self.is_uncounted() {
            return None;
        }
        Some(if self.usage == Usage::default() {
            "no answer of the provider reported its tokens (`usage`), so its cost cannot be computed from prices"
        } else if self.usage.partial {
            "not all answers of the provider reported their tokens (`usage`), so their cost cannot be computed from prices"
        } else {
            "the provider reported only the total number of tokens, but input and output tokens have different prices"
        })
    }
}

/// The reason why an execution could not be carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutionError {
    /// A provider failed, after all retries.
    Provider(ProviderError),
    /// The run stopped before the execution was started or finished.
    ///
    /// The cause is the budget, a limit on failures, an interrupt, a failure to store results, or a missing output that
    /// a comparison needs.
    NotRun {
        /// The reason why the run stopped.
        reason: String,
    },
    /// An internal error of KindLM.
    Internal {
        /// The error message.
        message: String,
    },
}

impl ExecutionError {
    /// Returns the failure code for reports; `None` for [`NotRun`](Self::NotRun).
    pub fn code(&self) -> Option<FailureCode> {
        match self {
            Self::Provider(err) => Some(err.kind.failure_code()),
            Self::NotRun { .. } => None,
            Self::Internal { .. } => Some(FailureCode::INTERNAL_ERROR),
        }
    }

    /// Returns the error message.
    pub fn message(&self) -> String {
        match self {
            Self::Provider(err) => err.to_string(),
            Self::NotRun { reason } => reason.clone(),
            Self::Internal { message } => message.clone(),
        }
    }
}

/// An execution with the results of its checks.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionResult {
    /// The evidence that was recorded.
    pub execution: Execution,
    /// The results of the checks, in the order of the suite file.
    pub results: Vec<AssertionResult>,
    /// The outcome of the execution.
    pub outcome: Outcome,
    /// The reason why the execution could not be carried out; `None` if the execution was carried out.
    pub error: Option<ExecutionError>,
    /// The cost of judging the execution in US dollars; `None` if a price is not known.
    pub judge_cost_usd: Option<f64>,
    /// The tokens that the judges used.
    pub judge_usage: Usage,
    /// The answers, tokens and money of each judge.
    pub judge_spending: Vec<JudgeSpending>,
}

impl ExecutionResult {
    /// Creates a result with the outcome of these check results. The cost of judges is 0.
    pub fn new(execution: Execution, results: Vec<AssertionResult>) -> Self {
        Self {
            execution,
            outcome: Outcome::from_results(&results),
            results,
            error: None,
            judge_cost_usd: Some(0.0),
            judge_usage: Usage::default(),
            judge_spending: Vec::new(),
        }
    }

    /// Returns true if the run stopped before a request of the execution was answered or a check was evaluated.
    pub fn was_never_begun(&self) -> bool {
        matches!(self.error, Some(ExecutionError::NotRun { .. }))
            && self.execution.requests == 0
            && self.results.is_empty()
    }

    /// Returns true if all evidence is present, but the judgement is incomplete.
    ///
    /// Possible reasons: the provider of a judge failed, the run stopped before all questions were answered, or an
    /// output that a comparison needs is missing.
    pub fn is_unjudged(&self) -> bool {
        match &self.error {
            None => {
                self.outcome == Outcome::Errored
                    && self.results.iter().any(AssertionResult::failed_by_provider)
            }
            // Checks are evaluated only after the evidence is complete.
            Some(ExecutionError::NotRun { .. }) => !self.results.is_empty(),
            Some(ExecutionError::Provider(_) | ExecutionError::Internal { .. }) => false,
        }
    }

    /// Returns true if a provider failed after all retries.
    ///
    /// The provider is that of the tested model, or that of a judge.
    pub fn failed_by_provider(&self) -> bool {
        matches!(self.error, Some(ExecutionError::Provider(_)))
            || self.results.iter().any(AssertionResult::failed_by_provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_first_token_is_the_longest_or_unknown() {
        for (times, expected) in [
            (&[Some(3.0)][..], Some(3.0)),
            (&[Some(3.0), Some(9.0), Some(1.0)], Some(9.0)),
            (&[Some(3.0), None, Some(1.0)], None),
            (&[None, Some(3.0)], None),
            (&[], None),
        ] {
            let (mut execution, mut turn) = (Execution::default(), Turn::default());
            for time in times {
                execution.add_first_token(*time);
                execution.requests += 1;
                turn.add_first_token(*time);
                turn.requests += 1;
            }
            let found = (execution.first_token_ms, turn.first_token_ms);
            assert_eq!(found, (expected, expected), "{times:?}");
        }
    }

    #[test]
    fn a_declaration_does_not_make_up_for_missing_evidence() {
        let declared = || Execution {
            completeness: Completeness {
                coverage: Coverage::Only(BTreeSet::new()),
                declared: Channel::ALL.into_iter().collect(),
                ..Completeness::default()
            },
            ..Execution::default()
        };
        for channel in Channel::ALL {
            let lossy = declared().completeness.coverage.losing([channel]);
            let lost = Execution {
                completeness: Completeness { coverage: lossy, ..declared().completeness },
                ..declared()
            };
            let gap = Execution {
                completeness: Completeness {
                    gaps: vec!["a call has no result".to_owned()],
                    ..declared().completeness
                },
                ..declared()
            };
            assert!(declared().is_complete_for(channel), "{channel:?}");
            assert!(!lost.is_complete_for(channel) && !gap.is_complete_for(channel), "{channel:?}");
            assert!(!lost.only_declared().contains(&channel), "{channel:?}");
            let others = Channel::ALL.into_iter().filter(|it| *it != channel);
            assert!(others.clone().all(|it| lost.is_complete_for(it)), "{channel:?}");
        }
        let cut = Execution { finish_reason: Some(FinishReason::Length), ..declared() };
        let incomplete: Vec<Channel> =
            Channel::ALL.into_iter().filter(|it| !cut.is_complete_for(*it)).collect();
        assert_eq!(
            incomplete,
            [
                Channel::Messages,
                Channel::Actions,
                Channel::Subagents,
                Channel::Skills,
                Channel::InputRequests,
            ]
        );
    }
}
