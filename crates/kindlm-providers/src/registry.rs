//! The registration of providers.

use kindlm_types::Definitions;
use kindlm_types::Problem;
use serde_json::{Value, json};

use crate::{Codec, Providers, SocketCodec};

/// The description of a provider.
///
/// There is no `Default` and no constructor: an entry states all of these facts in a literal. A further fact changes
/// every entry, also those of other crates.
#[derive(Debug)]
pub struct Meta {
    /// The id: the key under `providers`, and the part before the colon in shorthands. A shorthand is `provider:model`.
    pub id: &'static str,
    /// The summary of the provider, in one sentence.
    pub summary: &'static str,
    /// The version of KindLM that introduced the provider.
    pub since: &'static str,
    /// The default environment variable of the API key. It applies to `provider:model` without a `providers` entry.
    pub key_variable: Option<&'static str>,
    /// True if `provider:model` works without any configuration.
    pub shorthand: bool,
    /// True if a program may run behind the provider, such as an agent with tools. Answers then count as incomplete
    /// evidence, unless the program or the suite declares them complete.
    pub wraps_agent: bool,
    /// The documentation page. Its examples are tests.
    pub docs: &'static str,
}

/// Creates a codec from a configuration that has passed its schema. Fails with the problems of the configuration.
pub type MakeCodec = fn(&Value) -> Result<Box<dyn Codec>, Vec<Problem>>;

/// Creates a codec of websockets from a configuration that has passed its schema. Fails with the problems of the
/// configuration.
pub type MakeSocketCodec = fn(&Value) -> Result<Box<dyn SocketCodec>, Vec<Problem>>;

/// The way to reach a provider.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One HTTP exchange for each request, through a codec.
    Http(MakeCodec),
    /// One websocket for each request, through a codec.
    Socket(MakeSocketCodec),
    /// A special client, which is selected by the provider's id. The function checks the configuration.
    Special(fn(&Value) -> Result<(), Vec<Problem>>),
}

/// An entry of the registry.
#[derive(Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The description, which the documentation and the help show.
    pub meta: Meta,
    /// The JSON Schema of the provider's configuration.
    pub schema: fn(&mut Definitions) -> Value,
    /// The way to reach the provider. Its configuration has passed `schema` before.
    pub kind: Kind,
}

impl Registration {
    /// Creates an entry.
    pub const fn new(meta: Meta, schema: fn(&mut Definitions) -> Value, kind: Kind) -> Self {
        Self { meta, schema, kind }
    }

    /// Returns the configuration of a shorthand `provider:model`. It holds only the default key variable, if the
    /// provider has one.
    ///
    /// Returns `None` if the provider requires a configuration.
    pub fn default_config(&self) -> Option<Value> {
        self.meta.shorthand.then(|| match self.meta.key_variable {
            Some(variable) => json!({"apiKeyEnv": variable}),
            None => json!({}),
        })
    }
}

/// Parses `provider:model`, such as `openai:gpt-4o` or `ollama:llama3:8b`.
///
/// Returns `None` if the provider is unknown, if it requires a configuration ([`Registration::default_config`]), or if
/// the model is missing.
///
/// ```
/// let known = kindlm_providers::built_in();
/// let (provider, model) = kindlm_providers::shorthand(&known, "openai:gpt-4o").unwrap();
/// assert_eq!((provider.meta.id, model), ("openai", "gpt-4o"));
/// assert_eq!(provider.default_config().unwrap()["apiKeyEnv"], "OPENAI_API_KEY");
/// assert!(kindlm_providers::shorthand(&known, "gpt-4o").is_none());
/// ```
pub fn shorthand<'t>(known: &Providers, text: &'t str) -> Option<(&'static Registration, &'t str)> {
    let (provider, model) = text.split_once(':')?;
    let provider = known.find(provider).filter(|it| it.meta.shorthand && !model.is_empty())?;
    Some((provider, model))
}
