//! Names that are wanted of tools, skills and steps: exactly, or by a pattern.

use kindlm_types::Problem;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::agent::trajectory::{Step, StepType};
use crate::core::range::Range;

/// A step that is wanted: a name or pattern, or more about it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TrajectoryStep")]
pub(crate) enum Wanted {
    /// Its name or a pattern for it: `*` is any text, `?` one character; case does not matter.
    Name(#[schemars(length(min = 1))] String),
    /// More about it.
    Matcher(Matcher),
}

/// A step that is wanted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TrajectoryMatcher")]
pub(crate) struct Matcher {
    /// Its name, which may be a pattern as well.
    pub(crate) name: Option<String>,
    /// A pattern for its name: `*` is any text, `?` one character; case does not matter.
    pub(crate) pattern: Option<String>,
    /// Its type; `tool` if absent.
    #[serde(rename = "type")]
    pub(crate) types: Option<Types>,
}

/// One type of step, or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TrajectoryStepTypes")]
pub(crate) enum Types {
    /// This one.
    One(StepType),
    /// One of these.
    Several(Vec<StepType>),
}

impl Types {
    pub(crate) fn as_slice(&self) -> &[StepType] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}

/// A pattern for the names of steps, and which types they may have.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) pattern: String,
    types: Vec<StepType>,
}

impl Pattern {
    /// A tool of this name or pattern.
    pub(crate) fn tool(pattern: &str) -> Self {
        Self { pattern: pattern.to_owned(), types: vec![StepType::Tool] }
    }

    /// What is wanted, `tool` by default; `at` is where it stands.
    pub(crate) fn new(matcher: &Matcher, at: &str) -> Result<Self, Vec<Problem>> {
        let types = matcher.types.as_ref().map_or(&[StepType::Tool][..], Types::as_slice).to_vec();
        let given = [&matcher.pattern, &matcher.name];
        match given.into_iter().flatten().find(|it| !it.is_empty()) {
            Some(pattern) => Ok(Self { pattern: pattern.clone(), types }),
            None => Err(vec![nameless(at)]),
        }
    }

    pub(crate) fn of(wanted: &Wanted, at: &str) -> Result<Self, Vec<Problem>> {
        match wanted {
            Wanted::Name(name) => Ok(Self::tool(name)),
            Wanted::Matcher(matcher) => Self::new(matcher, at),
        }
    }

    pub(crate) fn matches(&self, step: &Step) -> bool {
        self.types.contains(&step.kind) && step.is_called(&self.pattern)
    }
}

/// The problem of not saying what is wanted.
pub(crate) fn nameless(at: &str) -> Problem {
    Problem::new(at, "neither `name` nor `pattern` says what is wanted")
        .with_help("`name` is a name, `pattern` may have `*` and `?`")
}

/// The patterns in a row.
pub(crate) fn patterns<'a>(wanted: impl IntoIterator<Item = &'a Pattern>) -> String {
    wanted.into_iter().map(|it| it.pattern.as_str()).collect::<Vec<_>>().join(", ")
}

/// How often something is wanted, in words: `at least 1`, `1-3`. Without a minimum it is `min`.
pub(crate) fn times(range: Range, min: u64) -> String {
    let min = range.min.unwrap_or(min);
    match range.max {
        None => format!("at least {min}"),
        Some(max) => format!("{min}-{max}"),
    }
}
