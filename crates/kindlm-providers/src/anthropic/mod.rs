//! `anthropic`: the Messages API of Anthropic.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::dialect::anthropic::{Anthropic, Options};
use crate::dialect::settings;
use crate::{Kind, Meta, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "anthropic",
        summary: "The Messages API of Anthropic.",
        since: "0.1.0",
        key_variable: Some("ANTHROPIC_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| {
        let config: Config = settings::parse_config(config)?;
        let Config { api_key_env: key, base_url, headers, body, hosted_tools, .. } = config;
        let (stream, prompt_cache) = (config.stream, config.prompt_cache);
        let options = Options { key, base_url, headers, body, hosted_tools, stream, prompt_cache };
        Ok(Box::new(Anthropic::new(options)?))
    }),
};

/// The settings of the Anthropic API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AnthropicConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds the key.
    #[schemars(length(min = 1))]
    api_key_env: String,
    /// The base address, before `/v1/messages`; `https://api.anthropic.com` by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// Accepted without effect, because the Anthropic API has no organization header.
    #[serde(default, rename = "organization")]
    #[expect(dead_code, reason = "every provider with a key accepts it")]
    organization: Option<String>,
    /// More headers, such as those of a gateway. A value that starts with `env:` or `Bearer env:` names an environment
    /// variable that holds the value or the token.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The tools that Anthropic runs itself, as in the API: `[{ type: web_search_20250305, name: web_search }]`. The
    /// model may call them beside the tools of a test.
    #[serde(default)]
    hosted_tools: Vec<Map<String, Value>>,
    /// True to request a streamed answer, for servers that offer nothing else, and to measure the time to the first token.
    #[serde(default)]
    stream: bool,
    /// True to mark the tools and the system messages for the prompt cache of Anthropic, so that later requests with the
    /// same beginning cost less.
    #[serde(default)]
    prompt_cache: bool,
    /// Additional keys for the body of chat requests, as in the API. If KindLM sends an object under the same key, the
    /// two objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
}
