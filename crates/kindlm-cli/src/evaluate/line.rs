//! Reads a record without copying more of it than is needed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::{fmt, mem};

use kindlm_providers::transcript;
use kindlm_types::wire::evaluate::{RecordedTool, RecordedToolCall, RecordedUsage};
use kindlm_types::{
    Channel, Coverage, Event, Execution, FinishReason, Message, Problem, Role, ToolCall, Trace,
    Transcript, Workspace, ecma,
};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

const NO_OBJECT: &str = "not a JSON object: a record is an object with `agent_output` and `expect`";

/// The keys of a [`Record`](kindlm_types::wire::evaluate::Record).
pub(super) const KEYS: [&str; 22] = [
    "id",
    "agent_input",
    "agent_output",
    "transcript",
    "assertions",
    "tool_calls",
    "events",
    "complete_for",
    "baseline",
    "vars",
    "usage",
    "latency_ms",
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

/// The fields of a record, with what is only looked up in a cache left as text.
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
    pub(super) baseline: Option<Cow<'a, str>>,
    vars: Option<Map<String, Value>>,
    usage: Option<RecordedUsage>,
    latency_ms: Option<f64>,
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
    /// The keys that are none of [`KEYS`].
    pub(super) others: Vec<Cow<'a, str>>,
}

