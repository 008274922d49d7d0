//! `events-satisfy`: a script decides whether the events are right.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, FailureCode, Question, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Finding, Gap, Undecided};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::scripting::grading::SCRIPT_THREW;
use crate::core::scripting::{Predicate, ScriptsBlock, label};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "events-satisfy";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Your own script returns `true` for the list of events.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The script returns `false`; with `not-` it returns `true`.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all evidence that the script needs.",
            },
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

/// The script that decides whether the events are right.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The script that gets `events` and `context`.
    ///
    /// It is an expression of `events` and `context`, a function of both, the body of a function, or `file://check.js`.
    #[schemars(length(min = 1))]
    value: String,
    /// The kinds of evidence that the script reads; all kinds by default. The check is errored if evidence of these
    /// kinds is incomplete.
    #[schemars(length(min = 1))]
    needs: Option<Vec<Channel>>,
    /// The runtime and the permissions of the script, if they differ from the suite's.
    scripts: Option<ScriptsBlock>,
}

#[derive(Debug)]
struct EventsSatisfy {
    predicate: Predicate,
    needs: Vec<Channel>,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let Config { value, needs, scripts } = config::parse_config(value)?;
    let settings = setup.script_settings(scripts.as_ref())?;
    let predicate = Predicate::new(&value, "events", settings, setup)
        .map_err(|problem| vec![problem.under("/value")])?;
    let label = own.label(&label("Events satisfy", &value));
    let needs = needs.unwrap_or_else(|| Channel::ALL.to_vec());
    Ok(Arc::new(EventsSatisfy { predicate, needs, label, own }))
}

impl EventsSatisfy {
    /// Returns the first incomplete kind of evidence in `needs`; `None` if all these kinds are complete.
    fn incomplete_channel(&self, evidence: &Evidence<'_>) -> Option<Channel> {
        self.needs.iter().copied().find(|it| !evidence.execution.is_complete_for(*it))
    }

    fn result(&self, events: &Value, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        match self.predicate.holds(events, evidence) {
            Ok(holds) => {
                let count = events.as_array().map_or(0, Vec::len);
                let reason = format!("the script returned `{holds}` for {count} events");
                let gap = Gap::Unanswered(0);
                Finding { holds: Some(holds), reason, gap }.result(ID, &self.label, self.own)
            }
            Err(no_verdict) => Undecided::from(no_verdict).result(ID, &self.label),
        }
    }
}

/// Returns the events as JSON, for the script.
fn events(evidence: &Evidence<'_>) -> Value {
    serde_json::to_value(evidence.execution.events()).unwrap_or_default()
}

impl Assertion for EventsSatisfy {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        // The script does not run on incomplete evidence.
        let known = self.incomplete_channel(evidence).is_none();
        known.then(|| self.predicate.question(&events(evidence), evidence)).into_iter().collect()
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        if let Some(channel) = self.incomplete_channel(evidence) {
            let reason = "The script looks at everything that `needs` names".to_owned();
            let gap = Gap::incomplete(evidence.execution, channel);
            return Finding { holds: None, reason, gap }.result(ID, &self.label, self.own);
        }
        let events = events(evidence);
        let results = self.result(&events, evidence).into_iter();
        results.map(|it| self.predicate.with_console(it, &events, evidence)).collect()
    }
}
