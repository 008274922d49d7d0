//! `similar`: the similarity of the output's meaning to that of a text.

use std::sync::Arc;

use kindlm_types::{Class, Problem, Severity, schema_of};
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::nearness::{Config, EMBEDDING_FAILED, Metric, Similar};
use crate::{Assertion, Build, Code, EntryOptions, Meta, Registration, Setup};

const ID: &str = "similar";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output is close to a text in meaning, by the cosine of their embeddings.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The output is not close enough; with `not-` it is too close.",
            },
            Code {
                code: EMBEDDING_FAILED,
                summary: "A text could not be embedded, or the embeddings cannot be compared.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

fn build(
    config: &Value,
    own: EntryOptions,
    setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    Similar::build(ID, Metric::Cosine, config, own, setup)
}
