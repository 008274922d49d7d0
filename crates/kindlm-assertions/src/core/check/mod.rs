//! The evaluation of a check: passes the evidence to the assertion, and applies the options to the results.

use std::borrow::Cow;

use kindlm_types::workspace::Gather;
use kindlm_types::{AssertionResult, Execution, FailureCode, Question, Score, Severity, Verdict};

use crate::core::codes::{EVIDENCE_MISSING, NEGATION_FAILED, SCORE_BELOW_THRESHOLD};
use crate::core::missing_evidence::{
    is_output_missing, mark_incomplete, missing_output, no_act_reason,
};
use crate::core::on::Selector;
use crate::core::recorded::unsupported_part;
use crate::core::result_evidence;
use crate::core::scripting::{View, Viewed, see};
use crate::{Check, EntryOptions, Evidence, LooksAt, OutputComparison};

mod evidence;
mod outcome;

pub use outcome::{CheckOutcome, check_outcomes};

/// The tolerance when a measure is compared with its limit.
///
/// The tolerance absorbs rounding errors in sums of floating-point numbers.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// The metadata keys that can hold the required score.
const THRESHOLDS: [&str; 2] = ["threshold", "minScore"];

/// The start of [`Check::at`](crate::Check::at) for entries of the `assert` list.
///
/// Only such entries may have `on`.
const LISTED: &str = "/assert/";

/// The reason why an assertion gets no evidence to judge.
enum Blind {
    /// The questions that run the transforms. Their answers are needed first.
    Ask(Vec<Question>),
    /// There is no value to judge. The verdict is the result of the check.
    Nothing(Verdict),
}

impl Check {
    /// Returns this check; for an `assert-set`, the checks inside. Nested sets are flattened.
    pub fn leaves(&self) -> Vec<&Self> {
        let mut leaves = Vec::new();
        let mut open = vec![self];
        while let Some(check) = open.pop() {
            let parts = check.traits.parts.as_deref().unwrap_or_default();
            if parts.is_empty() {
                leaves.push(check);
            }
            open.extend(parts.iter().rev());
        }
        leaves
    }

    /// Returns the evidence to collect from the workspace when the agent has finished.
    ///
    /// A skipped check needs no evidence. See [`Traits::gathers`](crate::Traits::gathers).
    pub fn gathers(&self) -> Vec<Gather> {
        if self.options.skip.is_some() {
            return Vec::new();
        }
        let seen = self.selectors().filter_map(Selector::gathers);
        seen.chain(self.traits.gathers.iter().cloned()).collect()
    }

    /// Returns true if the check reads the agent's workspace.
    ///
    /// A test without a workspace cannot evaluate such a check.
    pub fn needs_workspace(&self) -> bool {
        self.traits.needs_workspace || self.selectors().any(Selector::needs_workspace)
    }

