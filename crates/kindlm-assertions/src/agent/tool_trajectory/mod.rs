//! `tool-trajectory`: the tool calls as a whole match a list of expected calls.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Facts, Question, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{
    CallPattern, Calls, Finding, Fit, Gap, Tool, Undecided, names, shown, tools,
};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::{is_tool_call, trajectory};
use crate::core::scripting::grading::SCRIPT_THREW;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "tool-trajectory";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "All tool calls together match a list: in order, in any order, only these, or at least these.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "A call is missing, or there is one too many; with `not-` all match.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all tool calls, and the recorded ones do not decide.",
            },
            Code {
                code: SCRIPT_THREW,
                summary: "A script in `input` or `output` threw, could not be read, or returned neither `true` nor `false`.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The expected calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The calls: names, or patterns for calls.
    value: Vec<Tool>,
    /// The rule that compares the calls with the expected calls; `strict` by default.
    #[serde(default)]
    mode: Mode,
}

/// The rule that compares the calls with the expected calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "TrajectoryMode")]
enum Mode {
    /// The same calls in the same order, and no others.
    #[default]
    Strict,
    /// The same calls in any order, and no others.
    Unordered,
    /// Only expected calls. Some of the expected calls may be missing.
    Subset,
    /// All expected calls. Further calls may be made too.
    Superset,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Unordered => "unordered",
            Self::Subset => "subset",
            Self::Superset => "superset",
        }
    }
}

#[derive(Debug)]
struct ToolTrajectory {
    wanted: Vec<CallPattern>,
    mode: Mode,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let Config { value, mode } = config::parse_config(value)?;
    let wanted = value.into_iter().enumerate();
    let wanted = wanted.map(|(index, it)| it.pattern(&format!("/value/{index}"), setup));
    let label = own.label(&format!("Tool trajectory ({})", mode.as_str()));
    Ok(Arc::new(ToolTrajectory { wanted: wanted.collect::<Result<_, _>>()?, mode, label, own }))
}

/// Returns a maximum matching: for each expected call, the index of its actual call, or `None` without a match.
///
/// The function uses augmenting paths (Kuhn, 1955). A greedy matching could give a vague expectation the only call that
/// matches a precise one.
fn matched(fits: &[Vec<usize>], calls: usize) -> Vec<Option<usize>> {
    fn augment(
        wanted: usize,
        fits: &[Vec<usize>],
        taken: &mut [Option<usize>],
        tried: &mut [bool],
    ) -> bool {
        for &call in fits.get(wanted).map_or(&[][..], Vec::as_slice) {
            let Some(tried_before) = tried.get_mut(call) else { continue };
            if std::mem::replace(tried_before, true) {
                continue;
            }
            let free = match taken.get(call).copied().flatten() {
                None => true,
                Some(other) => augment(other, fits, taken, tried),
            };
            if free && let Some(slot) = taken.get_mut(call) {
                *slot = Some(wanted);
                return true;
            }
        }
        false
    }
    let mut taken = vec![None; calls];
    for wanted in 0..fits.len() {
        augment(wanted, fits, &mut taken, &mut vec![false; calls]);
    }
    let mut matched = vec![None; fits.len()];
    for (call, wanted) in taken.into_iter().enumerate() {
        if let Some(slot) = wanted.and_then(|it| matched.get_mut(it)) {
            *slot = Some(call);
        }
    }
    matched
}

/// The expected calls and the actual calls that have no match.
struct Left {
    /// The indices of the expected calls without a match.
    missing: Vec<usize>,
    /// The indices of the actual calls without a match.
    extra: Vec<usize>,
}

impl ToolTrajectory {
    /// Returns the unmatched calls of a maximum matching.
    ///
    /// In `strict` mode, a call can match only the expectation at its own position. If `open` is true, a call with
    /// unrecorded facts also counts if it may match. Fails if a pattern or a script leaves a comparison undecided.
    fn left(&self, calls: &Calls<'_>, open: bool) -> Result<Left, Undecided> {
        let count = calls.actions.len();
        let mut fits = Vec::with_capacity(self.wanted.len());
        for (position, wanted) in self.wanted.iter().enumerate() {
            let mut fitting = Vec::new();
            for at in 0..count {
                let here = self.mode != Mode::Strict || at == position;
                let fit = if here { wanted.fit(at, calls)? } else { continue };
                if fit == Fit::Is || (open && matches!(fit, Fit::Open(_))) {
                    fitting.push(at);
                }
            }
            fits.push(fitting);
        }
        let matched = matched(&fits, count);
        let missing = (0..self.wanted.len()).filter(|it| matched.get(*it) == Some(&None));
        let extra = (0..count).filter(|it| !matched.contains(&Some(*it)));
        Ok(Left { missing: missing.collect(), extra: extra.collect() })
    }

