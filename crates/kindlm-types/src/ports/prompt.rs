//! Requests to a model and its replies, independent of any vendor's format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Channel, Coverage, Event, ToolCall, Usage};

/// The speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that stand above the conversation.
    System,
    /// The person, or the program that stands for one.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// Its word: `system`, `user`, `assistant` or `tool`.
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
    /// The speaker.
    pub role: Role,
    /// The text. For [`Role::Tool`]: the result, as JSON text.
    pub content: String,
    /// The tool calls that an assistant message asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// For [`Role::Tool`]: which call this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// For [`Role::Tool`]: the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
}

impl Message {
    /// A message that only says something.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            tool_name: None,
        }
    }

    /// The answer to a tool call; `content` is JSON text.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self {
            tool_call_id: Some(call.id.clone()),
            tool_name: Some(call.name.clone()),
            ..Self::new(Role::Tool, content)
        }
    }
}

/// Sampling parameters. What is `None` is not sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Params {
    /// 0 (greedy) to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens that the answer may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Nucleus sampling, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// For providers that can repeat a sample.
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
    /// JSON Schema of its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
}

/// Whether the model must, may or must not call tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// It must call some tool.
    Required,
    /// It must call none.
    None,
}

/// The form that the answer must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResponseFormat {
    /// A name for the schema, for providers that want one.
    pub name: String,
    /// JSON Schema of the answer.
    pub schema: Value,
}

/// One request to a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// The vendor's name of the model, such as `gpt-4o`.
    pub model: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Sampling parameters.
    #[serde(default)]
    pub params: Params,
    /// Tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Whether it must call one; `None` leaves it to the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The form that the answer must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Which of several independent answers to the same request, from 0: the repeat, or a judge's sample.
    /// Providers are not told; it keeps the recordings of repeats apart.
    #[serde(default, skip_serializing_if = "is_first")]
    pub sample: u32,
    /// The variables of the test, for providers that are told them: programs, and APIs with a place for one.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub vars: Map<String, Value>,
    /// What else such providers are told of the test: `description`, `metadata`, `threshold`, `prompt` (its name).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub test: Map<String, Value>,
    /// True if the prompt is written as messages, for providers that are given it as one text: it is JSON then, also
    /// where there is only one message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_chat: bool,
    /// How many bytes at the start of the last message are the same in other requests, for providers whose prompt cache must
    /// be told. The request says the same with and without it.
    #[serde(skip)]
    pub shared: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(sample: &u32) -> bool {
    *sample == 0
}

/// True for models of OpenAI that reason before they answer, by their names, also as `openai/o3` or `ft:o4-mini:…`.
pub fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    ["o1", "o3", "o4", "gpt-5"].iter().any(|family| {
        name.strip_prefix(family).is_some_and(|rest| {
            rest.chars().next().is_none_or(|it| matches!(it, '-' | '.' | ':' | '@'))
        })
    })
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It reached the token limit.
    Length,
    /// It wants tools to be called.
    ToolCalls,
    /// The provider's filter cut it off.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// Something else, in the provider's word.
    Other(String),
}

impl FinishReason {
    /// Its word: `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or the provider's own.
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

    /// Why an answer with this reason is not complete, in words; `None` if it is complete.
    ///
    /// Vendors and frameworks have their own words for failures.
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

    /// Why an answer that stopped for this reason is incomplete, in words; `None` if it is complete. A refusal is complete.
    pub fn cut(&self) -> Option<String> {
        let advice = match self.meant() {
            Self::Refusal => return None,
            Self::Length => "; raise `maxTokens` of the model",
            _ => "",
        };
        self.broke_off().map(|why| format!("{why}{advice}"))
    }

    /// The reason that a vendor's own word means.
    fn meant(&self) -> Self {
        match self {
            Self::Other(word) => Self::of_vendor(word),
            known => known.clone(),
        }
    }

    /// True if the word is unknown, so that the end may have been good or bad.
    pub fn is_unclear(&self) -> bool {
        // These words give no reason for the end.
        const GOOD: [&str; 8] =
            ["unknown", "completed", "done", "finished", "success", "eos", "eos_token", "end"];
        let Self::Other(word) = self else { return false };
        matches!(Self::of_vendor(word), Self::Other(_))
            && self.broke_off().is_none()
            && !GOOD.iter().any(|it| it.eq_ignore_ascii_case(word))
    }

    /// True if the word says that something went wrong, other than a limit, a refusal, or a pause after which it goes on.
    pub fn is_failure(&self) -> bool {
        const NONE: [&str; 2] = ["pause_turn", "model_context_window_exceeded"];
        let Self::Other(word) = self else { return false };
        matches!(Self::of_vendor(word), Self::Other(_))
            && self.broke_off().is_some()
            && !NONE.iter().any(|it| it.eq_ignore_ascii_case(word))
    }

    /// The meaning of a vendor's or a framework's own word.
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

/// Reads the output of [`FinishReason::as_str`] back.
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
    /// The text; empty if there is none.
    pub text: String,
    /// The answer as a value, where the source gives one; the text is the same as JSON.
    pub output_json: Option<Value>,
    /// The tool calls it asks for, in order. A call with a response was made and answered already: it is evidence.
    pub tool_calls: Vec<ToolCall>,
    /// The events on the way to the answer, in order, if the source reports more than this type holds.
    pub events: Vec<Event>,
    /// The kinds of evidence that the source records completely. A model's own API records all; a program around an
    /// agent only those that it declares.
    pub coverage: Coverage,
    /// Tokens, as the provider counted them.
    pub usage: Usage,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// The model that answered, in the provider's words.
    pub model: String,
    /// The model's refusal in words, where the provider marks one.
    pub refusal: Option<String>,
    /// The natural logarithms of the probabilities of the answer's tokens, where they were asked for.
    pub log_probs: Option<Vec<f64>>,
    /// Further data of the provider: `guardrails`, the flags of its own filter.
    pub metadata: Map<String, Value>,
    /// The cost of the answer in US dollars, if the provider reports it.
    pub cost_usd: Option<f64>,
    /// The provider's own account of its answer, where it says more than the words of this type; scripts see it.
    pub response: Option<Value>,
    /// The duration of the answer in milliseconds, without retries and back-off.
    pub latency_ms: f64,
    /// The number of attempts; 1 without retries.
    pub attempts: u32,
    /// True if it came from the response store.
    pub cached: bool,
}

impl Reply {
    /// A finished reply that only says something; no tokens, no latency.
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
            refusal: None,
            log_probs: None,
            metadata: Map::new(),
            cost_usd: None,
            response: None,
            latency_ms: 0.0,
            attempts: 1,
            cached: false,
        }
    }

    /// The same answer of a provider that wraps an agent. It is complete for the kinds that it names, and for tokens that
    /// it reports; an answer that names none is complete for no other kind.
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
    fn only_what_went_wrong_is_a_failure() {
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
