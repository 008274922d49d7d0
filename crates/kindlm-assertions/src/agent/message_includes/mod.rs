//! `message-includes`: the agent's messages contain a text.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, CheckedText, Class, Facts, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Finding, Phrase, PhrasePattern, given_up};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::recorded::missing;
use crate::core::result_evidence::other;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "message-includes";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A message of the agent contains a text.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "No message contains the text; with `not-` one does.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source did not record all messages." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

const SILENT: &str =
    "the command reported no message and no action of an agent, so there may have been no agent";

/// The text that a message must contain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The text, or a pattern for it.
    value: Phrase,
}

#[derive(Debug)]
struct MessageIncludes {
    phrase: PhrasePattern,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    let phrase = value.pattern("/value")?;
    let label = own.label(&format!("Message includes {phrase}"));
    Ok(Arc::new(MessageIncludes { phrase, label, own }))
}

impl Assertion for MessageIncludes {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let events = evidence.execution.events();
        let Facts { said, answers, .. } = Facts::from_events(&events);
        // Without an answer, it is not certain that the command ran an agent.
        if answers == 0 && evidence.execution.exit_code().is_some() {
            return missing(ID, &self.label, SILENT);
        }
        // Each message is searched separately, so a text that is split over two messages is not found.
        let mut found = None;
        for message in &said {
            match self.phrase.is_in(message) {
                Ok(true) => found = Some(*message),
                Ok(false) => continue,
                Err(err) => return given_up(ID, &self.label, &err),
            }
            break;
        }
        let seen = found.is_some();
        let of = match said.len() {
            1 => "the agent's message".to_owned(),
            count => format!("the agent's {count} messages"),
        };
        let reason = if seen {
            format!("{} is in {of}", self.phrase)
        } else {
            format!("{} is not in {of}", self.phrase)
        };
        let finding = Finding::occurs(evidence.execution, Channel::Messages, seen, reason);
        finding.result_with((ID, &self.label), self.own, || {
            let text = found.map_or_else(|| said.join("\n"), str::to_owned);
            let is_output = text == evidence.execution.output;
            let of = if is_output { CheckedText::Output } else { other("the agent's messages") };
            // Without a match in a single message, a match across joined messages does not count.
            [if seen { self.phrase.evidence(of, &text) } else { self.phrase.absence(of) }]
        })
    }
}
