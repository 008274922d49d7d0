//! Which calls of tools are meant.

use kindlm_types::{Action, ActionState, ActionStatus, Problem, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Wanted;
use crate::pattern::SearchError;

/// A tool by its name, or a call of it with more to be said.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "WantedTool")]
pub(crate) enum Tool {
    /// Any call of the tool: its own name, or a kind such as `shell`.
    Name(#[schemars(length(min = 1))] String),
    /// A call that looks like this.
    Call(Call),
}

/// A call that looks like this.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WantedCall")]
pub(crate) struct Call {
    /// The tool's own name, or a kind such as `shell`.
    #[schemars(length(min = 1))]
    pub(crate) tool: String,
    /// What the arguments must look like: objects may have more keys, `{$regex: …}` is a pattern.
    pub(crate) input: Option<Value>,
    /// What the answer must look like.
    pub(crate) output: Option<Value>,
    /// How the call must have ended.
    pub(crate) status: Option<State>,
}

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CallState")]
pub(crate) enum State {
    /// No result of it is known.
    Pending,
    /// It did what it was asked.
    Completed,
    /// It went wrong.
    Failed,
    /// It was not allowed.
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

/// Which calls are meant, ready to be looked for.
#[derive(Clone, Debug)]
pub(crate) struct CallPattern {
    pub(crate) tool: String,
    input: Option<Wanted>,
    output: Option<Wanted>,
    status: Option<State>,
}

impl Tool {
    /// Ready to be looked for; `at` is where it is written.
    pub(crate) fn pattern(self, at: &str) -> Result<CallPattern, Vec<Problem>> {
        match self {
            Self::Name(tool) => Ok(CallPattern { tool, input: None, output: None, status: None }),
            Self::Call(call) => call.pattern(at),
        }
    }
}

impl Call {
    /// Ready to be looked for; `at` is where it is written.
    pub(crate) fn pattern(self, at: &str) -> Result<CallPattern, Vec<Problem>> {
        let wanted = |value: Option<Value>, key: &str| {
            value.map(|it| Wanted::new(&it, &format!("{at}/{key}"))).transpose()
        };
        Ok(CallPattern {
            tool: self.tool,
            input: wanted(self.input, "input")?,
            output: wanted(self.output, "output")?,
            status: self.status,
        })
    }
}

impl CallPattern {
    /// Why a call is not meant; `None` if it is.
    pub(crate) fn differs(&self, action: &Action<'_>) -> Result<Option<String>, SearchError> {
        if !action.is_called(&self.tool) {
            let name = action.name.unwrap_or("(unknown)");
            return Ok(Some(format!("it calls `{name}`")));
        }
        if let Some(status) = self.status.filter(|it| !it.is(action.state)) {
            let wanted = format!("{status:?}").to_lowercase();
            let found = action.state.as_str();
            return Ok(Some(format!("status: expected {wanted}, found {found}")));
        }
        let input = self.input.as_ref().map(|it| it.difference(action.input)).transpose()?;
        if let Some(difference) = input.flatten() {
            return Ok(Some(format!("input {difference}")));
        }
        let Some(wanted) = &self.output else { return Ok(None) };
        match action.output {
            None => Ok(Some("output: nothing is known of it".to_owned())),
            Some(output) => Ok(wanted.difference(output)?.map(|it| format!("output {it}"))),
        }
    }

    pub(crate) fn matches(&self, action: &Action<'_>) -> Result<bool, SearchError> {
        self.differs(action).map(|it| it.is_none())
    }

    /// Whether a call without a known answer could be one that is meant.
    pub(crate) fn asks_for_the_answer(&self) -> bool {
        self.output.is_some() || matches!(self.status, Some(it) if it != State::Pending)
    }
}

/// A call as a text of a report: `lookup({"id":7})`.
pub(crate) fn shown(action: &Action<'_>) -> String {
    const SHOWN: usize = 80;
    let input = if action.input.is_null() { String::new() } else { ecma::stringify(action.input) };
    let short: String = input.chars().take(SHOWN).collect();
    let more = if short.len() < input.len() { "…" } else { "" };
    format!("{}({short}{more})", action.name.unwrap_or("(unknown)"))
}
