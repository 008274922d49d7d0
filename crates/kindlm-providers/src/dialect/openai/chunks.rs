//! Streamed answers of the chat dialect. Each chunk adds to the answer so far.

use serde_json::{Map, Value, json};

use crate::dialect::answer::non_empty;
use crate::dialect::part::Malformed;
use crate::dialect::stream::{Assembler, DONE, Progress, append, is_part};

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// The keys of the answer except `choices`.
    answer: Map<String, Value>,
    /// The first choice; `Null` before its first chunk.
    choice: Value,
    /// True if a text has no log probabilities.
    lacks_log_probs: bool,
}

impl Assembler for Chunks {
    const END: &'static str = DONE;

    fn add(&mut self, mut event: Value) -> Result<Progress, Malformed> {
        if event["type"] == DONE {
            return self.end().map(Progress::End);
        }
        if event["object"] == "error" {
            return Ok(Progress::Failed(json!({"error": event})));
        }
        if is_part(&event["error"]) {
            return Ok(Progress::Failed(json!({"error": event["error"].take()})));
        }
        for key in ["model", "system_fingerprint", "prompt_filter_results", "usage"] {
            if is_part(&event[key]) {
                self.answer.insert(key.to_owned(), event[key].take());
            }
        }
        let mut has_part = false;
        for choice in event["choices"].as_array_mut().into_iter().flatten() {
            // Only one choice is requested.
            if choice["index"].as_u64().unwrap_or(0) == 0 {
                has_part |= self.add_choice(choice)?;
            }
        }
        Ok(if has_part { Progress::Part } else { Progress::Other })
    }
}

impl Chunks {
    /// Adds a chunk of the choice. Returns true if the chunk has a part of the answer. Fails if the chunk is malformed.
    fn add_choice(&mut self, chunk: &mut Value) -> Result<bool, Malformed> {
        if !chunk.is_object() {
            return Err(Malformed::not_a("an object", "a choice of the answer", chunk));
        }
        if self.choice.is_null() {
            self.choice = json!({"message": {"role": "assistant"}});
        }
        if is_part(&chunk["finish_reason"]) {
            self.choice["finish_reason"] = chunk["finish_reason"].take();
        }
        self.lacks_log_probs |=
            is_part(&chunk["delta"]["content"]) && !is_part(&chunk["logprobs"]["content"]);
        if is_part(&chunk["logprobs"]["content"]) {
            append(&mut self.choice["logprobs"]["content"], chunk["logprobs"]["content"].take());
        }
        let filters = chunk["content_filter_results"].take();
        for (category, result) in filters.as_object().into_iter().flatten() {
            // Each chunk has the content-filter results of its own text. A filtered category must stay filtered.
            let merged = &mut self.choice["content_filter_results"][category.as_str()];
            if merged["filtered"] != true {
                merged.clone_from(result);
            }
        }
        let delta = match chunk["delta"].take() {
            Value::Object(delta) => delta,
            Value::Null => return Ok(false),
            other => return Err(Malformed::not_a("an object", "a `delta` of the answer", &other)),
        };
        let mut has_part = false;
        for (key, piece) in delta {
            match key.as_str() {
                "role" => continue,
                "tool_calls" => add_calls(&mut self.choice["message"]["tool_calls"], &piece),
                "function_call" => {
                    add_function(&mut self.choice["message"]["function_call"], &piece);
                }
                _ => append(&mut self.choice["message"][key.as_str()], piece.clone()),
            }
            has_part |= is_part(&piece) && is_answer(&key);
        }
        Ok(has_part)
    }

    /// Returns the whole answer. Fails for an answer without a finish reason, because it may be cut.
    fn end(&mut self) -> Result<Value, Malformed> {
        let mut answer = std::mem::take(&mut self.answer);
        let mut choice = self.choice.take();
        if !choice.is_null() && choice["finish_reason"].is_null() {
            let why = "the stream of the answer ended without a `finish_reason`";
            return Err(Malformed::faulty(why));
        }
        if self.lacks_log_probs {
            choice["logprobs"] = Value::Null;
        }
        let choices = if choice.is_null() { json!([]) } else { json!([choice]) };
        answer.insert("choices".to_owned(), choices);
        Ok(Value::Object(answer))
    }
}

