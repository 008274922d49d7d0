//! Conversations with agents that are separate processes: one message per turn.

use std::sync::Arc;
use std::time::Duration;

use kindlm_types::{
    AgentEnd, AgentReply, AgentSession, AgentSpec, AgentStart, AgentTurn, CommandEnd, Event,
    Execution, Message, OpenWorkspace, ProviderError, ProviderErrorKind, Role, Speaker, Turn,
    UsageSum,
};
use serde_json::Value;

use super::conversation::{GoesOn, exchanges, first_prompt};
use crate::calls::{Calls, Unanswered};
use crate::{CaseBody, Model};

/// The metadata key for the data that an agent reports about itself.
const METADATA: &str = "agent";

/// A conversation with an agent.
pub(super) struct AgentRun<'a> {
    pub(super) body: &'a CaseBody,
    pub(super) opening: &'a [Message],
    pub(super) model: &'a Model,
    pub(super) agent: &'a Arc<AgentSpec>,
    /// The agent's workspace; `None` without a workspace.
    pub(super) around: Option<&'a dyn OpenWorkspace>,
    pub(super) calls: &'a Calls<'a>,
    pub(super) timeout: Duration,
    pub(super) execution: Box<Execution>,
    pub(super) usage: UsageSum,
}

impl AgentRun<'_> {
    /// Runs the conversation to its end.
    ///
    /// Returns the evidence, and the error if the agent failed or the budget is exhausted. After each turn with
    /// required checks, except the turns of the last message, `goes_on` decides if the conversation continues.
    pub(super) async fn hold(
        mut self,
        goes_on: &dyn GoesOn,
    ) -> (Box<Execution>, Option<Unanswered>) {
        self.execution.input =
            first_prompt(self.body, self.opening, self.model, self.execution.repeat).messages;
        let (system, first) = match spoken(&self.execution.input) {
            Ok(spoken) => spoken,
            Err(why) => {
                let mut err =
                    ProviderError::new(ProviderErrorKind::InvalidRequest, &*self.model.id, why);
                err.attempts = 0;
                return (self.execution, Some(err.into()));
            }
        };
        let start = AgentStart {
            id: self.model.id.clone(),
            agent: Arc::clone(self.agent),
            case: self.execution.case.clone(),
            repeat: self.execution.repeat,
            vars: self.body.vars.clone(),
            system,
            folder: self
                .around
                .map(|it| it.for_agent(self.agent.env.as_deref().unwrap_or_default())),
            timeout: self.timeout,
        };
        let calls = self.calls;
        let mut session = match calls.start_agent(&start).await {
            Ok(session) => session,
            Err(err) => return (self.execution, Some(err.into())),
        };
        let mut error = self.turns(&mut *session, first, goes_on).await.err();
        let end = session.end().await;
        drop(session);
        self.finish(end, &mut error);
        (self.execution, error)
    }

    async fn turns(
        &mut self,
        session: &mut dyn AgentSession,
        first: String,
        goes_on: &dyn GoesOn,
    ) -> Result<(), Unanswered> {
        self.execution.latency_ms = Some(0.0);
        let mut first = Some(first);
        let exchanges = exchanges(&self.body.conversation);
        let last = exchanges.len().saturating_sub(1);
        for (index, exchange) in exchanges.into_iter().enumerate() {
            if self.execution.requests >= self.body.max_turns.max(1) {
                self.execution.completeness.truncated = true;
                break;
            }
            let user = exchange.user.map(str::to_owned);
            let Some(text) = first.take().or(user) else { break };
            // The cost of a turn is not known in advance, so only the money already spent counts.
            if let Some(reason) = self.calls.exhausted() {
                return Err(Unanswered::Budget(reason.to_owned()));
            }
            // An agent answers each message in one turn, so only the first of the turns that share a message is
            // reached.
            let label = exchange.turns.first().map(|it| it.label.clone());
            let number = self.execution.requests + 1;
            let begin = self.execution.recorded_events.len();
            let said = Event::Message { role: Speaker::User, text: text.clone() };
            self.execution.recorded_events.push(said);
            let turn = AgentTurn { number, label: label.clone(), text, timeout: self.timeout };
            let answer = self.calls.send_turn(&self.model.id, session, turn).await;
            let reply = answer.inspect_err(|_| self.execution.spend.cost_usd = None)?;
            let user = exchange.user.map(str::to_owned);
            let turn = label.map(|label| Turn { label, user, ..Turn::default() });
            self.record(reply, turn, begin);
            for turn in exchange.turns.iter().filter(|it| index < last && it.requires()) {
                if !goes_on.after(&self.execution, turn).await {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, reply: AgentReply, turn: Option<Turn>, begin: usize) {
        let execution = &mut self.execution;
        let usage = reply.usage.unwrap_or_default();
        self.usage.add(usage);
        let cost = self.model.cost_of(reply.cost_usd, &usage);
        self.calls.spend(cost);
        execution.spend.cost_usd = execution.spend.cost_usd.zip(cost).map(|(sum, cost)| sum + cost);
        let calls = execution.tool_calls.len();
        execution.add_first_token(reply.first_token_ms);
        execution.requests += 1;
        execution.usage = self.usage.total();
        execution.latency_ms = execution.latency_ms.map(|sum| sum + reply.latency_ms);
        execution.recorded_events.extend(reply.events);
        execution.tool_calls.extend(reply.tool_calls);
        let text = crate::output_text(reply.text, reply.output_json.as_ref());
        execution.output.clone_from(&text);
        execution.completeness.unread.clone_from(&reply.unread);
        execution.output_json.clone_from(&reply.output_json);
        execution.completeness.coverage = reply.coverage;
        execution.finish_reason = reply.finish_reason;
        if let Some(turn) = turn {
            execution.turns.push(Turn {
                text,
                unread: reply.unread,
                output_json: reply.output_json,
                tool_calls: calls..execution.tool_calls.len(),
                events: begin..execution.recorded_events.len(),
                requests: 1,
                usage,
                latency_ms: reply.latency_ms,
                first_token_ms: reply.first_token_ms,
                ..turn
            });
        }
    }

    fn finish(&mut self, end: AgentEnd, error: &mut Option<Unanswered>) {
        // Count the cost of a failed turn, and of events after the last turn.
        let told = Event::reported_usd(&end.events);
        self.calls.spend(told);
        let execution = &mut self.execution;
        if let Some(sum) = &mut execution.spend.cost_usd {
            *sum += told.unwrap_or_default();
        }
        let last = execution.turns.last_mut().filter(|_| error.is_none());
        execution.recorded_events.extend(end.events);
        if let Some(turn) = last {
            turn.events.end = execution.recorded_events.len();
        }
        execution.command = CommandEnd::from_parts(end.exit_code, end.stderr);
        if let Some(coverage) = end.coverage {
            execution.completeness.coverage = coverage;
        }
        execution.completeness.unsupported = end.unsupported;
        if !end.metadata.is_empty() {
            execution.metadata.insert(METADATA.to_owned(), Value::Object(end.metadata));
        }
        if error.is_none() {
            *error = end.error.map(Unanswered::Provider);
        }
    }
}

/// Splits a prompt into the system instructions and the user's messages, for an agent.
///
/// Fails if the prompt has messages of other roles, parts such as images, or no text of the user.
fn spoken(messages: &[Message]) -> Result<(Option<String>, String), String> {
    let of = |role: Role| {
        messages.iter().filter(move |it| it.role == role).map(|it| it.content.as_str())
    };
    if of(Role::Assistant).chain(of(Role::Tool)).next().is_some() {
        let why = "an agent accepts no earlier answers: use a prompt with `system` and `user` only";
        return Err(why.to_owned());
    }
    if messages.iter().any(|it| !it.parts.is_empty()) {
        let why = "an agent accepts only text: give it images and other files in its `workspace`";
        return Err(why.to_owned());
    }
    let system = of(Role::System).collect::<Vec<_>>().join("\n\n");
    let user = of(Role::User).collect::<Vec<_>>().join("\n\n");
    if user.is_empty() {
        return Err("the agent gets no message of the user: name a `prompt`, or give the first turn a `user`".to_owned());
    }
    Ok((Some(system).filter(|it| !it.is_empty()), user))
}
