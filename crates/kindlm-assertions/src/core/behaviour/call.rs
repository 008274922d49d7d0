//! Patterns for tool calls.

use std::borrow::Cow;

use kindlm_types::{
    Action, ActionState, ActionStatus, Channel, Execution, Mismatch, Problem, Question,
    ResultEvidence, ecma,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Gap, Undecided, Wanted, literal};
use crate::core::result_evidence::{call, trajectory};
use crate::{Evidence, Setup};

/// The name of a tool, or a pattern for a call of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "WantedTool")]
pub(crate) enum Tool {
    /// The tool's own name, or a kind such as `shell`. Any call of the tool matches.
    Name(#[schemars(length(min = 1))] String),
    /// A call that matches this pattern.
    Call(Box<Call>),
}

/// A pattern for a tool call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WantedCall")]
pub(crate) struct Call {
    /// The tool's own name, or a kind such as `shell`.
    #[schemars(length(min = 1))]
    pub(crate) tool: String,
    /// The pattern for the arguments.
    ///
    /// Objects may have more keys. `{$regex: …}` matches by a regular expression, and `{$script: …}` decides by a
    /// script.
    pub(crate) input: Option<Value>,
    /// The pattern for the result, with the same rules as `input`.
    pub(crate) output: Option<Value>,
    /// The status that the call must have.
    pub(crate) status: Option<State>,
    /// The tool that must be called after the matching call.
    pub(crate) before: Option<Tool>,
    /// The tool that must be called before the matching call.
    pub(crate) after: Option<Tool>,
}

/// The status of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CallState")]
pub(crate) enum State {
    /// No result of the call is recorded.
    Pending,
    /// The call succeeded.
    Completed,
    /// The call failed.
    Failed,
    /// The call was not permitted.
    Rejected,
}

impl State {
    pub(crate) fn is(self, state: ActionState) -> bool {
        let meant = match self {
            Self::Pending => ActionState::Pending,
            Self::Completed => ActionState::Ended(ActionStatus::Completed),
            Self::Failed => ActionState::Ended(ActionStatus::Failed),
            Self::Rejected => ActionState::Ended(ActionStatus::Rejected),
        };
        meant == state
    }
}

/// A compiled pattern for tool calls.
#[derive(Clone, Debug)]
pub(crate) struct CallPattern {
    pub(crate) tool: String,
    input: Option<Wanted>,
    output: Option<Wanted>,
    status: Option<State>,
    before: Option<Box<CallPattern>>,
    after: Option<Box<CallPattern>>,
}

/// The result of comparing a call with a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The call matches.
    Is,
    /// The call does not match, for this reason.
    Differs(String),
    /// The recorded part of the call matches, but some of its facts are not known.
    ///
    /// The text names the unknown fact: the tool, the arguments, the status, the output, or a call before or after.
    Open(String),
}

/// The calls to search, and the evidence that contains the calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls<'a> {
    pub(crate) actions: &'a [Action<'a>],
    pub(crate) evidence: &'a Evidence<'a>,
}

impl Calls<'_> {
    /// Returns the missing evidence that leaves comparisons of calls undecided.
    ///
    /// `open` is the number of undecided calls.
    pub(crate) fn gap(&self, wanted: &[CallPattern], open: usize) -> Gap {
        let execution = self.evidence.execution;
        let asks_input = wanted.iter().any(|it| it.input.is_some());
        let is_half = |it: &Action<'_>| {
            it.name.is_none()
                || (asks_input && (it.input.is_null() || is_unreadable(it, execution)))
        };
        if !execution.is_complete_for(Channel::Actions) {
            Gap::incomplete(execution, Channel::Actions)
        } else if self.actions.iter().any(is_half) {
            Gap::Half(Channel::Actions, open)
        } else {
            Gap::Unanswered(open)
        }
    }
}

impl Tool {
    /// Compiles the pattern. `at` is its place in the configuration.
    ///
    /// Fails if a name is written as a regular expression, or if a part of the pattern is invalid.
    pub(crate) fn pattern(self, at: &str, setup: &Setup<'_>) -> Result<CallPattern, Vec<Problem>> {
        match self {
            Self::Name(tool) if let Some(problem) = literal::refused_name(&tool, at) => {
                Err(vec![problem])
            }
            Self::Name(tool) => Ok(CallPattern {
                tool,
                input: None,
                output: None,
                status: None,
                before: None,
                after: None,
            }),
            Self::Call(call) => call.pattern(at, setup),
        }
    }
}

