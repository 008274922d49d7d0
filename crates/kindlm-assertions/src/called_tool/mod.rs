//! `called-tool`: a tool was called, with a certain input, so often.

use std::sync::Arc;

use kindlm_types::{Action, ActionState, AssertionResult, Channel, Class, Facts};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::behaviour::{
    Call, CallPattern, Count, Counted, Finding, Gap, State, given_up, names, shown, tells_all,
};
use crate::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::{Assertion, Build, Built, Code, Evidence, Meta, Own, Registration, Setup, config};

const ID: &str = "called-tool";

/// Looks for calls of a tool.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A tool was called: with a certain input, answer or status, so often.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The tool was not called so, or not so often; with `not-` it was.",
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

/// Which calls must have been made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tool's own name, or a kind such as `shell`.
    #[schemars(length(min = 1))]
    value: String,
    /// What the arguments must look like: objects may have more keys, lists not more items, `{$regex: …}` is a pattern.
    input: Option<Value>,
    /// What the answer must look like, in the same way.
    output: Option<Value>,
    /// How the calls must have ended.
    status: Option<State>,
    /// How often; at least once if absent.
    count: Option<Counted>,
}

#[derive(Debug)]
struct CalledTool {
    pattern: CallPattern,
    count: Count,
    label: String,
    own: Own,
}

fn build(value: &Value, own: Own, _setup: &Setup<'_>) -> Built {
    let Config { value: tool, input, output, status, count } = config::read(value)?;
    let label = own.label(&format!("Called tool: {tool}"));
    let pattern = Call { tool, input, output, status }.pattern("")?;
    Ok(Arc::new(CalledTool { pattern, count: Count::new(count)?, label, own }))
}

impl Assertion for CalledTool {
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let events = evidence.execution.events();
        let facts = Facts::of(&events);
        let mut found: Vec<&Action<'_>> = Vec::new();
        let mut closest = None;
        let mut unanswered = 0;
        for action in facts.actions.iter().filter(|it| it.is_called(&self.pattern.tool)) {
            match self.pattern.differs(action) {
                Ok(None) => found.push(action),
                Ok(Some(difference)) => {
                    let open = action.state == ActionState::Pending;
                    unanswered += usize::from(open && self.pattern.asks_for_the_answer());
                    closest = closest.or(Some(difference));
                }
                Err(err) => return given_up(ID, &self.label, &err),
            }
        }
        // A call whose result nobody told may have ended in any way.
        let complete = tells_all(evidence.execution, Channel::Actions);
        let gap =
            if complete { Gap::Unanswered(unanswered) } else { Gap::Untold(Channel::Actions) };
        let calls: Vec<String> = found.iter().map(|it| shown(it)).collect();
        let details = match closest {
            _ if !found.is_empty() => format!(": {}", names(calls.iter().map(String::as_str))),
            Some(difference) => format!("; of a call of it, {difference}"),
            None => format!("; called: {}", names(facts.actions.iter().filter_map(|it| it.name))),
        };
        let (tool, expected) = (&self.pattern.tool, self.count.words());
        let times = times(found.len());
        let reason = format!("`{tool}` was called so {times}, expected {expected}{details}");
        let holds = self.count.holds(found.len(), complete && unanswered == 0);
        Finding { holds, reason, gap }.result(ID, &self.label, self.own)
    }
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
