//! Parses a record with as few copies as possible.

mod fields;
mod problem;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use kindlm_types::{
    Channel, Completeness, Coverage, Event, Execution, FinishReason, Message, Role, Spend,
    ToolCall, Trace, Transcript, Workspace, ecma,
};
use kindlm_wire::evaluate::{RecordedTool, RecordedToolCall, RecordedUsage};
use kindlm_wire::unsupported_parts;
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use fields::Fields;
use problem::explain;

/// The keys of a [`Record`](kindlm_wire::evaluate::Record).
pub(super) const KEYS: [&str; 24] = [
    "id",
    "agent_input",
    "agent_output",
    "transcript",
    "assertions",
    "tool_calls",
    "events",
    "complete_for",
    "incomplete",
    "baseline",
    "vars",
    "usage",
    "latency_ms",
    "first_token_ms",
    "cost_usd",
    "finish_reason",
    "log_probs",
    "metadata",
    "provider_response",
    "trace",
    "workspace",
    "tools",
    "expect",
    "threshold",
];

/// The fields of a record. The values of `expect` and `assertions` stay JSON text.
#[derive(Default)]
pub(super) struct Line<'a> {
    pub(super) id: Option<Value>,
    agent_input: Option<Value>,
    agent_output: Option<Value>,
    transcript: Option<Box<Transcript>>,
    pub(super) assertions: Option<&'a RawValue>,
    tool_calls: Option<Vec<RecordedToolCall>>,
    events: Option<Vec<Event>>,
    complete_for: Option<BTreeSet<Channel>>,
    incomplete: Option<Vec<String>>,
    pub(super) baseline: Option<Cow<'a, str>>,
    vars: Option<Map<String, Value>>,
    usage: Option<RecordedUsage>,
    latency_ms: Option<f64>,
    first_token_ms: Option<f64>,
    cost_usd: Option<f64>,
    finish_reason: Option<String>,
    log_probs: Option<Vec<f64>>,
    metadata: Option<Map<String, Value>>,
    provider_response: Option<Value>,
    trace: Option<Box<Trace>>,
    workspace: Option<Box<Workspace>>,
    tools: Option<Vec<RecordedTool>>,
    pub(super) expect: Option<&'a RawValue>,
    pub(super) threshold: Option<f64>,
    /// The keys that are not in [`KEYS`].
    pub(super) others: Vec<Cow<'a, str>>,
}

/// The error of a record that cannot be evaluated.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Malformed {
    /// The record's id; `None` if it is missing or could not be read.
    pub(super) id: Option<Value>,
    /// The error message, with advice for the user.
    pub(super) error: String,
}

