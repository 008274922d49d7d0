//! The evidence: what happened when one test case ran once on one model.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    AssertionResult, Channel, Coverage, Event, FailureCode, FinishReason, Message, Outcome, Params,
    ProviderError, Role, Speaker, ToolCall, ToolSpec, Trace, Usage, Workspace,
};

/// One labelled turn of a conversation: its messages, and the agent's actions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The turn's label in the suite.
    pub label: String,
    /// The user's message; `None` if the turn continues the one before.
    pub user: Option<String>,
    /// The agent's last text of the turn.
    pub text: String,
    /// Why the text is incomplete, in words; see [`Execution::unread`].
    pub unread: Option<String>,
    /// The turn's structured output, where the source gives it apart from the text.
    pub output_json: Option<Value>,
    /// Indices into [`Execution::tool_calls`].
    pub tool_calls: std::ops::Range<usize>,
    /// Indices into [`Execution::recorded_events`]; empty where none were recorded.
    pub events: std::ops::Range<usize>,
    /// The number of requests that were answered in it; 0 if they were not counted.
    pub requests: u32,
    /// Tokens of this turn.
    pub usage: Usage,
    /// Time spent waiting for the provider, in milliseconds.
    pub latency_ms: f64,
}

/// One repeat of one test case on one model: everything that checks may look at.
///
/// It never changes after it is recorded; every judgement can be made again from it, offline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite; `command` for command tests.
    pub model: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The messages that opened the conversation.
    pub input: Vec<Message>,
    /// The last text that the model or the agent gave.
    pub output: String,
    /// Why the output is only a part of the answer, in words: the rest is of an unsupported type, or an answer on the way
    /// to it was cut. See [`incomplete_output`](Self::incomplete_output).
    pub unread: Option<String>,
    /// Structured output, where the source gives it apart from the text (`output_json` of a command).
    pub output_json: Option<Value>,
    /// All tool calls of all turns, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The labelled turns; empty unless the test case has a `conversation`.
    pub turns: Vec<Turn>,
    /// The number of requests that were answered.
    pub requests: u32,
    /// Tokens of all requests.
    pub usage: Usage,
    /// Time spent waiting for the provider over all requests, without retries and back-off, in milliseconds.
    pub latency_ms: Option<f64>,
    /// The cost of its tokens in US dollars, wherever the replies came from; `None` if the price is not known.
    pub cost_usd: Option<f64>,
    /// If `cached`: the money spent on the replies that did not come from the response store. Else `None`; see
    /// [`spent`](Self::spent).
    pub spent_usd: Option<f64>,
    /// The cost of earlier attempts in US dollars, as far as it is known, if a run was resumed and this execution was
    /// made again: with their judges. Else 0.
    pub earlier_usd: f64,
    /// Why the model stopped, at the last request.
    pub finish_reason: Option<FinishReason>,
    /// True if the conversation was ended by `maxTurns`.
    pub truncated: bool,
    /// Why evidence is missing, in words; empty if none is known to be missing. For example, spans were lost, or a
    /// conversation was saved before it was over.
    pub gaps: Vec<String>,
    /// True if a reply came from the response store.
    pub cached: bool,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// The stderr of a command.
    pub stderr: String,
    /// The test case's variables.
    pub vars: Map<String, Value>,
    /// Further data of the test case, which scripts see.
    pub test_metadata: Map<String, Value>,
    /// The natural logarithms of the probabilities of the answer's tokens, where the provider gives them.
    pub log_probs: Option<Vec<f64>>,
    /// Further data of the source: skill calls, guardrail flags, …
    pub metadata: Map<String, Value>,
    /// The provider's own account of its answer, where a record holds one; scripts see it.
    pub provider_response: Option<Value>,
    /// The events in order, if the source records more than texts and tool calls.
    /// [`events`](Self::events) are the events in any case.
    pub recorded_events: Vec<Event>,
    /// The kinds of evidence that the source records completely.
    pub coverage: Coverage,
    /// The kinds of evidence that the suite declares complete. That does not count for evidence that is known to be lost.
    pub declared: BTreeSet<Channel>,
    /// The spans of an instrumented agent.
    pub trace: Option<Box<Trace>>,
    /// The changes in the folder in which the agent worked, if it had one of its own.
    pub workspace: Option<Box<Workspace>>,
    /// The tools that the model might call. They belong to the test case, so reports leave them out.
    pub tools: Vec<ToolSpec>,
    /// The test case and its model as they are written; scripts see it. Reports leave it out, as it is in the
    /// suite.
    pub written: Option<Arc<Written>>,
}

