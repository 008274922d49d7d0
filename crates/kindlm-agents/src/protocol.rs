//! The protocol of programs on stdout.
//!
//! A line that begins with `{"kindlm":` is a declaration: a `tool_call`, an `output_json`, an `event`, or the complete
//! kinds of evidence (`evidence`). Every other line is text. Evidence must not be lost silently, so two rules apply to
//! `event` and `evidence` lines: the key `kindlm` may stand anywhere in the line, and an unreadable line is an error.

use std::collections::{BTreeSet, HashMap, HashSet};

use kindlm_types::{Channel, Coverage, Event, Speaker, ToolCall, duplicate_key};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The parsed stdout of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProtocolOutput {
    /// The text outside of the protocol, without surrounding white space. If there is no such text, this is the last
    /// message of the events.
    pub text: String,
    /// The declared tool calls, and the calls of declared events.
    pub tool_calls: Vec<ToolCall>,
    /// The last declared `output_json`; `None` without such a line.
    pub output_json: Option<Value>,
    /// The events in order, including the events of `tool_call` lines. Empty if no event was declared.
    pub events: Vec<Event>,
    /// The complete kinds of evidence. Without a declaration, these are the kinds with any evidence. Messages are
    /// always complete, unless an unreadable line resembles the protocol.
    pub coverage: Coverage,
    /// The unreadable declarations. Each text has the line number and the reason.
    pub unreadable: Vec<String>,
}

/// Splits stdout into text and protocol lines, and parses the protocol lines.
///
/// ```
/// use kindlm_agents::protocol::parse;
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
    let mut has_events = false;
    let mut text_ends = 0;
    let (mut declares_evidence, mut is_doubtful) = (false, false);
    for (index, line) in stdout.split('\n').enumerate() {
        match Declaration::parse_line(line) {
            Ok(Declaration::ToolCall(mut call)) => {
                let id = call.take_id().unwrap_or_else(|| {
                    unnamed += 1;
                    format!("cmd_tc_{}", unnamed - 1)
                });
                let call = call.with_id(id);
                events.extend(Event::of_call(&call));
                output.tool_calls.push(call);
            }
            Ok(Declaration::OutputJson(data)) => output.output_json = data,
            Ok(Declaration::Event(event)) => {
                has_events = true;
                events.push(event);
            }
            // The last declaration counts, because the program may discover later that its evidence is incomplete.
            Ok(Declaration::Evidence(channels)) => {
                declares_evidence = true;
                complete = channels.into_iter().collect();
            }
            Ok(Declaration::Unreadable(why)) => {
                output.unreadable.push(format!("line {} of stdout: {why}", index + 1));
            }
            Err(is_meant) => {
                is_doubtful |= is_meant;
                if !line.trim().is_empty() {
                    text_ends = events.len();
                }
                text.push(line);
            }
        }
    }
    text.join("\n").trim().clone_into(&mut output.text);
    if !declares_evidence {
        // Without a declaration, a kind of evidence is complete if any evidence of this kind was reported.
        complete.extend(events.iter().map(Event::channel));
    }
    if has_events {
        let has_text = |event: &Event| {
            matches!(event, Event::Message { role: Speaker::Assistant, text }
                if text.contains(output.text.as_str()))
        };
        if output.text.is_empty() {
            Event::last_words(&events).unwrap_or_default().clone_into(&mut output.text);
        } else if !events.iter().any(has_text) {
            // The text outside of the protocol is a message, too, unless a message event contains it.
            let text = output.text.clone();
            // The message takes the position of the last text line, so that later messages stay after it.
            events.insert(text_ends, Event::Message { role: Speaker::Assistant, text });
        }
        // Separately declared calls are kept, because events cannot represent arguments that are not JSON.
        output.tool_calls = calls(output.tool_calls, &events);
        output.events = events;
    }
    // Stdout holds all messages of a program.
    complete.insert(Channel::Messages);
    output.coverage = Coverage::Only(complete);
    if is_doubtful {
        // An unreadable line that resembles the protocol may have held evidence of any kind.
        output.coverage = output.coverage.losing(Channel::ALL);
    }
    output
}

