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
    /// Who answers: one of the keys of `providers`.
    #[schemars(length(min = 1))]
    pub(crate) provider: String,
    /// The vendor's name of the model.
    #[schemars(length(min = 1), extend("examples" = ["gpt-4o-2024-11-20"]))]
    pub(crate) model: String,
    /// How it samples.
    #[serde(default)]
    pub(crate) params: ParamsBlock,
    /// What it costs, in US dollars for a million tokens, instead of the built-in price.
    #[serde(default)]
    pub(crate) price: Option<Price>,
    /// How fast it may be asked. Models of the same provider and name share their limits: the lowest count.
    #[serde(default)]
    pub(crate) limits: Limits,
}

/// How a model samples.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ParamsBlock {
    /// How much chance there is: 0 is greedy, 2 is the most.
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

/// What is said to a model. `{{name}}` stands for a variable of the test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PromptEntry {
    /// Instructions that stand above the conversation.
    #[serde(default)]
    pub(crate) system: Option<String>,
    /// What the user says. Either this or `messages`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) user: Option<String>,
    /// How the answer begins.
    #[serde(default)]
    pub(crate) assistant: Option<String>,
    /// The whole conversation that the prompt is, instead of `system`, `user` and `assistant`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) messages: Option<Vec<MessageEntry>>,
    /// How variables are put in.
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
    /// Who speaks.
    pub(crate) role: Speaker,
    /// What is said.
    pub(crate) content: String,
}

/// Who speaks in a prompt.
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

/// How variables are put into a prompt.
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
