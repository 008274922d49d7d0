//! Holds a judge against people: reads labels, asks the judge, and says how far the two agree.

mod ask;
mod correct;
mod findings;
mod json;
mod labels;
mod table;

use kindlm_types::{AssertionResult, FailureCode, Verdict};

pub use ask::{Asked, Plan, Question, ask, plan};
pub use correct::{Correction, Known, in_report};
pub use findings::Findings;
pub use json::{About, as_json};
pub use labels::{Labels, read};
pub use table::as_table;

/// What people and the judge said about one output, or about one rule of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The line in the file of labels.
    pub line: u64,
    /// What the judge was asked, in a few words: the criterion, or the id of the rule.
    pub about: String,
    /// People's label from 0 to 1; `None` where there is none.
    pub human: Option<f64>,
    /// What the judge said.
    pub judge: Judged,
    /// What was judged.
    pub output: String,
    /// The digest of the criterion, if the check has one.
    pub criterion: Option<String>,
    /// The vendors' names of the models that answered, where they are others than those that were asked for.
    pub answered: Vec<String>,
}

/// What a judge said about an output.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// A verdict.
    Said {
        /// True if the output passes.
        pass: bool,
        /// From 0 to 1, where it gave one.
        score: Option<f64>,
        /// Why, in its words.
        reasoning: Option<String>,
    },
    /// Nothing that can be used.
    Errored {
        /// What happened.
        message: String,
        /// Whose fault it is.
        why: Obstacle,
    },
}

/// Why a judge said nothing that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its replies cannot be read: that is a fault of the judge.
    Unreadable,
    /// The provider failed: the judge itself may be fine.
    Provider,
    /// It was never asked: the budget did not allow it, for example.
    Unasked,
}

impl Judged {
    /// What a result says; `None` if the check does not apply to the output.
    fn of(result: &AssertionResult) -> Option<Self> {
        let pass = match &result.verdict {
            Verdict::Pass => true,
            Verdict::Fail { .. } => false,
            Verdict::Errored { message, .. } => {
                let why = match result.verdict.code() {
                    _ if result.failed_by_provider() => Obstacle::Provider,
                    Some(code) if *code == FailureCode::JUDGE_NOT_CONFIGURED => Obstacle::Unasked,
                    _ => Obstacle::Unreadable,
                };
                return Some(Self::Errored { message: message.clone(), why });
            }
            Verdict::Skipped { .. } => return None,
        };
        let score = result.score.map(kindlm_types::Score::get);
        Some(Self::Said { pass, score, reasoning: result.reasoning.clone() })
    }
}