/// Returns true if this key of a `delta` holds a part of the answer. Other keys hold facts about the answer.
fn is_answer(key: &str) -> bool {
    matches!(key, "content" | "refusal" | "tool_calls" | "function_call")
        || key.starts_with("reasoning")
}

/// Adds pieces of tool calls.
///
/// A piece belongs to the last call with the same index and no different id. A piece without the id of this call may
/// still begin a new call; see [`begins_after`].
fn add_calls(calls: &mut Value, pieces: &Value) {
    let Value::Array(pieces) = pieces else {
        // The reader of the whole answer rejects a value that is not a list.
        return append(calls, pieces.clone());
    };
    if calls.is_null() && !pieces.is_empty() {
        *calls = json!([]);
    }
    let Some(calls) = calls.as_array_mut() else { return };
    for piece in pieces {
        let id = non_empty(&piece["id"]);
        let is_same = |call: &Value| {
            let own = non_empty(&call["id"]);
            let has_id = id.is_none() || own.is_none() || id == own;
            let is_repeated = id.is_some() && id == own;
            call.is_object()
                && call["index"] == piece["index"]
                && has_id
                && (is_repeated || !begins_after(call, piece))
        };
        match calls.iter_mut().rfind(|call| is_same(call)) {
            Some(call) => {
                if id.is_some() {
                    call["id"] = piece["id"].clone();
                }
                match &piece["function"] {
                    // Some servers put the name and the arguments next to the id, without `function`.
                    Value::Null => add_function(call, piece),
                    function => add_function(&mut call["function"], function),
                }
            }
            None => calls.push(piece.clone()),
        }
    }
}

/// Returns true if a piece does not belong to this call, but begins another call.
///
/// Some servers give no ids, and give all calls the same index or none. Other servers repeat the name in each piece of
/// a call.
fn begins_after(call: &Value, piece: &Value) -> bool {
    match (name_of(call), name_of(piece)) {
        (Some(own), Some(name)) => own != name || has_all_arguments(call),
        _ => false,
    }
}

/// Returns true if the arguments of a call so far are complete JSON.
fn has_all_arguments(call: &Value) -> bool {
    let function = if call["function"].is_null() { call } else { &call["function"] };
    match &function["arguments"] {
        Value::Null => false,
        Value::String(text) => serde_json::from_str::<Value>(text).is_ok(),
        _ => true,
    }
}

/// Returns the name in a piece of a call; `None` without a name.
fn name_of(piece: &Value) -> Option<&str> {
    non_empty(&piece["function"]["name"]).or_else(|| non_empty(&piece["name"]))
}

