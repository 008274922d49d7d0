//! `gemini`: the `generateContent` method of Google's Gemini API.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::dialect::gemini::{Gemini, Options};
use crate::dialect::settings;
use crate::{Kind, Meta, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "gemini",
        summary: "Google's Gemini API.",
        since: "0.1.0",
        key_variable: Some("GEMINI_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| {
        let config: Config = settings::parse_config(config)?;
        Ok(Box::new(Gemini::new(Options {
            key: config.api_key_env,
            base_url: config.base_url,
            body: config.body,
            hosted_tools: config.hosted_tools,
            system_instruction: config.system_instruction,
        })?))
    }),
};

/// The settings of the Gemini API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "GeminiConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds the key.
    #[schemars(length(min = 1))]
    api_key_env: String,
    /// The base address, before `/models`; `https://generativelanguage.googleapis.com/v1beta` by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// Accepted without effect, because the Gemini API has no organization header.
    #[serde(default, rename = "organization")]
    #[expect(dead_code, reason = "every provider with a key accepts it")]
    organization: Option<String>,
    /// Additional keys for the body of chat requests, as in the API. If KindLM sends an object under the same key, the
    /// two objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
    /// Tools that Google runs, such as `{ google_search: {} }`. They are sent beside the functions of the test.
    #[serde(default)]
    #[schemars(with = "Vec<std::collections::BTreeMap<String, Value>>")]
    hosted_tools: Vec<Map<String, Value>>,
    /// Instructions that come before the system messages of the prompt.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    system_instruction: Vec<String>,
}
