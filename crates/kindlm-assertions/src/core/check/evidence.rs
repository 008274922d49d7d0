//! The evidence that a check adds to its results: the name of the judged text, and a score or a reason.

use kindlm_types::{AssertionResult, CheckedText, Verdict};

use super::TOLERANCE;
use crate::Check;
use crate::core::on::Selector;
use crate::core::result_evidence::{absent_in, other, reason, score};
use crate::core::scripting::View;

impl Check {
    /// Returns the result of a check that has no value to judge.
    pub(super) fn without_value(&self, verdict: Verdict) -> AssertionResult {
        let mut result = self.without_looking(verdict);
        if matches!(result.verdict, Verdict::Fail { .. }) {
            let paths = self.selectors().map(Selector::to_string);
            result.evidence = vec![absent_in(other("the record"), paths)];
        }
        result
    }

    /// Returns the name of the text that the check judges after `on` and `transform`, for the evidence of the result.
    pub(super) fn viewed_text(&self) -> CheckedText {
        let is_script = self.views.iter().any(|it| matches!(it, View::Script(_)));
        let path = self.selectors().last().map_or("output".to_owned(), Selector::to_string);
        other(if is_script { format!("transformed {path}") } else { path })
    }

    /// Removes the evidence of a result that did not fail. Adds evidence to a failure that has none.
    ///
    /// The added evidence is the score if the score is below `wanted`, else the reasoning, else the message. If the
    /// check measures something other than a score, `wanted` is ignored. The reasoning is not added for a judge panel,
    /// whose votes show the reason. Nor is it added for an `assert-set` with a failed check.
    pub(super) fn complete_evidence(&self, wanted: Option<f64>, result: &mut AssertionResult) {
        let Verdict::Fail { message, .. } = &result.verdict else {
            result.evidence.clear();
            return;
        };
        if !result.evidence.is_empty() {
            return;
        }
        let has_votes = result.judging.as_ref().is_some_and(|it| it.panel.is_some());
        let fails = |it: &AssertionResult| matches!(it.verdict, Verdict::Fail { .. });
        let is_failed_set = result.set.is_some() && result.components.iter().any(fails);
        let measured = result.score.zip(wanted).map(|(score, wanted)| (score.get(), wanted));
        match measured.filter(|(score, wanted)| *score < wanted - TOLERANCE) {
            Some((actual, wanted)) if !self.traits.measures => {
                result.evidence.push(score("score", actual, wanted));
            }
            _ if has_votes || is_failed_set => {}
            _ => {
                let text = result.reasoning.as_ref().filter(|it| !it.is_empty());
                result.evidence.push(reason(text.unwrap_or(message)));
            }
        }
    }
}
