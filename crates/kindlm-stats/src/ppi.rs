//! Prediction-powered inference: the estimate of a mean from few labels of people and many verdicts of a model.

use crate::{Confidence, Confusion, Interval, Tally, Undefined, float};

/// The statistics of outputs that both people and the judge have judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Labelled {
    count: f64,
    human_mean: f64,
    judge_mean: f64,
    human_variance: f64,
    judge_variance: f64,
    covariance: f64,
}

/// The statistics of outputs that only the judge has judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unlabelled {
    count: f64,
    mean: f64,
    variance: f64,
}

/// The weight of the judge's answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tuning {
    /// The weight that gives the estimate the smallest variance.
    ///
    /// This weight is near 0 if the judge's answers hardly predict the answers of people.
    Power,
    /// A fixed weight, from 0 (ignore the judge) to 1 (full weight).
    Fixed(f64),
}

/// An estimate of the mean that people would find over all outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PredictionPowered {
    /// The estimate, limited to 0 to 1.
    pub mean: f64,
    /// The weight of the judge's answers, from 0 to 1.
    pub lambda: f64,
    /// The standard error of the estimate.
    pub standard_error: f64,
    /// The confidence interval of the true mean, limited to 0 to 1.
    pub interval: Interval,
}

impl Labelled {
    /// Computes the statistics of pairs of scores from 0 to 1.
    ///
    /// People's score is the first of a pair. Fails without pairs, or if a score is not from 0 to 1.
    pub fn from_pairs(pairs: &[(f64, f64)]) -> Result<Self, Undefined> {
        check(pairs.iter().flat_map(|&(human, judge)| [human, judge]))?;
        let count = float(pairs.len() as u64);
        let mean_of =
            |value: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / count;
        let (human_mean, judge_mean) = (mean_of(&|it| it.0), mean_of(&|it| it.1));
        Ok(Self {
            count,
            human_mean,
            judge_mean,
            human_variance: mean_of(&|it| (it.0 - human_mean).powi(2)),
            judge_variance: mean_of(&|it| (it.1 - judge_mean).powi(2)),
            covariance: mean_of(&|it| (it.0 - human_mean) * (it.1 - judge_mean)),
        })
    }

    /// Computes the statistics of pass and fail answers. Fails without outputs.
    pub fn of_answers(judged: &Confusion) -> Result<Self, Undefined> {
        let human_mean = judged.base_rate()?.rate();
        let judge_mean = judged.share(judged.judge_passed());
        Ok(Self {
            count: float(judged.total()),
            human_mean,
            judge_mean,
            human_variance: human_mean * (1.0 - human_mean),
            judge_variance: judge_mean * (1.0 - judge_mean),
            covariance: judged.share(judged.both_pass) - human_mean * judge_mean,
        })
    }
}

impl Unlabelled {
    /// Computes the statistics of scores from 0 to 1. Fails without scores, or if a score is not from 0 to 1.
    pub fn from_scores(scores: &[f64]) -> Result<Self, Undefined> {
        check(scores.iter().copied())?;
        let count = float(scores.len() as u64);
        let mean = scores.iter().sum::<f64>() / count;
        let variance = scores.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
        Ok(Self { count, mean, variance })
    }
}

impl From<Tally> for Unlabelled {
    fn from(observed: Tally) -> Self {
        let mean = observed.rate();
        Self { count: float(observed.total()), mean, variance: mean * (1.0 - mean) }
    }
}

fn check(mut scores: impl Iterator<Item = f64>) -> Result<(), Undefined> {
    let mut is_empty = true;
    if scores.all(|it| {
        is_empty = false;
        (0.0..=1.0).contains(&it)
    }) {
        if is_empty { Err(Undefined::Empty) } else { Ok(()) }
    } else {
        Err(Undefined::OutOfRange)
    }
}

/// Estimates the mean that people would find over all outputs.
///
/// The judge's mean over many `unlabelled` outputs is corrected by the judge's errors on few `labelled` outputs.
///
/// For `Fixed(1.0)`, the method is from Angelopoulos et al. (2023), *Science* 382:669. Power tuning is from
/// Angelopoulos, Duchi & Zrnic (2023), arXiv 2311.01453.
///
/// Unlike [`rogan_gladen`](crate::rogan_gladen), the estimate is valid for any judge, even a useless one. The
/// labelled and the unlabelled outputs must be random samples of one population.
///
/// The interval is valid for large samples. The interval is too narrow for few labelled outputs, or if nearly all
/// outputs pass. In these cases, use [`prediction_powered_rate`](crate::prediction_powered_rate) for pass and fail
/// answers.
///
/// Fails if a fixed weight is not from 0 to 1.
pub fn prediction_powered(
    labelled: &Labelled,
    unlabelled: &Unlabelled,
    tuning: Tuning,
    confidence: Confidence,
) -> Result<PredictionPowered, Undefined> {
    let lambda = match tuning {
        Tuning::Power => power(labelled, unlabelled),
        Tuning::Fixed(lambda) if (0.0..=1.0).contains(&lambda) => lambda,
        Tuning::Fixed(_) => return Err(Undefined::OutOfRange),
    };
    Ok(estimate(labelled, unlabelled, lambda, &(*labelled, *unlabelled), confidence))
}

/// Estimates the mean with a given weight of the judge. The variances are those of `few` for the labelled outputs, and
/// of `many` for the unlabelled outputs.
pub(crate) fn estimate(
    labelled: &Labelled,
    unlabelled: &Unlabelled,
    lambda: f64,
    (few, many): &(Labelled, Unlabelled),
    confidence: Confidence,
) -> PredictionPowered {
    let mean = labelled.human_mean + lambda * (unlabelled.mean - labelled.judge_mean);
    let rest =
        few.human_variance - 2.0 * lambda * few.covariance + lambda * lambda * few.judge_variance;
    let variance =
        lambda * lambda * many.variance / unlabelled.count + rest.max(0.0) / labelled.count;
    let (mean, standard_error) = (mean.clamp(0.0, 1.0), variance.sqrt());
    let interval = Interval::around(mean, standard_error, confidence.z(), 0.0, 1.0);
    PredictionPowered { mean, lambda, standard_error, interval }
}

/// Returns the weight with the smallest variance, from 0 to 1.
pub(crate) fn power(labelled: &Labelled, unlabelled: &Unlabelled) -> f64 {
    let (n, m) = (labelled.count, unlabelled.count);
    let apart = labelled.judge_mean - unlabelled.mean;
    let squares =
        n * labelled.judge_variance + m * unlabelled.variance + n * m / (n + m) * apart * apart;
    let pooled = squares / (n + m - 1.0);
    let lambda = labelled.covariance / ((1.0 + n / m) * pooled);
    // For a judge with constant answers, the weight is not finite. Its answers have no information, so use 0.
    if lambda.is_finite() { lambda.clamp(0.0, 1.0) } else { 0.0 }
}
