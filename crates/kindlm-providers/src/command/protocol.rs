//! The protocol that programs speak on stdout.
//!
//! A line whose first characters are `{"kindlm":` declares something: a `tool_call`, an `output_json`, an `event`, or
//! what it tells completely (`evidence`). Every other line is text, and so is a line that only looks like protocol; but
//! an event that cannot be read is an error, since evidence must not be lost silently.

use std::collections::{BTreeSet, HashMap, HashSet};

use kindlm_types::{Channel, Coverage, Event, Speaker, ToolCall};
use serde_json::{Map, Value, json};

/// What a program wrote to stdout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProtocolOutput {
    /// Everything that is not protocol, without white space around it.
    pub text: String,
    /// The tool calls it declared.
    pub tool_calls: Vec<ToolCall>,
    /// The last `output_json` it declared.
    pub output_json: Option<Value>,
    /// What happened, in order, if it told any event; its `tool_call` lines are among them.
    pub events: Vec<Event>,
    /// For which kinds of evidence it tells everything: those it told something of, and those it named.
    pub coverage: Coverage,
    /// Events and statements of completeness that cannot be read, each with its line and the reason.
    pub unreadable: Vec<String>,
}

/// Splits stdout into text and protocol lines.
///
/// ```
/// use kindlm_providers::command::protocol::parse;
///
/// let output = parse("Looking it up.\n{\"kindlm\":\"tool_call\",\"name\":\"lookup\",\"arguments\":{\"id\":7}}\n");
/// assert_eq!(output.text, "Looking it up.");
/// assert_eq!(output.tool_calls[0].arguments["id"], 7);
/// ```
pub fn parse(stdout: &str) -> ProtocolOutput {
    let mut output = ProtocolOutput::default();
    let mut text = Vec::new();
    let mut unnamed = 0;
    let mut events = Vec::new();
    let mut complete = BTreeSet::new();
    let mut tells_events = false;
    for (index, line) in stdout.split('\n').enumerate() {
        match Declaration::read(line) {
            Some(Declaration::ToolCall(mut call)) => {
                let id = call.take_id().unwrap_or_else(|| {
                    unnamed += 1;
                    format!("cmd_tc_{}", unnamed - 1)
                });
                let call = call.with_id(id);
                events.extend(Event::of_call(&call));
                output.tool_calls.push(call);
            }
            Some(Declaration::OutputJson(data)) => output.output_json = data,
            Some(Declaration::Event(event)) => {
                tells_events = true;
                events.push(event);
            }
            Some(Declaration::Evidence(channels)) => complete.extend(channels),
            Some(Declaration::Unreadable(why)) => {
                output.unreadable.push(format!("line {} of stdout: {why}", index + 1));
            }
            None => text.push(line),
        }
    }
    text.join("\n").trim().clone_into(&mut output.text);
    complete.extend(events.iter().map(Event::channel));
    if tells_events {
        let last = Event::last_words(&events);
        match (last, output.text.is_empty()) {
            (Some(words), true) => words.clone_into(&mut output.text),
            // The text around the protocol is the answer of a program that tells no message of its own.
            (None, false) => {
                let text = output.text.clone();
                events.push(Event::Message { role: Speaker::Assistant, text });
            }
            _ => {}
        }
        // Calls that were declared alone keep what only they know: arguments that are not JSON.
        output.tool_calls = calls(output.tool_calls, &events);
        output.events = events;
    }
    // What is on stdout is all that it said.
    complete.insert(Channel::Messages);
    output.coverage = Coverage::Only(complete);
    output
}

/// The calls that were declared and those that only events tell, in the order of the events.
pub(crate) fn calls(declared: Vec<ToolCall>, events: &[Event]) -> Vec<ToolCall> {
    let mut calls = declared;
    let known: HashSet<String> = calls.iter().map(|it| it.id.clone()).collect();
    calls.extend(Event::tool_calls(events).into_iter().filter(|it| !known.contains(&it.id)));
    let mut order: HashMap<&str, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        if let Event::ActionCalled { call_id, .. } = event {
            order.entry(call_id).or_insert(at);
        }
    }
    calls.sort_by_key(|it| order.get(it.id.as_str()).copied());
    calls
}

/// What a line of the protocol declares.
pub(crate) enum Declaration {
    ToolCall(DeclaredCall),
    OutputJson(Option<Value>),
    Event(Event),
    Evidence(Vec<Channel>),
    Unreadable(String),
}

