//! `used-no-tools`: the agent called no tool.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Facts, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Finding, names, tools};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::{absent_in, other, trajectory};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "used-no-tools";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent called no tool.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "A tool was called; with `not-` none was." },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all tool calls, and the recorded ones do not decide.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The options of `used-no-tools`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct UsedNoTools {
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config {} = config::parse_config(value)?;
    Ok(Arc::new(UsedNoTools { label: own.label("Used no tools"), own }))
}

impl Assertion for UsedNoTools {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let events = execution.events();
        let facts = Facts::from_events(&events);
        let called = names(facts.actions.iter().map(|it| it.name.unwrap_or("(unknown)")));
        let reason = format!("Called: {called}");
        let occurs = !facts.actions.is_empty();
        Finding::does_not_occur(execution, Channel::Actions, occurs, reason).result_with(
            (ID, &self.label),
            self.own,
            || {
                [if self.own.negate {
                    absent_in(other("the record"), ["a tool call"])
                } else {
                    trajectory([""; 0], tools(&facts.actions))
                }]
            },
        )
    }
}
