//! Calibrates a judge: asks it about outputs that people have labelled, and measures the agreement.
//!
//! [`Subject`] is the judge. [`Subject::plan`] turns a [`LabelFile`] into questions. [`Planned::run`] asks the
//! questions. [`Agreement`] is the result. [`Planned::watch`] asks some questions again later. [`WatchReport`] is the
//! result of a watch, and shows if the judge has changed.

mod agreement;
mod ask;
mod asking;
mod canaries;
mod correct;
mod findings;
mod json;
mod labels;
mod standing;
mod subject;
mod table;
mod watch;

use kindlm_types::{AssertionResult, FailureCode, Verdict};

pub use agreement::Agreement;
pub use ask::Question;
pub(crate) use canaries::{Canaries, CanaryRun};
use correct::Correction;
use findings::Findings;
pub use labels::{LabelFile, load_rules, parse_check};
pub use standing::{JudgeState, JudgeWatches};
pub use subject::{CalibrateConfig, Planned, Subject};
pub use watch::WatchReport;

/// The label and the verdict of one output, or of one rule of a set.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    /// The line in the file of labels.
    line: u64,
    /// The text of the criterion, or the id of the rule.
    about: String,
    /// The label from 0 to 1; `None` if people did not label the output.
    human: Option<f64>,
    /// The judge's verdict.
    judge: JudgeOutcome,
    /// The judged output.
    output: String,
    /// The number of the output. A set of rules has several samples of one output.
    case: usize,
    /// The digest of the criterion; `None` if the check has no criterion.
    criterion: Option<String>,
    /// The model names that the provider returned, if they differ from the request.
    answered: Vec<String>,
    /// The fingerprints of the models that answered, as the providers reported them.
    fingerprints: Vec<String>,
}

/// The answer of a judge about an output.
#[derive(Clone, Debug, PartialEq)]
enum JudgeOutcome {
    /// A verdict.
    Decided {
        /// True if the output passes.
        pass: bool,
        /// The score from 0 to 1; `None` if the judge gives no score.
        score: Option<f64>,
        /// The judge's reasoning; `None` if the judge gives no reasoning.
        reasoning: Option<String>,
    },
    /// No usable verdict.
    Errored {
        /// The error message.
        message: String,
        /// The kind of error.
        why: Obstacle,
    },
}

/// The reason for a missing verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// The judge's reply could not be parsed, or another error that is not listed here.
    Unreadable,
    /// The provider failed.
    Provider,
    /// The judge was not asked, because no judge is configured.
    Unasked,
    /// The judge was not asked, because the budget is spent.
    Budget,
}

impl JudgeOutcome {
    /// Converts the result of a check; returns `None` if the check was skipped.
    fn from_result(result: &AssertionResult) -> Option<Self> {
        let pass = match &result.verdict {
            Verdict::Pass => true,
            Verdict::Fail { .. } => false,
            Verdict::Errored { message, .. } => {
                let has = |code| result.verdict.code() == Some(&code) || result.cause == Some(code);
                let why = if result.failed_by_provider() {
                    Obstacle::Provider
                } else if has(FailureCode::JUDGE_NOT_CONFIGURED) {
                    Obstacle::Unasked
                } else if has(FailureCode::BUDGET_EXCEEDED) {
                    Obstacle::Budget
                } else {
                    Obstacle::Unreadable
                };
                return Some(Self::Errored { message: message.clone(), why });
            }
            Verdict::Skipped { .. } => return None,
        };
        let score = result.score.map(kindlm_types::Score::get);
        Some(Self::Decided { pass, score, reasoning: result.reasoning.clone() })
    }
}
