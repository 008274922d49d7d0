//! `event`: events of a type happened a required number of times.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Event, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Count, Counted, EventType, Finding, Gap};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::trajectory;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "event";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Events of a type happened, a number of times.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The number of events differs from the required one; with `not-` it does not.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all events of the type, and the recorded ones do not decide.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The events that must have happened.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The type of the events.
    value: EventType,
    /// The required number of events; at least one by default.
    count: Option<Counted>,
}

#[derive(Debug)]
struct Happened {
    event: EventType,
    count: Count,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: event, count } = config::parse_config(value)?;
    let label = own.label(&format!("Event: {}", event.as_str()));
    Ok(Arc::new(Happened { event, count: Count::new(count)?, label, own }))
}

impl Assertion for Happened {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let name = self.event.as_str();
        let events = evidence.execution.events();
        let count = events.iter().filter(|it| it.type_name() == name).count();
        let channel = self.event.channel();
        let most = evidence.execution.is_complete_for(channel).then_some(count);
        let holds = self.count.holds(count, most);
        let reason =
            format!("Events `{name}`: {count}, expected {}", self.count.expected(self.own.negate));
        let negate = self.own.negate;
        let gap = Gap::incomplete(evidence.execution, channel);
        Finding { holds, reason, gap }.result_with((ID, &self.label), self.own, || {
            let expected = (!negate).then_some(name);
            let actual = events.iter().map(Event::type_name);
            [self.count.evidence("events", count, negate), trajectory(expected, actual)]
        })
    }
}