/// A call of a tool, which may be without an id.
pub(crate) struct DeclaredCall {
    id: Option<String>,
    name: String,
    arguments: Value,
    malformed_arguments: Option<String>,
}

impl Declaration {
    /// Reads a line; `None` if it is text.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let line = line.trim_start();
        // The space after the brace is what most JSON writers put there by themselves.
        line.strip_prefix('{')?.trim_start().strip_prefix("\"kindlm\":")?;
        let mut object: Map<String, Value> = serde_json::from_str(line).ok()?;
        let word = object.remove("kindlm")?;
        Self::of(word.as_str()?, object)
    }

    /// What a word declares with the other keys of its line, whatever their order; `None` if it is no declaration.
    pub(crate) fn of(word: &str, mut object: Map<String, Value>) -> Option<Self> {
        match word {
            "tool_call" => {
                let name = object.get("name")?.as_str()?.to_owned();
                let id = object.get("id").and_then(Value::as_str).map(str::to_owned);
                let (arguments, malformed_arguments) = arguments(object.remove("arguments"));
                Some(Self::ToolCall(DeclaredCall { id, name, arguments, malformed_arguments }))
            }
            "output_json" => Some(Self::OutputJson(object.remove("data"))),
            "event" => Some(match serde_json::from_value(Value::Object(object)) {
                Ok(event) => Self::Event(event),
                Err(err) => Self::Unreadable(format!(
                    "an event that cannot be read: {err}; the types are {}",
                    Event::TYPES.join(", ")
                )),
            }),
            "evidence" => {
                let complete = object.remove("complete").unwrap_or_default();
                Some(channels(complete).map_or_else(Self::Unreadable, Self::Evidence))
            }
            _ => None,
        }
    }
}

/// The kinds of evidence that a `complete` names.
pub(crate) fn channels(complete: Value) -> Result<Vec<Channel>, String> {
    if complete == "all" {
        return Ok(Channel::ALL.to_vec());
    }
    serde_json::from_value(complete).map_err(|_| {
        let all = Channel::ALL.map(Channel::as_str).join(", ");
        format!("`complete` is neither \"all\" nor a list of {all}")
    })
}

impl DeclaredCall {
    pub(crate) fn take_id(&mut self) -> Option<String> {
        self.id.take()
    }

    pub(crate) fn with_id(self, id: String) -> ToolCall {
        ToolCall {
            id,
            name: self.name,
            arguments: self.arguments,
            malformed_arguments: self.malformed_arguments,
            ..ToolCall::default()
        }
    }
}

