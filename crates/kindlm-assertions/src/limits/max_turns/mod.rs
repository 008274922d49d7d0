//! `max-turns`: an upper limit for the turns of the agent.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Facts, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::Limit;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "max-turns";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent took at most a number of turns (answers of the model).",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The measure is above the limit; with `not-` it is not.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source did not record all messages." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The limit for turns.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The highest number of turns that passes. A turn is one answer of the model.
    #[schemars(range(min = 0))]
    value: u32,
}

#[derive(Debug)]
struct MaxTurns(Limit);

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: most } = config::parse_config(value)?;
    let label = own.label(&format!("At most {most} turns"));
    Ok(Arc::new(MaxTurns(Limit { most: most.into(), label, own })))
}

impl Assertion for MaxTurns {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.0.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let events = execution.events();
        let reported = u32::try_from(Facts::from_events(&events).answers).unwrap_or(u32::MAX);
        // For models that KindLM calls itself, each request counts as a turn.
        let answered = if execution.exit_code().is_none() { execution.requests } else { 0 };
        let known = execution.is_complete_for(Channel::Messages);
        let turns = Some(reported.max(answered)).filter(|it| known && *it > 0).map(f64::from);
        let shown = |turns: f64| format!("{turns} turns");
        let unknown =
            "the number of turns is unknown: the source may not have recorded all messages";
        self.0.result(ID, turns, ("turns", Some("turns")), shown, unknown)
    }
}