    /// Returns true if the mode allows the unmatched calls; `None` if the result depends on unrecorded calls.
    fn holds(&self, left: &Left, complete: bool) -> Option<bool> {
        let (missing, extra) = (left.missing.is_empty(), left.extra.is_empty());
        match self.mode {
            Mode::Superset if missing => Some(true),
            Mode::Superset => complete.then_some(false),
            Mode::Subset | Mode::Unordered if !extra => Some(false),
            Mode::Subset => complete.then_some(true),
            Mode::Strict | Mode::Unordered => complete.then_some(missing && extra),
        }
    }
}

impl Assertion for ToolTrajectory {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let events = evidence.execution.events();
        let actions = &Facts::from_events(&events).actions;
        let calls = Calls { actions, evidence };
        self.wanted.iter().flat_map(|it| it.questions(&calls)).collect()
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let events = evidence.execution.events();
        let actions = Facts::from_events(&events).actions;
        let calls = Calls { actions: &actions, evidence };
        let both = self.left(&calls, false).and_then(|it| Ok((it, self.left(&calls, true)?)));
        let (left, at_best) = match both {
            Ok(left) => left,
            Err(undecided) => return undecided.result(ID, &self.label),
        };
        let complete = evidence.execution.is_complete_for(Channel::Actions);
        let mut holds = self.holds(&left, complete);
        let mut gap = Gap::incomplete(evidence.execution, Channel::Actions);
        if holds == Some(false) && self.holds(&at_best, complete) != Some(false) {
            holds = None;
            let open = left.missing.len().max(left.extra.len());
            gap = calls.gap(&self.wanted, open);
        }
        let missing = left.missing.iter().filter_map(|it| self.wanted.get(*it));
        let missing = names(missing.map(|it| it.tool.as_str()));
        let extra: Vec<String> =
            left.extra.iter().filter_map(|it| actions.get(*it)).map(shown).collect();
        let extra = names(extra.iter().map(String::as_str));
        let reason = match self.mode {
            Mode::Superset => format!("Missing: {missing}"),
            Mode::Subset => format!("Not expected: {extra}"),
            Mode::Strict | Mode::Unordered => format!("Missing: {missing}; not expected: {extra}"),
        };
        Finding { holds, reason, gap }.result_with((ID, &self.label), self.own, || {
            let expected = self.wanted.iter().filter(|_| !self.own.negate);
            let expected = expected.map(|it| it.tool.as_str());
            let missing = left.missing.iter().filter_map(|it| self.wanted.get(*it));
            let differs = missing.flat_map(|it| it.evidence(&calls)).filter(is_tool_call);
            [trajectory(expected, tools(&actions))].into_iter().chain(differs).collect::<Vec<_>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::matched;

    #[test]
    fn a_vague_expectation_does_not_take_the_call_of_a_precise_one() {
        for (fits, calls, expected) in [
            (vec![vec![0, 1], vec![0]], 2, vec![Some(1), Some(0)]),
            (vec![vec![0], vec![0]], 1, vec![Some(0), None]),
            (vec![vec![0, 1], vec![0, 1], vec![1, 2]], 3, vec![Some(0), Some(1), Some(2)]),
            (vec![], 2, vec![]),
            (vec![vec![]], 0, vec![None]),
        ] {
            let matched = matched(&fits, calls);
            let count = |it: &[Option<usize>]| it.iter().flatten().count();
            assert_eq!(count(&matched), count(&expected), "{fits:?}");
            for (wanted, call) in matched.iter().enumerate() {
                assert!(call.is_none_or(|it| fits[wanted].contains(&it)), "{fits:?} {matched:?}");
            }
        }
    }
}