    /// Returns the selectors (`on`) that replace the output with another value.
    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.views.iter().filter_map(|it| match it {
            View::On(selector) => Some(selector),
            View::Script(_) | View::Calls(_) => None,
        })
    }

    /// Returns the questions of the transforms, or else the questions of the assertion.
    ///
    /// The questions of the assertion follow when the transforms have their answers. See
    /// [`Assertion::questions`](crate::Assertion::questions).
    pub fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        if self.options.skip.is_some() {
            return Vec::new();
        }
        // Without a complete output, the check cannot be decided, so no question is asked.
        let ask = |it: &Evidence<'_>| {
            if self.is_output_missing(it) || self.incomplete_reason(it).is_some() {
                Vec::new()
            } else {
                self.assertion.questions(it)
            }
        };
        match self.transformed(evidence, ask) {
            Ok(questions) | Err(Blind::Ask(questions)) => questions,
            Err(Blind::Nothing(_)) => Vec::new(),
        }
    }

    /// Returns true if the check compares the outputs of several executions.
    ///
    /// Such a check needs [`Evidence::comparison`].
    pub fn compares(&self) -> bool {
        self.traits.compares
    }

    /// Applies the views (`on`, `transform`) and passes the new evidence to `then`.
    ///
    /// Fails if a transform must run first, or if there is no value to judge.
    fn transformed<T>(
        &self,
        evidence: &Evidence<'_>,
        then: impl FnOnce(&Evidence<'_>) -> T,
    ) -> Result<T, Blind> {
        if self.views.is_empty() {
            return Ok(then(evidence));
        }
        let mut questions = Vec::new();
        let mut look = |evidence: &Evidence<'_>| match see(&self.views, evidence) {
            Viewed::Unchanged => Ok(None),
            Viewed::Changed(seen) => Ok(Some(seen)),
            Viewed::Ask(question) => {
                questions.push(*question);
                Ok(None)
            }
            Viewed::Nothing(verdict) => Err(Blind::Nothing(verdict)),
        };
        let own = look(evidence)?;
        let execution = own.as_deref().unwrap_or(evidence.execution);
        let mut candidates = Vec::new();
        for candidate in evidence.comparison.map(|it| it.candidates).unwrap_or_default() {
            let mut candidate = candidate.clone();
            if candidate.is_there {
                // Scripts get the context of the candidate's execution, so their answers are separate from those about
                // the judged execution.
                let answers = evidence.answers.about_another();
                let execution = &*candidate.execution;
                match look(&Evidence { execution, answers: &answers, ..*evidence }) {
                    Ok(None) => {}
                    Ok(Some(seen)) => candidate.execution = Cow::Owned(*seen),
                    // A missing value in another output does not decide about the judged output. The comparison treats
                    // that other output as missing.
                    Err(_) => candidate.is_there = false,
                }
            }
            candidates.push(candidate);
        }
        if !questions.is_empty() {
            return Err(Blind::Ask(questions));
        }
        let comparison =
            evidence.comparison.map(|it| OutputComparison { candidates: &candidates, own: it.own });
        Ok(then(&Evidence { execution, comparison, ..*evidence }))
    }

    /// Judges the evidence and applies the options: the threshold, then `not-`, then the other options.
    ///
    /// - Without `not-`, the assertion's results are returned.
    /// - With `not-`, there is one result for the whole check, because "not all of these" is a single statement.
    ///   Errored and skipped results that leave this statement undecided are returned unchanged.
    /// - A check of weight 0 reports its score but does not fail. An `assert-set` and a check that decides the score
    ///   can still fail.
    /// - A check with `skip` is not evaluated.
    pub fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        if let Some(reason) = &self.options.skip {
            return vec![self.without_looking(Verdict::Skipped { reason: reason.clone() })];
        }
        let judge = |it: &Evidence<'_>| {
            let same = self.views.is_empty() || it.execution.output == evidence.execution.output;
            (self.judge(it), same)
        };
        let (mut results, is_output) = match self.transformed(evidence, judge) {
            Ok(judged) => judged,
            Err(Blind::Ask(_)) => {
                let message = "the transform was not run".to_owned();
                let code = FailureCode::INTERNAL_ERROR;
                return vec![self.without_looking(Verdict::Errored { code, message })];
            }
            Err(Blind::Nothing(verdict)) => return vec![self.without_value(verdict)],
        };
        for result in &mut results {
            if !is_output {
                result.set_checked_text(&self.viewed_text());
            }
            self.apply(result);
        }
        results
    }

    /// Returns the result for a verdict that does not come from the assertion.
    pub fn without_looking(&self, verdict: Verdict) -> AssertionResult {
        let id = self.meta.id;
        let mut result =
            AssertionResult::new(id, self.traits.label.as_deref().unwrap_or(id), verdict);
        self.apply(&mut result);
        result
    }

    fn is_output_missing(&self, evidence: &Evidence<'_>) -> bool {
        self.traits.looks_at.needs_output() && is_output_missing(evidence.execution)
    }

    /// Returns the reason why the judged text is incomplete; `None` if it is complete, or if the check judges no text.
    fn incomplete_reason<'e>(&self, evidence: &Evidence<'e>) -> Option<Cow<'e, str>> {
        if !self.traits.looks_at.needs_output() {
            return None;
        }
        let execution = evidence.execution;
        if self.traits.looks_at == LooksAt::AllAnswers {
            execution.incomplete_answer()
        } else {
            execution.incomplete_output()
        }
    }

    /// Returns true if the result is a tie, which passes neither with nor without `not-`.
    fn is_tie(&self, result: &AssertionResult) -> bool {
        self.traits.can_tie && result.judging.as_ref().is_some_and(|it| it.tie)
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        if self.is_output_missing(evidence) {
            let takes_on = self.at.starts_with(LISTED) && self.traits.looks_at.takes_on();
            return missing_output(
                self.meta.id,
                self.traits.label.as_deref(),
                evidence.execution,
                takes_on,
            );
        }
        let mut results = self.assertion.evaluate(evidence);
        if let Some(gap) = gap(evidence.execution) {
            for result in &mut results {
                name_gap(&gap, result);
            }
        }
        if let Some(why) = self.incomplete_reason(evidence) {
            let stays_valid = &self.traits.stays_valid;
            for result in results.iter_mut().filter(|it| !stays_valid.holds(it, evidence.execution))
            {
                mark_incomplete(&why, result);
            }
        }
        if let Some(threshold) = self.options.threshold {
            for result in &mut results {
                hold_against(threshold, result);
            }
        }
        if self.options.negate {
            results = negate_unless(|it| self.is_tie(it), self.meta.id, results);
            if let Some(of_pass) = &self.traits.evidence_of_pass {
                for result in &mut results {
                    if matches!(result.verdict, Verdict::Fail { .. }) {
                        // A tie that failed before the negation may have this evidence already.
                        let mut further = of_pass.build(evidence);
                        further.retain(|it| !result.evidence.contains(it));
                        result.evidence.append(&mut further);
                    }
                }
            }
        }
        let sees_output =
            self.traits.looks_at.takes_on() && self.selectors().all(Selector::is_of_output);
        let why = no_act_reason(evidence.execution).filter(|_| sees_output);
        for result in results.iter_mut().filter(|it| it.verdict == Verdict::Pass) {
            if let Some(message) = why.clone() {
                (result.score, result.reasoning) = (None, None);
                result.verdict = Verdict::Errored { code: EVIDENCE_MISSING, message };
            }
        }
        results
    }

    fn apply(&self, result: &mut AssertionResult) {
        let options = &self.options;
        result.is_negated = self.is_negated;
        result.class = self.meta.class;
        result.severity = options.severity;
        // If a check gives several results, each may have its own weight.
        result.weight *= options.weight;
        result.metric.clone_from(&options.metric);
        let on = self.selectors().next();
        match (&options.label, on) {
            (Some(label), _) => result.label.clone_from(label),
            // The label names the path of `on`, because summaries by label must not merge checks of different values.
            (None, Some(path)) => result.label = format!("{} (on {path})", result.label),
            (None, None) => {}
        }
        // A soft score is shown with the required score.
        let own = EntryOptions { negate: options.negate, threshold: options.threshold };
        let wanted = own.wants().or(self.traits.threshold);
        if let (Severity::Soft, Some(threshold)) = (options.severity, wanted)
            && result.score.is_some()
            && !THRESHOLDS.iter().any(|it| result.metadata.contains_key(*it))
        {
            result.metadata.insert("threshold".to_owned(), threshold.into());
        }
        if let Some(rendered) = &self.rendered {
            result.metadata.insert("renderedAssertionValue".to_owned(), rendered.clone());
        }
        // The checks of an `assert-set` of weight 0 must still hold, as in promptfoo. Only the score of the set does
        // not count. A comparison that decides the score always has weight 0, but its verdict counts.
        let keeps_verdict = self.traits.parts.is_some() || result.decides_score;
        if options.weight == 0.0
            && !keeps_verdict
            && let Verdict::Fail { message, .. } = &result.verdict
        {
            result.reasoning.get_or_insert_with(|| message.clone());
            result.verdict = Verdict::Pass;
        } else if options.weight != 0.0 && result.weight == 0.0 && !keeps_verdict {
            // A result of weight 0 keeps its verdict. As a soft result, it does not decide the outcome.
            result.severity = Severity::Soft;
        }
        self.complete_evidence(wanted, result);
    }
}

