//! `echo`: answers with the last user message.

use kindlm_types::{Problem, Prompt, Reply, Role, Usage};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::dialect::prompt::recorded_text;
use crate::{Kind, Meta, Registration};

/// The registration of the provider `echo`.
pub static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "echo",
        summary: "Answers with the last user message, to try templates and checks.",
        since: "0.1.0",
        key_variable: None,
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Special(|config| Config::from_value(config).map(|_| ())),
};

/// The settings of the echo.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "EchoConfig")]
pub struct Config {
    /// The text before the repeated message; empty by default.
    #[serde(default)]
    pub prefix: String,
    /// True to repeat the whole prompt (a chat as JSON) instead of the last user message.
    #[serde(default)]
    pub whole: bool,
}

impl Config {
    /// Parses the configuration. Fails if its form is invalid.
    pub fn from_value(config: &Value) -> Result<Self, Vec<Problem>> {
        serde_json::from_value(config.clone())
            .map_err(|err| vec![Problem::new("", err.to_string())])
    }

    /// Returns the reply: the prefix, and the last user message or the whole prompt. Each word counts as one token.
    pub fn reply(&self, prompt: &Prompt) -> Reply {
        let message = if self.whole {
            recorded_text(prompt)
        } else {
            let last = prompt.messages.iter().rfind(|it| it.role == Role::User);
            last.map(|it| it.content.clone()).unwrap_or_default()
        };
        let text = format!("{}{message}", self.prefix);
        let input = prompt.messages.iter().map(|it| count_words(&it.content)).sum();
        let output = count_words(&text);
        Reply {
            usage: Usage::counted(Some(input), Some(output), None, None),
            model: prompt.model.clone(),
            ..Reply::text(text)
        }
    }
}

fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