/// A test case and its model as they are written, as far as scripts see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The test's `expect` block, as JSON.
    pub expect: Option<Arc<str>>,
    /// The score that the test must reach.
    pub threshold: Option<f64>,
    /// The parameters of the request to the model.
    pub params: Params,
    /// The options of the test, for scripts.
    pub options: Map<String, Value>,
    /// True if the prompt is written as messages.
    pub is_chat: bool,
}

impl Execution {
    /// The events in order.
    ///
    /// The texts and tool calls describe a conversation of one question and one answer in full, so no events are
    /// recorded for it beside them.
    pub fn events(&self) -> Cow<'_, [Event]> {
        if self.recorded_events.is_empty() {
            Cow::Owned(self.conversation())
        } else {
            Cow::Borrowed(&self.recorded_events)
        }
    }

    /// The events of a plain conversation, whose texts and tool calls are a complete record.
    ///
    /// The order within one answer is the order in which vendors give its parts: text, then tool calls. A call
    /// without an answer was not answered. The tokens come before all of it, so that the last event is the last text or
    /// call.
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

    /// True if everything of a kind was recorded: its source says so, or the suite, and nothing of it is known to be
    /// missing.
    pub fn tells_all(&self, channel: Channel) -> bool {
        self.known_missing(channel).is_none()
            && (self.coverage.includes(channel) || self.declared.contains(&channel))
    }

    /// Why evidence of a kind is known to be missing, in words; `None` if none is. A declaration of the suite does
    /// not make up for it.
    pub fn known_missing(&self, channel: Channel) -> Option<Cow<'_, str>> {
        let is_of_answers = matches!(
            channel,
            Channel::Messages
                | Channel::Actions
                | Channel::Subagents
                | Channel::Skills
                | Channel::InputRequests
        );
        let gap = self.gaps.first().map(|it| Cow::Borrowed(it.as_str()));
        let lost = || {
            let is_lost = self.coverage.lost().contains(&channel);
            is_lost.then_some(Cow::Borrowed("the source did not report all of it"))
        };
        gap.or_else(lost).or_else(|| self.incomplete_answer().filter(|_| is_of_answers))
    }

    /// Why the last answer is incomplete, in words: a part of it is unsupported, or it was cut at the token limit or by a
    /// filter. `None` if all of it is in [`output`](Self::output).
    pub fn incomplete_output(&self) -> Option<Cow<'_, str>> {
        let unread = self.unread.as_deref().map(Cow::Borrowed);
        unread.or_else(|| self.finish_reason.as_ref()?.cut().map(Cow::Owned))
    }

    /// The same for the answers of all turns.
    pub fn incomplete_answer(&self) -> Option<Cow<'_, str>> {
        let earlier = || self.turns.iter().find_map(|it| it.unread.as_deref()).map(Cow::Borrowed);
        self.incomplete_output().or_else(earlier)
    }

    /// The kinds of evidence that are complete only because the suite declares it: declared, not observed.
    pub fn only_declared(&self) -> BTreeSet<Channel> {
        let is_known =
            |it: &Channel| self.coverage.includes(*it) || self.coverage.lost().contains(it);
        self.declared.iter().copied().filter(|it| !is_known(it)).collect()
    }

    /// Which evidence is complete only because the suite declares it, in words for people.
    pub fn declared_note(&self) -> Option<String> {
        let kinds: Vec<&str> = self.only_declared().into_iter().map(Channel::as_str).collect();
        (!kinds.is_empty())
            .then(|| format!("declared complete by the suite, not observed: {}", kinds.join(", ")))
    }

    /// The money that was spent on it in US dollars; `None` if that is not known.
    ///
    /// This is [`cost_usd`](Self::cost_usd), without replies from the response store. A stored reply is judged by its
    /// recorded cost, but it is not paid for again. Attempts without a result count.
    pub fn spent(&self) -> Option<f64> {
        self.spent_now().map(|it| it + self.earlier_usd)
    }

    /// Without earlier attempts.
    fn spent_now(&self) -> Option<f64> {
        if self.cached { self.spent_usd } else { self.cost_usd }
    }

    /// The money that is known to have been spent on it in US dollars: all of it or, if only a part was reported,
    /// that part. `None` if nothing is known.
    pub fn spent_at_least(&self) -> Option<f64> {
        let told = || Event::told_usd(&self.recorded_events).filter(|_| !self.cached);
        let known = self.spent_now().or_else(told);
        let earlier = Some(self.earlier_usd).filter(|it| *it > 0.0);
        known.map(|it| it + self.earlier_usd).or(earlier)
    }

    /// True if requests were answered, but the answers do not report all tokens: then no price determines their cost.
    pub fn is_uncounted(&self) -> bool {
        self.requests > 0 && !self.usage.has_parts()
    }

    /// Why no price says what [uncounted](Self::is_uncounted) requests cost, as the end of a sentence.
    pub fn why_uncounted(&self) -> Option<&'static str> {
        if !self.is_uncounted() {
            return None;
        }
        Some(if self.usage == Usage::default() {
            "no answer of the provider tells its `usage`, the tokens that it took, so no price says what it cost"
        } else if self.usage.partial {
            "not every answer of the provider tells its `usage`, the tokens that it took, so no price says what all of them cost"
        } else {
            "the provider tells only how many tokens it took in all, and those that are asked and those that are answered have different prices"
        })
    }
}

