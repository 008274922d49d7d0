//! Requests to a model and its replies, independent of any vendor's format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Channel, ContentPart, Coverage, Event, Media, ToolCall, Usage};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// System instructions.
    System,
    /// The user, or a program that acts as the user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// Returns the name of the role: `system`, `user`, `assistant` or `tool`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text. For [`Role::Tool`], the result as JSON text.
    ///
    /// In a message with [`parts`](Self::parts), this text has the texts and labels of the parts, one below the other.
    /// Checks, judges and reports use this text.
    pub content: String,
    /// The parts to send instead of the text; empty for a message that is only a text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ContentPart>,
    /// The tool calls that a message of the assistant requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The id of the call that a message of [`Role::Tool`] answers; `None` for other messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool's name, for [`Role::Tool`]; `None` for other messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
}

impl Message {
    /// Returns a message with a text only.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            parts: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            tool_name: None,
        }
    }

    /// Returns a message with parts. The message's text has the texts and labels of the parts, one below the other.
    pub fn of_parts(role: Role, parts: Vec<ContentPart>) -> Self {
        let mut message = Self { parts, ..Self::new(role, "") };
        message.name_parts();
        message
    }

    /// Replaces the text. Parts that are not texts stay, and the new text follows these parts.
    pub fn replace_text(&mut self, text: &str) {
        if self.parts.is_empty() {
            text.clone_into(&mut self.content);
            return;
        }
        self.parts.retain(|part| match part {
            ContentPart::Text(_) => false,
            ContentPart::Media(_) => true,
            ContentPart::Raw(raw) => raw.text().is_none(),
        });
        self.parts.push(ContentPart::Text(text.to_owned()));
        self.name_parts();
    }

    /// Returns the images, sounds and files of the message.
    pub fn media(&self) -> impl Iterator<Item = &Media> {
        self.parts.iter().filter_map(|part| match part {
            ContentPart::Media(media) => Some(media),
            ContentPart::Text(_) | ContentPart::Raw(_) => None,
        })
    }

    /// Sets the text to the texts and labels of the parts.
    fn name_parts(&mut self) {
        let labels: Vec<String> = self.parts.iter().map(ContentPart::label).collect();
        self.content = labels.join("\n");
    }

    /// Returns the result message of a tool call; `content` is JSON text.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(call.id.clone()),
            tool_name: Some(call.name.clone()),
            ..Self::new(Role::Tool, content)
        }
    }
}

/// Sampling parameters. A parameter that is absent is not sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Params {
    /// The temperature, from 0 (greedy) to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The maximum number of tokens of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The nucleus sampling threshold, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// The seed, for providers with reproducible sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
}

/// A tool that the model may call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// The tool's name.
    pub name: String,
    /// The description, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
}

/// The setting that allows, requires or forbids tool calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// The model must call a tool.
    Required,
    /// The model must not call a tool.
    None,
}

/// The required format of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResponseFormat {
    /// A name for the schema, for providers that require one.
    pub name: String,
    /// The JSON Schema of the answer.
    pub schema: Value,
}

impl ResponseFormat {
    /// Creates a format from a name and a JSON Schema.
    pub fn new(name: impl Into<String>, schema: Value) -> Self {
        Self { name: name.into(), schema }
    }
}

/// One request to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// The name of the model in the provider's API, such as `gpt-4o`.
    pub model: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Sampling parameters.
    #[serde(default)]
    pub params: Params,
    /// Tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The setting that allows, requires or forbids tool calls; the provider's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The required format of the answer; any format if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// The index of this answer among several independent answers to the same request, from 0.
    ///
    /// This is the repeat, or a judge's sample. It is not sent to providers, but is part of the cache key of stored
    /// replies.
    #[serde(default, skip_serializing_if = "is_first")]
    pub sample: u32,
    /// The variables of the test, for providers that accept them: programs, and some APIs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub vars: Map<String, Value>,
    /// Other test data for providers that accept `vars`: `description`, `metadata`, `threshold`, `prompt` (its name).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub test: Map<String, Value>,
    /// True if the prompt is written as messages.
    ///
    /// Providers that take one text then get the messages as JSON, even a single one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_chat: bool,
    /// The length in bytes of the last message's prefix that other requests share.
    ///
    /// Providers whose prompt cache needs a marker use this length. Otherwise, the length does not change the request.
    #[serde(skip)]
    pub shared: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(sample: &u32) -> bool {
    *sample == 0
}

/// Returns true if the name belongs to a reasoning model of OpenAI.
///
/// Prefixes such as `openai/` or `ft:` are accepted.
pub fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    ["o1", "o3", "o4", "gpt-5"].iter().any(|family| {
        name.strip_prefix(family).is_some_and(|rest| {
            rest.chars().next().is_none_or(|it| matches!(it, '-' | '.' | ':' | '@'))
        })
    })
}