impl Call {
    /// Compiles the pattern. `at` is its place in the configuration.
    ///
    /// Fails if a name is written as a regular expression, or if a part of the pattern is invalid. Also fails if the
    /// call in `before` or `after` has `before` or `after` itself.
    pub(crate) fn pattern(self, at: &str, setup: &Setup<'_>) -> Result<CallPattern, Vec<Problem>> {
        let wanted = |value: Option<Value>, key: &str| {
            value.map(|it| Wanted::new(&it, &format!("{at}/{key}"), setup)).transpose()
        };
        let neighbour = |tool: Option<Tool>, key: &str| {
            let at = format!("{at}/{key}");
            let Some(tool) = tool else { return Ok(None) };
            let pattern = tool.pattern(&at, setup)?;
            if pattern.before.is_some() || pattern.after.is_some() {
                let message = format!("a call in `{key}` has no `before` or `after` of its own");
                let help = "put it into another entry: each constraint is between two calls";
                return Err(vec![Problem::new(at, message).with_help(help)]);
            }
            Ok(Some(Box::new(pattern)))
        };
        // `called-tool` names its tool under `value`; every other check names it under `tool`.
        let named_at = if at.is_empty() { "/value".to_owned() } else { format!("{at}/tool") };
        if let Some(problem) = literal::refused_name(&self.tool, &named_at) {
            return Err(vec![problem]);
        }
        Ok(CallPattern {
            tool: self.tool,
            input: wanted(self.input, "input")?,
            output: wanted(self.output, "output")?,
            status: self.status,
            before: neighbour(self.before, "before")?,
            after: neighbour(self.after, "after")?,
        })
    }
}

impl CallPattern {
    /// Returns true if the call uses this tool, or if its tool is unknown.
    pub(crate) fn may_be(&self, action: &Action<'_>) -> bool {
        action.name.is_none() || action.is_called(&self.tool)
    }

    /// Compares the call at position `at` with the pattern, including `before` and `after`.
    ///
    /// Fails if a regular expression takes too long, or if a script gives no verdict.
    pub(crate) fn fit(&self, at: usize, calls: &Calls<'_>) -> Result<Fit, Undecided> {
        let Some(action) = calls.actions.get(at) else {
            return Ok(Fit::Differs("there is no such call".to_owned()));
        };
        let mut open = match self.fit_alone(action, calls.evidence)? {
            Fit::Is => None,
            Fit::Open(what) => Some(what),
            differs @ Fit::Differs(_) => return Ok(differs),
        };
        let earlier = 0..at;
        let later = at + 1..calls.actions.len();
        for (neighbour, range, word) in
            [(&self.before, later, "after"), (&self.after, earlier, "before")]
        {
            let Some(neighbour) = neighbour else { continue };
            match neighbour.among(range, calls)? {
                Fit::Is => {}
                Fit::Open(what) => open = Some(what),
                // If the source does not record all calls, the missing call may have happened.
                Fit::Differs(_) if !calls.evidence.execution.is_complete_for(Channel::Actions) => {
                    let tool = &neighbour.tool;
                    open = Some(format!("no call of `{tool}` was recorded {word} it"));
                }
                Fit::Differs(_) => {
                    let tool = &neighbour.tool;
                    return Ok(Fit::Differs(format!("no matching call of `{tool}` {word} it")));
                }
            }
        }
        Ok(open.map_or(Fit::Is, Fit::Open))
    }

    /// Returns the best result of comparing the calls at these positions.
    ///
    /// A match is the best result, then an undecided comparison, then a difference. `before` and `after` are ignored.
    /// Fails like [`fit`](Self::fit).
    fn among(
        &self,
        mut range: std::ops::Range<usize>,
        calls: &Calls<'_>,
    ) -> Result<Fit, Undecided> {
        let mut best = Fit::Differs(String::new());
        while let Some(action) = range.next().and_then(|it| calls.actions.get(it)) {
            match self.fit_alone(action, calls.evidence)? {
                Fit::Is => return Ok(Fit::Is),
                open @ Fit::Open(_) => best = open,
                Fit::Differs(_) => {}
            }
        }
        Ok(best)
    }

    /// Compares a call with the pattern, without `before` and `after`. Fails like [`fit`](Self::fit).
    fn fit_alone(&self, action: &Action<'_>, evidence: &Evidence<'_>) -> Result<Fit, Undecided> {
        let mut open = match action.name {
            Some(name) if !self.may_be(action) => {
                return Ok(Fit::Differs(format!("it calls `{name}`")));
            }
            Some(_) => None,
            None => Some("only the result of a call was recorded, not its tool".to_owned()),
        };
        if let (Some(wanted), Some(_)) = (&self.input, action.name) {
            if action.input.is_null() {
                open = Some("input: not reported".to_owned());
            } else if let Some(difference) =
                wanted.difference(&object_of(action.input), evidence)?
            {
                // Arguments that were cut or are not valid JSON may have matched.
                let is_text = wanted.is_object() && object_of(action.input).is_string();
                if !is_text && !is_unreadable(action, evidence.execution) {
                    return Ok(Fit::Differs(format!("input {difference}")));
                }
                open = Some("input: not valid JSON".to_owned());
            }
        }
        if let Some(status) = self.status.filter(|it| !it.is(action.state)) {
            let wanted = format!("{status:?}").to_lowercase();
            if action.state != ActionState::Pending {
                let found = action.state.as_str();
                return Ok(Fit::Differs(format!("status: expected {wanted}, found {found}")));
            }
            open.get_or_insert(format!("status: expected {wanted}, but no result was recorded"));
        }
        if let Some(wanted) = &self.output {
            let Some(output) = action.output else {
                return Ok(Fit::Open("output: not recorded".to_owned()));
            };
            if let Some(difference) = wanted.difference(output, evidence)? {
                return Ok(Fit::Differs(format!("output {difference}")));
            }
        }
        Ok(open.map_or(Fit::Is, Fit::Open))
    }

