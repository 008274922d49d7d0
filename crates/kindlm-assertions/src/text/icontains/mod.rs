//! `icontains`: a text is in the output, ignoring case.

use std::sync::Arc;

use kindlm_types::{Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::needles::{Needles, One};
use crate::{Build, Built, Code, EntryOptions, Meta, Registration, Setup};

const ID: &str = "icontains";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output contains a text, ignoring case.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code { code: ASSERTION_FAILED, summary: "The output does not contain the text." }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The text to search for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The text that must be in the output; not empty.
    value: One,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    Ok(Arc::new(Needles::one(ID, config.value, true, own)?))
}