/// The reason why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The answer reached the token limit.
    Length,
    /// The model requests tool calls.
    ToolCalls,
    /// The provider's filter cut the answer off.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// Another reason, as the provider names it.
    Other(String),
}

impl FinishReason {
    /// Returns the name: `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the provider's own name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Other(word) => word,
        }
    }

    /// Returns the reason why an answer with this finish reason is incomplete.
    ///
    /// Returns `None` if the answer is complete, or if the name of the finish reason is unknown.
    ///
    /// The names that vendors and frameworks use for failures, such as `error` or `cancelled`, give a reason.
    pub fn broke_off(&self) -> Option<String> {
        const WRONG: [&str; 14] = [
            "error",
            "failed",
            "failure",
            "cancelled",
            "canceled",
            "aborted",
            "interrupted",
            "expired",
            "timeout",
            "incomplete",
            "pause_turn",
            "malformed_function_call",
            "unexpected_tool_call",
            "model_context_window_exceeded",
        ];
        match self {
            Self::Stop | Self::ToolCalls => None,
            Self::Length => Some("the answer was cut at its token limit".to_owned()),
            Self::ContentFilter => Some("the provider's filter cut the answer off".to_owned()),
            Self::Refusal => Some("the model refused to answer".to_owned()),
            Self::Other(word) => match Self::of_vendor(word) {
                Self::Other(word) => WRONG
                    .iter()
                    .any(|it| it.eq_ignore_ascii_case(&word))
                    .then(|| format!("the model stopped for the reason `{word}`")),
                meant => meant.broke_off(),
            },
        }
    }

    /// Returns the reason why an answer is incomplete. At the token limit, the reason has advice.
    ///
    /// Returns `None` if [`broke_off`](Self::broke_off) returns `None`, and for a refusal. A refusal counts as a
    /// complete answer.
    pub fn cut(&self) -> Option<String> {
        let advice = match self.meant() {
            Self::Refusal => return None,
            Self::Length => "; raise `maxTokens` of the model",
            _ => "",
        };
        self.broke_off().map(|why| format!("{why}{advice}"))
    }

    /// Converts a vendor's own name into the finish reason that it denotes. Other finish reasons stay unchanged.
    fn meant(&self) -> Self {
        match self {
            Self::Other(word) => Self::of_vendor(word),
            known => known.clone(),
        }
    }

    /// Returns true if the provider's own name of the reason is unknown, so the answer may be incomplete.
    pub fn is_unclear(&self) -> bool {
        // These common names need no warning: they mean a normal end, or that no reason is known.
        const GOOD: [&str; 8] =
            ["unknown", "completed", "done", "finished", "success", "eos", "eos_token", "end"];
        let Self::Other(word) = self else { return false };
        matches!(Self::of_vendor(word), Self::Other(_))
            && self.broke_off().is_none()
            && !GOOD.iter().any(|it| it.eq_ignore_ascii_case(word))
    }

    /// Returns true if the provider's own name of the reason denotes a failure, except a pause or a full context
    /// window.
    ///
    /// False for the known reasons, such as the token limit or a refusal.
    pub fn is_failure(&self) -> bool {
        const NONE: [&str; 2] = ["pause_turn", "model_context_window_exceeded"];
        let Self::Other(word) = self else { return false };
        matches!(Self::of_vendor(word), Self::Other(_))
            && self.broke_off().is_some()
            && !NONE.iter().any(|it| it.eq_ignore_ascii_case(word))
    }

    /// Converts the name that a provider or framework uses, such as `end_turn`. An unknown name becomes `Other`.
    pub fn of_vendor(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "stop" | "end_turn" | "stop_sequence" | "complete" => Self::Stop,
            "length" | "max_tokens" | "max_output_tokens" | "model_length" => Self::Length,
            "tool_calls" | "tool_call" | "tool_use" | "tool-calls" | "function_call" => {
                Self::ToolCalls
            }
            "content_filter" | "content-filter" | "safety" | "image_safety" | "recitation"
            | "blocklist" | "prohibited_content" | "spii" => Self::ContentFilter,
            "refusal" => Self::Refusal,
            _ => Self::Other(word.to_owned()),
        }
    }
}

/// Converts the name that [`FinishReason::as_str`] returns. An unknown name becomes `Other`.
impl From<String> for FinishReason {
    fn from(word: String) -> Self {
        match word.as_str() {
            "stop" => Self::Stop,
            "length" => Self::Length,
            "tool_calls" => Self::ToolCalls,
            "content_filter" => Self::ContentFilter,
            "refusal" => Self::Refusal,
            _ => Self::Other(word),
        }
    }
}

