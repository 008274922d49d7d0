//! `called-tool`: the agent called a tool with a certain input, a required number of times.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Event, Facts, Question, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{
    Call, CallPattern, Calls, Count, Counted, Finding, Fit, State, Tool, names, shown, tools,
};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::trajectory;
use crate::core::scripting::grading::SCRIPT_THREW;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "called-tool";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent called a tool, optionally with an input, a result, a status and a number of calls.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The agent made no such call, or not the required number; with `not-` it made one.",
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

/// The calls that must have been made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tool's own name, or a kind such as `shell`.
    #[schemars(length(min = 1))]
    value: String,
    /// The pattern for the arguments.
    ///
    /// Objects may have more keys, but lists may not have more items. `{$regex: …}` matches by a regular expression,
    /// and `{$script: …}` decides by a script.
    input: Option<Value>,
    /// The pattern for the result, with the same rules as `input`.
    output: Option<Value>,
    /// The status that the calls must have.
    status: Option<State>,
    /// The tool that must be called after the matching call.
    before: Option<Tool>,
    /// The tool that must be called before the matching call.
    after: Option<Tool>,
    /// The required number of calls; at least one by default.
    count: Option<Counted>,
}

#[derive(Debug)]
struct CalledTool {
    pattern: CallPattern,
    count: Count,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let Config { value: tool, input, output, status, before, after, count } =
        config::parse_config(value)?;
    let label = own.label(&format!("Called tool: {tool}"));
    let pattern = Call { tool, input, output, status, before, after }.pattern("", setup)?;
    Ok(Arc::new(CalledTool { pattern, count: Count::new(count)?, label, own }))
}

impl Assertion for CalledTool {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let events = evidence.execution.events();
        let actions = &Facts::from_events(&events).actions;
        self.pattern.questions(&Calls { actions, evidence })
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        self.finding(&evidence.execution.events(), evidence)
    }
}

impl CalledTool {
    fn finding(&self, events: &[Event], evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let facts = Facts::from_events(events);
        let calls = Calls { actions: &facts.actions, evidence };
        let mut found: Vec<String> = Vec::new();
        let mut closest = None;
        let mut open = 0;
        for (at, action) in facts.actions.iter().enumerate() {
            if !self.pattern.may_be(action) {
                continue;
            }
            match self.pattern.fit(at, &calls) {
                Ok(Fit::Is) => found.push(shown(action)),
                Ok(Fit::Open(what)) => {
                    open += 1;
                    closest = closest.or(Some(what));
                }
                Ok(Fit::Differs(difference)) => closest = closest.or(Some(difference)),
                Err(undecided) => return undecided.result(ID, &self.label),
            }
        }
        let complete = evidence.execution.is_complete_for(Channel::Actions);
        let gap = calls.gap(std::slice::from_ref(&self.pattern), open);
        let details = match closest {
            _ if !found.is_empty() => format!(": {}", names(found.iter().map(String::as_str))),
            Some(difference) => format!("; one call differs: {difference}"),
            None => format!("; called: {}", names(facts.actions.iter().filter_map(|it| it.name))),
        };
        let (tool, expected) = (&self.pattern.tool, self.count.expected(self.own.negate));
        let times = times(found.len());
        let reason =
            format!("`{tool}` was called with this pattern {times}, expected {expected}{details}");
        let most = complete.then_some(found.len() + open);
        let holds = self.count.holds(found.len(), most);
        Finding { holds, reason, gap }.result_with((ID, &self.label), self.own, || {
            if found.is_empty() && !self.own.negate {
                return self.pattern.evidence(&calls);
            }
            let expected = (!self.own.negate).then_some(tool.as_str());
            let count = self.count.evidence("calls", found.len(), self.own.negate);
            vec![count, trajectory(expected, tools(&facts.actions))]
        })
    }
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