    /// Returns the evidence that no call matches: the differences of the first call of the tool.
    ///
    /// Without a call of the tool, the evidence is the name of the tool and the names of all called tools.
    pub(crate) fn evidence(&self, calls: &Calls<'_>) -> Vec<ResultEvidence> {
        let fit = |at: usize| self.fit(at, calls).ok();
        let mut differing =
            calls.actions.iter().enumerate().filter(|(_, it)| it.name.is_some() && self.may_be(it));
        let Some((at, action)) = differing.next() else {
            return vec![trajectory([self.tool.as_str()], tools(calls.actions))];
        };
        let mut mismatches = Vec::new();
        let input = object_of(action.input);
        for (wanted, value) in [(&self.input, Some(&*input)), (&self.output, action.output)] {
            if let (Some(wanted), Some(value)) = (wanted, value) {
                mismatches.extend(wanted.mismatches(value, calls.evidence));
            }
        }
        if let Some(status) = self.status.filter(|it| !it.is(action.state)) {
            let expected = format!("status {}", format!("{status:?}").to_lowercase());
            let actual = Some(action.state.as_str().to_owned());
            mismatches.push(Mismatch::new("", expected, actual));
        }
        // If nothing else differs, the call violates `before` or `after`.
        if let (true, Some(Fit::Differs(expected))) = (mismatches.is_empty(), fit(at)) {
            mismatches.push(Mismatch::new("", expected, None));
        }
        vec![call(action.name.unwrap_or_default(), action.call_id, mismatches)]
    }

    /// Returns the questions whose answers [`fit`](Self::fit) needs.
    pub(crate) fn questions(&self, calls: &Calls<'_>) -> Vec<Question> {
        let mut questions = Vec::new();
        for action in calls.actions.iter().filter(|it| self.may_be(it)) {
            let input = object_of(action.input);
            for (wanted, value) in
                [(&self.input, action.name.map(|_| &*input)), (&self.output, action.output)]
            {
                if let (Some(wanted), Some(value)) = (wanted, value) {
                    wanted.questions(value, calls.evidence, &mut questions);
                }
            }
        }
        let neighbours = self.before.iter().chain(&self.after);
        questions.extend(neighbours.flat_map(|it| it.questions(calls)));
        questions
    }
}

/// Returns the JSON object in a text; any other input is returned unchanged.
///
/// Some sources record arguments as text.
fn object_of(input: &Value) -> Cow<'_, Value> {
    let object =
        input.as_str().and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    object.map_or(Cow::Borrowed(input), |it| Cow::Owned(Value::Object(it)))
}

/// Returns true if the arguments of the call could not be parsed.
///
/// Several calls of the tool can have the same id. The result is true if one of these calls has unparsable arguments, and
/// none has the arguments of `action`.
fn is_unreadable(action: &Action<'_>, execution: &Execution) -> bool {
    let same = execution
        .tool_calls
        .iter()
        .filter(|it| it.id == action.call_id && Some(it.name.as_str()) == action.name);
    same.clone().any(|it| it.malformed_arguments.is_some())
        && !same.clone().any(|it| it.malformed_arguments.is_none() && it.arguments == *action.input)
}

/// Returns the names of the called tools, in order; `(unknown)` for a call whose tool was not recorded.
pub(crate) fn tools<'a>(actions: &[Action<'a>]) -> impl Iterator<Item = &'a str> {
    actions.iter().map(|it| it.name.unwrap_or("(unknown)"))
}

/// Formats a call for a report, such as `lookup({"id":7})`.
///
/// At most 80 characters of the arguments are shown.
pub(crate) fn shown(action: &Action<'_>) -> String {
    const SHOWN: usize = 80;
    let input = if action.input.is_null() { String::new() } else { ecma::stringify(action.input) };
    let short: String = input.chars().take(SHOWN).collect();
    let more = if short.len() < input.len() { "…" } else { "" };
    format!("{}({short}{more})", action.name.unwrap_or("(unknown)"))
}

#[cfg(test)]
mod tests {
    use kindlm_types::{Facts, ToolCall};
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_with_the_same_id_are_read_separately() {
        let call = |arguments: Value, malformed: Option<&str>| ToolCall {
            id: "a".to_owned(),
            name: "pay".to_owned(),
            arguments,
            malformed_arguments: malformed.map(str::to_owned),
            ..ToolCall::default()
        };
        let tool_calls =
            vec![call(Value::Null, Some("{\"amount\": 50")), call(json!({"amount": 7}), None)];
        let execution = Execution { tool_calls, ..Execution::default() };
        let events = execution.events();
        let found: Vec<bool> = Facts::from_events(&events)
            .actions
            .iter()
            .map(|it| is_unreadable(it, &execution))
            .collect();
        assert_eq!(found, [true, false]);
    }
}