/// Why a record cannot be evaluated.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Malformed {
    /// The record's id, if it could be read.
    pub(super) id: Option<Value>,
    /// What is wrong, and what to do.
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
        line.read(text, &mut at).map_err(|err| Malformed {
            id: line.id.take().or_else(|| id(text)),
            error: explain(text, at, &err),
        })?;
        match line.out_of_range().or_else(|| line.told_twice()) {
            None => Ok(line),
            Some(error) => Err(Malformed { id: line.id, error }),
        }
    }

    /// Reads an object into the fields. `at` says which key could not be read.
    fn read(&mut self, text: &'a str, at: &mut Option<&'static str>) -> serde_json::Result<()> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.deserialize_map(Fields { line: self, at })?;
        deserializer.end()
    }

    fn out_of_range(&self) -> Option<String> {
        for (name, number) in [("latency_ms", self.latency_ms), ("cost_usd", self.cost_usd)] {
            if number.is_some_and(|it| it < 0.0) {
                return Some(format!("`{name}` is negative"));
            }
        }
        let bad = self.threshold.is_some_and(|it| !(0.0..=1.0).contains(&it));
        bad.then(|| "`threshold` is not between 0 and 1".to_owned())
    }

    /// Of two tellings of the same, one would not be looked at, and they might differ.
    fn told_twice(&self) -> Option<String> {
        let twice = |a: &str, b: &str| {
            Some(format!("`{a}` and `{b}` both tell what happened; leave out one of them"))
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
                "`agent_output` is not what the agent says last in `events`; leave out one of them"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// The variables; none if there are none.
    pub(super) fn vars(&self) -> &Map<String, Value> {
        static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        self.vars.as_ref().unwrap_or(&NONE)
    }

    /// Whether the record says anything about what an agent said or did.
    pub(super) fn has_evidence(&self) -> bool {
        self.agent_output.is_some()
            || self.tool_calls.is_some()
            || self.events.is_some()
            || self.transcript.is_some()
            || self.trace.is_some()
            || self.workspace.is_some()
            || self.provider_response.is_some()
    }

    /// What the record tells completely: what it says of itself, else what it tells something of.
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

    /// The evidence that the record is.
    pub(super) fn execution(&mut self) -> Execution {
        let Some(transcript) = self.transcript.take() else { return self.told() };
        let complete = self.complete_for.take().map(Coverage::Only);
        let is_counted = self.usage.is_some();
        let said = self.told();
        let told = transcript.into_execution(&[], Execution::default());
        let coverage = complete.unwrap_or(told.coverage);
        // What the record says of it counts more than what the log says.
        Execution {
            usage: if is_counted { said.usage } else { told.usage },
            latency_ms: said.latency_ms.or(told.latency_ms),
            cost_usd: said.cost_usd.or(told.cost_usd),
            finish_reason: said.finish_reason.or(told.finish_reason),
            gaps: told.gaps,
            tools: if said.tools.is_empty() { told.tools } else { said.tools },
            metadata: told.metadata.into_iter().chain(said.metadata).collect(),
            coverage: if is_counted { coverage.with(Channel::Usage) } else { coverage },
            input: told.input,
            output: told.output,
            tool_calls: told.tool_calls,
            requests: told.requests,
            recorded_events: told.recorded_events,
            ..said
        }
    }

    /// The evidence that the record is without a transcript.
    fn told(&mut self) -> Execution {
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
        // A record with tool calls, even with none, tells of at least one answer and all its calls.
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
        Execution {
            input,
            output,
            output_json,
            tool_calls,
            requests,
            usage: self.usage.map(Into::into).or(usage).unwrap_or_default(),
            latency_ms: self.latency_ms,
            cost_usd: self.cost_usd.or(cost),
            recorded_events: events,
            coverage,
            finish_reason: self.finish_reason.take().map(FinishReason::from),
            log_probs: self.log_probs.take(),
            metadata: self.metadata.take().unwrap_or_default(),
            provider_response: self.provider_response.take(),
            trace: self.trace.take(),
            workspace: self.workspace.take(),
            tools: self.tools.take().unwrap_or_default().into_iter().map(Into::into).collect(),
            vars: self.vars.take().unwrap_or_default(),
            ..Execution::default()
        }
    }
}

/// The entries of a record whose keys are not ours.
pub(super) fn extra(json: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    let mut all: Map<String, Value> = serde_json::from_slice(json)?;
    all.retain(|key, _| !KEYS.contains(&key.as_str()));
    Ok(all)
}

/// Reads the entries of an object into a [`Line`].
struct Fields<'l, 'a> {
    line: &'l mut Line<'a>,
    at: &'l mut Option<&'static str>,
}

/// A text that is copied only where it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { line, at } = self;
        let mut seen = [false; KEYS.len()];
        while let Some(Text(key)) = map.next_key::<Text<'a>>()? {
            let Some(index) = KEYS.iter().position(|it| *it == key) else {
                map.next_value::<IgnoredAny>()?;
                line.others.push(key);
                continue;
            };
            *at = Some(KEYS[index]);
            if mem::replace(&mut seen[index], true) {
                return Err(A::Error::custom(TWICE));
            }
            match KEYS[index] {
                "id" => line.id = Some(map.next_value()?),
                "agent_input" => line.agent_input = Some(map.next_value()?),
                "agent_output" => line.agent_output = map.next_value()?,
                "transcript" => {
                    let value: Option<Value> = map.next_value()?;
                    let read = value.as_ref().map(transcript::read).transpose();
                    line.transcript =
                        read.map_err(|it| A::Error::custom(unreadable(&it)))?.map(Box::new);
                }
                "assertions" => line.assertions = map.next_value()?,
                "tool_calls" => line.tool_calls = map.next_value()?,
                "events" => line.events = map.next_value()?,
                "complete_for" => line.complete_for = map.next_value()?,
                "baseline" => line.baseline = map.next_value::<Option<Text<'a>>>()?.map(|it| it.0),
                "vars" => line.vars = map.next_value()?,
                "usage" => line.usage = map.next_value()?,
                "latency_ms" => line.latency_ms = map.next_value()?,
                "cost_usd" => line.cost_usd = map.next_value()?,
                "finish_reason" => line.finish_reason = map.next_value()?,
                "log_probs" => line.log_probs = map.next_value()?,
                "metadata" => line.metadata = map.next_value()?,
                "provider_response" => line.provider_response = map.next_value()?,
                "trace" => line.trace = map.next_value()?,
                "workspace" => line.workspace = map.next_value()?,
                "tools" => line.tools = map.next_value()?,
                "expect" => line.expect = map.next_value()?,
                _ => line.threshold = map.next_value()?,
            }
            *at = None;
        }
        Ok(())
    }
}

const TWICE: &str = "is there twice";

