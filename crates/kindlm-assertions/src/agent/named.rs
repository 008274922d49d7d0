//! Patterns for the names of tools, skills and steps.

use kindlm_types::Problem;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::agent::trajectory::{Step, StepType};
use crate::core::range::Range;

/// A step to search for: a name or pattern, or an object with more conditions.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TrajectoryStep")]
pub(crate) enum Wanted {
    /// The name of the step, or a pattern: `*` is any text, `?` is one character. Case does not matter.
    Name(#[schemars(length(min = 1))] String),
    /// An object with more conditions.
    Matcher(Matcher),
}

/// The conditions for a step.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TrajectoryMatcher")]
pub(crate) struct Matcher {
    /// The name of the step, which may also be a pattern.
    pub(crate) name: Option<String>,
    /// A pattern for the name: `*` is any text, `?` is one character. Case does not matter.
    pub(crate) pattern: Option<String>,
    /// The type of the step. Only `tool` is possible here.
    #[serde(rename = "type")]
    pub(crate) types: Option<Types>,
}

/// One type of step, or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TrajectoryStepTypes")]
pub(crate) enum Types {
    /// A single type.
    One(StepType),
    /// Several types, of which one must match.
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

/// A pattern for the names of tools.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) pattern: String,
}

impl Pattern {
    /// Creates a pattern from a tool name, in which `*` is any text and `?` is one character.
    pub(crate) fn tool(pattern: &str) -> Self {
        Self { pattern: pattern.to_owned() }
    }

    /// Builds a pattern from the conditions at the JSON pointer `at`. `pattern` takes precedence over `name`.
    ///
    /// Fails if `name` and `pattern` are both missing, or if `type` is empty or not `tool`. The checks compare only tool
    /// calls.
    pub(crate) fn new(matcher: &Matcher, at: &str) -> Result<Self, Vec<Problem>> {
        let types = matcher.types.as_ref().map_or(&[StepType::Tool][..], Types::as_slice);
        if types.is_empty() {
            let problem = Problem::new(format!("{at}/type"), "`type` names no type of steps");
            return Err(vec![problem.with_help("remove `type`, or write `tool`")]);
        }
        if types.iter().any(|it| *it != StepType::Tool) {
            let problem =
                Problem::new(format!("{at}/type"), "only steps of the type `tool` are compared");
            return Err(vec![
                problem.with_help(
                    "remove `type`; `trajectory:step-count` counts steps of other types",
                ),
            ]);
        }
        let given = [&matcher.pattern, &matcher.name];
        match given.into_iter().flatten().find(|it| !it.is_empty()) {
            Some(pattern) => Ok(Self { pattern: pattern.clone() }),
            None => Err(vec![nameless(at)]),
        }
    }

    pub(crate) fn from_wanted(wanted: &Wanted, at: &str) -> Result<Self, Vec<Problem>> {
        match wanted {
            Wanted::Name(name) => Ok(Self::tool(name)),
            Wanted::Matcher(matcher) => Self::new(matcher, at),
        }
    }

    pub(crate) fn matches(&self, step: &Step) -> bool {
        step.kind == StepType::Tool && step.is_called(&self.pattern)
    }
}

/// Returns the problem that `name` and `pattern` are both missing.
pub(crate) fn nameless(at: &str) -> Problem {
    Problem::new(at, "`name` or `pattern` is required")
        .with_help("`name` is an exact name; `pattern` can contain `*` and `?`")
}

/// Returns the patterns, separated by commas.
pub(crate) fn patterns<'a>(wanted: impl IntoIterator<Item = &'a Pattern>) -> String {
    wanted.into_iter().map(|it| it.pattern.as_str()).collect::<Vec<_>>().join(", ")
}

/// Formats the range, such as `at least 1` or `1-3`. `min` is the default minimum.
pub(crate) fn times(range: Range, min: u64) -> String {
    let min = range.min.unwrap_or(min);
    match range.max {
        None => format!("at least {min}"),
        Some(max) => format!("{min}-{max}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_type_has_its_own_message() {
        for (types, expected) in [
            (vec![StepType::Tool], None),
            (vec![], Some("`type` names no type of steps")),
            (
                vec![StepType::Tool, StepType::Message],
                Some("only steps of the type `tool` are compared"),
            ),
        ] {
            let types = Some(Types::Several(types));
            let matcher = Matcher { name: Some("search".to_owned()), types, pattern: None };
            let problem = Pattern::new(&matcher, "/value").err();
            let problem = problem.as_ref().and_then(|it| it.first());
            assert_eq!(problem.map(|it| it.message.as_str()), expected);
            assert!(problem.is_none_or(|it| it.pointer == "/value/type"), "{problem:?}");
        }
    }
}