/// Returns the declared calls and the calls of events, in the order of the events. A call in both sources is returned
/// once, as declared.
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

/// The declaration in a protocol line.
pub(crate) enum Declaration {
    ToolCall(DeclaredCall),
    OutputJson(Option<Value>),
    Event(Event),
    Evidence(Vec<Channel>),
    Unreadable(String),
}

/// A tool call, possibly without an id.
pub(crate) struct DeclaredCall {
    id: Option<String>,
    name: String,
    arguments: Value,
    malformed_arguments: Option<String>,
}

impl Declaration {
    /// Parses a line. Fails for a line that is text. The error is true if the text resembles a protocol line.
    pub(crate) fn parse_line(line: &str) -> Result<Self, bool> {
        let line = line.trim_start();
        let has_key = has_key(line);
        // The key may also be written with JSON escapes.
        if !line.starts_with('{') || !(has_key || line.contains("\\u")) {
            return Err(has_key);
        }
        let mut map: Map<String, Value> = match serde_json::from_str(line) {
            Ok(map) => map,
            Err(err) => return unreadable_evidence(line, &err).ok_or(has_key),
        };
        let Some(word) = map.remove("kindlm") else { return Err(has_key) };
        let word = word.as_str().ok_or(true)?;
        if let Some(key) = duplicate_key(line) {
            // A duplicate key is ambiguous, and one of the values would be lost.
            return Ok(Self::Unreadable(format!("`{word}` has a duplicate key `{key}`")));
        }
        // White space after the brace is allowed.
        let is_usual = line
            .strip_prefix('{')
            .is_some_and(|it| it.trim_start().strip_prefix("\"kindlm\":").is_some());
        // For compatibility, a `tool_call` or `output_json` is text unless `kindlm` is the first key. Events and
        // evidence must not be lost, so the key may stand anywhere.
        let is_meant = is_usual || EVIDENCE.contains(&word);
        Some(word).filter(|_| is_meant).and_then(|word| Self::from_keyword(word, map)).ok_or(true)
    }

    /// Returns the declaration of a keyword and the other keys of its line. Returns `None` if they do not form a
    /// declaration.
    pub(crate) fn from_keyword(word: &str, mut object: Map<String, Value>) -> Option<Self> {
        match word {
            "tool_call" => {
                let name = object.get("name")?.as_str()?.to_owned();
                let id = object.get("id").and_then(Value::as_str).map(str::to_owned);
                let (arguments, malformed_arguments) = arguments(object.remove("arguments"));
                Some(Self::ToolCall(DeclaredCall { id, name, arguments, malformed_arguments }))
            }
            "output_json" => Some(Self::OutputJson(object.remove("data"))),
            "event" => {
                Some(match (not_a_key(&object), Event::deserialize(Value::Object(object))) {
                    (Some(key), _) => Self::Unreadable(format!(
                        "an event has no key `{key}`: its `status` is `completed`, `failed` or `rejected`"
                    )),
                    (None, Ok(event)) => match event.problem() {
                        Some(why) => Self::Unreadable(format!("an invalid event: {why}")),
                        None => Self::Event(event),
                    },
                    (None, Err(err)) => Self::Unreadable(format!(
                        "an event that cannot be read: {err}; the types are {}",
                        Event::TYPES.join(", ")
                    )),
                })
            }
            "evidence" => {
                let complete = object.remove("complete").unwrap_or_default();
                Some(channels(complete).map_or_else(Self::Unreadable, Self::Evidence))
            }
            word if Event::TYPES.contains(&word) => Some(Self::Unreadable(format!(
                "`{word}` is the type of an event, which is written {{\"kindlm\":\"event\",\"type\":\"{word}\",…}}"
            ))),
            _ => None,
        }
    }
}

/// Returns the key `isError` or `is_error`, with which other formats mark a failed call. An event must use `status`
/// instead. Returns `None` if the event has neither key.
fn not_a_key(event: &Map<String, Value>) -> Option<&'static str> {
    ["isError", "is_error"].into_iter().find(|it| event.contains_key(*it))
}

