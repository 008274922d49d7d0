//! How a provider is registered.

use kindlm_types::Problem;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::{Codec, Providers};

/// What is known about a provider without using it.
#[derive(Debug)]
pub struct Meta {
    /// The id: its key under `providers`, and the part before the colon in `provider:model`.
    pub id: &'static str,
    /// What it is: one sentence.
    pub summary: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// The environment variable that usually holds its key, for `provider:model` without a `providers` entry.
    pub key_variable: Option<&'static str>,
    /// True if it can be used as `provider:model` without any configuration.
    pub shorthand: bool,
    /// True if any program may be behind it, an agent with tools of its own for example. Then an answer is not known to
    /// hold all that happened, unless the program or the suite says so.
    pub wraps_agent: bool,
    /// The page, whose examples are tests.
    pub docs: &'static str,
}

/// Makes a codec from a configuration that has passed its schema, or says everything that is wrong with it.
pub type MakeCodec = fn(&Value) -> Result<Box<dyn Codec>, Vec<Problem>>;

/// How a provider is reached.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// By one HTTP exchange for each request.
    Http(MakeCodec),
    /// By a client of its own, which the transport knows by the provider's id.
    Special(fn(&Value) -> Result<(), Vec<Problem>>),
}

/// One entry of the registry.
#[derive(Debug)]
pub struct Registration {
    /// What is known without using it.
    pub meta: Meta,
    /// JSON Schema of its configuration.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// How it is reached, given its configuration, which has passed `schema`.
    pub kind: Kind,
}

impl Registration {
    /// The configuration that `provider:model` means without a `providers` entry: the usual variable for the key.
    ///
    /// `None` if the provider cannot be used without configuration.
    pub fn default_config(&self) -> Option<Value> {
        self.meta.shorthand.then(|| match self.meta.key_variable {
            Some(variable) => json!({"apiKeyEnv": variable}),
            None => json!({}),
        })
    }
}

/// Reads `provider:model`, such as `openai:gpt-4o` or `ollama:llama3:8b`.
///
/// `None` if there is no such provider, if it cannot be used without configuration
/// ([`Registration::default_config`]), or if no model is named.
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
