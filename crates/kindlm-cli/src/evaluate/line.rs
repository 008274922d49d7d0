//! Reads a record without copying more of it than is needed.

use std::borrow::Cow;

use kindlm_types::wire::evaluate::{Record, RecordedToolCall, RecordedUsage};
use kindlm_types::{Execution, Message, Role, ToolCall, ecma};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

const NO_OBJECT: &str = "not a JSON object: a record is an object with `agent_output` and `expect`";

/// The fields of [`Record`], with what is only looked up in a cache left as text.
#[derive(Default, Deserialize)]
#[serde(default, bound = "'de: 'a")]
pub(super) struct Line<'a> {
    #[serde(deserialize_with = "present")]
    pub(super) id: Option<Value>,
    #[serde(deserialize_with = "present")]
    agent_input: Option<Value>,
    #[serde(deserialize_with = "present")]
    agent_output: Option<Value>,
    #[serde(borrow)]
    pub(super) assertions: Option<&'a RawValue>,
    tool_calls: Option<Vec<RecordedToolCall>>,
    #[serde(borrow)]
    pub(super) baseline: Option<Cow<'a, str>>,
    vars: Option<Map<String, Value>>,
    usage: Option<RecordedUsage>,
    latency_ms: Option<f64>,
    cost_usd: Option<f64>,
    #[serde(borrow)]
    pub(super) expect: Option<&'a RawValue>,
    pub(super) threshold: Option<f64>,
}

/// `null` is an output like any other.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl<'a> Line<'a> {
    pub(super) fn parse(json: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(json).map_err(|err| {
            format!("not UTF-8 text: invalid byte at offset {}", err.valid_up_to())
        })?;
        let line: Self = serde_json::from_str(text).map_err(|err| explain(text, &err))?;
        // Serde reads a list into the fields in their order; nobody means that.
        if !text.trim_start().starts_with('{') {
            return Err(NO_OBJECT.to_owned());
        }
        for (name, number) in [("latency_ms", line.latency_ms), ("cost_usd", line.cost_usd)] {
            if number.is_some_and(|it| it < 0.0) {
                return Err(format!("`{name}` is negative"));
            }
        }
        if line.threshold.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
            return Err("`threshold` is not between 0 and 1".to_owned());
        }
        Ok(line)
    }

    /// The evidence that the record is.
    pub(super) fn execution(&mut self) -> Execution {
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
        let tool_calls = self.tool_calls.take().unwrap_or_default();
        Execution {
            input,
            output,
            output_json,
            tool_calls: tool_calls.into_iter().map(ToolCall::from).collect(),
            usage: self.usage.map(Into::into).unwrap_or_default(),
            latency_ms: self.latency_ms,
            cost_usd: self.cost_usd,
            vars: self.vars.take().unwrap_or_default(),
            ..Execution::default()
        }
    }
}

/// The keys of a record that are not ours.
pub(super) fn extra(json: &[u8]) -> Result<Map<String, Value>, String> {
    serde_json::from_slice::<Record>(json).map(|it| it.extra).map_err(|err| err.to_string())
}

/// What is wrong with a text that should be a record. Its place within the line is the column.
fn explain(text: &str, err: &serde_json::Error) -> String {
    let said = err.to_string();
    let words = said.split(" at line ").next().unwrap_or(&said);
    let place = if text.contains('\n') {
        format!("line {}, column {}", err.line(), err.column())
    } else {
        format!("column {}", err.column())
    };
    if err.is_data() && !text.trim_start().starts_with('{') {
        return NO_OBJECT.to_owned();
    }
    if err.is_data() {
        return format!("not a record: {words} at {place}");
    }
    let several = words.starts_with("trailing characters") && text.contains('\n');
    let help = if several { "; one record on each line? then say `--jsonl`" } else { "" };
    format!("not JSON: {words} at {place}{help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong_with_a_record() {
        for (json, message) in [
            ("{", "not JSON: EOF while parsing an object at column 1"),
            ("", "not JSON: EOF while parsing a value at column 0"),
            ("[]", NO_OBJECT),
            ("[1]", NO_OBJECT),
            ("3", NO_OBJECT),
            (
                r#"{"latency_ms": "fast"}"#,
                "not a record: invalid type: string \"fast\", expected f64 at column 21",
            ),
            (r#"{"latency_ms": -1}"#, "`latency_ms` is negative"),
            (r#"{"threshold": 1.5}"#, "`threshold` is not between 0 and 1"),
            (
                "{}\n{}",
                "not JSON: trailing characters at line 2, column 1; one record on each line? then say `--jsonl`",
            ),
            (r#"{"tool_calls": [{}]}"#, "not a record: missing field `name` at column 18"),
        ] {
            assert_eq!(Line::parse(json.as_bytes()).err().as_deref(), Some(message), "{json}");
        }
        let err = Line::parse(b"{\"id\": \"\xff\"}").err().unwrap();
        assert_eq!(err, "not UTF-8 text: invalid byte at offset 8");
    }

    #[test]
    fn an_output_may_be_any_json() {
        for (json, output, output_json) in [
            (r#"{"agent_output": "a"}"#, "a", None),
            (r#"{"agent_output": {"a": 1.0}}"#, r#"{"a":1}"#, Some(serde_json::json!({"a": 1.0}))),
            (r#"{"agent_output": null}"#, "null", Some(Value::Null)),
            ("{}", "", None),
            (r#"{"tool_calls": null, "vars": null, "expect": null, "results": [1]}"#, "", None),
        ] {
            let execution = Line::parse(json.as_bytes()).unwrap().execution();
            assert_eq!((execution.output.as_str(), execution.output_json), (output, output_json));
        }
    }

    #[test]
    fn other_keys_are_found_again() {
        let extra =
            extra(br#"{"id": 1, "agent_output": "", "trace": {"a": [1]}, "b": null}"#).unwrap();
        assert_eq!(Value::Object(extra), serde_json::json!({"trace": {"a": [1]}, "b": null}));
    }
}
