//! The grade of a check in an `assert` list: pass or fail, a score, and a reason.

use std::borrow::Cow;

use kindlm_types::{AssertionResult, Execution, FailureCode, Score, Verdict, ecma};
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;

/// The reason of a check that held, in promptfoo's words.
pub(crate) const PASSED: &str = "Assertion passed";

/// The reason of an `assert-set` in which all checks held, in promptfoo's words.
pub(crate) const ALL_PASSED: &str = "All assertions passed";

/// Returns a text unchanged, and any other value as JSON.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(ecma::stringify(value)),
    }
}

/// Returns the output as JSON; `None` if it is not JSON.
///
/// Recorded structured output takes precedence over the text.
pub(crate) fn parsed(execution: &Execution) -> Option<Cow<'_, Value>> {
    match &execution.output_json {
        Some(value) => Some(Cow::Borrowed(value)),
        None => serde_json::from_str(&execution.output).ok().map(Cow::Owned),
    }
}

/// The grade of one check in an `assert` list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grade {
    /// True if the check held.
    pub(crate) pass: bool,
    /// The score. If it is not finite, the result is errored.
    pub(crate) score: f64,
    /// The reason for the pass or the failure.
    pub(crate) reason: String,
}

impl Grade {
    /// Creates a pass with score 1, or a failure with score 0 and a reason.
    ///
    /// `otherwise` gives the reason of the failure.
    pub(crate) fn from_pass(pass: bool, otherwise: impl FnOnce() -> String) -> Self {
        let reason = if pass { PASSED.to_owned() } else { otherwise() };
        Self { pass, score: f64::from(u8::from(pass)), reason }
    }

    /// Creates a pass with score 1 or a failure with score 0, with the given reason.
    pub(crate) fn with(pass: bool, reason: String) -> Self {
        Self { pass, score: f64::from(u8::from(pass)), reason }
    }

    /// Returns the result of the check; errored if the score is not finite.
    pub(crate) fn result(self, assertion: &str, label: &str) -> AssertionResult {
        let Ok(score) = Score::new(self.score) else {
            let message = format!("the score is {}, which is not a finite number", self.score);
            let code = FailureCode::INTERNAL_ERROR;
            return AssertionResult::errored(assertion, label, code, message)
                .with_reasoning(self.reason);
        };
        let verdict = if self.pass {
            Verdict::Pass
        } else {
            Verdict::Fail { code: ASSERTION_FAILED, message: self.reason.clone() }
        };
        AssertionResult::new(assertion, label, verdict)
            .with_score(score)
            .with_reasoning(self.reason)
    }
}
