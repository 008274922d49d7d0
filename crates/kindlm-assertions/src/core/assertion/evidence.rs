//! The evidence that a check is evaluated on.

use std::borrow::Cow;

use kindlm_types::{Answers, AssertionResult, Execution, FailureCode};

use crate::core::codes::EVIDENCE_MISSING;

/// The evidence that a check is evaluated on.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The execution that the check judges.
    pub execution: &'a Execution,
    /// The answers to the questions of the check.
    pub answers: &'a Answers,
    /// The output of the same case and model in the baseline; `None` if the baseline has no such output.
    pub baseline: Option<&'a str>,
    /// The outputs to compare; `None` without a comparison.
    ///
    /// Only checks that [compare](super::Traits::compares) use these outputs.
    pub comparison: Option<OutputComparison<'a>>,
}

impl<'a> Evidence<'a> {
    /// Creates the evidence of an execution, without a baseline or a comparison.
    pub fn new(execution: &'a Execution, answers: &'a Answers) -> Self {
        Self { execution, answers, baseline: None, comparison: None }
    }
}

/// The outputs of one test that are compared with each other.
///
/// The outputs come from the models of the test, and from its prompts if the test has several prompts.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OutputComparison<'a> {
    /// All outputs in the comparison, in the order of the plan.
    ///
    /// The judged output is one of these outputs.
    pub candidates: &'a [Candidate<'a>],
    /// The index in `candidates` of the execution that is judged.
    pub own: usize,
}

/// An output in a comparison.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// The name in reports: the model, and the test if several tests are compared.
    pub name: Cow<'a, str>,
    /// The execution that produced the output.
    pub execution: Cow<'a, Execution>,
    /// The results of the checks that judge this output alone.
    pub results: &'a [AssertionResult],
    /// True if the execution has no error, and `on` and `transform` give a value for its output.
    pub is_there: bool,
}

impl<'a> Candidate<'a> {
    /// Creates an output in a comparison from its execution and the results of the checks that judge it alone.
    pub fn new(
        name: impl Into<Cow<'a, str>>,
        execution: Cow<'a, Execution>,
        results: &'a [AssertionResult],
        is_there: bool,
    ) -> Self {
        Self { name: name.into(), execution, results, is_there }
    }
}

impl<'a> OutputComparison<'a> {
    /// Creates a comparison of all outputs, in which the output with the index `own` is judged.
    pub fn new(candidates: &'a [Candidate<'a>], own: usize) -> Self {
        Self { candidates, own }
    }

    /// Returns the comparison, or the final result if the check cannot be evaluated.
    ///
    /// `id` and `label` belong to the check. The result is skipped if there is only one output. The result is errored
    /// without a comparison, or if any output is missing, because the best output is then unknown.
    pub(crate) fn open(
        evidence: &Evidence<'a>,
        id: &str,
        label: &str,
    ) -> Result<Self, Box<AssertionResult>> {
        let errored = |code: FailureCode, message: String| {
            Err(Box::new(AssertionResult::errored(id, label, code, message)))
        };
        let Some(comparison) = evidence.comparison else {
            let message = format!(
                "there is nothing to compare with: `{id}` compares the outputs of one test over its models"
            );
            return errored(EVIDENCE_MISSING, message);
        };
        let missing: Vec<String> = comparison
            .candidates
            .iter()
            .filter(|it| !it.is_there)
            .map(|it| format!("`{}`", it.name))
            .collect();
        if !missing.is_empty() {
            let message = format!(
                "the best output is unknown, because there is no output of {}",
                missing.join(" and ")
            );
            return errored(EVIDENCE_MISSING, message);
        }
        if comparison.candidates.len() < 2 {
            let reason = "nothing to compare with: there is only one output";
            return Err(Box::new(AssertionResult::skipped(id, label, reason)));
        }
        Ok(comparison)
    }
}
