//! `loaded-skill`: the agent loaded a skill.

use std::sync::Arc;

use kindlm_types::{
    ActionState, ActionStatus, AssertionResult, Channel, Class, Severity, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::skills;
use crate::core::behaviour::{Finding, Gap, names};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::trajectory;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "loaded-skill";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent loaded a skill.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The agent did not load the skill; with `not-` it did.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all loaded skills.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The skill that must have been loaded.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The name of the skill.
    #[schemars(length(min = 1))]
    value: String,
}

#[derive(Debug)]
struct LoadedSkill {
    skill: String,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: skill } = config::parse_config(value)?;
    let label = own.label(&format!("Loaded skill: {skill}"));
    Ok(Arc::new(LoadedSkill { skill, label, own }))
}

impl Assertion for LoadedSkill {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        const LOADED: ActionState = ActionState::Ended(ActionStatus::Completed);
        let execution = evidence.execution;
        let events = execution.events();
        let loads = skills::loads(&events);
        let wanted = skills::plain(&self.skill);
        let states = || loads.iter().filter(|it| it.skill == wanted).map(|it| it.state);
        let of = |is_meant: &dyn Fn(ActionState) -> bool| -> Vec<&str> {
            loads.iter().filter(|it| is_meant(it.state)).map(|it| it.skill).collect()
        };
        let mut reason = format!("Skills loaded: {}", names(of(&|it| it == LOADED)));
        let failed = of(&skills::has_failed);
        if !failed.is_empty() {
            reason = format!("{reason}; failed: {}", names(failed));
        }
        let open = states().filter(|it| *it == ActionState::Pending).count();
        let seen = states().any(|it| it == LOADED);
        if !seen && open > 0 && execution.is_complete_for(Channel::Skills) {
            let finding = Finding { holds: None, reason, gap: Gap::Unanswered(open) };
            return finding.result(ID, &self.label, self.own);
        }
        let finding = Finding::occurs(execution, Channel::Skills, seen, reason);
        finding.result_with((ID, &self.label), self.own, || {
            let expected = (!self.own.negate).then_some(wanted);
            [trajectory(expected, of(&|it| it == LOADED))]
        })
    }
}
