//! The forms of a prompt for programs, templates and tools: one text, or messages as JSON.

use kindlm_types::{ContentPart, Message, Prompt, ecma};
use serde_json::{Value, json};

/// Returns the prompt as one text: the content of a single text message without tool calls, or else the messages as
/// JSON. A prompt that is written as messages is always indented JSON.
pub(crate) fn prompt_text(prompt: &Prompt) -> String {
    text_of(prompt, content_of)
}

/// Returns the text of [`prompt_text`] without the data of parts, for a reply that is recorded.
pub(crate) fn recorded_text(prompt: &Prompt) -> String {
    text_of(prompt, |message| {
        if message.parts.is_empty() { json!(message.content) } else { json!(message.parts) }
    })
}

fn text_of(prompt: &Prompt, content: fn(&Message) -> Value) -> String {
    match prompt.messages.as_slice() {
        messages if prompt.is_chat => {
            let messages =
                messages.iter().map(|it| json!({"role": it.role, "content": content(it)}));
            ecma::stringify_indented(&messages.collect::<Value>(), 2)
        }
        [only] if only.tool_calls.is_empty() && only.parts.is_empty() => only.content.clone(),
        messages => {
            let messages =
                messages.iter().map(|it| json!({"role": it.role, "content": content(it)}));
            ecma::stringify(&messages.collect::<Value>())
        }
    }
}

/// Returns the text of a message, or its parts as they are written. Images, sounds and files become their labels.
pub(crate) fn content_of(message: &Message) -> Value {
    if message.parts.is_empty() {
        return message.content.as_str().into();
    }
    let parts = message.parts.iter().map(|part| match part {
        ContentPart::Raw(raw) => raw.value().clone(),
        part => json!({"type": "text", "text": part.label()}),
    });
    parts.collect()
}

/// Returns a message as JSON. Its content is a text, or the parts as they are written.
pub(crate) fn message_json(message: &Message) -> Value {
    let mut value = json!(message);
    if let (false, Some(entries)) = (message.parts.is_empty(), value.as_object_mut()) {
        entries.shift_remove("parts");
        entries.insert("content".to_owned(), content_of(message));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_becomes_text_or_json() {
        for (messages, is_chat, expected) in [
            (json!([{"role": "user", "content": "hi"}]), false, "hi"),
            (
                json!([{"role": "user", "content": "hi"}]),
                true,
                "[\n  {\n    \"role\": \"user\",\n    \"content\": \"hi\"\n  }\n]",
            ),
            (
                json!([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]),
                false,
                r#"[{"role":"system","content":"s"},{"role":"user","content":"u"}]"#,
            ),
        ] {
            let prompt = json!({"model": "m", "messages": messages, "isChat": is_chat});
            let prompt: Prompt = serde_json::from_value(prompt).unwrap();
            assert_eq!(prompt_text(&prompt), expected, "{messages}");
        }
    }
}