/// Why an execution could not be carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutionError {
    /// A provider failed, after retries.
    Provider(ProviderError),
    /// It was not sent: the run was stopped before (budget, fail-fast, interrupt).
    NotRun {
        /// The reason why the run stopped, in words.
        reason: String,
    },
    /// KindLM itself failed.
    Internal {
        /// The message.
        message: String,
    },
}

impl ExecutionError {
    /// The failure code under which reports show it; `None` if it was merely not run.
    pub fn code(&self) -> Option<FailureCode> {
        match self {
            Self::Provider(err) => Some(err.kind.failure_code()),
            Self::NotRun { .. } => None,
            Self::Internal { .. } => Some(FailureCode::INTERNAL_ERROR),
        }
    }

    /// The message.
    pub fn message(&self) -> String {
        match self {
            Self::Provider(err) => err.to_string(),
            Self::NotRun { reason } => reason.clone(),
            Self::Internal { message } => message.clone(),
        }
    }
}

/// An execution with what the checks found in it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionResult {
    /// The evidence, as far as it was gathered.
    pub execution: Execution,
    /// The results of the checks, in the order of the file.
    pub results: Vec<AssertionResult>,
    /// The outcome.
    pub outcome: Outcome,
    /// Why it could not be carried out.
    pub error: Option<ExecutionError>,
    /// The cost of judging it in US dollars; `None` if a price is not known.
    pub judge_cost_usd: Option<f64>,
    /// Tokens that judging it took.
    pub judge_usage: Usage,
}

impl ExecutionResult {
    /// True if the run was stopped before it was carried out, and nothing was sent for it.
    ///
    /// An execution that was cut short has a cost and may have findings: it is stored like a complete one.
    pub fn was_never_begun(&self) -> bool {
        matches!(self.error, Some(ExecutionError::NotRun { .. }))
            && self.execution.requests == 0
            && self.results.is_empty()
    }

    /// True if all evidence is there, and only the judgement is not: who should have judged was not asked, for want of
    /// money, or could not answer.
    pub fn is_unjudged(&self) -> bool {
        match &self.error {
            None => {
                self.outcome == Outcome::Errored
                    && self.results.iter().any(AssertionResult::failed_by_provider)
            }
            // Checks are evaluated once the evidence is complete, and not before.
            Some(ExecutionError::NotRun { .. }) => !self.results.is_empty(),
            Some(ExecutionError::Provider(_) | ExecutionError::Internal { .. }) => false,
        }
    }

    /// True if a provider failed in it, after retries: the one under test, or one that should have judged.
    pub fn failed_by_provider(&self) -> bool {
        matches!(self.error, Some(ExecutionError::Provider(_)))
            || self.results.iter().any(AssertionResult::failed_by_provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_does_not_make_up_for_missing_evidence() {
        let declared = || Execution {
            coverage: Coverage::Only(BTreeSet::new()),
            declared: Channel::ALL.into_iter().collect(),
            ..Execution::default()
        };
        for channel in Channel::ALL {
            let lossy = declared().coverage.losing([channel]);
            let lost = Execution { coverage: lossy, ..declared() };
            let gap = Execution { gaps: vec!["a call has no result".to_owned()], ..declared() };
            assert!(declared().tells_all(channel), "{channel:?}");
            assert!(!lost.tells_all(channel) && !gap.tells_all(channel), "{channel:?}");
            assert!(!lost.only_declared().contains(&channel), "{channel:?}");
            let others = Channel::ALL.into_iter().filter(|it| *it != channel);
            assert!(others.clone().all(|it| lost.tells_all(it)), "{channel:?}");
        }
        let cut = Execution { finish_reason: Some(FinishReason::Length), ..declared() };
        let incomplete: Vec<Channel> =
            Channel::ALL.into_iter().filter(|it| !cut.tells_all(*it)).collect();
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
