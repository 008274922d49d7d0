//! The views of a check: changes to the output before the check judges it.

use std::borrow::Cow;
use std::sync::Arc;

use kindlm_types::{
    Answer, AskError, CallForm, Completeness, Execution, FailureCode, Question, Verdict, ecma,
};
use serde_json::Value;

use super::Transform;
use super::context::provider_response;
use super::transform::changed;
use crate::Evidence;
use crate::core::codes::{EVIDENCE_MISSING, VALUE_MISSING};
use crate::core::missing_evidence::is_output_missing;
use crate::core::on::{Selected, Selector, in_place_of_the_output};
use crate::core::output::calls_value;

/// A change to the output before a check judges it.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// Tool calls become the output, in the format of a model provider.
    Calls(CallForm),
    /// A script that transforms the output.
    Script(Arc<Transform>),
    /// A selector that replaces the output with another value of the execution.
    On(Selector),
}

/// The result of applying the views of a check.
pub(crate) enum Viewed {
    /// The original execution.
    Unchanged,
    /// The execution with another output.
    Changed(Box<Execution>),
    /// A script must run first. The question runs it.
    Ask(Box<Question>),
    /// There is no value to judge. The verdict is the result of the check.
    Nothing(Verdict),
}

/// Applies the views in order, until a script must run or a value is missing.
pub(crate) fn see(views: &[View], evidence: &Evidence<'_>) -> Viewed {
    let mut seen: Option<Box<Execution>> = None;
    for view in views {
        let execution = seen.as_deref().unwrap_or(evidence.execution);
        let next = match view {
            View::On(selector) => at(selector, execution),
            View::Calls(form) => match with_calls(*form, execution) {
                Some(seen) => Ok(seen),
                None => continue,
            },
            // A script does not run on an output that was not recorded.
            View::Script(_) if is_output_missing(execution) => continue,
            View::Script(script) => {
                let question = script.question(&Evidence { execution, ..*evidence });
                match evidence.answers.get(&question) {
                    None => return Viewed::Ask(Box::new(question)),
                    Some(answer) => made(execution, answer).map(|made| {
                        // If the answer is incomplete, the value that the script made from it is incomplete too.
                        let incomplete = execution.incomplete_output().map(Cow::into_owned);
                        Execution {
                            completeness: Completeness { unread: incomplete, ..made.completeness },
                            ..made
                        }
                    }),
                }
            }
        };
        match next {
            Ok(next) => seen = Some(Box::new(next)),
            Err(nothing) => return Viewed::Nothing(nothing),
        }
    }
    seen.map_or(Viewed::Unchanged, Viewed::Changed)
}

/// Returns the execution with its tool calls as the output; `None` if the output stays the same.
///
/// The JSON of the calls becomes the text of the output.
fn with_calls(form: CallForm, before: &Execution) -> Option<Execution> {
    let (output, output_json) = match calls_value(form, before)? {
        Value::String(text) => (text, None),
        value => (ecma::stringify(&value), Some(value)),
    };
    Some(Execution { output, output_json, ..before.clone() })
}

/// Returns the execution with the script's output, or the errored verdict.
fn made(before: &Execution, answer: &Result<Answer, AskError>) -> Result<Execution, Verdict> {
    let errored = |code, message| Err(Verdict::Errored { code, message });
    match answer {
        Ok(Answer::Script(answer)) => {
            changed(before, answer).or_else(|message| errored(FailureCode::SCRIPT_ERROR, message))
        }
        Ok(Answer::Text { .. } | Answer::Vector { .. }) => {
            let message = "the transform was answered by something that is no script".to_owned();
            errored(FailureCode::INTERNAL_ERROR, message)
        }
        Err(err) => errored(err.failure_code(), format!("the transform did not finish: {err}")),
    }
}

/// Returns the execution with the value at a path as its output.
///
/// A value that certainly does not exist fails the check, with and without `not-`. An unknown value makes the check
/// errored.
fn at(selector: &Selector, before: &Execution) -> Result<Execution, Verdict> {
    match selector.find(before) {
        Selected::Value(value) => {
            // Scripts get the provider's original response, not the selected value.
            let provider_response = Some(provider_response(before));
            let seen = Execution { provider_response, ..in_place_of_the_output(before, value) };
            let incomplete = before.incomplete_output().filter(|_| selector.is_of_answer());
            Ok(Execution {
                completeness: Completeness {
                    unread: incomplete.map(Cow::into_owned),
                    ..seen.completeness
                },
                ..seen
            })
        }
        Selected::Absent(why) => {
            let message = format!("there is no `{selector}`: {why}");
            Err(Verdict::Fail { code: VALUE_MISSING, message })
        }
        Selected::Unknown(why) => {
            let message = format!("`{selector}` is unknown: {why}");
            Err(Verdict::Errored { code: EVIDENCE_MISSING, message })
        }
    }
}
