//! `loaded-skill`: the agent loaded a skill.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Facts};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::behaviour::{Finding, names};
use crate::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::{Assertion, Build, Built, Code, Evidence, Meta, Own, Registration, Setup, config};

const ID: &str = "loaded-skill";

/// Looks for a skill among those that were loaded.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent loaded a skill.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The skill was not loaded; with `not-` it was.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source does not tell all skills that were loaded.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Own(build),
};

/// Which skill must have been loaded.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The skill's name.
    #[schemars(length(min = 1))]
    value: String,
}

#[derive(Debug)]
struct LoadedSkill {
    skill: String,
    label: String,
    own: Own,
}

fn build(value: &Value, own: Own, _setup: &Setup<'_>) -> Built {
    let Config { value: skill } = config::read(value)?;
    let label = own.label(&format!("Loaded skill: {skill}"));
    Ok(Arc::new(LoadedSkill { skill, label, own }))
}

impl Assertion for LoadedSkill {
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let events = evidence.execution.events();
        let facts = Facts::of(&events);
        // Agents without an event of their own for it load skills through a tool.
        let by_tool = facts.actions.iter().filter_map(|it| match it.name {
            Some("load_skill" | "Skill" | "skill") => {
                let name = ["skill", "name", "command"];
                name.iter().find_map(|key| it.input.get(key)?.as_str())
            }
            _ => None,
        });
        let loaded: Vec<&str> = facts.skills.iter().copied().chain(by_tool).collect();
        let seen = loaded.contains(&self.skill.as_str());
        let reason = format!("Skills loaded: {}", names(loaded));
        Finding::seen(evidence.execution, Channel::Skills, seen, reason).result(
            ID,
            &self.label,
            self.own,
        )
    }

    fn label(&self) -> Option<&str> {
        Some(&self.label)
    }

    fn sees_output(&self) -> bool {
        false
    }
}
