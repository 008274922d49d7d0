//! `skill-used`: the agent used certain skills.

use std::sync::Arc;

use kindlm_types::{
    Action, ActionState, AssertionResult, Channel, Class, Execution, Facts, Problem,
    ResultEvidence, Severity, ToolCall, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::named::{nameless, times};
use crate::agent::skills;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::range::Range;
use crate::core::recorded::{knows_tool_calls, metadata, missing, missing_evidence_advice};
use crate::core::result_evidence::{self, trajectory};
use crate::shared::glob;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "skill-used";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent used certain skills.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "A skill was not used, or not the required number of times; with `not-` one was.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The used skills are unknown." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

const LABEL: &str = "Skills used";

/// The skills that must be used.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The skills that must all be used, or one skill with the number of uses.
    value: Skills,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Skills")]
enum Skills {
    /// The name of one skill.
    One(#[schemars(length(min = 1))] String),
    /// Several skills, all of which must be used.
    All(#[schemars(length(min = 1))] Vec<String>),
    /// One skill with the number of uses.
    Counted(Counted),
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SkillCount")]
struct Counted {
    /// The name of the skill.
    name: Option<String>,
    /// A pattern for the skill's name: `*` is any text, `?` is one character. Case does not matter.
    pattern: Option<String>,
    /// The lowest number of uses that passes. The default is 0 if `max` is set, else 1.
    min: Option<u64>,
    /// The highest number of uses that passes.
    max: Option<u64>,
}

/// A skill to search for.
#[derive(Debug)]
struct Wanted {
    name: Option<String>,
    pattern: Option<String>,
}

impl Wanted {
    fn named(name: &str) -> Self {
        Self { name: Some(name.trim().to_owned()), pattern: None }
    }

    fn matches(&self, skill: &Skill) -> bool {
        self.name.as_ref().is_none_or(|it| *it == skill.name)
            && self.pattern.as_ref().is_none_or(|it| glob::matches(&skill.name, it))
    }

    fn label(&self) -> &str {
        self.pattern.as_ref().or(self.name.as_ref()).map_or("*", String::as_str)
    }
}

#[derive(Debug)]
enum Expected {
    All(Vec<Wanted>),
    Counted(Wanted, Range),
}

#[derive(Debug)]
struct SkillUsed {
    expected: Expected,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config { value } = parse_config(config)?;
    let expected = match value {
        Skills::One(name) => Expected::All(vec![Wanted::named(&name)]),
        Skills::All(names) => Expected::All(names.iter().map(|it| Wanted::named(it)).collect()),
        Skills::Counted(Counted { name, pattern, min, max }) => {
            let said = |text: Option<String>| {
                text.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
            };
            let wanted = Wanted { name: said(name), pattern: said(pattern) };
            if wanted.name.is_none() && wanted.pattern.is_none() {
                return Err(vec![nameless("/value")]);
            }
            if own.negate && (min.is_some() || max.is_some_and(|it| it != 0)) {
                let message =
                    "`not-skill-used` forbids any use, so it takes no `min`, and no `max` except 0";
                return Err(vec![
                    Problem::new("/value", message).with_help("use `skill-used` with `max`"),
                ]);
            }
            Expected::Counted(wanted, Range::new(min, max, "/value")?)
        }
    };
    Ok(Arc::new(SkillUsed { expected, negate: own.negate }))
}

/// A skill that was used.
#[derive(Debug)]
struct Skill {
    name: String,
    /// The source and the path of the skill, as far as they are known.
    details: Vec<String>,
}

impl Skill {
    fn label(&self) -> String {
        if self.details.is_empty() {
            self.name.clone()
        } else {
            format!("{} ({})", self.name, self.details.join(", "))
        }
    }

    /// Reads a recorded use; `None` if the use failed or has no name.
    fn from_call(call: &Value) -> Option<Self> {
        if call.get("is_error") == Some(&Value::Bool(true)) {
            return None;
        }
        let text = |key: &str| call.get(key).and_then(Value::as_str).map(str::to_owned);
        let details = ["source", "path"].iter().filter_map(|key| text(key));
        Some(Self { name: text("name")?, details: details.filter(|it| !it.is_empty()).collect() })
    }

    /// Returns the skill that a call loaded; `None` if the call names no skill, or calls another tool.
    fn loaded(call: &ToolCall) -> Option<Self> {
        let name = skills::of_call(&call.name, &call.arguments)?.to_owned();
        Some(Self { name, details: Vec::new() })
    }
}

/// The skills that were used.
struct Used {
    /// The recorded skills, in order.
    skills: Vec<Skill>,
    /// The reason why there may be further skills; `None` if all skills are recorded.
    more: Option<String>,
}

impl Used {
    fn from_execution(execution: &Execution) -> Self {
        let told = metadata(execution, "skillCalls").and_then(Value::as_array);
        let more = match (&told, execution.completeness.gaps.first()) {
            (_, Some(gap)) => Some(gap.clone()),
            (Some(_), None) => None,
            (None, None) if !knows_tool_calls(execution) => {
                Some("add `metadata.skillCalls` or `tool_calls` to the record".to_owned())
            }
            (None, None) => (!execution.is_complete_for(Channel::Actions)).then(|| {
                let why = missing_evidence_advice(execution, Channel::Actions);
                format!("the source may not have recorded all tool calls{why}")
            }),
        };
        if let Some(calls) = told {
            return Self { skills: calls.iter().filter_map(Skill::from_call).collect(), more };
        }
        let events = execution.events();
        let actions = Facts::from_events(&events).actions;
        let calls = execution.tool_calls.iter().enumerate();
        // Several calls may share an id. The actions of these calls have the same order as the calls.
        let has_failed = |at: usize, call: &ToolCall| {
            let before = execution.tool_calls.iter().take(at).filter(|it| it.id == call.id).count();
            let of_id = actions.iter().filter(|it| it.call_id == call.id && it.name.is_some());
            let action = of_id.clone().nth(before).or_else(|| of_id.clone().next_back());
            action.is_some_and(|it| skills::has_failed(it.state))
        };
        let held = calls.filter(|(at, call)| !has_failed(*at, call));
        // `Facts` assigns a result to the latest call with the same id. If parallel calls share an id, their states can
        // be wrong.
        let is_pending = |it: &&Action<'_>| it.state == ActionState::Pending;
        let mixed = actions.iter().filter(is_pending).find(|pending| {
            let mut others = actions.iter().filter(|it| it.call_id == pending.call_id);
            others.any(|it| skills::has_failed(it.state))
        });
        let more = more.or_else(|| {
            let id = mixed?.call_id;
            Some(format!("several calls have the id `{id}`, so it is unclear which of them failed"))
        });
        Self { skills: held.filter_map(|(_, call)| Skill::loaded(call)).collect(), more }
    }
}

impl Expected {
    /// Returns the evidence of a failure: the expected and the used skills.
    ///
    /// For a counted skill without `not-`, the number of uses comes first.
    fn evidence(&self, skills: &[Skill], negate: bool) -> Vec<ResultEvidence> {
        let used = skills.iter().map(|it| it.name.as_str());
        let wanted = match self {
            Self::All(wanted) => wanted.as_slice(),
            Self::Counted(wanted, _) => std::slice::from_ref(wanted),
        };
        let expected = wanted.iter().filter(|_| !negate).map(Wanted::label);
        let mut evidence = vec![trajectory(expected, used)];
        if let (Self::Counted(wanted, range), false) = (self, negate) {
            let count = skills.iter().filter(|it| wanted.matches(it)).count();
            let least = u64::from(range.max.is_none());
            let range = Range { min: range.min.or(Some(least)), ..*range };
            evidence.insert(0, result_evidence::counted("uses", count, range, false));
        }
        evidence
    }

    /// Returns true if further unrecorded skills could not change the verdict.
    fn is_certain(&self, pass: bool, negate: bool, skills: &[Skill]) -> bool {
        match self {
            _ if negate => !pass,
            Self::All(_) => pass,
            Self::Counted(_, range) if pass => range.max.is_none(),
            Self::Counted(wanted, range) => {
                let count = skills.iter().filter(|it| wanted.matches(it)).count();
                range.max.is_some_and(|max| u64::try_from(count).is_ok_and(|it| it > max))
            }
        }
    }
}

fn labels<'a>(skills: impl IntoIterator<Item = &'a Skill>) -> String {
    let labels: Vec<String> = skills.into_iter().map(Skill::label).collect();
    if labels.is_empty() { "(none)".to_owned() } else { labels.join(", ") }
}

fn names<'a>(wanted: impl IntoIterator<Item = &'a Wanted>) -> String {
    wanted.into_iter().map(Wanted::label).collect::<Vec<_>>().join(", ")
}

fn all(wanted: &[Wanted], skills: &[Skill], negate: bool) -> Grade {
    let used = |it: &&Wanted| skills.iter().any(|skill| it.matches(skill));
    let (present, absent): (Vec<_>, Vec<_>) = wanted.iter().partition(used);
    let actual = labels(skills);
    let (pass, reason) = match (negate, present.is_empty(), absent.is_empty()) {
        (true, true, _) => (true, format!("Forbidden skill(s) were not used: {}", names(wanted))),
        (true, false, _) => {
            let used = names(present);
            (false, format!("Forbidden skill(s) were used: {used}. Actual skills: {actual}"))
        }
        (false, _, true) => {
            let wanted = names(wanted);
            (true, format!("Observed required skill(s): {wanted}. Actual skills: {actual}"))
        }
        (false, _, false) => {
            let missing = names(absent);
            (false, format!("Missing required skill(s): {missing}. Actual skills: {actual}"))
        }
    };
    Grade::with(pass, reason)
}

fn counted(wanted: &Wanted, range: Range, skills: &[Skill], negate: bool) -> Grade {
    let found: Vec<&Skill> = skills.iter().filter(|it| wanted.matches(it)).collect();
    let (count, name) = (found.len(), wanted.label());
    if negate {
        let reason = if count == 0 {
            format!("Forbidden skill \"{name}\" was not used. Actual skills: {}", labels(skills))
        } else {
            let found = labels(found);
            format!("Forbidden skill \"{name}\" was used {count} time(s). Matches: {found}")
        };
        return Grade::with(count == 0, reason);
    }
    // `max` without `min` also allows that the skill is not used.
    let least = u64::from(range.max.is_none());
    let holds = Range { min: range.min.or(Some(least)), ..range }.holds(count);
    let expected = times(range, least);
    let mut reason = format!("Matched skill \"{name}\" {count} time(s) (expected {expected})");
    if !found.is_empty() {
        reason.push_str(". Matches: ");
        reason.push_str(&labels(found));
    }
    Grade::with(holds, reason)
}

impl Assertion for SkillUsed {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let Used { skills, more } = Used::from_execution(evidence.execution);
        let grade = match &self.expected {
            Expected::All(wanted) => all(wanted, &skills, self.negate),
            Expected::Counted(wanted, range) => counted(wanted, *range, &skills, self.negate),
        };
        match more {
            Some(why) if !self.expected.is_certain(grade.pass, self.negate, &skills) => {
                missing(ID, LABEL, &format!("the used skills are unknown: {why}"))
            }
            _ => vec![
                grade
                    .result(ID, LABEL)
                    .with_failure_evidence(|| self.expected.evidence(&skills, self.negate)),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::Event;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failed_call_does_not_hide_another_with_its_id() {
        let call = |skill: &str| ToolCall {
            id: "a".to_owned(),
            name: "skill".to_owned(),
            arguments: json!({"skill": skill}),
            ..ToolCall::default()
        };
        let result =
            |status: &str| json!({"type": "action.result", "callId": "a", "status": status});
        let parallel =
            ["failed", "completed"].map(|it| serde_json::from_value(result(it)).unwrap());
        let calls = ["one", "two"].map(call);
        let execution = Execution {
            recorded_events: calls.iter().flat_map(Event::of_call).chain(parallel).collect(),
            tool_calls: calls.to_vec(),
            ..Execution::default()
        };
        let more = Used::from_execution(&execution).more;
        assert!(more.is_some_and(|it| it.contains("several calls have the id `a`")));
        for (statuses, used) in [
            (["failed", "completed"], vec!["two"]),
            (["completed", "failed"], vec!["one"]),
            (["completed", "completed"], vec!["one", "two"]),
            (["failed", "rejected"], vec![]),
        ] {
            let mut events = Vec::new();
            for (skill, status) in ["one", "two"].into_iter().zip(statuses) {
                events.extend(Event::of_call(&call(skill)));
                events.push(serde_json::from_value(result(status)).unwrap());
            }
            let execution = Execution {
                tool_calls: vec![call("one"), call("two")],
                recorded_events: events,
                ..Execution::default()
            };
            let found = Used::from_execution(&execution).skills;
            let found: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(found, used);
        }
    }
}
