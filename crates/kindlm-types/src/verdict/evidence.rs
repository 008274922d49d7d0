//! The evidence of a verdict: structured data that shows why a check failed.
//!
//! Reporters render this data as differences, highlighted texts and lists of errors. So no reporter has to parse the
//! message of a verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One piece of evidence of a verdict.
///
/// In JSON, `kind` names the variant in camel case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum ResultEvidence {
    /// An expected and an actual value, of which a report shows the difference.
    Diff {
        /// The format of both values.
        format: DiffFormat,
        /// The expected value. JSON is indented by two spaces.
        expected: String,
        /// The actual value. JSON is indented by two spaces.
        actual: String,
    },
    /// The places in a text at which a check found a match.
    Matches {
        /// The text that was searched.
        of: CheckedText,
        /// The places of the matches, in the order of the text.
        spans: Vec<TextSpan>,
    },
    /// Expected texts or values that the check did not find.
    Absent {
        /// The text that was searched.
        of: CheckedText,
        /// The texts, patterns or names, as in the suite.
        expected: Vec<String>,
    },
    /// Places at which a value violates a JSON Schema.
    Schema {
        /// The violations, in the order of the document.
        errors: Vec<Mismatch>,
    },
    /// A tool call whose arguments differ from the expected ones.
    ToolCall {
        /// The tool's name.
        tool: String,
        /// The id of the call, if it was recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
        /// The arguments that differ.
        mismatches: Vec<Mismatch>,
    },
    /// Actions whose order or number differs from the expected ones.
    Trajectory {
        /// The expected actions.
        expected: Vec<String>,
        /// The recorded actions.
        actual: Vec<String>,
    },
    /// The exit code of a command, with the end of its output.
    Command {
        /// The exit code; `None` if the command did not end by itself.
        #[serde(default)]
        exit_code: Option<i32>,
        /// The last lines of the standard output.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stdout: String,
        /// The last lines of the standard error.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stderr: String,
    },
    /// The results of a test run in the agent's workspace.
    Tests {
        /// The number of tests that passed.
        passed: u64,
        /// The tests that failed.
        failed: Vec<FailedTest>,
    },
    /// A number and its limit.
    Measure {
        /// The name of the measure, such as `latency` or `similarity`.
        name: String,
        /// The measured value; `None` if it is unknown.
        #[serde(default)]
        actual: Option<f64>,
        /// The limit.
        limit: f64,
        /// The side of the limit on which the value must be.
        bound: Bound,
        /// The unit, such as `ms`, `USD` or `tokens`; `None` for a score.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<String>,
    },
    /// The reason in words, from a script, a service or a judge that gave no other evidence.
    Reason {
        /// The reason.
        text: String,
    },
}

/// The format of the values of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiffFormat {
    /// Plain text, compared by words and lines.
    Text,
    /// Indented JSON, compared by lines.
    Json,
}

/// The text that a check looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "text", rename_all = "camelCase")]
#[non_exhaustive]
pub enum CheckedText {
    /// The output of the execution.
    Output,
    /// A text that is not part of the output, such as a file, an event or a selected value.
    Other {
        /// The name of the text.
        name: String,
    },
}

/// A range of a text, in Unicode scalar values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextSpan {
    /// The index of the first character, from 0.
    pub start: u64,
    /// The index after the last character.
    pub end: u64,
    /// A name for what was found, such as `e-mail address`.
    pub what: String,
}

/// A value at a place of a document, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Mismatch {
    /// The JSON pointer of the value; empty for the whole document.
    pub pointer: String,
    /// The expected value or rule, as text.
    pub expected: String,
    /// The actual value, as text; `None` if there is no value.
    #[serde(default)]
    pub actual: Option<String>,
}

impl Mismatch {
    /// Creates a mismatch at a JSON pointer; `actual` is `None` if there is no value.
    pub fn new(
        pointer: impl Into<String>,
        expected: impl Into<String>,
        actual: Option<String>,
    ) -> Self {
        Self { pointer: pointer.into(), expected: expected.into(), actual }
    }
}

/// A test that failed in the agent's workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FailedTest {
    /// The test's name.
    pub name: String,
    /// The failure message, if it was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl FailedTest {
    /// Creates a failed test, with its failure message if it was reported.
    pub fn new(name: impl Into<String>, message: Option<String>) -> Self {
        Self { name: name.into(), message }
    }
}

/// The side of a limit on which a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Bound {
    /// The value must not exceed the limit.
    AtMost,
    /// The value must reach the limit.
    AtLeast,
    /// The value must exceed the limit.
    MoreThan,
    /// The value must be below the limit.
    LessThan,
}

impl TextSpan {
    /// Creates the span of a range of bytes of `text`.
    ///
    /// A bound inside a character moves to the character's end.
    pub fn of_bytes(text: &str, range: std::ops::Range<usize>, what: impl Into<String>) -> Self {
        let chars =
            |until: usize| text.char_indices().take_while(|(at, _)| *at < until).count() as u64;
        Self { start: chars(range.start), end: chars(range.end), what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_characters() {
        let text = "Grüße an Ida";
        let at = text.find("Ida").unwrap();
        let span = TextSpan::of_bytes(text, at..at + 3, "name");
        assert_eq!((span.start, span.end), (9, 12));
    }

    #[test]
    fn json_names_the_kind() {
        let evidence = ResultEvidence::Measure {
            name: "latency".to_owned(),
            actual: Some(900.0),
            limit: 500.0,
            bound: Bound::AtMost,
            unit: Some("ms".to_owned()),
        };
        let json = serde_json::to_value(&evidence).unwrap();
        let expected = serde_json::json!({
            "kind": "measure", "name": "latency", "actual": 900.0, "limit": 500.0, "bound": "atMost", "unit": "ms",
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<ResultEvidence>(json).unwrap(), evidence);
    }
}
