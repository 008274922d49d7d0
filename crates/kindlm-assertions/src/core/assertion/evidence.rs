//! All that a check may look at.

use std::borrow::Cow;

use kindlm_types::{Answers, AssertionResult, Execution, FailureCode};

use crate::core::codes::EVIDENCE_MISSING;

/// All that a check may look at.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The record of what happened.
    pub execution: &'a Execution,
    /// The answers to the check's questions.
    pub answers: &'a Answers,
    /// The output of the same case and model in the baseline, if there is one.
    pub baseline: Option<&'a str>,
    /// The outputs that this one is compared with; only checks that [compare](super::Traits::compares) look at them.
    pub contest: Option<Contest<'a>>,
}

impl<'a> Evidence<'a> {
    /// An execution with the answers to the questions of its checks, without a baseline and other outputs.
    pub fn new(execution: &'a Execution, answers: &'a Answers) -> Self {
        Self { execution, answers, baseline: None, contest: None }
    }
}

/// One output among others of the same test: those of its models, and of its prompts where it has several.
#[derive(Clone, Copy, Debug)]
pub struct Contest<'a> {
    /// All that are compared, the own one included, in the order of the plan.
    pub candidates: &'a [Candidate<'a>],
    /// Which of them is the execution that is judged.
    pub own: usize,
}

/// An output that takes part in a comparison.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// Names it in messages: its model, and its test where several tests are compared.
    pub name: Cow<'a, str>,
    /// The record of what happened.
    pub execution: Cow<'a, Execution>,
    /// The results of the checks that judge it by itself.
    pub results: &'a [AssertionResult],
    /// True if it came to its end, so that there is an output to compare.
    pub is_there: bool,
}

impl<'a> Contest<'a> {
    /// The contest, if it can be decided; else the result of a check that compares, by its id and label.
    ///
    /// A single output is skipped; while one output is missing, the best cannot be decided.
    pub(crate) fn open(
        evidence: &Evidence<'a>,
        id: &str,
        label: &str,
    ) -> Result<Self, Box<AssertionResult>> {
        let errored = |code: FailureCode, message: String| {
            Err(Box::new(AssertionResult::errored(id, label, code, message)))
        };
        let Some(contest) = evidence.contest else {
            let message = format!(
                "There is nothing to compare with: `{id}` compares the outputs of one test over its models"
            );
            return errored(EVIDENCE_MISSING, message);
        };
        let missing: Vec<String> = contest
            .candidates
            .iter()
            .filter(|it| !it.is_there)
            .map(|it| format!("`{}`", it.name))
            .collect();
        if !missing.is_empty() {
            let message = format!(
                "There is no output of {}, so nobody can say which one is best",
                missing.join(" and ")
            );
            return errored(EVIDENCE_MISSING, message);
        }
        if contest.candidates.len() < 2 {
            let reason = "nothing to compare with: only one output was asked for";
            return Err(Box::new(AssertionResult::skipped(id, label, reason)));
        }
        Ok(contest)
    }
}
