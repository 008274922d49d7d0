//! `model-graded-closedqa`: a judge answers one question about the output with yes or no.

use kindlm_types::{Class, Severity, schema_of};
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::judging::{JUDGE_EVAL_ERROR, JUDGE_PARSE_ERROR};
use crate::judge::closed_qa::{ClosedQa, Config};
use crate::{Build, Built, Code, EntryOptions, Meta, Registration, Setup};

const ID: &str = "model-graded-closedqa";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output meets a criterion, yes or no; a judge model decides.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The judge finds that the criterion is not met.",
            },
            JUDGE_PARSE_ERROR,
            JUDGE_EVAL_ERROR,
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Graded(build),
};

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    ClosedQa::build(ID, config, own, setup)
}
