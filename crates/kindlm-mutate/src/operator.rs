//! An operator, and the execution that it changes.

use kindlm_types::Execution;
use kindlm_wire::mutation::{Family, MutatedEvidence};

use crate::choice::Choice;
use crate::evidence::unusable;

/// A recorded execution that passed, and the data from which its mutants are made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Original<'a> {
    /// The execution. Its `tools` are those that the test case offers.
    pub execution: &'a Execution,
    /// The executions of all cases. Operators take names, values and whole outputs from them. The list may contain
    /// `execution`.
    pub others: &'a [Execution],
    /// The seed of all choices, normally the digest of the test case.
    pub seed: &'a str,
}

impl<'a> Original<'a> {
    /// Creates an original from its execution, the executions of all cases, and the seed of all choices.
    pub fn new(execution: &'a Execution, others: &'a [Execution], seed: &'a str) -> Self {
        Self { execution, others, seed }
    }

    /// Returns the executions of other cases, starting at a chosen execution.
    pub(crate) fn other_cases(&self, choice: &mut Choice) -> impl Iterator<Item = &'a Execution> {
        let (others, own) = (self.others, self.execution);
        let (before, after) = others.split_at(choice.index(others.len()).min(others.len()));
        after.iter().chain(before).filter(move |it| it.case != own.case)
    }
}

/// A mutation operator: it makes one kind of change to the evidence of an execution.
#[derive(Debug)]
pub struct Operator {
    /// The id, such as `drop-sentence`.
    pub id: &'static str,
    /// The family: harmful mutants are worse than the original, and harmless mutants are as good as the original.
    pub family: Family,
    /// The evidence that the operator changes.
    pub evidence: MutatedEvidence,
    /// The change, as a lower-case fragment such as `removes a key`.
    pub summary: &'static str,
    /// For a harmful operator, the kind of check that notices the change. For a harmless operator, the way to make a
    /// check less strict.
    pub advice: &'static str,
    pub(crate) change: Change,
}

/// A function that makes the changed execution; `None` if there is nothing to change.
type Change = fn(&Original<'_>, &mut Choice) -> Option<Execution>;

impl Operator {
    /// Creates an operator whose mutants are worse than the original.
    pub(crate) const fn harmful(
        evidence: MutatedEvidence,
        id: &'static str,
        summary: &'static str,
        advice: &'static str,
        change: Change,
    ) -> Self {
        Self { id, family: Family::Harmful, evidence, summary, advice, change }
    }

    /// Creates an operator whose mutants are as good as the original.
    pub(crate) const fn harmless(
        evidence: MutatedEvidence,
        id: &'static str,
        summary: &'static str,
        advice: &'static str,
        change: Change,
    ) -> Self {
        Self { id, family: Family::Harmless, evidence, summary, advice, change }
    }

    /// Returns the mutant of an execution. The same data always gives the same mutant.
    ///
    /// Returns `None` if the execution has nothing to change, if its evidence is [`unusable`], or if the mutant would
    /// equal the original.
    pub fn mutant(&self, original: &Original<'_>) -> Option<Execution> {
        if unusable(self.evidence, original.execution).is_some() {
            return None;
        }
        let mutant = (self.change)(original, &mut Choice::new(original.seed, self.id))?;
        (mutant != *original.execution).then_some(mutant)
    }
}
