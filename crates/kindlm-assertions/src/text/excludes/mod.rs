//! `excludes`: a text is not in the value.

use std::sync::Arc;

use kindlm_types::{Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::Phrase;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::occurs::Occurs;
use crate::{Build, Built, Code, EntryOptions, Meta, Registration, Setup};

const ID: &str = "excludes";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The value contains neither a text nor a match of a pattern.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The value contains the text; with `not-` it does not.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source did not record the output." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The text that must not be in the value.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The text, or a pattern for it. If the checked value is not a string, its JSON is searched.
    value: Phrase,
    /// True to ignore `//` and `/* … */` comments, for a value that is source code.
    #[serde(default)]
    strip_comments: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value, strip_comments } = config::parse_config(value)?;
    let phrase = value.pattern("/value")?;
    let label = own.label(&format!("Excludes {phrase}"));
    Ok(Arc::new(Occurs { id: ID, phrase, label, wanted: own.negate, strip_comments }))
}