/// One answer of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The text; empty if the answer has no text.
    pub text: String,
    /// The answer as a value, if the source reports a value. `text` then holds this value as JSON text.
    pub output_json: Option<Value>,
    /// The requested tool calls, in order.
    ///
    /// A call that already has a response was carried out by the provider, so the engine does not answer it.
    pub tool_calls: Vec<ToolCall>,
    /// The events of the reply, in order.
    ///
    /// Empty unless the source reports more than the other fields hold.
    pub events: Vec<Event>,
    /// The kinds of evidence that the source records completely.
    ///
    /// A model's own API records all kinds. For a provider that wraps an agent, see
    /// [`of_wrapped_agent`](Self::of_wrapped_agent).
    pub coverage: Coverage,
    /// The tokens, as the provider counted them.
    pub usage: Usage,
    /// The reason why the model stopped.
    pub finish_reason: FinishReason,
    /// The name of the model that answered, as the provider reports it.
    pub model: String,
    /// The provider's name of the model's configuration, such as OpenAI's `system_fingerprint`; `None` without a name.
    pub fingerprint: Option<String>,
    /// The text of the model's refusal, if the provider marks a refusal.
    pub refusal: Option<String>,
    /// The log probabilities of the answer's tokens (natural logarithms), if requested.
    pub log_probs: Option<Vec<f64>>,
    /// Other data of the provider, such as `guardrails`, the flags of its filter.
    pub metadata: Map<String, Value>,
    /// The cost of the answer in US dollars, if the provider reports it.
    pub cost_usd: Option<f64>,
    /// The provider's full response, for scripts, if it has more data than this type.
    pub response: Option<Value>,
    /// The images of the answer, with their data. Stored replies have none.
    pub images: Vec<Media>,
    /// The response time in milliseconds, without retries and back-off.
    pub latency_ms: f64,
    /// The time from the request to the first part of the answer, in milliseconds; `None` if it was not measured.
    ///
    /// Only a streamed answer has this time. The part is text, reasoning or a tool call.
    pub first_token_ms: Option<f64>,
    /// The number of attempts; 1 without retries, 0 for a reply from the response store.
    pub attempts: u32,
    /// True if the reply came from the response store.
    pub cached: bool,
}

impl Reply {
    /// Returns a complete reply with a text only: no tokens, no latency.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            output_json: None,
            tool_calls: Vec::new(),
            events: Vec::new(),
            coverage: Coverage::Complete,
            usage: Usage::default(),
            finish_reason: FinishReason::Stop,
            model: String::new(),
            fingerprint: None,
            refusal: None,
            log_probs: None,
            metadata: Map::new(),
            cost_usd: None,
            response: None,
            images: Vec::new(),
            latency_ms: 0.0,
            first_token_ms: None,
            attempts: 1,
            cached: false,
        }
    }

    /// Limits the coverage of a reply from a provider that wraps an agent.
    ///
    /// If the reply has the default coverage (all kinds complete), only its token counts remain complete, and only if
    /// they are reported.
    #[must_use]
    pub fn of_wrapped_agent(mut self) -> Self {
        if self.coverage == Coverage::Complete {
            let is_counted = self.usage.is_whole();
            self.coverage = is_counted.then_some(Channel::Usage).into_iter().collect();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_models_that_reason() {
        for (model, expected) in [
            ("o1", true),
            ("o3-mini", true),
            ("o4-mini-2025-04-16", true),
            ("gpt-5", true),
            ("gpt-5.1", true),
            ("gpt-5-mini", true),
            ("openai/o3", true),
            ("ft:o4-mini:acme", true),
            ("gpt-4o", false),
            ("gpt-50", false),
            ("o10", false),
            ("olmo", false),
            ("gpt-4.1", false),
        ] {
            assert_eq!(reasons(model), expected, "{model}");
        }
    }

    #[test]
    fn only_error_finish_reasons_are_failures() {
        for (word, breaks_off, is_failure) in [
            ("end_turn", false, false),
            ("max_tokens", true, false),
            ("SAFETY", true, false),
            ("pause_turn", true, false),
            ("model_context_window_exceeded", true, false),
            ("error", true, true),
            ("Cancelled", true, true),
            ("unknown", false, false),
        ] {
            let reason = FinishReason::of_vendor(word);
            assert_eq!(reason.cut().is_some(), breaks_off, "{word}");
            let found = (reason.broke_off().is_some(), reason.is_failure());
            assert_eq!(found, (breaks_off, is_failure), "{word}");
        }
    }
}
