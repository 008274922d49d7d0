//! A configured assertion with the options that every assertion takes.

use std::borrow::Cow;
use std::sync::Arc;

use kindlm_types::workspace::Gather;
use kindlm_types::{AssertionResult, Execution, FailureCode, Question, Score, Severity, Verdict};

use serde_json::Value;

use crate::codes::{NEGATION_FAILED, SCORE_BELOW_THRESHOLD};
use crate::scripting::{Seen, View, see};
use crate::untold::{is_untold, untold};
use crate::{Assertion, Contest, Evidence, Meta, Own};

/// How far a measure may miss its limit and still meet it: what adding up floats costs.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// Where results keep the score that they want.
const THRESHOLDS: [&str; 2] = ["threshold", "minScore"];

/// The options that every entry of the list form takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What a failure means.
    pub severity: Severity,
    /// Whether the check was written with `not-`: pass and fail change places.
    pub negate: bool,
    /// The least score that passes, instead of the assertion's own decision.
    pub threshold: Option<f64>,
    /// The share in the weighted mean score.
    pub weight: f64,
    /// The named score that the check contributes to.
    pub metric: Option<String>,
    /// Shown instead of the assertion's own label.
    pub label: Option<String>,
    /// Whether the execution goes no further if the check does not hold.
    pub require: bool,
    /// Why the check is not made, if it is not.
    pub skip: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            severity: Severity::Gate,
            negate: false,
            threshold: None,
            weight: 1.0,
            metric: None,
            label: None,
            require: false,
            skip: None,
        }
    }
}

/// Why an assertion cannot be shown its evidence yet, or at all.
enum Blind {
    /// Transforms must run first.
    Ask(Vec<Question>),
    /// There is nothing to see: what that means for the check.
    Nothing(Verdict),
}

/// A configured assertion, ready to be evaluated any number of times.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is known about the assertion.
    pub meta: &'static Meta,
    /// The assertion.
    pub assertion: Arc<dyn Assertion>,
    /// The options of this check.
    pub options: Options,
    /// What makes that which the check sees as the output, one after the other.
    pub views: Vec<View>,
    /// The configured value with its variables filled in, if there were any.
    pub rendered: Option<Value>,
    /// Whether it leaves to the suite who judges; `false` where the check or its block names somebody.
    pub leaves_judge_open: bool,
}

impl Check {
    /// A check with default options.
    pub fn new(meta: &'static Meta, assertion: Arc<dyn Assertion>) -> Self {
        let (options, views) = (Options::default(), Vec::new());
        Self { meta, assertion, options, views, rendered: None, leaves_judge_open: true }
    }

    /// What must be found out in the workspace when the agent has finished; see [`Assertion::gathers`].
    pub fn gathers(&self) -> Vec<Gather> {
        self.assertion.gathers()
    }

