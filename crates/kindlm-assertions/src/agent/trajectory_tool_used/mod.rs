//! `trajectory:tool-used`: the agent used certain tools.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, ResultEvidence, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::named::{Matcher, Pattern, Types, patterns, times};
use crate::agent::trajectory::{Step, Steps, labels, tool_steps};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::range::Range;
use crate::core::recorded::missing;
use crate::core::result_evidence::{self, trajectory};
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "trajectory:tool-used";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent used certain tools.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "A tool was not used, or not the required number of times; with `not-` one was.",
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

const LABEL: &str = "Tools used";

/// The tools that must be used.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tools that must all be used, or one tool with the number of uses.
    value: Tools,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TrajectoryTools")]
enum Tools {
    /// One tool, by its name or a pattern.
    One(#[schemars(length(min = 1))] String),
    /// Several tools, all of which must be used.
    All(#[schemars(length(min = 1))] Vec<String>),
    /// One tool with the number of uses.
    Counted(Counted),
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TrajectoryToolCount")]
struct Counted {
    /// The name of the tool, which may also be a pattern.
    name: Option<String>,
    /// A pattern for the tool's name: `*` is any text, `?` is one character. Case does not matter.
    pattern: Option<String>,
    /// The type of the step. Only `tool` is possible here.
    #[serde(rename = "type")]
    types: Option<Types>,
    /// The lowest number of uses that passes; 1 by default.
    min: Option<u64>,
    /// The highest number of uses that passes.
    max: Option<u64>,
}

#[derive(Debug)]
enum Expected {
    All(Vec<Pattern>),
    Counted(Pattern, Range),
}

impl Expected {
    /// Returns the evidence of a failure: the expected and the used tools.
    ///
    /// For `Counted`, the number of uses comes first.
    fn evidence(&self, steps: &[Step], negate: bool) -> Vec<ResultEvidence> {
        let used = steps.iter().map(|it| it.name.as_str());
        let (wanted, count) = match self {
            Self::All(wanted) => (wanted.as_slice(), None),
            Self::Counted(wanted, range) => {
                let count = steps.iter().filter(|it| wanted.matches(it)).count();
                let range = Range { min: range.min.or(Some(1)), ..*range };
                let count = result_evidence::counted("uses", count, range, negate);
                (std::slice::from_ref(wanted), Some(count))
            }
        };
        let expected = wanted.iter().filter(|_| !negate).map(|it| it.pattern.as_str());
        count.into_iter().chain([trajectory(expected, used)]).collect()
    }
}

#[derive(Debug)]
struct ToolUsed {
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
        Tools::One(name) => Expected::All(vec![Pattern::tool(&name)]),
        Tools::All(names) => Expected::All(names.iter().map(|it| Pattern::tool(it)).collect()),
        Tools::Counted(Counted { name, pattern, types, min, max }) => {
            let pattern = Pattern::new(&Matcher { name, pattern, types }, "/value")?;
            Expected::Counted(pattern, Range::new(min, max, "/value")?)
        }
    };
    Ok(Arc::new(ToolUsed { expected, negate: own.negate }))
}

/// Grades the condition that all tools were used, or with `negate`, that no tool was used.
///
/// Returns `None` if the grade depends on unknown steps.
fn all(wanted: &[Pattern], steps: &Steps, negate: bool) -> Option<Grade> {
    let used = |it: &&Pattern| steps.seen.iter().any(|step| it.matches(step));
    let (present, absent): (Vec<_>, Vec<_>) = wanted.iter().partition(used);
    let is_decided = if negate { !present.is_empty() } else { absent.is_empty() };
    if steps.missing.is_some() && !is_decided {
        return None;
    }
    let actual = labels(&steps.seen);
    let (pass, reason) = match (negate, present.is_empty(), absent.is_empty()) {
        (true, true, _) => (true, format!("Forbidden tool(s) were not used: {}", patterns(wanted))),
        (true, false, _) => {
            let used = patterns(present);
            (false, format!("Forbidden tool(s) were used: {used}. Actual tools: {actual}"))
        }
        (false, _, true) => {
            let wanted = patterns(wanted);
            (true, format!("Observed required tool(s): {wanted}. Actual tools: {actual}"))
        }
        (false, _, false) => {
            let missing = patterns(absent);
            (false, format!("Missing required tool(s): {missing}. Actual tools: {actual}"))
        }
    };
    Some(Grade::with(pass, reason))
}

/// Grades the number of uses; `None` if the grade depends on unknown steps.
fn counted(wanted: &Pattern, range: Range, steps: &Steps, negate: bool) -> Option<Grade> {
    let found: Vec<&Step> = steps.seen.iter().filter(|it| wanted.matches(it)).collect();
    let count = found.len();
    let least = Range { min: range.min.or(Some(1)), ..range };
    let holds = least.surely_holds(count, steps.most(count))?;
    let name = &wanted.pattern;
    if negate {
        let reason = if holds {
            format!("Tool \"{name}\" matched {count} time(s), which violates the inverse assertion")
        } else {
            format!("Tool \"{name}\" did not satisfy the forbidden match condition")
        };
        return Some(Grade::with(!holds, reason));
    }
    let expected = times(range, 1);
    let mut reason = format!("Matched tool \"{name}\" {count} time(s) (expected {expected})");
    if !found.is_empty() {
        reason.push_str(". Matches: ");
        reason.push_str(&labels(found));
    }
    Some(Grade::with(holds, reason))
}

impl Assertion for ToolUsed {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let steps = match tool_steps(evidence.execution) {
            Ok(steps) => steps,
            Err(why) => return missing(ID, LABEL, &why),
        };
        let grade = match &self.expected {
            Expected::All(wanted) => all(wanted, &steps, self.negate),
            Expected::Counted(wanted, range) => counted(wanted, *range, &steps, self.negate),
        };
        match grade {
            Some(grade) => vec![
                grade
                    .result(ID, LABEL)
                    .with_failure_evidence(|| self.expected.evidence(&steps.seen, self.negate)),
            ],
            None => steps.undecided(ID, LABEL),
        }
    }
}