/// What is wrong with a transcript, and where in it.
fn unreadable(problem: &Problem) -> String {
    let place = if problem.pointer.is_empty() { "" } else { ": " };
    let help = problem.help.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("{NO_TRANSCRIPT}{}{place}{}{help}", problem.pointer, problem.message)
}

/// Begins what is said of a transcript.
const NO_TRANSCRIPT: &str = "cannot be read: ";

/// The id of a record of which something else cannot be read.
fn id(text: &str) -> Option<Value> {
    #[derive(Deserialize)]
    struct Named {
        id: Value,
    }
    // Serde reads a list into the fields in their order; nobody means that.
    let is_object = text.trim_start().starts_with('{');
    serde_json::from_str::<Named>(text).ok().filter(|_| is_object).map(|it| it.id)
}

/// What is wrong with a text that should be a record: with the value of a key, or with its JSON.
fn explain(text: &str, at: Option<&str>, err: &serde_json::Error) -> String {
    if err.is_data() && !text.trim_start().starts_with('{') {
        return NO_OBJECT.to_owned();
    }
    let said = err.to_string();
    let words = said.split(" at line ").next().unwrap_or(&said);
    let place = if text.contains('\n') {
        format!("line {}, column {}", err.line(), err.column())
    } else {
        format!("column {}", err.column())
    };
    match at.filter(|_| err.is_data()) {
        Some(key) if words.starts_with(NO_TRANSCRIPT) => format!("`{key}` {words} (at {place})"),
        Some(key) if words == TWICE => format!("`{key}` {TWICE} (at {place})"),
        Some(key) => format!("`{key}` is not {} (at {place})", expected(key)),
        None => {
            let several = words.starts_with("trailing characters") && text.contains('\n');
            let help = if several { "; one record on each line? then say `--jsonl`" } else { "" };
            format!("not JSON: {} at {place}{help}", in_words(words))
        }
    }
}

/// What the value of a key should be.
fn expected(key: &str) -> &'static str {
    match key {
        "tool_calls" => "a list of calls, each an object with a `name`",
        "baseline" | "finish_reason" => "a text",
        "events" => "a list of events, each an object with its `type`, such as `action.called`",
        "complete_for" => "a list of kinds of evidence, such as `actions`",
        "vars" => "an object of variables",
        "usage" => {
            "an object of whole numbers: `input_tokens`, `output_tokens`, `total_tokens`, `cached_input_tokens`"
        }
        "latency_ms" | "cost_usd" | "threshold" => "a number",
        "log_probs" => "a list of numbers",
        "metadata" => "an object",
        "trace" => "a trace: an object whose `spans` have a `spanId`, a `name` and a `startTime`",
        "workspace" => "an object: `changes`, `files`, `commands` and `tests` of an agent's folder",
        "tools" => "a list of tools, each an object with a `name` and `parameters`",
        _ => "a JSON value",
    }
}