/// Returns the reason why the record is incomplete; `None` if no reason is known.
fn gap(execution: &Execution) -> Option<Cow<'_, str>> {
    let gap = execution.completeness.gaps.first().map(|it| Cow::Borrowed(it.as_str()));
    gap.or_else(|| unsupported_part(execution).map(Cow::Owned))
        .or_else(|| execution.incomplete_answer())
}

/// Adds the known reason to an error message about missing evidence.
///
/// With the reason, the user sees that it would not help to declare the evidence complete.
fn name_gap(gap: &str, result: &mut AssertionResult) {
    if let Verdict::Errored { code, message } = &mut result.verdict
        && *code == EVIDENCE_MISSING
        && !message.contains(gap)
    {
        *message = format!("incomplete evidence: {gap}; {message}");
    }
}

/// Compares the score with the threshold, and sets the verdict accordingly.
///
/// Errored and skipped results, and results without a score, do not change.
pub(crate) fn hold_against(threshold: f64, result: &mut AssertionResult) {
    let Some(score) = result.score else { return };
    let held = score.get() >= threshold - TOLERANCE;
    let has_failed = matches!(result.verdict, Verdict::Fail { .. });
    let below =
        format!("score {score} is below the threshold {}", kindlm_types::ecma::number(threshold));
    result.verdict = match (&result.verdict, held) {
        (Verdict::Pass | Verdict::Fail { .. }, true) => Verdict::Pass,
        (Verdict::Pass, false) => Verdict::Fail { code: SCORE_BELOW_THRESHOLD, message: below },
        (Verdict::Fail { code, message }, false) => {
            Verdict::Fail { code: code.clone(), message: format!("{below}: {message}") }
        }
        (Verdict::Errored { .. } | Verdict::Skipped { .. }, _) => return,
    };
    if !held {
        result.evidence.push(result_evidence::score("score", score.get(), threshold));
    } else if has_failed {
        // The evidence of the failure would contradict a negation, which fails because the check now holds.
        result.evidence.clear();
    }
}