    /// What must still be found out: first by the transforms, then by the assertion; see
    /// [`Assertion::questions`].
    pub fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        if self.options.skip.is_some() {
            return Vec::new();
        }
        // Whom would one ask about nothing?
        let ask = |it: &Evidence<'_>| {
            if self.is_untold(it) { Vec::new() } else { self.assertion.questions(it) }
        };
        match self.seen(evidence, ask) {
            Ok(questions) | Err(Blind::Ask(questions)) => questions,
            Err(Blind::Nothing(_)) => Vec::new(),
        }
    }

    /// Whether it compares the outputs of several executions, and so needs [`Evidence::contest`].
    pub fn compares(&self) -> bool {
        self.assertion.compares()
    }

    /// Shows the assertion what the transforms make of the evidence.
    fn seen<T>(
        &self,
        evidence: &Evidence<'_>,
        then: impl FnOnce(&Evidence<'_>) -> T,
    ) -> Result<T, Blind> {
        if self.views.is_empty() {
            return Ok(then(evidence));
        }
        let mut questions = Vec::new();
        let mut look =
            |execution: &Execution| match see(&self.views, &Evidence { execution, ..*evidence }) {
                Seen::Unchanged => Ok(None),
                Seen::Changed(seen) => Ok(Some(seen)),
                Seen::Ask(question) => {
                    questions.push(*question);
                    Ok(None)
                }
                Seen::Nothing(verdict) => Err(Blind::Nothing(verdict)),
            };
        let own = look(evidence.execution)?;
        let execution = own.as_deref().unwrap_or(evidence.execution);
        let mut candidates = Vec::new();
        for candidate in evidence.contest.map(|it| it.candidates).unwrap_or_default() {
            let seen = if candidate.is_there { look(&candidate.execution)? } else { None };
            let mut candidate = candidate.clone();
            if let Some(seen) = seen {
                candidate.execution = Cow::Owned(*seen);
            }
            candidates.push(candidate);
        }
        if !questions.is_empty() {
            return Err(Blind::Ask(questions));
        }
        let contest = evidence.contest.map(|it| Contest { candidates: &candidates, own: it.own });
        Ok(then(&Evidence { execution, contest, ..*evidence }))
    }

    /// Judges the evidence and applies the options: first the threshold, then `not-`, then the rest.
    ///
    /// Without `not-` there is one result for everything the assertion looked at. With it there is one for
    /// the whole check, because "not all of these" is one statement. A check of weight 0 only tells its score: it
    /// does not fail. One that is skipped has no verdict but that.
    pub fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        if let Some(reason) = &self.options.skip {
            return vec![self.without_looking(Verdict::Skipped { reason: reason.clone() })];
        }
        let mut results = match self.seen(evidence, |it| self.judge(it)) {
            Ok(results) => results,
            Err(Blind::Ask(_)) => {
                let message = "The transform has not been run".to_owned();
                let code = FailureCode::INTERNAL_ERROR;
                return vec![self.without_looking(Verdict::Errored { code, message })];
            }
            Err(Blind::Nothing(verdict)) => return vec![self.without_looking(verdict)],
        };
        for result in &mut results {
            self.apply(result);
        }
        results
    }

    /// The result of the check where the verdict is clear before the assertion has looked at anything.
    pub fn without_looking(&self, verdict: Verdict) -> AssertionResult {
        let id = self.meta.id;
        let mut result = AssertionResult::new(id, self.assertion.label().unwrap_or(id), verdict);
        self.apply(&mut result);
        result
    }

    fn is_untold(&self, evidence: &Evidence<'_>) -> bool {
        self.assertion.sees_output() && is_untold(self.meta.id, evidence.execution)
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        if self.is_untold(evidence) {
            return untold(self.meta.id, self.assertion.label());
        }
        let mut results = self.assertion.evaluate(evidence);
        if let Some(threshold) = self.options.threshold {
            for result in &mut results {
                hold_against(threshold, result);
            }
        }
        if self.options.negate {
            results = negate(self.meta.id, results);
        }
        results
    }

    fn apply(&self, result: &mut AssertionResult) {
        let options = &self.options;
        result.class = self.meta.class;
        result.severity = options.severity;
        // Of several results of one check, each may have a share of its own.
        result.weight *= options.weight;
        result.metric.clone_from(&options.metric);
        let on = self.views.iter().find_map(|it| match it {
            View::On(selector) => Some(selector),
            View::Script(_) => None,
        });
        match (&options.label, on) {
            (Some(label), _) => result.label.clone_from(label),
            // Two checks of different values are two checks, also in what is summed up by label.
            (None, Some(path)) => result.label = format!("{} (on {path})", result.label),
            (None, None) => {}
        }
        // A score to watch is shown with the one that is wanted.
        let own = Own { negate: options.negate, threshold: options.threshold };
        let wanted = own.wants().or_else(|| self.assertion.wants());
        if let (Severity::Soft, Some(threshold)) = (options.severity, wanted)
            && result.score.is_some()
            && !THRESHOLDS.iter().any(|it| result.metadata.contains_key(*it))
        {
            result.metadata.insert("threshold".to_owned(), threshold.into());
        }
        if let Some(rendered) = &self.rendered {
            result.metadata.insert("renderedAssertionValue".to_owned(), rendered.clone());
        }
        if result.weight == 0.0
            && let Verdict::Fail { message, .. } = &result.verdict
        {
            result.reasoning.get_or_insert_with(|| message.clone());
            result.verdict = Verdict::Pass;
        }
    }
}

/// Decides a scored result by its score alone. Errored and skipped results have none and stay.
pub(crate) fn hold_against(threshold: f64, result: &mut AssertionResult) {
    let Some(score) = result.score else { return };
    let held = score.get() >= threshold - TOLERANCE;
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
}

