//! `event-order`: events happened in a given order. Other events may be between them.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Event, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{EventType, Finding, Gap};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::trajectory;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "event-order";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Events of these types happened in this order; others may stand between them.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "An event did not happen after those before it; with `not-` all did.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all events of a type, and the recorded ones do not decide.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The order in which events must have happened.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The types of the events, in order.
    #[schemars(length(min = 1))]
    value: Vec<EventType>,
}

#[derive(Debug)]
struct EventOrder {
    wanted: Vec<EventType>,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: wanted } = config::parse_config(value)?;
    let order: Vec<&str> = wanted.iter().map(|it| it.as_str()).collect();
    let label = own.label(&format!("Event order: {}", order.join(" → ")));
    Ok(Arc::new(EventOrder { wanted, label, own }))
}

/// Returns the number of expected events that happened in order.
///
/// Each event counts at its earliest occurrence.
fn in_order(wanted: &[EventType], events: &[Event]) -> usize {
    events.iter().fold(0, |found, event| {
        let is_next = wanted.get(found).is_some_and(|it| it.as_str() == event.type_name());
        found + usize::from(is_next)
    })
}

impl Assertion for EventOrder {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let events = execution.events();
        let found = in_order(&self.wanted, &events);
        // Events of an incomplete channel may have happened without a record. So only the events of complete channels
        // can prove a wrong order.
        let is_complete = |it: &EventType| execution.is_complete_for(it.channel());
        let (complete, incomplete): (Vec<_>, Vec<_>) =
            self.wanted.iter().copied().partition(is_complete);
        let holds = if found == self.wanted.len() {
            Some(true)
        } else if in_order(&complete, &events) < complete.len() {
            Some(false)
        } else {
            None
        };
        // An undecided check expects at least one event of an incomplete channel.
        let gap =
            Gap::incomplete(execution, incomplete.first().unwrap_or(&EventType::Message).channel());
        let reason =
            match (self.wanted.get(found), found.checked_sub(1).and_then(|it| self.wanted.get(it)))
            {
                (None, _) => "The events happened in this order".to_owned(),
                (Some(missing), None) => format!("`{}` did not happen", missing.as_str()),
                (Some(missing), Some(last)) => {
                    format!("`{}` did not happen after `{}`", missing.as_str(), last.as_str())
                }
            };
        Finding { holds, reason, gap }.result_with((ID, &self.label), self.own, || {
            let expected = self.wanted.iter().filter(|_| !self.own.negate);
            [trajectory(expected.map(|it| it.as_str()), events.iter().map(Event::type_name))]
        })
    }
}