/// Adds a piece of a function: its name, and the next characters of its arguments.
fn add_function(function: &mut Value, piece: &Value) {
    if !function.is_object() {
        // The reader of the whole answer rejects a value that is not an object.
        if function.is_null() {
            function.clone_from(piece);
        }
        return;
    }
    if non_empty(&piece["name"]).is_some() {
        function["name"] = piece["name"].clone();
    }
    if is_part(&piece["arguments"]) {
        append(&mut function["arguments"], piece["arguments"].clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the whole answer of a stream with these choices.
    fn whole(choices: &[Value]) -> Value {
        let mut chunks = Chunks::default();
        for choice in choices {
            let added = chunks.add(json!({"choices": [choice]}));
            assert!(matches!(added, Ok(Progress::Part | Progress::Other)), "{choice}");
        }
        match chunks.add(json!({"type": DONE})) {
            Ok(Progress::End(whole)) => whole["choices"][0].clone(),
            _ => Value::Null,
        }
    }

    #[test]
    fn calls_are_put_together_by_index_and_id() {
        let piece = |piece: Value| json!({"delta": {"tool_calls": [piece]}});
        let call = |id: &str, name: &str, arguments: &str| json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}});
        let rest = |arguments: &str| json!({"index": 0, "function": {"arguments": arguments}});
        let bare = |name: &str, arguments: &str| json!({"function": {"name": name, "arguments": arguments}});
        let last = json!({"delta": {}, "finish_reason": "tool_calls"});
        for (pieces, expected) in [
            (vec![call("a", "f", ""), rest("{\"x\""), rest(":1}")], vec![("a", "f", "{\"x\":1}")]),
            // Some servers repeat the id and the name in each piece.
            (vec![call("a", "f", "{"), call("a", "f", "}")], vec![("a", "f", "{}")]),
            (vec![call("a", "f", "{\"x\""), call("", "f", ":1}")], vec![("a", "f", "{\"x\":1}")]),
            // Some servers give each call the index 0.
            (
                vec![call("a", "f", "{}"), call("b", "g", "{}")],
                vec![("a", "f", "{}"), ("b", "g", "{}")],
            ),
            (vec![call("a", "f", "{"), call("", "", "}")], vec![("a", "f", "{}")]),
            // Some servers give no ids.
            (
                vec![call("", "f", "{}"), call("", "g", "{"), rest("}")],
                vec![("", "f", "{}"), ("", "g", "{}")],
            ),
            (vec![bare("f", "{}"), bare("f", "{}")], vec![("", "f", "{}"), ("", "f", "{}")]),
            (vec![bare("f", ""), bare("g", "{}")], vec![("", "f", ""), ("", "g", "{}")]),
        ] {
            let mut choices: Vec<Value> = pieces.into_iter().map(piece).collect();
            choices.push(last.clone());
            let whole = whole(&choices);
            let calls = whole["message"]["tool_calls"].as_array().unwrap().iter();
            let function =
                |call: &Value, key: &str| call["function"][key].as_str().unwrap().to_owned();
            let calls: Vec<_> = calls
                .map(|it| {
                    (
                        it["id"].as_str().unwrap_or_default().to_owned(),
                        function(it, "name"),
                        function(it, "arguments"),
                    )
                })
                .collect();
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(id, name, arguments)| (id.to_owned(), name.to_owned(), arguments.to_owned()))
                .collect();
            assert_eq!(calls, expected);
        }
    }

    #[test]
    fn texts_and_lists_of_parts_are_joined() {
        let piece = |content: Value| json!({"delta": {"content": content}});
        let thought = json!([{"type": "thinking"}]);
        let last = json!({"finish_reason": "stop"});
        for (pieces, expected) in [
            (vec![json!(""), json!("Hel"), json!(null), json!("lo")], json!("Hello")),
            (vec![thought, json!("Hello")], json!([{"type": "thinking"}, "Hello"])),
        ] {
            let mut choices: Vec<Value> = pieces.into_iter().map(piece).collect();
            choices.push(last.clone());
            assert_eq!(whole(&choices)["message"]["content"], expected);
        }
    }

    #[test]
    fn only_parts_of_the_answer_are_its_first_token() {
        for (delta, expected) in [
            (json!({"role": "assistant", "content": ""}), false),
            (json!({"provider_specific_fields": {"citations": ["a"]}}), false),
            (json!({"content": "a"}), true),
            (json!({"refusal": "a"}), true),
            (json!({"reasoning_content": "a"}), true),
            (json!({"reasoning": "a"}), true),
            (json!({"tool_calls": [{"index": 0}]}), true),
            (json!({"function_call": {"name": "f"}}), true),
        ] {
            let added = Chunks::default().add(json!({"choices": [{"delta": delta}]}));
            assert_eq!(matches!(added, Ok(Progress::Part)), expected, "{delta}");
        }
    }

    #[test]
    fn filter_results_of_any_chunk_count() {
        let piece = |filtered: bool| json!({"delta": {"content": "a"}, "content_filter_results": {"hate": {"filtered": filtered}}});
        let last = json!({"finish_reason": "content_filter"});
        let whole = whole(&[piece(false), piece(true), piece(false), last]);
        assert_eq!(whole["content_filter_results"], json!({"hate": {"filtered": true}}));
    }

    #[test]
    fn log_probabilities_are_complete_or_absent() {
        let with = json!({"delta": {"content": "a"}, "logprobs": {"content": [{"logprob": -1}]}});
        let without = json!({"delta": {"content": "b"}, "logprobs": null});
        let last = json!({"finish_reason": "stop"});
        let all = whole(&[with.clone(), with.clone(), last.clone()]);
        assert_eq!(all["logprobs"]["content"], json!([{"logprob": -1}, {"logprob": -1}]));
        assert_eq!(whole(&[with, without, last])["logprobs"], Value::Null);
    }

    #[test]
    fn a_choice_without_finish_reason_is_not_whole() {
        let mut chunks = Chunks::default();
        assert!(chunks.add(json!({"choices": [{"delta": {"content": "a"}}]})).is_ok());
        assert!(chunks.add(json!({"type": DONE})).is_err());
    }
}
