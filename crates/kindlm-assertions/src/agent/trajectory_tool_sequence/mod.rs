//! `trajectory:tool-sequence`: the order in which an agent used tools.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::named::{Pattern, Wanted, patterns};
use crate::agent::trajectory::{Step, labels, tool_steps};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::recorded::missing;
use crate::core::result_evidence::trajectory;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "trajectory:tool-sequence";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent used tools in a certain order.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The tools were not used in this order; with `not-` they were.",
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

const LABEL: &str = "Tool sequence";

/// The order in which tools must be used.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tools in order, or an object with the tools and the mode.
    value: Sequence,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TrajectorySequence")]
enum Sequence {
    /// The tools in order. Other tools may come between them.
    Steps(#[schemars(length(min = 1))] Vec<Wanted>),
    /// An object with the tools in order, and the mode.
    With(With),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TrajectorySequenceValue")]
struct With {
    /// The tools in order.
    #[schemars(length(min = 1))]
    steps: Vec<Wanted>,
    /// The rule for other tools; `in_order` by default.
    #[serde(default)]
    mode: Mode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TrajectorySequenceMode")]
enum Mode {
    /// Other tools may come before, between and after.
    #[default]
    InOrder,
    /// Only these tools, in this order.
    Exact,
}

#[derive(Debug)]
struct ToolSequence {
    wanted: Vec<Pattern>,
    mode: Mode,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config { value } = parse_config(config)?;
    let (steps, mode, at) = match value {
        Sequence::Steps(steps) => (steps, Mode::InOrder, "/value"),
        Sequence::With(With { steps, mode }) => (steps, mode, "/value/steps"),
    };
    let wanted = steps.iter().enumerate();
    let wanted = wanted.map(|(index, it)| Pattern::from_wanted(it, &format!("{at}/{index}")));
    let wanted = wanted.collect::<Result<_, _>>()?;
    Ok(Arc::new(ToolSequence { wanted, mode, negate: own.negate }))
}

impl ToolSequence {
    fn exactly(&self, steps: &[Step]) -> (bool, String) {
        let pairs = self.wanted.iter().zip(steps);
        let holds =
            steps.len() == self.wanted.len() && pairs.clone().all(|(it, step)| it.matches(step));
        let actual = labels(steps);
        let reason = if holds {
            format!("Observed exact tool sequence: {actual}")
        } else {
            let wanted = patterns(&self.wanted);
            format!("Expected exact tool sequence of {wanted}, but actual tools were {actual}")
        };
        (holds, reason)
    }

    fn in_order(&self, steps: &[Step]) -> (bool, String) {
        let mut next = self.wanted.iter().peekable();
        let found = steps.iter().filter(|step| next.next_if(|it| it.matches(step)).is_some());
        let found: Vec<&Step> = found.collect();
        let actual = labels(steps);
        match next.peek() {
            None => {
                let found = labels(found);
                (true, format!("Observed tool sequence in order: {found}. Actual tools: {actual}"))
            }
            Some(Pattern { pattern, .. }) => {
                let reason = format!(
                    "Expected tool \"{pattern}\" was not observed in order. Actual tools: {actual}"
                );
                (false, reason)
            }
        }
    }
}

impl Assertion for ToolSequence {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let steps = match tool_steps(evidence.execution) {
            Ok(steps) => steps,
            Err(why) => return missing(ID, LABEL, &why),
        };
        let seen = &steps.seen;
        let (holds, reason) = match self.mode {
            Mode::InOrder => self.in_order(seen),
            Mode::Exact => self.exactly(seen),
        };
        // If the known steps contain the sequence in order, no unknown step can change that.
        if steps.missing.is_some() && !(holds && self.mode == Mode::InOrder) {
            return steps.undecided(ID, LABEL);
        }
        let grade = match (self.negate, holds) {
            (false, _) => Grade::with(holds, reason),
            (true, true) => {
                let actual = labels(seen);
                let reason =
                    format!("Forbidden tool sequence was observed. Actual tools: {actual}");
                Grade::with(false, reason)
            }
            (true, false) => {
                Grade::with(true, "Forbidden tool sequence was not observed".to_owned())
            }
        };
        vec![grade.result(ID, LABEL).with_failure_evidence(|| {
            let expected = self.wanted.iter().filter(|_| !self.negate);
            let expected = expected.map(|it| it.pattern.as_str());
            [trajectory(expected, seen.iter().map(|it| it.name.as_str()))]
        })]
    }
}
