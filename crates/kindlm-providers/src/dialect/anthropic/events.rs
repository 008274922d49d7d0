//! Streamed answers of Anthropic: events about the message and its content blocks.

use serde_json::{Value, json};

use crate::dialect::part::{self, Malformed};
use crate::dialect::stream::{Assembler, Progress, append, is_part};

/// The message so far.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The message without its content; `Null` before it starts.
    message: Value,
    /// The content blocks. The text is the JSON of the block's tool input so far.
    blocks: Vec<(Value, String)>,
}

impl Assembler for Events {
    const END: &'static str = "message_stop";

    fn add(&mut self, mut event: Value) -> Result<Progress, Malformed> {
        let kind = event["type"].take();
        match kind.as_str() {
            Some("message_start") if event["message"].is_object() => {
                self.message = event["message"].take();
            }
            Some("content_block_start") => return self.begin(&mut event),
            Some("content_block_delta") => return self.extend(&event),
            Some("message_delta") if self.message.is_object() => {
                if is_part(&event["delta"]["stop_reason"]) {
                    self.message["stop_reason"] = event["delta"]["stop_reason"].take();
                }
                if event["usage"].is_object() && self.message["usage"].is_null() {
                    self.message["usage"] = json!({});
                }
                // The token counts of this event are totals of the whole message so far.
                let counts = event["usage"].as_object().into_iter().flatten();
                for (key, count) in counts.filter(|(_, count)| !count.is_null()) {
                    if let Some(usage) = self.message["usage"].as_object_mut() {
                        usage.insert(key.clone(), count.clone());
                    }
                }
            }
            Some("message_stop") => return self.end().map(Progress::End),
            Some("error") => return Ok(Progress::Failed(json!({"error": event["error"].take()}))),
            // Anthropic adds new events to the API without a new version.
            Some(_) => {}
            None => return Err(Malformed::not_a("a text", "the `type` of an event", &kind)),
        }
        Ok(Progress::Other)
    }
}

impl Events {
    fn begin(&mut self, event: &mut Value) -> Result<Progress, Malformed> {
        if event["index"].as_u64() != u64::try_from(self.blocks.len()).ok() {
            return Err(Malformed::faulty("a content block of the answer is missing"));
        }
        let block = event["content_block"].take();
        if !block.is_object() {
            return Err(Malformed::not_a("an object", "a block of the answer", &block));
        }
        let is_call = block["type"].as_str().is_some_and(|it| it.ends_with("tool_use"));
        let has_part = is_call || is_part(&block["text"]) || is_part(&block["thinking"]);
        self.blocks.push((block, String::new()));
        Ok(if has_part { Progress::Part } else { Progress::Other })
    }

    fn extend(&mut self, event: &Value) -> Result<Progress, Malformed> {
        let index = event["index"].as_u64().and_then(|it| usize::try_from(it).ok());
        let Some((block, input)) = index.and_then(|it| self.blocks.get_mut(it)) else {
            return Err(Malformed::faulty("a content block of the answer is missing"));
        };
        let delta = &event["delta"];
        match delta["type"].as_str() {
            Some("text_delta") => {
                append(&mut block["text"], part::text_at(delta, "text")?.into());
            }
            Some("thinking_delta") => {
                append(&mut block["thinking"], part::text_at(delta, "thinking")?.into());
            }
            Some("input_json_delta") => input.push_str(part::text_at(delta, "partial_json")?),
            Some("signature_delta" | "citations_delta") => return Ok(Progress::Other),
            Some(kind) => return Err(Malformed::unsupported_part(kind)),
            None => {
                return Err(Malformed::not_a("a text", "the `type` of a delta", &delta["type"]));
            }
        }
        Ok(Progress::Part)
    }

    /// Returns the whole message. Fails for a message without a start or a stop reason, because it may be cut.
    fn end(&mut self) -> Result<Value, Malformed> {
        let mut message = self.message.take();
        if !is_part(&message["stop_reason"]) {
            let why = "the stream of the answer ended without a `stop_reason`";
            return Err(Malformed::faulty(why));
        }
        let blocks = std::mem::take(&mut self.blocks).into_iter().map(|(mut block, input)| {
            if !input.is_empty() {
                block["input"] = serde_json::from_str(&input).unwrap_or(Value::String(input));
            }
            block
        });
        message["content"] = blocks.collect();
        Ok(message)
    }
}
