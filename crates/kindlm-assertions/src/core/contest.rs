//! The outputs that one is compared with: evidence for checks that cannot judge an output by itself.

use std::borrow::Cow;

use kindlm_types::{AssertionResult, Execution, FailureCode, Question};

use crate::core::codes::EVIDENCE_MISSING;
use crate::{Check, Evidence};

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
    /// What happened.
    pub execution: Cow<'a, Execution>,
    /// What was found by the checks that judge it by itself.
    pub results: &'a [AssertionResult],
    /// True if it came to its end, so that there is an output to compare.
    pub is_there: bool,
}

impl<'a> Contest<'a> {
    /// The contest, if it can be decided; else the result of a check that compares, by its id and label.
    ///
    /// Who has nobody to be compared with is skipped; where somebody's output is missing, nobody knows who is best.
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

/// What checks would ask about an execution at once, each question with its check. A check that compares is shown a
/// second output.
pub fn first_questions<'c>(
    checks: impl IntoIterator<Item = &'c Check>,
    evidence: &Evidence<'_>,
) -> Vec<(&'c Check, Question)> {
    let own = candidate("this", evidence.execution.clone());
    let mut other = candidate("other", evidence.execution.clone());
    other.execution.to_mut().output.push('?');
    let candidates = [own, other];
    let contest = Contest { candidates: &candidates, own: 0 };
    let compared = Evidence { contest: Some(contest), ..*evidence };
    let mut found = Vec::new();
    for check in checks {
        let evidence = if check.compares() { &compared } else { evidence };
        found.extend(check.questions(evidence).into_iter().map(|it| (check, it)));
    }
    found
}

fn candidate(name: &str, execution: Execution) -> Candidate<'_> {
    Candidate { name: name.into(), execution: Cow::Owned(execution), results: &[], is_there: true }
}
