//! Error messages about text that is not a valid record.

use kindlm_types::{Problem, duplicate_key_pointer};

use crate::failure;

pub(super) const NO_OBJECT: &str =
    "not a JSON object: a record is an object with `agent_output` and `expect`";

pub(super) const TWICE: &str = "is a duplicate key";

/// Returns an error message if an object in the record has a duplicate key; otherwise `None`.
pub(super) fn find_duplicate_key(text: &str) -> Option<String> {
    let place = duplicate_key_pointer(text)?;
    Some(failure::duplicate_key_message(&place))
}

/// Returns the error message for a transcript: location, problem and help.
pub(super) fn unreadable(problem: &Problem) -> String {
    let place = if problem.pointer.is_empty() { "" } else { ": " };
    let help = problem.help.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("{NO_TRANSCRIPT}{}{place}{}{help}", problem.pointer, problem.message)
}

/// The start of an error message about a transcript.
const NO_TRANSCRIPT: &str = "cannot be read: ";

/// Returns the error message for a text that is not a record. Either the value of a key or the JSON is invalid.
pub(super) fn explain(text: &str, at: Option<&str>, err: &serde_json::Error) -> String {
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
        // The error of the deserializer does not name the duplicate key, so search for it.
        Some(key) => find_duplicate_key(text)
            .unwrap_or_else(|| format!("`{key}` is not {} (at {place})", expected(key))),
        None => {
            let several = words.starts_with("trailing characters") && text.contains('\n');
            let help = if several { "; pass `--jsonl` for one record on each line" } else { "" };
            format!("not JSON: {} at {place}{help}", in_words(words))
        }
    }
}

/// Describes the expected value of a key.
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
        "latency_ms" | "first_token_ms" | "cost_usd" | "threshold" => "a number",
        "log_probs" => "a list of numbers",
        "metadata" => "an object",
        "trace" => "a trace: an object whose `spans` have a `spanId`, a `name` and a `startTime`",
        "workspace" => "an object: `changes`, `files`, `commands` and `tests` of an agent's folder",
        "tools" => "a list of tools, each an object with a `name` and `parameters`",
        _ => "a JSON value",
    }
}

/// Rewords an error message of the JSON parser for people who write JSON. Unknown messages stay unchanged.
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
        ("invalid number", "a number that is not valid JSON"),
    ] {
        if said.starts_with(begin) {
            return meaning;
        }
    }
    said
}