/// The opposite of "all of these hold": fails when all do, passes as soon as one does not.
///
/// What was errored could have been the one that does not hold, so without a failure it decides.
pub(crate) fn negate(id: &str, mut results: Vec<AssertionResult>) -> Vec<AssertionResult> {
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
    result.verdict = match &result.verdict {
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
mod tests {
    use super::*;
    use crate::registry::Code;
    use kindlm_types::{Answers, Class};

    static META: Meta = Meta {
        id: "sample",
        path: None,
        summary: "A sample.",
        since: "0.1.0",
        class: Class::Probabilistic,
        codes: &[Code { code: FailureCode::new("LOW"), summary: "Low." }],
        docs: "",
    };

    #[derive(Debug)]
    struct Fixed(Vec<AssertionResult>);

    impl Assertion for Fixed {
        fn evaluate(&self, _evidence: &Evidence<'_>) -> Vec<AssertionResult> {
            self.0.clone()
        }
    }

    fn pass(score: f64) -> AssertionResult {
        AssertionResult::pass("sample", "a").with_score(Score::new(score).unwrap())
    }

    fn fail(score: f64) -> AssertionResult {
        AssertionResult::fail("sample", "b", FailureCode::new("LOW"), "too low")
            .with_score(Score::new(score).unwrap())
    }

    fn errored() -> AssertionResult {
        AssertionResult::errored("sample", "c", FailureCode::new("LOST"), "lost")
    }

    fn skipped() -> AssertionResult {
        AssertionResult::skipped("sample", "d", "no baseline")
    }

    fn run(results: Vec<AssertionResult>, negate: bool, threshold: Option<f64>) -> Vec<String> {
        let mut check = Check::new(&META, Arc::new(Fixed(results)));
        check.options = Options { negate, threshold, ..Options::default() };
        let evidence = Evidence {
            execution: &Execution::default(),
            answers: &Answers::default(),
            baseline: None,
            contest: None,
        };
        check
            .evaluate(&evidence)
            .iter()
            .map(|it| {
                let score = it.score.map_or("-".to_owned(), |it| it.to_string());
                format!(
                    "{} {score} {} {}",
                    it.verdict.status(),
                    it.label,
                    it.verdict.message().unwrap_or_default()
                )
            })
            .collect()
    }

    #[test]
    fn a_threshold_decides_by_score() {
        for (result, threshold, expected) in [
            (pass(0.7), 0.7, "passed 0.7 a "),
            (pass(0.1 + 0.2), 0.3, "passed 0.30000000000000004 a "),
            (pass(0.3), 0.1 + 0.2, "passed 0.3 a "),
            (pass(0.7), 0.8, "failed 0.7 a score 0.7 is below the threshold 0.8"),
            (fail(0.6), 0.5, "passed 0.6 b "),
            (fail(0.6), 0.65, "failed 0.6 b score 0.6 is below the threshold 0.65: too low"),
            (errored(), 0.0, "errored - c lost"),
            (skipped(), 1.0, "skipped - d no baseline"),
        ] {
            assert_eq!(run(vec![result], false, Some(threshold)), [expected]);
        }
    }

    #[test]
    fn not_turns_the_whole_check_round() {
        for (results, expected) in [
            (vec![pass(1.0)], vec!["failed 0 Not: a must not hold, but does: a"]),
            (vec![fail(0.25)], vec!["passed 0.75 Not: b "]),
            (vec![pass(1.0), fail(0.0)], vec!["passed 1 Not: sample "]),
            (
                vec![pass(1.0), pass(0.5)],
                vec!["failed 0.5 Not: sample must not hold, but does: sample"],
            ),
            (vec![errored()], vec!["errored - c lost"]),
            (vec![pass(1.0), errored()], vec!["errored - c lost"]),
            (vec![fail(0.0), errored()], vec!["passed 1 Not: sample "]),
            (vec![skipped()], vec!["skipped - d no baseline"]),
            (vec![], vec![]),
        ] {
            assert_eq!(run(results, true, None), expected);
        }
    }

    #[test]
    fn not_applies_after_the_threshold() {
        assert_eq!(run(vec![pass(0.7)], true, Some(0.8)).len(), 1);
        assert!(run(vec![pass(0.7)], true, Some(0.8))[0].starts_with("passed 0.3"));
        assert!(run(vec![fail(0.6)], true, Some(0.5))[0].starts_with("failed 0.4"));
    }

    #[test]
    fn every_result_carries_the_options() {
        let mut check = Check::new(&META, Arc::new(Fixed(vec![pass(1.0), errored()])));
        check.options = Options {
            severity: Severity::Soft,
            weight: 2.0,
            metric: Some("quality".to_owned()),
            label: Some("mine".to_owned()),
            ..Options::default()
        };
        let execution = Execution::default();
        let answers = Answers::default();
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, contest: None };
        for result in check.evaluate(&evidence) {
            assert_eq!(result.class, Class::Probabilistic);
            assert_eq!(result.severity, Severity::Soft);
            assert_eq!(result.weight.to_string(), "2");
            assert_eq!(result.metric.as_deref(), Some("quality"));
            assert_eq!(result.label, "mine");
        }
    }
}
