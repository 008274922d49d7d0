//! `openai`: the chat completions and embeddings of OpenAI, and of every compatible server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::dialect::openai::{OpenAi, Options};
use crate::dialect::settings;
use crate::{Kind, Meta, Registration, StructuredOutput};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "openai",
        summary: "Chat completions of OpenAI, and of every server with the same API.",
        since: "0.1.0",
        key_variable: Some("OPENAI_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| {
        let config: Config = settings::read(config)?;
        Ok(Box::new(OpenAi::new(Options {
            key: config.api_key_env,
            base_url: config.base_url,
            organization: config.organization,
            headers: config.headers,
            logprobs: config.logprobs,
            body: config.body,
            structured_output: config.structured_output,
        })?))
    }),
};

/// The settings of OpenAI, or of a compatible server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OpenaiConfig")]
struct Config {
    /// The name of the environment variable that holds the key; `null` for a server without keys.
    #[schemars(with = "Value", extend("type" = ["string", "null"], "minLength" = 1))]
    api_key_env: Option<String>,
    /// The base address, before `/chat/completions`; `https://api.openai.com/v1` by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// The organization, sent as `OpenAI-Organization`.
    #[serde(default)]
    organization: Option<String>,
    /// More headers, such as those of a gateway. A value that starts with `env:` names an environment variable that
    /// holds the value.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// True to request the log probabilities of the answer's tokens, which `perplexity` needs. Some models do not
    /// support this.
    #[serde(default)]
    logprobs: bool,
    /// Additional keys for the body of chat requests, as in the API: `response_format`, `reasoning_effort`, …
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
    /// The form in which judges request JSON: `schema` (`response_format`), `tool` (a tool that the model must call)
    /// or `none` (instructions alone). By default, KindLM starts with `schema`, and uses the next form when the model
    /// rejects one.
    #[serde(default)]
    structured_output: Option<StructuredOutput>,
}
