//! `contains-any`: at least one of several texts is in the output.

use std::sync::Arc;

use kindlm_types::{Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::needles::{Needles, Several};
use crate::{Build, Built, Code, EntryOptions, Meta, Registration, Setup};

const ID: &str = "contains-any";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output contains at least one of several texts.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output contains none of the texts.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The texts to search for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// Texts, as a list or comma-separated; at least one must be in the output.
    value: Several,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    Ok(Arc::new(Needles::any(ID, config.value, false, own)?))
}
