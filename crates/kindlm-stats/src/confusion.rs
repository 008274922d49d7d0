//! The confusion matrix of a judge and people.

use crate::{Tally, Undefined, float};

/// The confusion matrix: counts of outputs by the answers of people and the judge.
///
/// The answers of people count as the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// The number of outputs that both passed.
    pub both_pass: u64,
    /// The number of outputs that only people passed, so the judge was too strict.
    pub only_human: u64,
    /// The number of outputs that only the judge passed, so the judge was too lenient.
    pub only_judge: u64,
    /// The number of outputs that both failed.
    pub both_fail: u64,
}

impl Confusion {
    /// Counts pairs of answers. People's answer comes first, and `true` is a pass.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let mut confusion = Self::default();
        for (human, judge) in pairs {
            confusion.add(human, judge);
        }
        confusion
    }

    /// Counts one output by the answers of people and the judge.
    pub fn add(&mut self, human: bool, judge: bool) {
        *match (human, judge) {
            (true, true) => &mut self.both_pass,
            (true, false) => &mut self.only_human,
            (false, true) => &mut self.only_judge,
            (false, false) => &mut self.both_fail,
        } += 1;
    }

    /// Returns the number of outputs.
    pub fn total(&self) -> u64 {
        self.human_passed().saturating_add(self.human_failed())
    }

    /// Returns the number of outputs that people passed.
    pub fn human_passed(&self) -> u64 {
        self.both_pass.saturating_add(self.only_human)
    }

    /// Returns the number of outputs that people failed.
    pub fn human_failed(&self) -> u64 {
        self.only_judge.saturating_add(self.both_fail)
    }

    /// Returns the number of outputs that the judge passed.
    pub fn judge_passed(&self) -> u64 {
        self.both_pass.saturating_add(self.only_judge)
    }

    /// Returns the share of outputs with equal answers of people and the judge. Fails without outputs.
    pub fn agreement(&self) -> Result<Tally, Undefined> {
        Tally::new(self.both_pass.saturating_add(self.both_fail), self.total())
    }

    /// Returns the base rate: the share of outputs that people passed.
    ///
    /// Agreement and kappa depend on the base rate. Fails without outputs.
    pub fn base_rate(&self) -> Result<Tally, Undefined> {
        Tally::new(self.human_passed(), self.total())
    }

    /// Returns the sensitivity: the judge's pass rate where people passed the output. Fails if people passed none.
    pub fn sensitivity(&self) -> Result<Tally, Undefined> {
        Tally::new(self.both_pass, self.human_passed()).map_err(|_| self.one_class())
    }

    /// Returns the specificity: the judge's fail rate where people failed the output. Fails if people failed none.
    pub fn specificity(&self) -> Result<Tally, Undefined> {
        Tally::new(self.both_fail, self.human_failed()).map_err(|_| self.one_class())
    }

    fn one_class(&self) -> Undefined {
        if self.total() == 0 { Undefined::Empty } else { Undefined::OneClass }
    }

    /// Returns a count as a share of all outputs. The caller makes sure that there are outputs.
    pub(crate) fn share(&self, count: u64) -> f64 {
        float(count) / float(self.total())
    }
}
