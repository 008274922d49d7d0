//! `trajectory:step-count`: the number of steps that an agent took.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::named::Types;
use crate::agent::trajectory::{Step, StepType, Steps, labels, steps};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::range::Range;
use crate::core::recorded::missing;
use crate::core::result_evidence::counted;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "trajectory:step-count";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent took a certain number of steps.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "There are too few or too many steps; with `not-` the number is within the limits.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "Neither a trace nor tool calls were recorded, or the recorded ones do not decide.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

const LABEL: &str = "Steps";

/// The limits for the number of steps.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The steps to count, and the limits.
    value: Counted,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TrajectorySteps")]
struct Counted {
    /// The type of the steps, or several types; all types by default.
    #[serde(default, rename = "type")]
    types: Option<Types>,
    /// A pattern for the name of the steps; by default, all steps.
    ///
    /// `*` is any text, `?` is one character. Case does not matter.
    #[serde(default)]
    pattern: Option<String>,
    /// The name of the steps, which may also be a pattern.
    #[serde(default)]
    name: Option<String>,
    /// The lowest number of steps that passes.
    #[serde(default)]
    min: Option<u64>,
    /// The highest number of steps that passes.
    #[serde(default)]
    max: Option<u64>,
}

#[derive(Debug)]
struct StepCount {
    types: Option<Vec<StepType>>,
    pattern: Option<String>,
    range: Range,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config { value: Counted { types, pattern, name, min, max } } = parse_config(config)?;
    if min.is_none() && max.is_none() {
        let problem = Problem::new("/value", "`min` or `max` is required");
        return Err(vec![problem.with_help("add one of them, or both")]);
    }
    Ok(Arc::new(StepCount {
        types: types.map(|it| it.as_slice().to_vec()),
        pattern: [pattern, name].into_iter().flatten().find(|it| !it.is_empty()),
        range: Range::new(min, max, "/value")?,
        negate: own.negate,
    }))
}

impl StepCount {
    fn counts(&self, step: &Step) -> bool {
        self.types.as_ref().is_none_or(|it| it.contains(&step.kind))
            && self.pattern.as_ref().is_none_or(|it| step.is_called(it))
    }

    /// Describes the conditions for counted steps, for the reason of a result.
    fn which(&self) -> String {
        let mut parts = Vec::new();
        if let Some(types) = &self.types {
            let names: Vec<&str> = types.iter().map(|it| it.name()).collect();
            parts.push(format!("type={}", names.join("|")));
        }
        if let Some(pattern) = &self.pattern {
            parts.push(format!("pattern={pattern}"));
        }
        if parts.is_empty() { String::new() } else { format!(" for {}", parts.join(", ")) }
    }

    /// Returns the grade of the known steps; `None` if the grade depends on unknown steps.
    fn grade(&self, steps: &Steps) -> Option<Grade> {
        let found: Vec<&Step> = steps.seen.iter().filter(|it| self.counts(it)).collect();
        let holds = self.range.surely_holds(found.len(), steps.most(found.len()))?;
        if self.negate {
            let did = if holds { "satisfied" } else { "did not satisfy" };
            let reason = format!("Trajectory step count {did} the forbidden range");
            return Some(Grade::with(!holds, reason));
        }
        let mut reason = format!("Matched {} trajectory step(s){}", found.len(), self.which());
        if let Some(expected) = self.range.expected() {
            reason = format!("{reason} (expected {expected})");
        }
        if !found.is_empty() {
            reason.push_str(". Matches: ");
            reason.push_str(&labels(found));
        }
        Some(Grade::with(holds, reason))
    }
}

impl Assertion for StepCount {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        match steps(evidence.execution) {
            Err(why) => missing(ID, LABEL, &why),
            Ok(steps) => match self.grade(&steps) {
                Some(grade) => vec![grade.result(ID, LABEL).with_failure_evidence(|| {
                    let count = steps.seen.iter().filter(|it| self.counts(it)).count();
                    [counted("steps", count, self.range, self.negate)]
                })],
                None => steps.undecided(ID, LABEL),
            },
        }
    }
}
