//! `max-tool-calls`: the agent called tools at most a given number of times.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Facts, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Finding, Gap, names};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::range::Range;
use crate::core::result_evidence::counted;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "max-tool-calls";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent made at most a number of tool calls.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The agent made more calls; with `not-` it did not.",
            },
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

/// The limit for tool calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The highest number of calls that passes.
    value: u64,
}

#[derive(Debug)]
struct MaxToolCalls {
    most: u64,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: most } = config::parse_config(value)?;
    Ok(Arc::new(MaxToolCalls {
        most,
        label: own.label(&format!("At most {most} tool calls")),
        own,
    }))
}

impl Assertion for MaxToolCalls {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let events = evidence.execution.events();
        let facts = Facts::from_events(&events);
        let count = facts.actions.len();
        let called = names(facts.actions.iter().map(|it| it.name.unwrap_or("(unknown)")));
        let reason = format!("{count} tool calls, at most {} expected: {called}", self.most);
        let over = u64::try_from(count).is_ok_and(|count| count > self.most);
        let known = over || evidence.execution.is_complete_for(Channel::Actions);
        let gap = Gap::incomplete(evidence.execution, Channel::Actions);
        let range = Range { min: None, max: Some(self.most) };
        Finding { holds: known.then_some(!over), reason, gap }.result_with(
            (ID, &self.label),
            self.own,
            || [counted("tool calls", count, range, self.own.negate)],
        )
    }
}
