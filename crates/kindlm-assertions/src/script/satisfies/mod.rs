//! `satisfies`: a script decides whether the value is right.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, FailureCode, Question, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::Undecided;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::on::{judged_value, shown};
use crate::core::scripting::grading::SCRIPT_THREW;
use crate::core::scripting::{Predicate, ScriptsBlock, label};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "satisfies";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Your own script returns `true` for the value.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The script returns `false`; with `not-` it returns `true`.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source did not record the output." },
            Code {
                code: SCRIPT_THREW,
                summary: "The script threw, could not be read, or returned neither `true` nor `false`.",
            },
            Code {
                code: FailureCode::SCRIPT_ERROR,
                summary: "The script was stopped, or could not be run.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Script(build),
};

/// The script that decides whether the value is right.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The script that gets `value` and `context`.
    ///
    /// It is an expression of `value` and `context`, a function of both, the body of a function, or `file://check.js`.
    #[schemars(length(min = 1))]
    value: String,
    /// The runtime and the permissions of the script, if they differ from the suite's.
    scripts: Option<ScriptsBlock>,
}

#[derive(Debug)]
struct Satisfies {
    predicate: Predicate,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let Config { value, scripts } = config::parse_config(value)?;
    let settings = setup.script_settings(scripts.as_ref())?;
    let predicate = Predicate::new(&value, "value", settings, setup)
        .map_err(|problem| vec![problem.under("/value")])?;
    let label = own.label(&label("Satisfies", &value));
    Ok(Arc::new(Satisfies { predicate, label, own }))
}

impl Satisfies {
    fn result(&self, value: &Value, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let holds = match self.predicate.holds(value, evidence) {
            Ok(holds) => holds,
            Err(no_verdict) => return Undecided::from(no_verdict).result(ID, &self.label),
        };
        let reason = format!("the script returned `{holds}` for {}", shown(value));
        vec![Grade::with(holds != self.own.negate, reason).result(ID, &self.label)]
    }
}

impl Assertion for Satisfies {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let value = judged_value(evidence.execution, ID, &self.label);
        value.into_iter().map(|it| self.predicate.question(&it, evidence)).collect()
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let value = match judged_value(evidence.execution, ID, &self.label) {
            Ok(value) => value,
            Err(results) => return results,
        };
        let results = self.result(&value, evidence).into_iter();
        results.map(|it| self.predicate.with_console(it, &value, evidence)).collect()
    }
}
