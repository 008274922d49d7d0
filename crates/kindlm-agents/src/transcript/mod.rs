//! Conversations from other programs, as lists of messages in vendors' formats.
//!
//! Three formats are supported: the `messages` of OpenAI's chat completions, the items of OpenAI's Responses API, and
//! the `messages` of Anthropic's API. A transcript is the list of messages, or an object with the key `messages`. Such
//! an object may have further keys, such as `system` and `tools`; see [`parse_transcript`]. For the Responses API, the
//! list is the `input` followed by the `output`.
//!
//! ```
//! use kindlm_agents::transcript;
//!
//! let value = serde_json::json!([
//!     {"role": "user", "content": "Where is order 7?"},
//!     {"role": "assistant", "content": "On its way."},
//! ]);
//! let transcript = transcript::parse_transcript(&value).unwrap();
//! assert_eq!(transcript.output, "On its way.");
//! assert_eq!(transcript.events.len(), 2);
//! ```

mod about;
mod anthropic;
mod items;
mod keys;
mod openai;
mod parts;
mod reading;
mod tools;

use kindlm_types::{Problem, Transcript};
use serde_json::Value;

use parts::{kind, object, value_at};
use reading::Reading;

/// The format of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// The messages of OpenAI's chat completions.
    Chat,
    /// The items of OpenAI's Responses API.
    Items,
    /// The messages of Anthropic's API.
    Anthropic,
}

/// Reads a conversation, and detects its format.
///
/// In addition to the messages, an object may have these keys:
///
/// - `usage` (in the format of OpenAI or Anthropic), `cost_usd` and `latency_ms`,
/// - `finish_reason` or `stop_reason`,
/// - `system` or `instructions`, and `tools`,
/// - `error`, and `status`, `incomplete_details`, `previous_response_id` and `conversation` of the Responses API,
/// - `complete_for`: the complete kinds of evidence in the log. By default, the messages and the tool calls with their
///   results are complete.
///
/// Other keys of a request, such as `model`, are ignored, unless they resemble a key that is read.
///
/// # Errors
///
/// Fails with the first problem. The problem's pointer is the location within the value.
pub fn parse_transcript(value: &Value) -> Result<Transcript, Problem> {
    keys::AROUND.check(value, "")?;
    let Messages { asked, list, above } = messages(value)?;
    let mut reading = Reading::default();
    let format = format_of(value, &list);
    if let Some(key) = only_one(value, &["system", "instructions"], "contain the instructions")? {
        let system = value.get(key).unwrap_or(&Value::Null);
        let instructions = parts::text_of(system, &format!("/{key}"), &mut reading)?;
        reading.system(&instructions);
    }
    if let Some(asked) = asked {
        reading.user(asked);
    }
    for (message, at) in &list {
        object(message, at)?;
        match format {
            Format::Chat => openai::message(message, at, &mut reading)?,
            Format::Items => items::item(message, at, &mut reading)?,
            Format::Anthropic => anthropic::message(message, at, &mut reading)?,
        }
    }
    let (transcript, calls_last) = reading.done();
    if transcript.requests == 0 {
        let message = "the transcript has no assistant message";
        let help = "a transcript is the whole conversation, with the agent's answers";
        return Err(Problem::new(above, message).with_help(help));
    }
    about::add(value, transcript, calls_last)
}

/// The messages of a log.
struct Messages<'v> {
    /// The user message before the list: the `input` of a request, if it is a text.
    asked: Option<&'v str>,
    /// The messages with their pointers.
    list: Vec<(&'v Value, String)>,
    /// The pointer of the list.
    above: &'static str,
}

