//! `tool-order`: tools were called in this order, with any others between.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Facts};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::behaviour::{CallPattern, Finding, Tool, given_up, names};
use crate::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::{Assertion, Build, Built, Code, Evidence, Meta, Own, Registration, Setup, config};

const ID: &str = "tool-order";

/// Looks for calls in a certain order.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Tools were called in this order; other calls may stand between.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "A tool was not called after those before it; with `not-` all were.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source does not tell all tool calls, and those it tells do not decide.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Own(build),
};

/// The order in which tools must have been called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tools in their order: names, or calls that look like this.
    #[schemars(length(min = 1))]
    value: Vec<Tool>,
}

#[derive(Debug)]
struct ToolOrder {
    wanted: Vec<CallPattern>,
    label: String,
    own: Own,
}

fn build(value: &Value, own: Own, _setup: &Setup<'_>) -> Built {
    let Config { value } = config::read(value)?;
    let wanted = value.into_iter().enumerate();
    let wanted = wanted.map(|(index, it)| it.pattern(&format!("/value/{index}")));
    let wanted: Vec<CallPattern> = wanted.collect::<Result<_, _>>()?;
    let order: Vec<&str> = wanted.iter().map(|it| it.tool.as_str()).collect();
    let label = own.label(&format!("Tool order: {}", order.join(" → ")));
    Ok(Arc::new(ToolOrder { wanted, label, own }))
}

impl Assertion for ToolOrder {
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let events = evidence.execution.events();
        let facts = Facts::of(&events);
        let mut found = 0;
        for action in &facts.actions {
            let Some(next) = self.wanted.get(found) else { break };
            match next.matches(action) {
                Ok(is_next) => found += usize::from(is_next),
                Err(err) => return given_up(ID, &self.label, &err),
            }
        }
        let called = names(facts.actions.iter().filter_map(|it| it.name));
        let last = found.checked_sub(1).and_then(|it| self.wanted.get(it));
        let reason = match (self.wanted.get(found), last) {
            (None, _) => format!("The tools were called in this order; called: {called}"),
            (Some(missing), None) => format!("`{}` was not called; called: {called}", missing.tool),
            (Some(missing), Some(last)) => {
                let (missing, last) = (&missing.tool, &last.tool);
                format!("`{missing}` was not called after `{last}`; called: {called}")
            }
        };
        let seen = found == self.wanted.len();
        Finding::seen(evidence.execution, Channel::Actions, seen, reason).result(
            ID,
            &self.label,
            self.own,
        )
    }
}
