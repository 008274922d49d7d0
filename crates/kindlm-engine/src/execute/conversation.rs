//! Conversations with models: sends requests and answers tool calls.

use std::time::Duration;

use kindlm_types::{
    BoxFuture, Channel, Coverage, Event, Execution, FinishReason, Message, Prompt, ProviderError,
    Reply, Role, Speaker, Turn, UsageSum, ecma,
};

use serde_json::{Map, Value};

use super::simulate::{Simulated, Simulation};
use crate::calls::{Calls, Unanswered};
use crate::{CaseBody, ConversationTurn, Model};

/// The reason for missing evidence if a reply announces tool calls but contains none.
const LOST_CALL: &str = "an answer stopped to call tools, but has no call";

/// The labelled turns that follow one message of the user. Each turn except the last is one request.
pub(super) struct Exchange<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) turns: &'a [ConversationTurn],
}

/// The decision about the next step of a conversation.
pub(super) trait GoesOn: Sync {
    /// Returns true if the conversation continues after this turn, which has required checks.
    fn after<'a>(
        &'a self,
        so_far: &'a Execution,
        turn: &'a ConversationTurn,
    ) -> BoxFuture<'a, bool>;
}

/// A running conversation.
pub(super) struct Conversation<'a> {
    body: &'a CaseBody,
    model: &'a Model,
    calls: &'a Calls<'a>,
    timeout: Duration,
    prompt: Prompt,
    execution: Box<Execution>,
    /// True if events are recorded.
    ///
    /// Events are recorded if the last text and the tool calls do not show the order of events.
    records_events: bool,
    /// The index of the first event of the current exchange.
    exchange_start: usize,
    usage: UsageSum,
    /// The tokens of the current labelled turn.
    turn_usage: UsageSum,
    cost: Cost,
    /// The cost of replies that did not come from the response store.
    fresh: Cost,
    /// The number of initial messages.
    opening: usize,
    /// The state of the simulated tools.
    simulation: Simulation,
}

/// The cost of replies in US dollars: reported costs, and the prices of replies that report no cost.
///
/// Each reply is priced separately, because the price of a token may depend on the length of the prompt.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// `None` if the cost of a reply is unknown.
    usd: Option<f64>,
}

impl Default for Cost {
    fn default() -> Self {
        Self { usd: Some(0.0) }
    }
}

