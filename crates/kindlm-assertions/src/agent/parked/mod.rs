//! `parked`: the agent waits for a person.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Facts, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::Finding;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::{absent_in, other, whole};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "parked";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent asked a person, and waits for the answer.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The agent does not wait; with `not-` it does.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all questions to a person.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The options of `parked`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct Parked {
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config {} = config::parse_config(value)?;
    Ok(Arc::new(Parked { label: own.label("Parked"), own }))
}

impl Assertion for Parked {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let events = evidence.execution.events();
        let facts = Facts::from_events(&events);
        let asked =
            facts.input_requests.last().map(|it| it.prompt.as_deref().unwrap_or("(no question)"));
        let reason = match (facts.parked, asked) {
            (true, Some(prompt)) => format!("the agent waits for a person: {prompt}"),
            (false, Some(prompt)) => {
                format!("the agent asked a person, but did not wait: {prompt}")
            }
            (_, None) => "the agent asked no person".to_owned(),
        };
        let execution = evidence.execution;
        let finding = Finding::occurs(execution, Channel::InputRequests, facts.parked, reason);
        finding.result_with((ID, &self.label), self.own, || {
            [match asked.filter(|_| self.own.negate) {
                Some(prompt) => whole(other("the agent's question"), prompt, "question"),
                None => absent_in(other("the record"), ["a question that the agent waits for"]),
            }]
        })
    }
}
