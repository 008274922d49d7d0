//! Conversations that were recorded elsewhere: lists of messages as vendors' APIs have them.
//!
//! Three forms are read: the `messages` of OpenAI's chat completions, the items of its Responses API, and the `messages`
//! of Anthropic's API. A transcript is the list itself, or an object that has it as `messages` (`input` for the Responses
//! API) with `system`, `tools` and what the log says beside it: see [`read`].
//!
//! ```
//! use kindlm_providers::transcript;
//!
//! let value = serde_json::json!([
//!     {"role": "user", "content": "Where is order 7?"},
//!     {"role": "assistant", "content": "On its way."},
//! ]);
//! let transcript = transcript::read(&value).unwrap();
//! assert_eq!(transcript.output, "On its way.");
//! assert_eq!(transcript.events.len(), 2);
//! ```

mod about;
mod anthropic;
mod items;
mod openai;
mod parts;
mod reading;
mod tools;

use kindlm_types::{Problem, Transcript};
use serde_json::Value;

use parts::{kind, object};
use reading::Reading;

/// How a conversation is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// The messages of OpenAI's chat completions.
    Chat,
    /// The items of OpenAI's Responses API.
    Items,
    /// The messages of Anthropic's API.
    Anthropic,
}

/// Reads a conversation.
///
/// Beside the messages an object may say `usage` (in either vendor's words), `cost_usd`, `latency_ms`,
/// `finish_reason` or `stop_reason`, `tools`, and `complete_for`: for which kinds of evidence the log tells everything.
/// Where it does not say, those are what was said, and the calls of tools with their results. Other keys, such as
/// `model`, are what a request has beside its messages, and nothing is made of them.
///
/// # Errors
///
/// The pointer of a problem leads to what is wrong within the value.
pub fn read(value: &Value) -> Result<Transcript, Problem> {
    let (messages, above) = list(value)?;
    let mut reading = Reading::default();
    let format = format_of(value, messages);
    if let Some(system) = value.get("system").or_else(|| value.get("instructions")) {
        let key = if value.get("system").is_some() { "/system" } else { "/instructions" };
        let said = parts::text_of(system, key, &mut reading)?;
        reading.system(&said);
    }
    for (index, message) in messages.iter().enumerate() {
        let at = format!("{above}/{index}");
        object(message, &at)?;
        match format {
            Format::Chat => openai::message(message, &at, &mut reading)?,
            Format::Items => items::item(message, &at, &mut reading)?,
            Format::Anthropic => anthropic::message(message, &at, &mut reading)?,
        }
    }
    let transcript = reading.done();
    if transcript.requests == 0 {
        let message = "nobody answers: there is no message of the assistant";
        let help = "a transcript is the whole conversation, with what the agent said";
        return Err(Problem::new(above, message).with_help(help));
    }
    about::add(value, transcript)
}

/// The messages, and where they are.
fn list(value: &Value) -> Result<(&[Value], &'static str), Problem> {
    let keys = [("messages", "/messages"), ("input", "/input"), ("items", "/items")];
    let no_list = |at, message: &str| {
        let help = "a transcript is a list of messages, or an object with `messages`";
        Problem::new(at, message).with_help(help)
    };
    let (list, at) = match value {
        Value::Object(it) => {
            let found = keys.iter().find_map(|(key, at)| it.get(*key).map(|list| (list, *at)));
            found.ok_or_else(|| no_list("", "there are no `messages`"))?
        }
        value => (value, ""),
    };
    match list.as_array() {
        Some(list) if list.is_empty() => Err(Problem::new(at, "there is no message in it")),
        Some(list) => Ok((list, at)),
        None => Err(no_list(at, &format!("the messages are {}, not a list", kind(list)))),
    }
}

/// The format of a list of messages, by what only one of the three has.
fn format_of(value: &Value, messages: &[Value]) -> Format {
    let is_item = |it: &Value| {
        let kind = it.get("type").and_then(Value::as_str);
        kind.is_some_and(|it| it != "message") || blocks(it).any(|it| it.ends_with("put_text"))
    };
    let is_block = |it: &str| {
        it.ends_with("tool_use") || it.ends_with("tool_result") || it.ends_with("thinking")
    };
    if messages.iter().any(is_item) {
        Format::Items
    } else if value.get("system").is_some()
        || messages.iter().any(|message| blocks(message).any(is_block))
    {
        Format::Anthropic
    } else {
        Format::Chat
    }
}

/// The types of the parts of a message.
fn blocks(message: &Value) -> impl Iterator<Item = &str> {
    let parts = message.get("content").and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|it| it.get("type")?.as_str())
}

#[cfg(test)]
mod tests;
