//! Detects unknown keys of a record that resemble the keys of checks or actions. Such a key is an error. Otherwise, the
//! key would be ignored, and the record could pass.

use std::borrow::Cow;

use kindlm_assertions::Setup;
use serde_json::{Map, Value, json};

use super::line::Line;

/// Common dataset keys that resemble KindLM keys. They are ignored, unless their values are checks.
const KNOWN_ELSEWHERE: [&str; 2] = ["expected", "assertion"];

/// The common stems of keys that hold checks.
const STEMS: [&str; 4] = ["expect", "assert", "check", "rule"];

/// Returns the error message for the first unknown key that holds checks or actions; `None` without such a key. `meant`
/// returns the most similar known key.
pub(super) fn misplaced_check(
    line: &Line<'_>,
    json: &[u8],
    meant: impl Fn(&str) -> Option<&'static str>,
    setup: &Setup<'_>,
) -> Option<String> {
    let evidence_key = |key: &str| meant(key).filter(|it| EVIDENCE.contains(it));
    let is_one = |it: &&Cow<'_, str>| evidence_key(it).is_some() || is_suspect(it);
    let mut suspects = line.others.iter().filter(is_one).peekable();
    suspects.peek()?;
    let all: Map<String, Value> = serde_json::from_slice(json).ok()?;
    suspects.find_map(|key| {
        let value = all.get(key.as_ref())?;
        if let Some(meant) = evidence_key(key) {
            return is_evidence(meant, value)
                .then(|| format!("unknown key `{key}`: did you mean `{meant}`?"));
        }
        let near = meant(key).filter(|_| !KNOWN_ELSEWHERE.contains(&key.as_ref()));
        let meant = match near {
            Some("expect") if value.is_object() => "expect",
            Some("assertions") if value.is_array() => "assertions",
            _ => holds(value, line.vars(), setup)?,
        };
        Some(format!("unknown key `{key}`: did you mean `{meant}`?"))
    })
}

/// Keys for an agent's actions. If such a key is misspelled, the checks see no action.
const EVIDENCE: [&str; 3] = ["tool_calls", "events", "complete_for"];

/// True if a value has the form that `key`, one of [`EVIDENCE`], expects.
fn is_evidence(key: &str, value: &Value) -> bool {
    let is_part = |it: &Value| if key == "complete_for" { it.is_string() } else { it.is_object() };
    value.as_array().is_some_and(|it| !it.is_empty() && it.iter().all(is_part))
}

fn is_suspect(key: &str) -> bool {
    let key = key.to_lowercase();
    STEMS.iter().any(|it| key.contains(it)) || kindlm_types::nearest(&key, RULES).is_some()
}

/// The keys of a record that hold checks.
const RULES: [&str; 2] = ["expect", "assertions"];

/// Returns the key under which a value would be valid checks or rules.
///
/// Returns `None` for any other value.
fn holds(value: &Value, vars: &Map<String, Value>, setup: &Setup<'_>) -> Option<&'static str> {
    let rules =
        |rules: Value| json!({"assert": [{"type": "prompt-assertion", "assertions": rules}]});
    let readings = match value {
        Value::Object(_) => {
            vec![("expect", value.clone()), ("assertions", rules(json!([value])))]
        }
        Value::Array(_) => {
            vec![("assertions", rules(value.clone())), ("expect.assert", json!({"assert": value}))]
        }
        _ => Vec::new(),
    };
    let is_one = |block: &Value| !kindlm_assertions::compile_with(block, setup, vars).0.is_empty();
    readings.into_iter().find(|(_, block)| is_one(block)).map(|(meant, _)| meant)
}

#[cfg(test)]
mod tests {
    use super::super::line::KEYS;
    use super::*;

    #[test]
    fn checks_under_unknown_keys_are_errors() {
        let setup = Setup::new(&kindlm_types::NoFiles, None);
        for (json, expected) in [
            (r#"{"asertions": [{"id": "a"}]}"#, Some("assertions")),
            (r#"{"expekt": {}, "assertions": []}"#, Some("expect")),
            (r#"{"Expect": {}}"#, Some("expect")),
            (r#"{"expects": {"output": {"contains": ["x"]}}, "expect": {}}"#, Some("expect")),
            (r#"{"expected": {"output": {"contains": ["x"]}}}"#, Some("expect")),
            (r#"{"assertion": {"id": "a", "instruction": "x"}}"#, Some("assertions")),
            (r#"{"prompt_assertions": [{"id": "a", "instruction": "x"}]}"#, Some("assertions")),
            (r#"{"assert": [{"type": "contains", "value": "x"}]}"#, Some("expect.assert")),
            (r#"{"checks": [{"type": "contains", "value": "x"}]}"#, Some("expect.assert")),
            (r#"{"rules": [{"id": "a", "instruction": "x"}], "expect": {}}"#, Some("assertions")),
            // In datasets, the keys `checks`, `rules` and `expected` often hold other data.
            (r#"{"checks": ["passed"], "rules": {"max": 3}, "checksum": "x"}"#, None),
            (r#"{"expected": {"a": 1}}"#, None),
            (r#"{"expected": {"output": "Paris"}}"#, None),
            (
                r#"{"expected": ["Paris"], "assertion": "x", "expected_events": [{"type": "message"}]}"#,
                None,
            ),
            (r#"{"expekt": "a text"}"#, None),
            (r#"{"tool_call": []}"#, None),
            (r#"{"toolCalls": [{"name": "pay"}]}"#, Some("tool_calls")),
            (r#"{"event": [{"type": "compaction"}], "tool_calls": []}"#, Some("events")),
            (r#"{"completeFor": ["actions"]}"#, Some("complete_for")),
            (r#"{"tools_called": ["pay"], "event": "sold", "tool_call": {"name": "pay"}}"#, None),
            (r#"{"origin": {}}"#, None),
        ] {
            let line = Line::parse(json.as_bytes()).unwrap();
            let meant = |key: &str| kindlm_types::nearest(key, KEYS);
            let said = misplaced_check(&line, json.as_bytes(), meant, &setup);
            let expected = expected.map(|it| format!("did you mean `{it}`?"));
            assert_eq!(said.is_some(), expected.is_some(), "{json}: {said:?}");
            assert!(expected.is_none_or(|it| said.unwrap_or_default().ends_with(&it)), "{json}");
        }
    }
}