impl<'a> Line<'a> {
    pub(super) fn parse(json: &'a [u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(json).map_err(|err| {
            let error = format!("not UTF-8 text: invalid byte at offset {}", err.valid_up_to());
            Malformed { id: None, error }
        })?;
        let mut line = Self::default();
        let mut at = None;
        line.parse_fields(text, &mut at).map_err(|err| Malformed {
            id: line.id.take().or_else(|| id(text)),
            error: explain(text, at, &err),
        })?;
        let wrong = problem::find_duplicate_key(text).or_else(|| line.out_of_range());
        match wrong.or_else(|| line.conflicting_keys()) {
            None => Ok(line),
            Some(error) => Err(Malformed { id: line.id, error }),
        }
    }

    /// Reads an object into the fields. After an error, `at` is the key whose value has the error; `None` if the error
    /// is elsewhere.
    fn parse_fields(
        &mut self,
        text: &'a str,
        at: &mut Option<&'static str>,
    ) -> serde_json::Result<()> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.deserialize_map(Fields { line: self, at })?;
        deserializer.end()
    }

    /// Returns an error message if the record has rules but no input; otherwise `None`.
    ///
    /// The judge needs the input to apply the rules.
    pub(super) fn lacks_input(&self) -> Option<String> {
        let has_rules = self.assertions.is_some_and(|it| !matches!(it.get(), "null" | "[]"));
        if !has_rules || self.agent_input.is_some() || self.transcript.is_some() {
            return None;
        }
        let events = self.events.iter().flatten();
        if events.into_iter().any(|it| it.channel() == Channel::Messages) {
            return None;
        }
        let meant = ["input", "agentInput", "prompt", "query", "question"];
        let meant = meant.into_iter().find(|it| self.others.iter().any(|other| other == it));
        Some(match meant {
            Some(key) => format!(
                "the record has no `agent_input`, which `assertions` need: rename `{key}` to `agent_input`"
            ),
            None => "the record has no `agent_input`, which `assertions` need: add the input of the agent, or \
                `\"agent_input\": \"\"` if there was none"
                .to_owned(),
        })
    }

    fn out_of_range(&self) -> Option<String> {
        for (name, number) in [
            ("latency_ms", self.latency_ms),
            ("first_token_ms", self.first_token_ms),
            ("cost_usd", self.cost_usd),
        ] {
            if number.is_some_and(|it| it < 0.0) {
                return Some(format!("`{name}` is negative"));
            }
        }
        let usage = self.usage.map(kindlm_types::Usage::from);
        if let Some(why) = usage.and_then(|it| it.contradiction()) {
            return Some(format!("invalid `usage`: {why}"));
        }
        let events = self.events.iter().flatten().enumerate();
        if let Some((at, why)) =
            events.map(|(at, it)| (at, it.problem())).find_map(|(at, it)| Some((at, it?)))
        {
            return Some(format!("invalid `events[{at}]`: {why}"));
        }
        let bad = self.threshold.is_some_and(|it| !(0.0..=1.0).contains(&it));
        bad.then(|| "`threshold` is not between 0 and 1".to_owned())
    }

    /// Returns an error message if two keys record the same part of the execution; otherwise `None`.
    ///
    /// Only one of the two keys would be used, and their values might differ. An `agent_output` that equals the last
    /// message in `events` is allowed. A structured `agent_output` is allowed too, because agents give it beside their
    /// last message.
    fn conflicting_keys(&self) -> Option<String> {
        let twice = |a: &str, b: &str| {
            Some(format!("`{a}` and `{b}` both record the execution; remove one of them"))
        };
        let events = self.events.as_deref().unwrap_or_default();
        if self.transcript.is_some() {
            let others = [
                ("agent_input", self.agent_input.is_some()),
                ("agent_output", self.agent_output.is_some()),
                ("tool_calls", self.tool_calls.is_some()),
                ("events", self.events.is_some()),
            ];
            return others.iter().find(|it| it.1).and_then(|it| twice("transcript", it.0));
        }
        if self.tool_calls.is_some() && events.iter().any(|it| it.channel() == Channel::Actions) {
            return twice("tool_calls", "events");
        }
        match (&self.agent_output, Event::last_words(events)) {
            (Some(Value::String(output)), Some(words)) if output.trim() != words.trim() => Some(
                "`agent_output` differs from the agent's last message in `events`; remove one of them"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Returns the variables, or an empty map.
    pub(super) fn vars(&self) -> &Map<String, Value> {
        static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        self.vars.as_ref().unwrap_or(&NONE)
    }

    /// True if the record has any evidence about the agent.
    ///
    /// The evidence is an output, calls, events, a transcript, a trace, a workspace, or a response of the provider.
    pub(super) fn has_evidence(&self) -> bool {
        self.agent_output.is_some()
            || self.tool_calls.is_some()
            || self.events.is_some()
            || self.transcript.is_some()
            || self.trace.is_some()
            || self.workspace.is_some()
            || self.provider_response.is_some()
    }

    /// Returns the kinds of evidence that are complete.
    ///
    /// The complete kinds are the declared kinds, or else all kinds that the record contains.
    fn coverage(&self) -> Coverage {
        if let Some(channels) = &self.complete_for {
            return Coverage::Only(channels.clone());
        }
        let told = Coverage::of_events(self.events.as_deref().unwrap_or_default());
        [
            (self.agent_output.is_some(), Channel::Messages),
            (self.tool_calls.is_some(), Channel::Actions),
            (self.usage.is_some(), Channel::Usage),
        ]
        .into_iter()
        .filter(|(is_told, _)| *is_told)
        .fold(told, |sum, (_, channel)| sum.with(channel))
    }

    /// Converts the record to an execution, and moves the values out of its fields.
    pub(super) fn execution(&mut self) -> Execution {
        let Some(transcript) = self.transcript.take() else { return self.fields_to_execution() };
        let complete = self.complete_for.take();
        let is_counted = self.usage.is_some();
        let said = self.fields_to_execution();
        let finish_reason = transcript.finished(said.finish_reason.clone());
        let told = transcript.into_execution(&[], Execution::default());
        let coverage = match complete {
            Some(_) => Coverage::new(complete, told.completeness.coverage.lost().clone()),
            None => told.completeness.coverage,
        };
        // A value of the record takes precedence over a value of the transcript.
        Execution {
            usage: if is_counted { said.usage } else { told.usage },
            latency_ms: said.latency_ms.or(told.latency_ms),
            spend: Spend { cost_usd: said.spend.cost_usd.or(told.spend.cost_usd), ..said.spend },
            finish_reason,
            completeness: Completeness {
                gaps: [told.completeness.gaps, said.completeness.gaps].concat(),
                coverage: if is_counted { coverage.with(Channel::Usage) } else { coverage },
                unread: told.completeness.unread,
                unsupported: [told.completeness.unsupported, said.completeness.unsupported]
                    .concat(),
                ..said.completeness
            },
            tools: if said.tools.is_empty() { told.tools } else { said.tools },
            metadata: told.metadata.into_iter().chain(said.metadata).collect(),
            input: told.input,
            output: told.output,
            tool_calls: told.tool_calls,
            requests: told.requests,
            recorded_events: told.recorded_events,
            ..said
        }
    }

    /// Converts the fields other than the transcript to an execution.
    ///
    /// The values are moved out of their fields.
    fn fields_to_execution(&mut self) -> Execution {
        let coverage = self.coverage();
        let (output, output_json) = match self.agent_output.take() {
            None => (String::new(), None),
            Some(Value::String(text)) => (text, None),
            Some(value) => (ecma::stringify(&value), Some(value)),
        };
        let input = match self.agent_input.take() {
            None => Vec::new(),
            Some(Value::String(text)) => vec![Message::new(Role::User, text)],
            Some(value) => vec![Message::new(Role::User, ecma::stringify(&value))],
        };
        // A record with `tool_calls`, even an empty list, shows that the model was asked at least once.
        let requests = u32::from(self.tool_calls.is_some());
        let events = self.events.take().unwrap_or_default();
        let (usage, cost) = Event::usage(&events);
        let tool_calls = match self.tool_calls.take() {
            Some(calls) => calls.into_iter().map(ToolCall::from).collect(),
            None => Event::tool_calls(&events),
        };
        let output = match Event::last_words(&events) {
            Some(words) if output.is_empty() => words.to_owned(),
            _ => output,
        };
        let finish_reason = self.finish_reason.take().map(FinishReason::from);
        let word = finish_reason.as_ref().map(FinishReason::as_str);
        let stopped_to_call = word.map(FinishReason::of_vendor) == Some(FinishReason::ToolCalls);
        let gap = "the model stopped to call tools (`finish_reason`), but no call is recorded";
        let lacks_call = stopped_to_call && tool_calls.is_empty();
        // Without complete evidence of the actions, a missing call needs no warning.
        let lacks_call = lacks_call && coverage.includes(Channel::Actions);
        let mut gaps = self.incomplete.take().unwrap_or_default();
        gaps.extend(lacks_call.then(|| gap.to_owned()));
        let metadata = self.metadata.take().unwrap_or_default();
        Execution {
            input,
            output,
            output_json,
            tool_calls,
            requests,
            usage: self.usage.map(Into::into).or(usage).unwrap_or_default(),
            latency_ms: self.latency_ms,
            first_token_ms: self.first_token_ms,
            spend: Spend { cost_usd: self.cost_usd.or(cost), ..Spend::default() },
            recorded_events: events,
            completeness: Completeness {
                coverage,
                gaps,
                unsupported: unsupported_parts(&metadata),
                ..Completeness::default()
            },
            finish_reason,
            log_probs: self.log_probs.take(),
            metadata,
            provider_response: self.provider_response.take(),
            trace: self.trace.take(),
            workspace: self.workspace.take(),
            tools: self.tools.take().unwrap_or_default().into_iter().map(Into::into).collect(),
            vars: self.vars.take().unwrap_or_default(),
            ..Execution::default()
        }
    }
}

/// Returns the entries with unknown keys of a record.
pub(super) fn extra(json: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    let mut all: Map<String, Value> = serde_json::from_slice(json)?;
    all.retain(|key, _| !KEYS.contains(&key.as_str()));
    Ok(all)
}

/// Returns the id of a record that has an error in another key.
///
/// Returns `None` if the id cannot be read.
fn id(text: &str) -> Option<Value> {
    #[derive(Deserialize)]
    struct Named {
        id: Value,
    }
    // Serde also reads the fields of a struct from a list. A record is never a list.
    let is_object = text.trim_start().starts_with('{');
    serde_json::from_str::<Named>(text).ok().filter(|_| is_object).map(|it| it.id)
}

#[cfg(test)]
mod tests;
