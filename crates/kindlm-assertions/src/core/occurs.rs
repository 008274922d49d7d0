//! The check that a text, or a match of a pattern, occurs in a value.

use kindlm_types::{AssertionResult, CheckedText};

use crate::core::behaviour::{PhrasePattern, given_up};
use crate::core::grade::{Grade, text};
use crate::core::on::{judged_value, shown};
use crate::core::result_evidence::other;
use crate::shared::comments::without_comments;
use crate::{Assertion, Evidence, StaysValid, Traits};

/// A check that a phrase occurs in a value, or does not occur.
#[derive(Debug)]
pub(crate) struct Occurs {
    pub(crate) id: &'static str,
    pub(crate) phrase: PhrasePattern,
    pub(crate) label: String,
    /// True if the phrase must occur in the value; false if it must not.
    pub(crate) wanted: bool,
    /// True if comments in the value are ignored.
    pub(crate) strip_comments: bool,
}

impl Assertion for Occurs {
    fn traits(&self) -> Traits {
        // A found text stays valid. A match of a pattern, or the removal of comments, may depend on the missing text.
        let is_text = matches!(self.phrase, PhrasePattern::Text(_)) && !self.strip_comments;
        let stays_valid = match (is_text, self.wanted) {
            (true, true) => StaysValid::Pass,
            (true, false) => StaysValid::Failure,
            (false, _) => StaysValid::Never,
        };
        Traits { label: Some(self.label.clone()), stays_valid, ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let value = match judged_value(evidence.execution, self.id, &self.label) {
            Ok(value) => value,
            Err(results) => return results,
        };
        let mut looked_at = text(&value);
        if self.strip_comments {
            looked_at = without_comments(&looked_at).into();
        }
        let found = match self.phrase.is_in(&looked_at) {
            Ok(found) => found,
            Err(err) => return given_up(self.id, &self.label, &err),
        };
        let not = if found { "" } else { "not " };
        let reason = format!("{} is {not}in {}", self.phrase, shown(&value));
        let result = Grade::with(found == self.wanted, reason).result(self.id, &self.label);
        let is_output = *looked_at == evidence.execution.output;
        vec![result.with_failure_evidence(|| {
            let of = if is_output { CheckedText::Output } else { other("the value") };
            [self.phrase.evidence(of, &looked_at)]
        })]
    }
}
