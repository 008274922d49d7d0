//! Models and prompts.

use kindlm_types::{Limits, Price};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// A model to test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ModelEntry {
    /// The id of the model in the rest of the file and in reports. Default: `provider:model`.
    #[serde(default)]
    #[schemars(length(min = 1), extend("examples" = ["gpt-4o"]))]
    #[expect(dead_code, reason = "read from the tree, where it has its default")]
    pub(crate) id: Option<String>,
    /// The provider: one of the keys of `providers`. Without it, `model` is `provider:model`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) provider: Option<String>,
    /// The name of the model in the provider's API, such as `gpt-4o`.
    #[schemars(length(min = 1), extend("examples" = ["gpt-4o-2024-11-20"]))]
    pub(crate) model: String,
    /// The sampling parameters. Default: `defaults.params`.
    #[serde(default)]
    pub(crate) params: Option<ParamsBlock>,
    /// The price in US dollars per million tokens. It replaces the built-in price.
    #[serde(default)]
    pub(crate) price: Option<Price>,
    /// The rate limits. Models with the same provider and name share these limits. The lowest limits apply.
    #[serde(default)]
    pub(crate) limits: Limits,
}

/// The sampling parameters of a model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ParamsBlock {
    /// The temperature: 0 is the least random, 2 the most. Default: 0.2.
    #[schemars(range(min = 0.0, max = 2.0), extend("default" = 0.2))]
    pub(crate) temperature: Option<f64>,
    /// The maximum number of tokens in an answer. Default: 1024.
    #[schemars(range(min = 1, max = 10_000_000), extend("default" = 1024))]
    pub(crate) max_tokens: Option<u32>,
    /// True to send no temperature and no maximum of tokens, unless they are given. Requests to Anthropic always have a
    /// maximum, because the API requires it. Default: false.
    pub(crate) omit_defaults: bool,
    /// The probability mass for nucleus sampling, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) top_p: Option<f64>,
    /// Texts that end the answer where the model generates one of them.
    pub(crate) stop_sequences: Vec<String>,
    /// The seed of the sampling, for providers that support seeds.
    pub(crate) seed: Option<i64>,
}

impl ParamsBlock {
    const TEMPERATURE: f64 = 0.2;
    const MAX_TOKENS: u32 = 1024;

    /// Returns the temperature to send; `None` to send none.
    pub(crate) fn temperature(&self) -> Option<f64> {
        self.temperature.or((!self.omit_defaults).then_some(Self::TEMPERATURE))
    }

    /// Returns the maximum number of tokens to send; `None` to send none.
    pub(crate) fn max_tokens(&self) -> Option<u32> {
        self.max_tokens.or((!self.omit_defaults).then_some(Self::MAX_TOKENS))
    }
}

/// A prompt for a model. `{{name}}` stands for a variable of the test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PromptEntry {
    /// The system message, with instructions for the whole conversation.
    #[serde(default)]
    pub(crate) system: Option<String>,
    /// The user message. A prompt has either `user` or `messages`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) user: Option<String>,
    /// The beginning of the answer, which the model continues.
    #[serde(default)]
    pub(crate) assistant: Option<String>,
    /// The whole conversation, instead of `system`, `user` and `assistant`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) messages: Option<Vec<MessageEntry>>,
    /// The template language. Default: `defaults.template`.
    #[serde(default)]
    pub(crate) template: Option<Language>,
    /// Rules for every answer to this prompt. A judge model checks all of them in one request.
    #[serde(default)]
    #[expect(dead_code, reason = "compiled from the tree, where it has a place")]
    pub(crate) assertions: Vec<Value>,
    /// Names of `assertionSets` whose rules also apply to every answer. They are judged in the same request.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub(crate) assertion_sets: Vec<String>,
    /// The weighted mean score at which an execution passes, even if some checks fail. Default: `defaults.threshold`.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) threshold: Option<f64>,
}

/// A message of a prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MessageEntry {
    /// The role of the author: system, user or assistant.
    pub(crate) role: Speaker,
    /// The text of the message, or a list of parts: texts, images, sounds and files.
    pub(crate) content: ContentEntry,
}

/// The content of a message: a text, or a list of parts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ContentEntry {
    /// A text.
    Text(String),
    /// The parts in the order in which they are sent.
    Parts(#[schemars(length(min = 1))] Vec<PartEntry>),
}

/// A part of a message. It has exactly one key.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct PartEntry {
    /// A text.
    pub(crate) text: Option<String>,
    /// An image: `file://` and a path, an `https://` address, or a `data:` URL.
    #[schemars(length(min = 1), extend("examples" = ["file://cat.png"]))]
    pub(crate) image: Option<String>,
    /// A sound: `file://` and a path, an `https://` address, or a `data:` URL.
    #[schemars(length(min = 1), extend("examples" = ["file://question.mp3"]))]
    pub(crate) audio: Option<String>,
    /// A file, such as a PDF: `file://` and a path, an `https://` address, or a `data:` URL.
    #[schemars(length(min = 1), extend("examples" = ["file://contract.pdf"]))]
    pub(crate) file: Option<String>,
    /// A part in the form of the provider's API, which is sent unchanged.
    pub(crate) raw: Option<serde_json::Map<String, Value>>,
}

/// The role of a message in a prompt.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Speaker {
    /// Instructions for the whole conversation.
    System,
    /// The user.
    User,
    /// The model: an earlier answer or, as the last message, the beginning of its next answer.
    Assistant,
}

/// The template language of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    /// Jinja: `{{ name }}`, `{{ name | upper }}`, `{% if … %}`. A variable without a value is an error. Braces of other
    /// languages (`{{#each}}`) stay unchanged.
    #[default]
    Plain,
    /// Jinja as in promptfoo: a variable without a value is an empty text, with a warning, and all braces are Jinja.
    Jinja,
    /// JSON whose texts are Jinja templates. Values cannot break the JSON syntax.
    Json,
    /// Jinja as in promptfoo, in `user` alone. A result that is a JSON or YAML list of messages is sent as these
    /// messages.
    Chat,
}
