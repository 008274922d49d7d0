//! Streamed answers of the Responses API. The last event has the whole answer.

use serde_json::{Value, json};

use crate::dialect::part::Malformed;
use crate::dialect::stream::{Assembler, Progress};

/// The reader of the events. It stores nothing, because the last event has the whole answer.
#[derive(Debug, Default)]
pub(super) struct Events;

impl Assembler for Events {
    const END: &'static str = "response.completed";

    fn add(&mut self, mut event: Value) -> Result<Progress, Malformed> {
        Ok(match event["type"].as_str() {
            Some("response.failed") if event["response"]["error"].is_object() => {
                Progress::Failed(json!({"error": event["response"]["error"].take()}))
            }
            Some("response.completed" | "response.incomplete" | "response.failed") => {
                Progress::End(event["response"].take())
            }
            Some("error") if event["error"].is_object() => Progress::Failed(event),
            Some("error") => Progress::Failed(json!({
                "error": {"code": event["code"], "message": event["message"]},
            })),
            Some("response.output_item.added") if is_call(&event["item"]) => Progress::Part,
            Some(kind) if kind.rsplit_once('.').is_some_and(|it| it.1 == "delta") => Progress::Part,
            Some(_) => Progress::Other,
            None => {
                return Err(Malformed::not_a("a text", "the `type` of an event", &event["type"]));
            }
        })
    }
}

/// Returns true if an item is a call of a tool.
fn is_call(item: &Value) -> bool {
    item["type"].as_str().is_some_and(|it| it.ends_with("_call"))
}
