//! How a provider is registered.

use kindlm_types::Problem;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::Codec;

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
    /// Whether it can be used as `provider:model` without any configuration.
    pub shorthand: bool,
    /// The page, whose examples are tests.
    pub docs: &'static str,
}

/// How a provider is reached.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// By one HTTP exchange for each request.
    Http(fn(&Value) -> Result<Box<dyn Codec>, Vec<Problem>>),
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