impl Check {
    /// Returns true if the check has a weight in the mean of scores.
    ///
    /// Both the weight of the check and the weight of a score inside the check must differ from 0. The option `skip` does
    /// not change the result.
    pub fn weighs(&self) -> bool {
        self.options.weight != 0.0 && self.traits.weighs
    }
}

/// Returns the opposite of "all of these hold": fails if all results hold, passes if one result does not hold.
///
/// If no result failed but some are errored, only the errored results are returned, because an errored check might not
/// hold. If all results are skipped, they are returned unchanged.
pub(crate) fn negate(id: &str, results: Vec<AssertionResult>) -> Vec<AssertionResult> {
    negate_unless(|_| false, id, results)
}

/// Negates results like [`negate`], but a tie stays a failure.
fn negate_unless(
    is_tie: impl Fn(&AssertionResult) -> bool,
    id: &str,
    mut results: Vec<AssertionResult>,
) -> Vec<AssertionResult> {
    let failed = results.iter().position(|it| matches!(it.verdict, Verdict::Fail { .. }));
    if failed.is_none() && results.iter().any(|it| matches!(it.verdict, Verdict::Errored { .. })) {
        results.retain(|it| matches!(it.verdict, Verdict::Errored { .. }));
        return results;
    }
    if failed.is_none() && !results.iter().any(|it| it.verdict == Verdict::Pass) {
        return results;
    }
    let label = match results.as_slice() {
        [only] => format!("Not: {}", only.label),
        _ => format!("Not: {id}"),
    };
    let least = results.iter().filter_map(|it| it.score).map(Score::get).reduce(f64::min);
    let chosen = failed.unwrap_or_else(|| {
        results.iter().position(|it| it.verdict == Verdict::Pass).unwrap_or_default()
    });
    let mut result = results.swap_remove(chosen);
    // A tied judgement has no opposite.
    let is_tie = is_tie(&result);
    result.verdict = match &result.verdict {
        Verdict::Fail { message, .. } if is_tie => Verdict::Fail {
            code: NEGATION_FAILED,
            message: format!("a tie is no verdict, so it does not pass: {message}"),
        },
        Verdict::Fail { message, .. } => {
            result.reasoning.get_or_insert_with(|| message.clone());
            Verdict::Pass
        }
        _ => fail(&label),
    };
    result.score = least.and_then(|it| Score::clamped(1.0 - it));
    result.label = label;
    vec![result]
}

fn fail(label: &str) -> Verdict {
    let check = label.strip_prefix("Not: ").unwrap_or(label);
    let code: FailureCode = NEGATION_FAILED;
    Verdict::Fail { code, message: format!("must not hold, but does: {check}") }
}

#[cfg(test)]
mod tests;