/// Arguments are an object or a list. What is neither is kept beside empty ones, so that it is seen.
fn arguments(declared: Option<Value>) -> (Value, Option<String>) {
    match declared {
        Some(structured @ (Value::Object(_) | Value::Array(_))) => (structured, None),
        None | Some(Value::Null) => (json!({}), None),
        Some(Value::String(text)) => (json!({}), Some(text)),
        Some(other) => (json!({}), Some(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_as_text_what_only_looks_like_protocol() {
        for line in [
            r#"{"kindlm" :"tool_call","name":"f"}"#,
            r#"say {"kindlm":"tool_call","name":"f"}"#,
            r#"{"kindlm":"tool_call"}"#,
            r#"{"kindlm":"tool_call","name":"f"} x"#,
            r#"{"name":"f","kindlm":"tool_call"}"#,
            r#"{"kindlm":["tool_call"]}"#,
            r#"{"kindlm":"#,
        ] {
            let output = parse(line);
            assert_eq!((output.text.as_str(), output.tool_calls.len()), (line, 0));
        }
    }

    #[test]
    fn events_tell_calls_words_and_what_is_complete() {
        let stdout = [
            r#"{"kindlm":"event","type":"message","role":"assistant","text":"Looking."}"#,
            r#"{"kindlm":"event","type":"action.called","callId":"e1","name":"Read","input":{"path":"a"}}"#,
            r#"{"kindlm":"tool_call","name":"f","arguments":"{"}"#,
            r#"{"kindlm":"event","type":"action.result","callId":"e1","output":"text","status":"completed"}"#,
            r#"{"kindlm":"evidence","complete":["subagents"]}"#,
        ];
        let output = parse(&stdout.join("\n"));
        assert_eq!(output.text, "Looking.");
        let calls: Vec<_> = output
            .tool_calls
            .iter()
            .map(|it| (it.name.as_str(), it.response.clone(), it.malformed_arguments.as_deref()))
            .collect();
        assert_eq!(calls, [("Read", Some(json!("text")), None), ("f", None, Some("{"))]);
        let types: Vec<&str> = output.events.iter().map(Event::type_name).collect();
        assert_eq!(types, ["message", "action.called", "action.called", "action.result"]);
        let complete = [Channel::Messages, Channel::Actions, Channel::Subagents];
        assert_eq!(output.coverage, complete.into_iter().collect());
        assert_eq!(output.unreadable, Vec::<String>::new());
    }

    #[test]
    fn text_beside_events_is_the_last_message() {
        let output =
            parse("{\"kindlm\":\"event\",\"type\":\"thinking\",\"text\":\"Hm.\"}\nDone.\n");
        assert_eq!(output.text, "Done.");
        assert_eq!(Event::last_words(&output.events), Some("Done."));
        // Without events of its own nothing is recorded that the text does not say.
        let output = parse("Done.\n{\"kindlm\":\"tool_call\",\"name\":\"f\"}");
        assert_eq!(output.events, []);
        assert!(output.coverage.includes(Channel::Actions));
        assert!(!parse("Done.").coverage.includes(Channel::Actions));
        let all = parse(r#"{"kindlm":"evidence","complete":"all"}"#).coverage;
        assert!(Channel::ALL.into_iter().all(|it| all.includes(it)));
    }

    #[test]
    fn evidence_that_cannot_be_read_is_not_lost_silently() {
        for (line, why) in [
            (
                r#"{"kindlm":"event","type":"action.call","name":"f"}"#,
                "unknown variant `action.call`",
            ),
            (r#"{"kindlm":"event","type":"action.called","callId":"1"}"#, "missing field `name`"),
            (r#"{"kindlm":"event"}"#, "missing field `type`"),
            (
                r#"{"kindlm":"evidence","complete":["tools"]}"#,
                "neither \"all\" nor a list of messages",
            ),
            (r#"{"kindlm":"evidence"}"#, "neither \"all\""),
        ] {
            let output = parse(&format!("hello\n{line}"));
            assert_eq!(output.text, "hello");
            assert_eq!(output.unreadable.len(), 1, "{line}");
            assert!(
                output.unreadable[0].starts_with("line 2 of stdout: "),
                "{:?}",
                output.unreadable
            );
            assert!(output.unreadable[0].contains(why), "{:?}", output.unreadable);
        }
    }

    #[test]
    fn the_last_output_json_counts() {
        let line = |data: &str| format!("{{\"kindlm\":\"output_json\"{data}}}");
        for (stdout, expected) in [
            (format!("{}\n{}", line(",\"data\":1"), line(",\"data\":2")), Some(json!(2))),
            (line(",\"data\":null"), Some(Value::Null)),
            (line(""), None),
        ] {
            assert_eq!(parse(&stdout).output_json, expected, "{stdout}");
        }
    }

    proptest! {
        #[test]
        fn text_without_protocol_comes_back(text in "[^{]{0,80}") {
            let output = parse(&text);
            prop_assert_eq!(output.text.as_str(), text.trim());
            prop_assert!(output.tool_calls.is_empty());
        }

        /// Calls and text may be mixed in any way; neither disturbs the other.
        #[test]
        fn calls_and_text_are_told_apart(lines in proptest::collection::vec(proptest::option::of("[a-z]{1,8}"), 0..12)) {
            let stdout: Vec<String> = lines
                .iter()
                .map(|line| line.clone().unwrap_or_else(|| r#"{"kindlm":"tool_call","name":"f"}"#.to_owned()))
                .collect();
            let output = parse(&stdout.join("\n"));
            let text: Vec<&str> = lines.iter().flatten().map(String::as_str).collect();
            prop_assert_eq!(output.text, text.join("\n"));
            let ids: Vec<String> = output.tool_calls.into_iter().map(|it| it.id).collect();
            let calls = lines.iter().filter(|it| it.is_none()).count();
            prop_assert_eq!(ids, (0..calls).map(|it| format!("cmd_tc_{it}")).collect::<Vec<_>>());
        }
    }
}
