//! `judge:factuality`: compares the facts of the output with a reference, with graded scores.

use kindlm_types::{Class, Severity, schema_of};
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::judging::{JUDGE_EVAL_ERROR, JUDGE_PARSE_ERROR};
use crate::judge::factual::{Config, Factuality, Flavour};
use crate::{Build, Built, Code, EntryOptions, Meta, Registration, Setup};

const ID: &str = "judge:factuality";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The facts in the output agree with a reference, as a score to watch.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Soft,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The score of the judge's finding is 0, or below the threshold.",
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
    Factuality::build(ID, Flavour::Autoevals, config, own, setup)
}