impl Cost {
    fn add(&mut self, reply: &Reply, model: &Model) {
        let cost = model.cost_of(reply.cost_usd, &reply.usage);
        self.usd = self.usd.zip(cost).map(|(sum, cost)| sum + cost);
    }
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        body: &'a CaseBody,
        opening: &[Message],
        model: &'a Model,
        calls: &'a Calls<'a>,
        timeout: Duration,
        execution: Box<Execution>,
    ) -> Self {
        let mut prompt = first_prompt(body, opening, model, execution.repeat);
        if model.tells_vars {
            prompt.test = test_data(body, &execution);
        }
        Self {
            body,
            model,
            calls,
            timeout,
            prompt,
            execution,
            records_events: !body.tools.is_empty() || !body.conversation.is_empty(),
            exchange_start: 0,
            usage: UsageSum::default(),
            turn_usage: UsageSum::default(),
            cost: Cost::default(),
            fresh: Cost::default(),
            opening: 0,
            simulation: Simulation::default(),
        }
    }

    /// Runs the conversation to its end.
    ///
    /// Returns the evidence, and the error if the provider failed or the budget did not allow a request. After each
    /// turn with required checks, except the turns of the last message, `goes_on` decides if the conversation
    /// continues.
    pub(super) async fn hold(
        mut self,
        goes_on: &dyn GoesOn,
    ) -> (Box<Execution>, Option<Unanswered>) {
        self.opening = self.prompt.messages.len();
        self.execution.latency_ms = Some(0.0);
        let asked = self.prompt.messages.iter().filter(|it| it.role == Role::User);
        let asked: Vec<String> = asked.map(|it| it.content.clone()).collect();
        for text in asked {
            self.record_message(Speaker::User, text);
        }
        let error = self.exchanges(goes_on).await.err();
        if let Some(Unanswered::Provider(err)) = &error {
            self.record_failure(err);
        }
        let execution = &mut self.execution;
        execution.spend.cost_usd = self.cost.usd;
        if execution.spend.cached {
            execution.spend.paid_usd = self.fresh.usd;
        }
        // Only the initial messages are stored. Later messages follow from the turns and the tool calls.
        self.prompt.messages.truncate(self.opening);
        execution.input = self.prompt.messages;
        (self.execution, error)
    }

    async fn exchanges(&mut self, goes_on: &dyn GoesOn) -> Result<(), Unanswered> {
        let exchanges = exchanges(&self.body.conversation);
        let last = exchanges.len().saturating_sub(1);
        for (index, exchange) in exchanges.into_iter().enumerate() {
            if let (1.., Some(user)) = (index, exchange.user) {
                let messages = &mut self.prompt.messages;
                if !self.execution.output.is_empty() {
                    messages.push(Message::new(Role::Assistant, self.execution.output.as_str()));
                }
                messages.push(Message::new(Role::User, user));
                self.exchange_start = self.execution.recorded_events.len();
                self.record_message(Speaker::User, user.to_owned());
            }
            self.exchange(&exchange).await?;
            if self.execution.completeness.truncated {
                break;
            }
            for turn in exchange.turns.iter().filter(|it| index < last && it.requires()) {
                if !goes_on.after(&self.so_far(), turn).await {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the execution so far, in the form of a finished execution.
    fn so_far(&self) -> Execution {
        Execution {
            input: self.prompt.messages.iter().take(self.opening).cloned().collect(),
            tools: self.prompt.tools.clone(),
            ..(*self.execution).clone()
        }
    }

    async fn exchange(&mut self, exchange: &Exchange<'_>) -> Result<(), Unanswered> {
        let most = self.body.max_turns.max(1);
        self.execution.completeness.unread = None;
        for round in 0_usize.. {
            if self.execution.requests >= most {
                self.execution.completeness.truncated = true;
                break;
            }
            let mut reply = self.calls.complete(self.model, &self.prompt, self.timeout).await?;
            self.label(exchange, round, &reply);
            let asked = self.asked_of_test(&reply);
            let goes_on = !asked.is_empty();
            let results = if goes_on && self.execution.requests + 1 < most {
                // A reply that was cut off may lack tool calls, even if the conversation continues.
                self.execution.completeness.unread =
                    self.execution.completeness.unread.take().or(reply.finish_reason.cut());
                self.answer_tools(&mut reply, &asked)
            } else {
                Vec::new()
            };
            self.record(reply, results);
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Returns the indices of the calls in `reply.tool_calls` that the test must answer.
    ///
    /// The test answers calls of simulated tools. A reply with complete evidence comes from a model's own API, which
    /// requires a result for each call. So the test also answers calls of unknown tools in such a reply, with an error.
    fn asked_of_test(&self, reply: &Reply) -> Vec<usize> {
        if !self.body.answers_tools {
            return Vec::new();
        }
        let answers_all = reply.coverage == Coverage::Complete;
        let is_simulated = |name: &str| self.body.tools.iter().any(|it| it.spec.name == name);
        let calls = reply.tool_calls.iter().enumerate();
        let asked = calls
            .filter(|(_, it)| it.response.is_none() && (answers_all || is_simulated(&it.name)));
        asked.map(|(at, _)| at).collect()
    }

    /// Appends the reply and the tool results to the next prompt, and returns the results as events. Stores the answers
    /// in the calls of `reply`, too.
    fn answer_tools(&mut self, reply: &mut Reply, asked: &[usize]) -> Vec<Event> {
        let messages = &mut self.prompt.messages;
        let calls = asked.iter().filter_map(|at| reply.tool_calls.get(*at));
        messages.push(Message {
            tool_calls: calls.cloned().collect(),
            ..Message::new(Role::Assistant, reply.text.as_str())
        });
        let mut results = Vec::new();
        for at in asked {
            let Some(call) = reply.tool_calls.get_mut(*at) else { continue };
            let Simulated { answer, status } = self.simulation.answer(&self.body.tools, call);
            messages.push(Message::tool_result(call, ecma::stringify(&answer)));
            call.response = Some(answer.clone());
            let call_id = call.id.clone();
            results.push(Event::ActionResult { call_id, output: Some(answer), status });
        }
        results
    }

    /// Assigns the reply to its labelled turn. The last turn of the exchange has all remaining replies.
    fn label(&mut self, exchange: &Exchange<'_>, round: usize, reply: &Reply) {
        let Some(last) = exchange.turns.len().checked_sub(1) else { return };
        let Some(turn) = exchange.turns.get(round.min(last)) else { return };
        let start = self.execution.tool_calls.len();
        let events =
            if round == 0 { self.exchange_start } else { self.execution.recorded_events.len() };
        let turns = &mut self.execution.turns;
        if round <= last {
            self.turn_usage = UsageSum::default();
            turns.push(Turn {
                label: turn.label.clone(),
                user: turn.user.clone(),
                tool_calls: start..start,
                events: events..events,
                ..Turn::default()
            });
        }
        let Some(turn) = turns.last_mut() else { return };
        crate::answer_text(reply).clone_into(&mut turn.text);
        turn.unread = turn.unread.take().or_else(|| reply.finish_reason.cut());
        turn.output_json.clone_from(&reply.output_json);
        turn.tool_calls.end = start + reply.tool_calls.len();
        turn.add_first_token(reply.first_token_ms);
        turn.requests += 1;
        self.turn_usage.add(reply.usage);
        turn.usage = self.turn_usage.total();
        turn.latency_ms += reply.latency_ms;
    }

    /// Records a message as an event, if events are recorded and the text is not empty.
    fn record_message(&mut self, role: Speaker, text: String) {
        if self.records_events && !text.is_empty() {
            self.execution.recorded_events.push(Event::Message { role, text });
        }
    }

    /// Records a provider error as an event, if events are recorded and an earlier request was answered.
    fn record_failure(&mut self, err: &ProviderError) {
        // A request that was not sent yet did not fail.
        let was_waiting = err.attempts == 0 && err.retryable;
        if self.records_events && self.execution.requests > 0 && !was_waiting {
            let message = err.to_string();
            self.execution.recorded_events.push(Event::Error { message });
        }
    }

    /// Records a reply, and the results of the calls that the test answered.
    fn record(&mut self, mut reply: Reply, results: Vec<Event>) {
        self.record_events(&mut reply, results);
        self.cost.add(&reply, self.model);
        if !reply.cached {
            self.fresh.add(&reply, self.model);
        }
        self.usage.add(reply.usage);
        let execution = &mut self.execution;
        execution.add_first_token(reply.first_token_ms);
        execution.requests += 1;
        execution.usage = self.usage.total();
        let coverage = std::mem::take(&mut execution.completeness.coverage);
        execution.completeness.coverage = coverage.and(&reply.coverage);
        if self.usage.lacks_some() {
            // A reply without token counts has no usage event.
            let coverage = std::mem::take(&mut execution.completeness.coverage);
            execution.completeness.coverage = coverage.without(Channel::Usage);
        }
        execution.latency_ms = execution.latency_ms.map(|sum| sum + reply.latency_ms);
        execution.spend.cached |= reply.cached;
        crate::answer_text(&reply).clone_into(&mut execution.output);
        execution.output_json = reply.output_json;
        if reply.finish_reason == FinishReason::ToolCalls && reply.tool_calls.is_empty() {
            execution.completeness.gaps.push(LOST_CALL.to_owned());
        }
        execution.tool_calls.extend(reply.tool_calls);
        execution.finish_reason = Some(reply.finish_reason);
        execution.log_probs = reply.log_probs;
        execution.provider_response = reply.response;
        execution.images = reply.images;
        for (key, value) in reply.metadata {
            // A value with `flagged: true` stays, even if a later reply has another value for the key.
            let flagged = execution.metadata.get(&key).is_some_and(|it| it["flagged"] == true);
            if !flagged {
                execution.metadata.insert(key, value);
            }
        }
    }
}

impl Conversation<'_> {
    fn record_events(&mut self, reply: &mut Reply, results: Vec<Event>) {
        let has_own_events = !reply.events.is_empty() || !results.is_empty();
        if has_own_events && !self.records_events {
            // This is the first reply with events, so earlier messages must be recorded now.
            self.records_events = true;
            let asked = self.prompt.messages.iter().filter(|it| it.role == Role::User);
            let asked: Vec<String> = asked.map(|it| it.content.clone()).collect();
            for text in asked {
                self.record_message(Speaker::User, text);
            }
        }
        if !self.records_events {
            return;
        }
        let events = std::mem::take(&mut reply.events);
        // Usage comes first, so that the last event is the last message or action.
        if !events.iter().any(|it| matches!(it, Event::Usage { .. })) {
            self.execution.recorded_events.extend(Event::of_usage(reply.usage));
        }
        if events.is_empty() {
            self.record_message(Speaker::Assistant, crate::answer_text(reply).to_owned());
            let is_answered = |id: &str| {
                results
                    .iter()
                    .any(|it| matches!(it, Event::ActionResult { call_id, .. } if call_id == id))
            };
            let mut calls = reply.tool_calls.clone();
            // The answers of the test follow as events of their own.
            for call in calls.iter_mut().filter(|it| is_answered(&it.id)) {
                call.response = None;
            }
            self.execution.recorded_events.extend(Event::of_calls(&calls));
        } else {
            self.execution.recorded_events.extend(events);
        }
        self.execution.recorded_events.extend(results);
        if let Some(turn) = self.execution.turns.last_mut() {
            turn.events.end = self.execution.recorded_events.len();
        }
    }
}

/// Returns the first request of the conversation.
pub(super) fn first_prompt(
    body: &CaseBody,
    opening: &[Message],
    model: &Model,
    repeat: u32,
) -> Prompt {
    let mut messages = opening.to_vec();
    if let Some(user) = body.conversation.first().and_then(|it| it.user.as_deref()) {
        match messages.iter_mut().rfind(|it| it.role == Role::User) {
            Some(message) => message.replace_text(user),
            None => messages.push(Message::new(Role::User, user)),
        }
    }
    Prompt {
        model: model.name.clone(),
        messages,
        params: model.params.clone(),
        tools: body.tools.iter().map(|it| it.spec.clone()).collect(),
        tool_choice: None,
        response_format: None,
        shared: 0,
        sample: repeat,
        vars: if model.tells_vars { body.vars.clone() } else { Map::new() },
        test: Map::new(),
        is_chat: model.tells_vars && body.is_chat,
    }
}

/// Returns the data about the test that programs get in addition to the test's variables.
fn test_data(body: &CaseBody, execution: &Execution) -> Map<String, Value> {
    let threshold = execution.written.as_ref().and_then(|it| it.threshold);
    let object = |map: &Map<String, Value>| (!map.is_empty()).then(|| Value::Object(map.clone()));
    let told = [
        ("prompt", body.prompt_name.as_deref().map(Value::from)),
        ("description", Some(execution.case.as_str().into())),
        ("metadata", object(&body.metadata)),
        ("options", object(&body.options)),
        ("threshold", threshold.map(Value::from)),
    ];
    told.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Splits turns into exchanges. Each message of the user begins an exchange, and turns without a message continue it.
pub(super) fn exchanges(turns: &[ConversationTurn]) -> Vec<Exchange<'_>> {
    if turns.is_empty() {
        return vec![Exchange { user: None, turns }];
    }
    turns
        .chunk_by(|_, next| next.user.is_none())
        .map(|turns| Exchange { user: turns.first().and_then(|it| it.user.as_deref()), turns })
        .collect()
}
