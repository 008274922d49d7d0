//! Models and prompts.

use kindlm_types::{Limits, Price};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// A model to test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ModelEntry {
    /// Names the model in the rest of the file and in reports.
    #[schemars(length(min = 1), extend("examples" = ["gpt-4o"]))]
    pub(crate) id: String,
    /// The provider: one of the keys of `providers`.
    #[schemars(length(min = 1))]
    pub(crate) provider: String,
    /// The vendor's name of the model.
    #[schemars(length(min = 1), extend("examples" = ["gpt-4o-2024-11-20"]))]
    pub(crate) model: String,
    /// The sampling parameters.
    #[serde(default)]
    pub(crate) params: ParamsBlock,
    /// The price in US dollars per million tokens, instead of the built-in price.
    #[serde(default)]
    pub(crate) price: Option<Price>,
    /// The rate limits. Models of the same provider and name share their limits: the lowest count.
    #[serde(default)]
    pub(crate) limits: Limits,
}

/// The sampling parameters of a model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ParamsBlock {
    /// The temperature: 0 is greedy, 2 is the most random.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub(crate) temperature: f64,
    /// The most tokens that an answer may have.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) max_tokens: u32,
    /// Nucleus sampling, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) top_p: Option<f64>,
    /// Texts that end the answer.
    pub(crate) stop_sequences: Vec<String>,
    /// For providers that can repeat a sample.
    pub(crate) seed: Option<i64>,
}

impl Default for ParamsBlock {
    fn default() -> Self {
        Self {
            temperature: 0.2,
            max_tokens: 1024,
            top_p: None,
            stop_sequences: Vec::new(),
            seed: None,
        }
    }
}

/// A prompt for a model. `{{name}}` stands for a variable of the test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PromptEntry {
    /// Instructions that stand above the conversation.
    #[serde(default)]
    pub(crate) system: Option<String>,
    /// The user message. Either this or `messages`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) user: Option<String>,
    /// The beginning of the answer.
    #[serde(default)]
    pub(crate) assistant: Option<String>,
    /// The whole conversation that the prompt is, instead of `system`, `user` and `assistant`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) messages: Option<Vec<MessageEntry>>,
    /// The template language.
    #[serde(default)]
    pub(crate) template: Language,
    /// Rules that every answer to this prompt must keep, judged by a model in one call.
    #[serde(default)]
    #[expect(dead_code, reason = "compiled from the tree, where it has a place")]
    pub(crate) assertions: Vec<Value>,
    /// Names of `assertionSets` whose rules every answer must keep as well, in the same call.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub(crate) assertion_sets: Vec<String>,
    /// The weighted mean score from which an execution of this prompt passes, whichever of its checks failed;
    /// `defaults.threshold` if absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) threshold: Option<f64>,
}

/// A message of a prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MessageEntry {
    /// The role.
    pub(crate) role: Speaker,
    /// The text.
    pub(crate) content: String,
}

/// The role of a message in a prompt.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Speaker {
    /// Instructions that stand above the conversation.
    System,
    /// The person.
    User,
    /// The model: what it said before, or, as the last message, how its answer begins.
    Assistant,
}

/// The template language of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Language {
    /// `{{name}}` stands for a variable, and everything else is text.
    #[default]
    Plain,
    /// Jinja: `{{ name | upper }}`, `{% if … %}`, `{% for … %}`. What is not defined is empty.
    Jinja,
    /// JSON, of which every text is such a template; so no value breaks the JSON around it.
    Json,
}