/// The keywords of the declarations that are evidence.
const EVIDENCE: [&str; 2] = ["event", "evidence"];

/// Returns true if a line contains the protocol key. A colon must follow the key, unless the line ends with the key.
fn has_key(line: &str) -> bool {
    line.match_indices(KEY).any(|(at, _)| {
        let rest = line[at + KEY.len()..].trim_start();
        rest.is_empty() || rest.starts_with(':')
    })
}

const KEY: &str = "\"kindlm\"";

/// Returns the error for a line with invalid JSON that was meant as evidence. Returns `None` for any other line.
fn unreadable_evidence(line: &str, err: &serde_json::Error) -> Option<Declaration> {
    let (_, rest) = line.split_once(KEY)?;
    let word = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let word = EVIDENCE.iter().find(|it| word.starts_with(&format!("{it}\"")))?;
    Some(Declaration::Unreadable(format!("an `{word}` that is not JSON: {err}")))
}

/// Parses the kinds of evidence in `complete`: a list, or `"all"`. Fails for any other value.
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

/// Returns arguments: an object or a list. A missing value or `null` becomes empty arguments. Any other value is
/// returned as malformed text, together with empty arguments.
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
    fn text_similar_to_protocol_lines_stays_text() {
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
            let all = parse(&format!("{{\"kindlm\":\"evidence\",\"complete\":\"all\"}}\n{line}"));
            assert_eq!(all.coverage, Coverage::default().losing(Channel::ALL), "{line}");
        }
    }

    #[test]
    fn an_event_that_is_written_as_a_declaration_is_an_error() {
        for (line, is_error) in [
            (r#"{"kindlm":"usage","usage":{"inputTokens":5},"costUsd":0.5}"#, true),
            (r#"{"kindlm":"action.called","callId":"c","name":"pay"}"#, true),
            (r#"{"kindlm":"mystery"}"#, false),
        ] {
            let output = parse(line);
            assert_eq!(output.unreadable.len(), usize::from(is_error), "{line}");
            assert_eq!(output.text.is_empty(), is_error, "{line}");
        }
        let why = &parse(r#"{"kindlm":"usage"}"#).unreadable[0];
        assert!(why.contains(r#"{"kindlm":"event","type":"usage",…}"#), "{why}");
    }

    #[test]
    fn events_record_calls_messages_and_completeness() {
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
        // The program declares that its calls are incomplete.
        let complete = [Channel::Messages, Channel::Subagents];
        assert_eq!(output.coverage, complete.into_iter().collect());
        assert_eq!(output.unreadable, Vec::<String>::new());
    }

    #[test]
    fn the_last_declaration_of_completeness_counts() {
        let line = |complete: &str| format!(r#"{{"kindlm":"evidence","complete":{complete}}}"#);
        let output = parse(&[line("\"all\""), line(r#"["subagents"]"#)].join("\n"));
        let complete = [Channel::Messages, Channel::Subagents];
        assert_eq!(output.coverage, complete.into_iter().collect());
    }

    #[test]
    fn text_beside_events_is_the_last_message() {
        let output =
            parse("{\"kindlm\":\"event\",\"type\":\"thinking\",\"text\":\"Hm.\"}\nDone.\n");
        assert_eq!(output.text, "Done.");
        assert_eq!(Event::last_words(&output.events), Some("Done."));
        // Text is also added beside messages, unless a message contains it.
        let message =
            r#"{"kindlm":"event","type":"message","role":"assistant","text":"I am done."}"#;
        for (text, count) in [("You fool.", 2), ("done", 1), ("", 1)] {
            let output = parse(&format!("{message}\n{text}\n"));
            assert_eq!(output.events.len(), count, "{text}");
        }
        // A `tool_call` line without other declarations creates no events.
        let output = parse("Done.\n{\"kindlm\":\"tool_call\",\"name\":\"f\"}");
        assert_eq!(output.events, []);
        assert!(output.coverage.includes(Channel::Actions));
        assert!(!parse("Done.").coverage.includes(Channel::Actions));
        let all = parse(r#"{"kindlm":"evidence","complete":"all"}"#).coverage;
        assert!(Channel::ALL.into_iter().all(|it| all.includes(it)));
    }

    #[test]
    fn evidence_lines_accept_other_spellings() {
        for line in [
            r#"{"kindlm" : "event", "type": "compaction"}"#,
            r#"{"type":"compaction","kindlm":"event"}"#,
            r#"{"\u006bindlm":"event","type":"compaction"}"#,
        ] {
            let output = parse(line);
            assert_eq!((output.text.as_str(), output.unreadable.len()), ("", 0), "{line}");
            assert_eq!(output.events.len(), 1, "{line}");
        }
        // A line with `kindlm` as a value, not as a key, is text.
        let output = parse("{\"kindlm\":\"evidence\",\"complete\":\"all\"}\n{\"tool\":\"kindlm\"}");
        assert!(output.coverage.includes(Channel::Actions));
    }

    #[test]
    fn earlier_messages_do_not_answer_a_question() {
        let question = r#"{"kindlm":"event","type":"input.requested","prompt":"Go on?"}"#;
        for (stdout, parked) in
            [(format!("Working.\n{question}\n\n"), true), (format!("{question}\nDone.\n"), false)]
        {
            let output = parse(&stdout);
            assert_eq!(kindlm_types::Facts::from_events(&output.events).parked, parked, "{stdout}");
        }
    }

    #[test]
    fn unreadable_evidence_is_reported() {
        for (line, why) in [
            (
                r#"{"kindlm":"event","type":"action.call","name":"f"}"#,
                "unknown variant `action.call`",
            ),
            (r#"{"kindlm":"event","type":"action.called","callId":"1"}"#, "missing field `name`"),
            (r#"{"kindlm":"event"}"#, "missing field `type`"),
            (
                r#"{"kindlm":"event","type":"action.result","callId":"1","status":"completed","isError":true}"#,
                "an event has no key `isError`",
            ),
            (r#"{"kindlm":"event","type":"usage","costUsd":-5}"#, "`costUsd` is negative: -5"),
            (
                r#"{"kindlm":"evidence","complete":["tools"]}"#,
                "neither \"all\" nor a list of messages",
            ),
            (r#"{"kindlm":"evidence"}"#, "neither \"all\""),
            (
                r#"{"kindlm":"event","type":"error","message":"x"#,
                "an `event` that is not JSON: EOF",
            ),
            (r#"{"kindlm" : "event","type":"erro"}"#, "unknown variant `erro`"),
            (
                r#"{"kindlm":"event","type":"thinking","text":"a"}{"kindlm":"event","type":"compaction"}"#,
                "an `event` that is not JSON: trailing characters",
            ),
            (r#"{"kindlm":"evidence","complete":["#, "an `evidence` that is not JSON"),
            (
                r#"{"kindlm":"event","type":"thinking","text":"a","text":"b"}"#,
                "`event` has a duplicate key `text`",
            ),
            (
                r#"{"kindlm":"tool_call","name":"f","name":"g"}"#,
                "`tool_call` has a duplicate key `name`",
            ),
            (
                r#"{"kindlm":"tool_call","name":"f","arguments":{"to":["a",{"b":1,"b":2}]}}"#,
                "`tool_call` has a duplicate key `b`",
            ),
            (
                r#"{"\u006bindlm":"event","type":"thinking","text":"a","text":"b"}"#,
                "`event` has a duplicate key `text`",
            ),
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
        fn text_without_protocol_is_returned(text in "[^{]{0,80}") {
            let output = parse(&text);
            prop_assert_eq!(output.text.as_str(), text.trim());
            prop_assert!(output.tool_calls.is_empty());
        }

        /// Calls and text in any mixture are read independently.
        #[test]
        fn calls_and_text_are_distinguished(lines in proptest::collection::vec(proptest::option::of("[a-z]{1,8}"), 0..12)) {
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
