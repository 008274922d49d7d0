//! The four ways in which a judge and people can see an output.

use crate::{Tally, Undefined, float};

/// The counts of each pair of answers of a judge and people on the same outputs. The answers of people count as the
/// truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// Both passed the output.
    pub both_pass: u64,
    /// People passed the output, the judge failed it: it is too strict.
    pub only_human: u64,
    /// People failed the output, the judge passed it: it is too kind.
    pub only_judge: u64,
    /// Both failed the output.
    pub both_fail: u64,
}

impl Confusion {
    /// Counts pairs of answers, people's first; `true` is a pass.
    pub fn of(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let mut confusion = Self::default();
        for (human, judge) in pairs {
            confusion.add(human, judge);
        }
        confusion
    }

    /// Counts one output.
    pub fn add(&mut self, human: bool, judge: bool) {
        *match (human, judge) {
            (true, true) => &mut self.both_pass,
            (true, false) => &mut self.only_human,
            (false, true) => &mut self.only_judge,
            (false, false) => &mut self.both_fail,
        } += 1;
    }

    /// The number of outputs that were judged by both.
    pub fn total(&self) -> u64 {
        self.human_passed().saturating_add(self.human_failed())
    }

    /// The number of outputs that people passed.
    pub fn human_passed(&self) -> u64 {
        self.both_pass.saturating_add(self.only_human)
    }

    /// The number of outputs that people failed.
    pub fn human_failed(&self) -> u64 {
        self.only_judge.saturating_add(self.both_fail)
    }

    /// The number of outputs that the judge passed.
    pub fn judge_passed(&self) -> u64 {
        self.both_pass.saturating_add(self.only_judge)
    }

    /// The share of all outputs on which both gave the same answer.
    pub fn agreement(&self) -> Result<Tally, Undefined> {
        Tally::new(self.both_pass.saturating_add(self.both_fail), self.total())
    }

    /// The share of all outputs that people passed: the base rate, without which neither agreement nor kappa can be
    /// read.
    pub fn base_rate(&self) -> Result<Tally, Undefined> {
        Tally::new(self.human_passed(), self.total())
    }

    /// The share of the outputs passed by people that the judge passed too.
    pub fn sensitivity(&self) -> Result<Tally, Undefined> {
        Tally::new(self.both_pass, self.human_passed()).map_err(|_| self.one_class())
    }

    /// The share of the outputs failed by people that the judge failed too.
    pub fn specificity(&self) -> Result<Tally, Undefined> {
        Tally::new(self.both_fail, self.human_failed()).map_err(|_| self.one_class())
    }

    fn one_class(&self) -> Undefined {
        if self.total() == 0 { Undefined::Empty } else { Undefined::OneClass }
    }

    /// The share of all outputs in a cell.
    pub(crate) fn share(&self, count: u64) -> f64 {
        float(count) / float(self.total())
    }
}
