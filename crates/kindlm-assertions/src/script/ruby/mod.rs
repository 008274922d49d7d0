//! `ruby`: a Ruby script of the user decides.

use std::sync::Arc;

use kindlm_types::script::ScriptRuntime;
use kindlm_types::{Class, FailureCode, Problem, Severity, schema_of};
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::scripting::grading::SCRIPT_THREW;
use crate::core::scripting::interpreted::{Interpreted, Language, Script};
use crate::{Assertion, Build, Code, EntryOptions, Meta, Registration, Setup};

static LANGUAGE: Language =
    Language { id: "ruby", name: "Ruby", endings: &[".rb"], runtime: ScriptRuntime::Ruby };

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: LANGUAGE.id,
        path: None,
        summary: "Your own Ruby script decides; the installed interpreter runs it, outside the sandbox.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "The script rejects the output." },
            Code {
                code: SCRIPT_THREW,
                summary: "The script raised an exception, could not be read, or returned a value that is not a verdict.",
            },
            Code {
                code: FailureCode::SCRIPT_ERROR,
                summary: "The script was stopped, or could not be run, so the check is errored.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Script>,
    build: Build::Script(build),
};

fn build(
    config: &Value,
    own: EntryOptions,
    setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    Interpreted::build(&LANGUAGE, config, own, setup)
}