/// What the parser means, in words of those who write JSON rather than parsers.
fn in_words(said: &str) -> &str {
    for (begin, meaning) in [
        ("EOF", "it ends too early"),
        ("expected ident", "a word that is none of `true`, `false` and `null`"),
        ("expected value", "a value is missing, or is not quoted"),
        ("trailing characters", "something follows after its end"),
        ("trailing comma", "a comma before the end of an object or list"),
        ("key must be a string", "a key without double quotes"),
        (
            "control character",
            "a line break or tab in a text, which must be written `\\n` or `\\t`",
        ),
        ("invalid escape", "an unknown escape: a backslash must be written `\\\\`"),
        ("lone leading surrogate", "half a character: `\\ud800` to `\\udfff` go in pairs"),
        ("unexpected end of hex escape", "half a character: `\\ud800` to `\\udfff` go in pairs"),
        ("recursion limit", "more than 127 levels of objects and lists"),
        ("number out of range", "a number that is too large"),
        ("invalid number", "a number that is not written as JSON has it"),
    ] {
        if said.starts_with(begin) {
            return meaning;
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong_with_a_record() {
        for (json, message) in [
            ("{", "not JSON: it ends too early at column 1"),
            ("", "not JSON: it ends too early at column 0"),
            ("[]", NO_OBJECT),
            ("[1]", NO_OBJECT),
            ("3", NO_OBJECT),
            (
                r#"{"id": nope}"#,
                "not JSON: a word that is none of `true`, `false` and `null` at column 9",
            ),
            (r#"{"id": hello}"#, "not JSON: a value is missing, or is not quoted at column 8"),
            ("{id: 1}", "not JSON: a key without double quotes at column 2"),
            (r#"{"id": 1,}"#, "not JSON: a comma before the end of an object or list at column 10"),
            (r#"{"latency_ms": "fast"}"#, "`latency_ms` is not a number (at column 21)"),
            (r#"{"latency_ms": -1}"#, "`latency_ms` is negative"),
            (r#"{"threshold": 1.5}"#, "`threshold` is not between 0 and 1"),
            (r#"{"id": 1, "id": 2}"#, "`id` is there twice (at column 14)"),
            (
                "{}\n{}",
                "not JSON: something follows after its end at line 2, column 1; one record on each line? then say `--jsonl`",
            ),
            (
                r#"{"tool_calls": [{}]}"#,
                "`tool_calls` is not a list of calls, each an object with a `name` (at column 18)",
            ),
        ] {
            let err = Line::parse(json.as_bytes()).err().unwrap();
            assert_eq!(err.error, message, "{json}");
        }
        let err = Line::parse(b"{\"id\": \"\xff\"}").err().unwrap();
        assert_eq!(err.error, "not UTF-8 text: invalid byte at offset 8");
    }

    #[test]
    fn an_error_keeps_the_id_that_can_be_read() {
        for (json, id) in [
            (r#"{"id": "a", "latency_ms": []}"#, Some(Value::from("a"))),
            (r#"{"latency_ms": [], "id": 7}"#, Some(Value::from(7))),
            (r#"{"id": "a", "expect": {"#, Some(Value::from("a"))),
            (r#"{"expect": {, "id": "a"}"#, None),
        ] {
            assert_eq!(Line::parse(json.as_bytes()).err().unwrap().id, id, "{json}");
        }
    }

    #[test]
    fn an_output_may_be_any_json_but_null() {
        for (json, output, output_json) in [
            (r#"{"agent_output": "a"}"#, "a", None),
            (r#"{"agent_output": {"a": 1.0}}"#, r#"{"a":1}"#, Some(serde_json::json!({"a": 1.0}))),
            (r#"{"agent_output": null}"#, "", None),
            ("{}", "", None),
            (r#"{"tool_calls": null, "vars": null, "expect": null, "results": [1]}"#, "", None),
        ] {
            let mut line = Line::parse(json.as_bytes()).unwrap();
            assert_eq!(line.has_evidence(), !output.is_empty(), "{json}");
            let execution = line.execution();
            assert_eq!((execution.output.as_str(), execution.output_json), (output, output_json));
        }
    }

    #[test]
    fn the_keys_are_those_of_a_record() {
        let json = r#"{"id": 1, "agent_input": 1, "agent_output": 1, "transcript": [], "assertions": [{"id": "a"}],
            "tool_calls": [{"name": "a"}], "events": [{"type": "compaction"}], "complete_for": [], "baseline": "b", "vars": {"a": 1}, "usage": {},
            "latency_ms": 1, "cost_usd": 1, "finish_reason": "stop", "log_probs": [-1], "metadata": {"a": 1},
            "provider_response": {}, "trace": {"spans": []}, "workspace": {}, "tools": [{"name": "a"}], "expect": {}, "threshold": 1, "\u0061": 2}"#;
        let record: kindlm_types::wire::evaluate::Record = serde_json::from_str(json).unwrap();
        assert_eq!(record.extra.len(), 1);
        let all = serde_json::to_value(record).unwrap();
        let known = all.as_object().unwrap().keys().filter(|it| *it != "a");
        let known: std::collections::BTreeSet<&str> = known.map(String::as_str).collect();
        assert_eq!(known, KEYS.into_iter().collect());
        let json = json.replace(r#""transcript": [], "#, "");
        assert_eq!(Line::parse(json.as_bytes()).unwrap().others, ["a"]);
    }

    #[test]
    fn a_transcript_tells_what_happened_and_the_record_what_is_known_of_it() {
        let json = r#"{"transcript": {"messages": [
            {"role": "user", "content": "7?"},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "find", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "sent"},
            {"role": "assistant", "content": "Sent."}
        ], "usage": {"prompt_tokens": 3, "completion_tokens": 1}, "cost_usd": 2}, "cost_usd": 0.5, "metadata": {"a": 1}}"#;
        let execution = Line::parse(json.as_bytes()).unwrap().execution();
        assert_eq!(
            (execution.output.as_str(), execution.input[0].content.as_str()),
            ("Sent.", "7?")
        );
        assert_eq!(execution.tool_calls[0].response, Some(Value::from("sent")));
        assert_eq!((execution.usage.total_tokens, execution.cost_usd), (4, Some(0.5)));
        assert_eq!((execution.requests, execution.events().len()), (2, 4));
        let complete = [Channel::Messages, Channel::Actions, Channel::Usage];
        assert_eq!(execution.coverage, complete.into_iter().collect());
        for (json, message) in [
            (
                r#"{"transcript": [{"role": "bot"}]}"#,
                "`transcript` cannot be read: /0/role: `bot` is not a role of this format (roles: `system`, `developer`, `user`, `assistant`, `tool`, `function`) (at column 33)",
            ),
            (
                r#"{"tool_calls": [], "events": [{"type": "action.called", "callId": "1", "name": "f"}]}"#,
                "`tool_calls` and `events` both tell what happened; leave out one of them",
            ),
            (
                r#"{"agent_output": "a", "events": [{"type": "message", "role": "assistant", "text": "b"}]}"#,
                "`agent_output` is not what the agent says last in `events`; leave out one of them",
            ),
            (
                r#"{"transcript": [{"role": "assistant", "content": "x"}], "agent_output": "x"}"#,
                "`transcript` and `agent_output` both tell what happened; leave out one of them",
            ),
        ] {
            let err = Line::parse(json.as_bytes()).err().unwrap();
            assert_eq!(err.error, message, "{json}");
        }
    }

    #[test]
    fn other_keys_are_found_again() {
        let extra =
            extra(br#"{"id": 1, "agent_output": "", "other": {"a": [1]}, "b": null}"#).unwrap();
        assert_eq!(Value::Object(extra), serde_json::json!({"other": {"a": [1]}, "b": null}));
    }

    #[test]
    fn what_a_record_tells_something_of_it_tells_completely_unless_it_says_otherwise() {
        for (json, complete) in [
            ("{}", vec![]),
            (r#"{"agent_output": "hi"}"#, vec![Channel::Messages]),
            (r#"{"tool_calls": [], "usage": {}}"#, vec![Channel::Actions, Channel::Usage]),
            (r#"{"events": [{"type": "thinking"}]}"#, vec![Channel::Thinking]),
            (r#"{"tool_calls": [], "complete_for": ["skills"]}"#, vec![Channel::Skills]),
        ] {
            let execution = Line::parse(json.as_bytes()).unwrap().execution();
            assert_eq!(execution.coverage, complete.into_iter().collect(), "{json}");
        }
    }

    #[test]
    fn events_tell_calls_words_tokens_and_cost() {
        let json = r#"{"events": [
            {"type": "action.called", "callId": "1", "name": "f", "input": {"a": 1}},
            {"type": "action.result", "callId": "1", "output": 2, "status": "completed"},
            {"type": "message", "role": "assistant", "text": "Done."},
            {"type": "usage", "inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "costUsd": 0.5}
        ]}"#;
        let execution = Line::parse(json.as_bytes()).unwrap().execution();
        assert_eq!(execution.output, "Done.");
        assert_eq!(execution.tool_calls[0].response, Some(Value::from(2)));
        assert_eq!((execution.usage.total_tokens, execution.cost_usd), (7, Some(0.5)));
        assert_eq!(execution.events().len(), 4);
    }
}
