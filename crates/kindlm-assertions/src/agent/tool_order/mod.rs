//! `tool-order`: the agent called tools in a given order. Other calls may be between them.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Facts, Question, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{CallPattern, Calls, Finding, Fit, Tool, Undecided, names, tools};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::{is_tool_call, trajectory};
use crate::core::scripting::grading::SCRIPT_THREW;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "tool-order";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent called tools in this order; other calls may stand between them.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "A tool was not called after those before it; with `not-` all were.",
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

/// The order in which tools must have been called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tools in order: names, or patterns for calls.
    #[schemars(length(min = 1))]
    value: Vec<Tool>,
}

#[derive(Debug)]
struct ToolOrder {
    wanted: Vec<CallPattern>,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    let wanted = value.into_iter().enumerate();
    let wanted = wanted.map(|(index, it)| it.pattern(&format!("/value/{index}"), setup));
    let wanted: Vec<CallPattern> = wanted.collect::<Result<_, _>>()?;
    let order: Vec<&str> = wanted.iter().map(|it| it.tool.as_str()).collect();
    let label = own.label(&format!("Tool order: {}", order.join(" → ")));
    Ok(Arc::new(ToolOrder { wanted, label, own }))
}

impl ToolOrder {
    /// Returns the number of expected calls that were made in order.
    ///
    /// Each call counts at its earliest match. If `open` is true, a call with unrecorded facts also counts if it may
    /// match. Fails if a pattern or a script leaves a comparison undecided.
    fn found(&self, calls: &Calls<'_>, open: bool) -> Result<usize, Undecided> {
        let mut found = 0;
        for at in 0..calls.actions.len() {
            let Some(next) = self.wanted.get(found) else { break };
            found += usize::from(match next.fit(at, calls)? {
                Fit::Is => true,
                Fit::Open(_) => open,
                Fit::Differs(_) => false,
            });
        }
        Ok(found)
    }
}

impl Assertion for ToolOrder {
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
        let facts = Facts::from_events(&events);
        let calls = Calls { actions: &facts.actions, evidence };
        let both = self.found(&calls, false).and_then(|it| Ok((it, self.found(&calls, true)?)));
        let (found, at_best) = match both {
            Ok(found) => found,
            Err(undecided) => return undecided.result(ID, &self.label),
        };
        let called = names(facts.actions.iter().filter_map(|it| it.name));
        let last = found.checked_sub(1).and_then(|it| self.wanted.get(it));
        let reason = match (self.wanted.get(found), last) {
            (None, _) => format!("The tools were called in this order; called: {called}"),
            (Some(missing), None) => {
                format!("no matching call of `{}`; called: {called}", missing.tool)
            }
            (Some(missing), Some(last)) => {
                let (missing, last) = (&missing.tool, &last.tool);
                format!("no matching call of `{missing}` after `{last}`; called: {called}")
            }
        };
        let all = self.wanted.len();
        let mut finding =
            Finding::occurs(evidence.execution, Channel::Actions, found == all, reason);
        if finding.holds == Some(false) && at_best == all {
            finding = Finding { holds: None, gap: calls.gap(&self.wanted, 1), ..finding };
        }
        finding.result_with((ID, &self.label), self.own, || {
            let expected = self.wanted.iter().filter(|_| !self.own.negate);
            let expected = expected.map(|it| it.tool.as_str());
            let missing = self.wanted.get(found).map(|it| it.evidence(&calls)).unwrap_or_default();
            let differs = missing.into_iter().filter(is_tool_call);
            [trajectory(expected, tools(&facts.actions))].into_iter().chain(differs)
        })
    }
}