/// Returns the messages of a log. The request and the response of the Responses API form one conversation. Any other
/// two lists of messages are a problem, because one list would be ignored. Fails without a list of messages, and for an
/// empty list.
fn messages(value: &Value) -> Result<Messages<'_>, Problem> {
    let is_object = value.is_object();
    let in_response = value_at(value, "input").is_some() && value_at(value, "output").is_some();
    let all = ["messages", "input", "items", "choices", "content", "output"];
    let exclusive = if in_response { &all[..5] } else { &all };
    let key = if is_object { only_one(value, exclusive, "contain the messages")? } else { None };
    let above = match key {
        None if is_object => return Err(no_list("", "there are no `messages`")),
        None => "",
        Some("messages") => "/messages",
        Some("input") => "/input",
        Some("items") => "/items",
        Some(key) => {
            let message = format!("`{key}` alone is not the conversation: there are no `messages`");
            return Err(no_list("", &message));
        }
    };
    let first = value.pointer(above).unwrap_or(&Value::Null);
    if let (true, Value::String(asked)) = (in_response, first) {
        let list = listed(value, "/output")?;
        return Ok(Messages { asked: Some(asked), list, above: "/output" });
    }
    let mut list = listed(value, above)?;
    if in_response {
        list.extend(listed(value, "/output")?);
    }
    if list.is_empty() {
        return Err(Problem::new(above, "the list of messages is empty"));
    }
    Ok(Messages { asked: None, list, above })
}

/// Returns the messages of a list with their pointers. Fails if the value is not a list.
fn listed<'v>(value: &'v Value, at: &'static str) -> Result<Vec<(&'v Value, String)>, Problem> {
    let list = value.pointer(at).unwrap_or(&Value::Null);
    let Value::Array(list) = list else {
        return Err(no_list(at, &format!("the messages are {}, not a list", kind(list))));
    };
    Ok((0..).zip(list).map(|(index, it): (usize, _)| (it, format!("{at}/{index}"))).collect())
}

fn no_list(at: &str, message: &str) -> Problem {
    let help = "a transcript is a list of messages, or an object with `messages`";
    Problem::new(at, message).with_help(help)
}

/// Returns the only one of these keys that has a value; `None` if no key has a value. Fails if several keys have
/// values.
fn only_one<'k>(value: &Value, keys: &[&'k str], what: &str) -> Result<Option<&'k str>, Problem> {
    let mut found = keys.iter().copied().filter(|it| value_at(value, it).is_some());
    let Some(one) = found.next() else { return Ok(None) };
    let Some(other) = found.next() else { return Ok(Some(one)) };
    let message = format!("`{one}` and `{other}` both {what}, but only one can be read");
    let help = "remove one of them; the `output` of the Responses API belongs to its `input`";
    Err(Problem::key(format!("/{other}"), message).with_help(help))
}

/// Detects the format of a list of messages by keys and types that only one format has.
fn format_of(value: &Value, messages: &[(&Value, String)]) -> Format {
    let is_item = |it: &Value| {
        let kind = it.get("type").and_then(Value::as_str);
        kind.is_some_and(|it| it != "message") || blocks(it).any(|it| it.ends_with("put_text"))
    };
    let is_block = |it: &str| {
        it.ends_with("tool_use") || it.ends_with("tool_result") || it.ends_with("thinking")
    };
    let is_chat = |it: &Value| CHAT.iter().any(|key| value_at(it, key).is_some());
    let any = |is: &dyn Fn(&Value) -> bool| messages.iter().any(|(it, _)| is(it));
    if value_at(value, "output").is_some() || any(&is_item) {
        Format::Items
    } else if any(&|message| blocks(message).any(is_block))
        || (value.get("system").is_some() && !any(&is_chat))
    {
        Format::Anthropic
    } else {
        Format::Chat
    }
}

/// The keys that only messages of OpenAI's chat completions have.
const CHAT: [&str; 3] = ["tool_calls", "tool_call_id", "function_call"];

/// Returns the types of the parts of a message.
fn blocks(message: &Value) -> impl Iterator<Item = &str> {
    let parts = message.get("content").and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|it| it.get("type")?.as_str())
}

#[cfg(test)]
mod tests;
