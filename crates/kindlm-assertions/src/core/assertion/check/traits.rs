//! The traits of a configured assertion: how its check is prepared, and how its results are taken.

use std::sync::Arc;

use kindlm_types::Problem;
use kindlm_types::workspace::Gather;

use super::Check;
use crate::core::judging::Instructions;

/// The traits of a configured assertion. They depend on its configuration alone.
///
/// There is no default, because each one would be wrong for some assertion: an assertion begins with one of the constants,
/// and names the fields in which it differs.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a trait by itself, and any two may go together"
)]
pub struct Traits {
    /// The label of its result, if it is known before there is a result.
    pub label: Option<String>,
    /// The part of the evidence that it judges.
    pub looks_at: LooksAt,
    /// The least score that passes, if its verdict depends on a score and a threshold.
    pub threshold: Option<f64>,
    /// True if its `threshold` is not a score from 0 to 1 but dollars, a distance, or the number that a script gives.
    pub measures: bool,
    /// True if it compares the output with others. It is evaluated when all of them are there, and finds them in
    /// [`Evidence::contest`](crate::Evidence::contest).
    pub compares: bool,
    /// True if it cannot decide anything about a test without a workspace.
    pub needs_workspace: bool,
    /// The evidence that is taken from the workspace when the agent has finished. The workspace is gone when the checks
    /// are made.
    pub gathers: Vec<Gather>,
    /// True if its configuration may hold a secret once variables are filled in, so that no result shows it.
    pub hides_value: bool,
    /// The parts of its configuration that have no effect, by pointers from it.
    pub no_effect: Vec<Problem>,
    /// The instructions of its judges; `None` if it asks no judge.
    pub instructions: Option<Instructions>,
    /// True if a result of it can be a tie, which neither passes nor fails when the check is negated. Such a result says
    /// `tie` in its metadata.
    pub can_tie: bool,
    /// The checks that it is made of, if it is a set.
    pub parts: Option<Arc<[Check]>>,
    /// True if something in it has a weight in a mean of scores.
    pub weighs: bool,
}

/// The part of the evidence that an assertion judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LooksAt {
    /// The output: the last answer. `on` may put another value in its place, and without an output nothing is decided.
    Output,
    /// The answers of all turns of a conversation. `on` may put another value in their place.
    AllAnswers,
    /// The record of what happened: events, calls, cost, files. `on` does not change it.
    Record,
    /// Its parts, each of which says for itself what it judges.
    Parts {
        /// True if all parts judge the output, so that `on` may put another value in its place.
        of_output: bool,
    },
}

impl LooksAt {
    /// True if `on` may put another value in the place of the output.
    pub fn takes_on(self) -> bool {
        match self {
            Self::Output | Self::AllAnswers => true,
            Self::Parts { of_output } => of_output,
            Self::Record => false,
        }
    }

    /// True if nothing is decided about an execution whose output was not recorded.
    pub fn needs_output(self) -> bool {
        matches!(self, Self::Output | Self::AllAnswers)
    }
}

impl Traits {
    /// An assertion that judges the output.
    pub const OF_OUTPUT: Self = Self::of(LooksAt::Output);

    /// An assertion that judges the record of what happened: events, calls, cost.
    pub const OF_RECORD: Self = Self::of(LooksAt::Record);

    /// An assertion that judges the workspace of an agent.
    pub const OF_WORKSPACE: Self = Self::of_workspace();

    const fn of(looks_at: LooksAt) -> Self {
        Self {
            label: None,
            looks_at,
            threshold: None,
            measures: false,
            compares: false,
            needs_workspace: false,
            gathers: Vec::new(),
            hides_value: false,
            no_effect: Vec::new(),
            instructions: None,
            can_tie: false,
            parts: None,
            weighs: true,
        }
    }

    const fn of_workspace() -> Self {
        let mut traits = Self::of(LooksAt::Record);
        traits.needs_workspace = true;
        traits
    }
}
