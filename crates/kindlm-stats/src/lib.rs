//! Statistics about pass rates, about the difference of two runs, and about the agreement of a judge with people.
//!
//! [`PairedTest`] compares the same cases before and after a change. [`benjamini_hochberg`] corrects many such tests.
//! [`Pilot`] plans the size of such runs from a past run.
//!
//! A judge decides if outputs pass, and people have judged some of the same outputs. This crate compares the decisions:
//! - [`Confusion`] counts the answers.
//! - [`Confusion::kappa`] is the agreement beyond chance.
//! - [`Confusion::kappa_interval`] and [`kappa_interval_of_sets`] are intervals of kappa for few outputs.
//! - [`Drift`] is the evidence that a judge has changed since its calibration.
//! - [`best_threshold`] finds the score threshold with the best agreement.
//! - [`rogan_gladen`] and [`prediction_powered_rate`] correct the pass rate of a judge for its known errors.
//!
//! Repeats of a case are samples of its true pass rate:
//! - [`Tally`] has the intervals of a share, also for [counts that ended early](Tally::anytime). It also has the
//!   probabilities that one or all of several tries pass.
//! - [`WeightedTally`] has the pass rate of outputs that were drawn with different probabilities.
//! - [`Clustered`] is the mean of repeats of several cases, with its interval. [`Clusters`] collects it in any order.
//! - [`Sprt`] decides if a rate is high enough, with as few repeats as possible.
//! - [`change_points`] finds the runs at which the rate changed.
//! - [`Detector`] raises an alarm soon after the pass rate of a stream of results has fallen.
//!
//! [`Correlation`] relates scores with the opinions of users.
//!
//! All functions are pure. If a result is undefined, the function returns the reason as an error ([`Undefined`]). No
//! function returns NaN or infinity.
//!
//! ```
//! use kindlm_stats::{Confidence, Confusion, Tally, rogan_gladen};
//!
//! // Of 100 outputs that people have judged:
//! let judged = Confusion { both_pass: 45, only_human: 5, only_judge: 10, both_fail: 40 };
//! let kappa = judged.kappa(Confidence::P95)?;
//! assert_eq!(format!("{:.2}", kappa.value), "0.70");
//!
//! // Of 1000 other outputs, the judge passes 700. People would pass a few more.
//! let corrected = rogan_gladen(Tally::new(700, 1000)?, &judged, Confidence::P95)?;
//! assert_eq!(format!("{:.3}", corrected.rate), "0.714");
//! # Ok::<(), kindlm_stats::Undefined>(())
//! ```
#![deny(clippy::disallowed_methods)]

mod anytime;
mod change;
mod clustered;
mod confidence;
mod confusion;
mod correlation;
mod detector;
mod drift;
mod few;
mod kappa;
mod multiple;
mod paired;
mod pilot;
mod plan;
mod ppi;
mod prevalence;
mod proportion;
mod quantiles;
mod repeats;
mod sprt;
mod threshold;
mod weighted;
mod weighted_tally;

pub use change::{ChangePoint, change_points};
pub use clustered::{Clustered, Clusters};
pub use confidence::{Confidence, Interval};
pub use confusion::Confusion;
pub use correlation::Correlation;
pub use detector::{Detector, DetectorState};
pub use drift::Drift;
pub use few::{kappa_interval_of_sets, prediction_powered_rate};
pub use kappa::{Kappa, KappaInterval};
pub use multiple::{benjamini_hochberg, fisher_exact};
pub use paired::{Difference, POWER, Paired, PairedTest, mean_difference};
pub use pilot::{Pilot, PilotCase};
pub use plan::{Goal, MOST_CLUSTERS, PlanError, Shape, Size};
pub use ppi::{Labelled, PredictionPowered, Tuning, Unlabelled, prediction_powered};
pub use prevalence::{Corrected, rogan_gladen, rogan_gladen_rate};
pub use proportion::Tally;
pub use quantiles::Quantiles;
pub use sprt::{Characteristics, Decision, Sprt};
pub use threshold::{BestThreshold, best_threshold};
pub use weighted::{Weights, weighted_kappa};
pub use weighted_tally::WeightedTally;

/// The reason why a result is undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undefined {
    /// There is nothing to count, such as no outputs, pairs or cases.
    #[error("there is nothing to count")]
    Empty,
    /// A count is larger than its total, such as more passes than outputs.
    #[error("there are more passes than outputs")]
    MoreThanAll,
    /// An argument is outside its range (0 to 1 for scores and shares), or not a finite number.
    #[error("a value is not a number from 0 to 1")]
    OutOfRange,
    /// Both raters gave the same single answer to all outputs.
    ///
    /// Agreement cannot be distinguished from chance then.
    #[error(
        "people and judge gave every output the same answer, so agreement cannot be told from chance"
    )]
    OneAnswer,
    /// One rater gave the same answer to all outputs, so kappa is 0 and has no interval.
    #[error("one of the two always gave the same label, so agreement means nothing")]
    Constant,
    /// There is only one output, so nothing shows how outputs differ.
    #[error("there is only one output, and an interval needs two")]
    OneOutput,
    /// People gave the same answer to all outputs.
    ///
    /// One of the judge's error rates cannot be measured then.
    #[error(
        "people gave every output the same answer, so one of the judge's error rates is unknown"
    )]
    OneClass,
    /// The judge is not better than chance.
    ///
    /// Its answers have no information about the truth.
    #[error("the judge is no better than chance, so its pass rate says nothing about the true one")]
    NoBetterThanChance,
}

/// Converts a count to a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "counts of outputs stay far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
