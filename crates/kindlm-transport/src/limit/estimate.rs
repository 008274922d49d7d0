//! Token estimates for requests, before the provider has counted.

use kindlm_types::{ContentPart, Prompt};

/// The estimated number of characters per token. This number is about right for English.
const CHARACTERS: u64 = 4;

/// The estimated tokens of an answer if the request sets no limit.
const ANSWER: u64 = 1024;

/// Estimates the tokens of a request and its answer. The estimate is the sum of:
/// - the characters divided by four
/// - the tokens reserved for content parts
/// - the limit of the answer, 1,024 by default
pub fn estimate(prompt: &Prompt) -> u64 {
    let said = prompt.messages.iter().map(|it| {
        let calls = it.tool_calls.iter().map(|call| json_length(&call.arguments));
        length(&it.content) + calls.sum::<u64>()
    });
    let form = prompt.response_format.as_ref().map_or(0, |it| json_length(&it.schema));
    let tools = if prompt.tools.is_empty() { 0 } else { json_length(&prompt.tools) };
    let characters = said.sum::<u64>() + form + tools;
    let parts = prompt.messages.iter().flat_map(|it| &it.parts);
    let parts = parts.map(ContentPart::reserved_tokens).sum::<u64>();
    let answer = prompt.params.max_tokens.map_or(ANSWER, u64::from);
    characters.div_ceil(CHARACTERS) + parts + answer
}

/// Estimates the tokens of a text.
pub fn tokens_of(text: &str) -> u64 {
    length(text).div_ceil(CHARACTERS)
}

fn length(text: &str) -> u64 {
    text.chars().count() as u64
}

fn json_length(value: &impl serde::Serialize) -> u64 {
    serde_json::to_vec(value).map_or(0, |it| it.len() as u64)
}

#[cfg(test)]
mod tests {
    use kindlm_types::{Media, MediaKind, Message, Params, Role, ToolSpec};

    use super::*;

    #[test]
    fn counts_everything_that_is_sent_and_the_longest_answer() {
        let bare = Prompt {
            model: "m".to_owned(),
            messages: vec![Message::new(Role::User, "čtyři znaky!")],
            params: Params { max_tokens: Some(100), ..Params::default() },
            tools: Vec::new(),
            tool_choice: None,
            response_format: None,
            sample: 0,
            ..Prompt::default()
        };
        assert_eq!(estimate(&bare), 103);
        let free = Prompt { params: Params::default(), ..bare.clone() };
        assert_eq!(estimate(&free), 3 + ANSWER);
        let image = Media::of_bytes(MediaKind::Image, "image/png", "a.png", b"png");
        let image = Message::of_parts(Role::User, vec![ContentPart::Media(image)]);
        let seen = estimate(&Prompt { messages: vec![image], ..bare.clone() });
        assert!(seen > 2_000, "{seen}");
        let tool = ToolSpec { name: "lookup_order".to_owned(), ..ToolSpec::default() };
        assert!(estimate(&Prompt { tools: vec![tool], ..bare }) > 103);
        assert_eq!((tokens_of(""), tokens_of("a"), tokens_of("abcde")), (0, 1, 2));
    }
}
