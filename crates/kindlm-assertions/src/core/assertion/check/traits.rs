//! The traits of a configured assertion: how its check is prepared and how its results are handled.

use std::sync::Arc;

use kindlm_types::Problem;
use kindlm_types::workspace::Gather;

use super::Check;
use super::rules::{PassEvidence, StaysValid, VerdictRule};
use crate::core::judging::Instructions;

/// The traits of a configured assertion. They depend only on its configuration.
///
/// There is no `Default`, because every default would be wrong for some assertion. An assertion starts from one of the
/// constants and changes the fields that differ. Code of other crates cannot write a literal, so it changes a copy:
///
/// ```
/// use kindlm_assertions::{StaysValid, Traits};
///
/// let mut traits = Traits::OF_OUTPUT;
/// traits.stays_valid = StaysValid::Failure;
/// ```
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a trait by itself, and any two may go together"
)]
#[non_exhaustive]
pub struct Traits {
    /// The label of the result; `None` if the label is known only after the evaluation.
    pub label: Option<String>,
    /// The part of the evidence that the assertion judges.
    pub looks_at: LooksAt,
    /// The threshold of the verdict; `None` if no threshold decides the verdict.
    pub threshold: Option<f64>,
    /// True if `threshold` is not a score from 0 to 1, but for example dollars, a distance, or a number from a script.
    pub measures: bool,
    /// True if the assertion compares the output with other outputs.
    ///
    /// Such an assertion is evaluated after all executions of the comparison. The other outputs are in
    /// [`Evidence::comparison`](crate::Evidence::comparison).
    pub compares: bool,
    /// True if the assertion needs a workspace to decide.
    pub needs_workspace: bool,
    /// The evidence to collect from the workspace when the agent has finished.
    ///
    /// The workspace no longer exists when the checks are evaluated.
    pub gathers: Vec<Gather>,
    /// True if the rendered configuration may contain a secret. Results then leave out the value.
    pub hides_value: bool,
    /// A problem for each part of the configuration that has no effect.
    pub no_effect: Vec<Problem>,
    /// The instructions for the judges; `None` if the assertion asks no judge.
    pub instructions: Option<Instructions>,
    /// True if a result can be a tie, which does not pass with `not-` either.
    ///
    /// Such a result is marked with `tie` in its judging data.
    pub can_tie: bool,
    /// The checks inside an `assert-set`; `None` for any other assertion.
    pub parts: Option<Arc<[Check]>>,
    /// True if a result can have named scores that the configuration does not list, such as those of a script.
    pub names_scores: bool,
    /// True if a score inside the assertion has a weight other than 0.
    ///
    /// Always true for an assertion without weighted scores.
    pub weighs: bool,
    /// The parts of the check that are counted separately over many records; empty if only the whole check is counted.
    pub series: Vec<Series>,
    /// The results that stay valid although a part of the output is missing.
    pub stays_valid: StaysValid,
    /// The rule that gives the verdict for a score; `None` if the score alone never decides.
    pub verdict_rule: Option<VerdictRule>,
    /// The evidence that the assertion holds. With `not-`, this is the evidence of the failure.
    ///
    /// Only assertions that leave `not-` to [`Check`] need this evidence. `None` for any other assertion.
    pub evidence_of_pass: Option<PassEvidence>,
}

/// A part of a check that is counted separately over many records, such as one key of its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Series {
    /// The name of the part, which does not depend on the evidence.
    pub name: String,
    /// The prefixes of labels. A result whose label starts with one of them belongs to this part.
    pub labels: &'static [&'static str],
}

impl Series {
    /// Creates a part from its name and the prefixes of its labels.
    pub fn new(name: impl Into<String>, labels: &'static [&'static str]) -> Self {
        Self { name: name.into(), labels }
    }
}

/// The part of the evidence that an assertion judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LooksAt {
    /// The output, which is the last answer.
    ///
    /// `on` can replace the output with another value. Without an output, the check cannot be decided.
    Output,
    /// The answers of all turns of a conversation. `on` can replace them with another value.
    AllAnswers,
    /// The record of the execution: events, calls, cost, files. `on` does not change it.
    Record,
    /// The checks inside an `assert-set`. Each of these checks has its own `LooksAt`.
    Parts {
        /// True if all checks inside judge the output. `on` can then replace the output.
        of_output: bool,
    },
}

impl LooksAt {
    /// Returns true if `on` can replace the output with another value.
    pub fn takes_on(self) -> bool {
        match self {
            Self::Output | Self::AllAnswers => true,
            Self::Parts { of_output } => of_output,
            Self::Record => false,
        }
    }

    /// Returns true if a check cannot be decided without a recorded output.
    pub fn needs_output(self) -> bool {
        matches!(self, Self::Output | Self::AllAnswers)
    }
}

impl Traits {
    /// The traits of an assertion that judges the output.
    pub const OF_OUTPUT: Self = Self::new(LooksAt::Output);

    /// The traits of an assertion that judges the record: events, calls, cost.
    pub const OF_RECORD: Self = Self::new(LooksAt::Record);

    /// The traits of an assertion that judges the workspace of an agent.
    pub const OF_WORKSPACE: Self = Self::of_workspace();

    const fn new(looks_at: LooksAt) -> Self {
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
            names_scores: false,
            weighs: true,
            series: Vec::new(),
            stays_valid: StaysValid::Never,
            verdict_rule: None,
            evidence_of_pass: None,
        }
    }

    const fn of_workspace() -> Self {
        let mut traits = Self::new(LooksAt::Record);
        traits.needs_workspace = true;
        traits
    }
}
