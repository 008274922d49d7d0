//! Estimates the pass rate that people would find, from the pass rate of a judge and its error rates.

use crate::{Confidence, Confusion, Interval, Tally, Undefined, float};

/// A pass rate that is corrected for the known errors of a judge.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Corrected {
    /// The estimate, from 0 to 1.
    pub rate: f64,
    /// The estimate before it was limited to 0 to 1.
    ///
    /// A value far outside this range means that the judge has other error rates on these outputs than on the labelled
    /// outputs.
    pub uncut: f64,
    /// The confidence interval of the true rate.
    pub interval: Interval,
}

/// Returns the estimate of Rogan & Gladen (1978), *Am. J. Epidemiol.* 107:71: `(observed + specificity - 1) /
/// (sensitivity + specificity - 1)`, not limited to 0 to 1.
///
/// Fails if an argument is not a share from 0 to 1, or for a judge that is not better than chance.
pub fn rogan_gladen_rate(
    observed: f64,
    sensitivity: f64,
    specificity: f64,
) -> Result<f64, Undefined> {
    if [observed, sensitivity, specificity].iter().any(|it| !(0.0..=1.0).contains(it)) {
        return Err(Undefined::OutOfRange);
    }
    let informedness = sensitivity + specificity - 1.0;
    // A value this small is a rounding error of 0.
    if informedness <= f64::EPSILON {
        return Err(Undefined::NoBetterThanChance);
    }
    Ok((observed + specificity - 1.0) / informedness)
}

/// Estimates the pass rate that people would find on outputs without labels.
///
/// Only the judge has judged these outputs.
///
/// `observed` is the judge's pass rate on these outputs. `judged` has the judge's errors on labelled outputs of the
/// same kind.
///
/// The interval uses the delta method, with the variances of `observed` and of both error rates. In these variances,
/// each share counts one more hit and one more miss. A judge without errors in five outputs may still err in the sixth.
///
/// Fails if `judged` has no output that people passed, or no output that people failed. Also fails for a judge that is
/// not better than chance.
pub fn rogan_gladen(
    observed: Tally,
    judged: &Confusion,
    confidence: Confidence,
) -> Result<Corrected, Undefined> {
    let (sensitivity, specificity) = (judged.sensitivity()?.rate(), judged.specificity()?.rate());
    let uncut = rogan_gladen_rate(observed.rate(), sensitivity, specificity)?;
    let rate = uncut.clamp(0.0, 1.0);
    let variance_of = |hits: u64, all: u64| {
        let share = (float(hits) + 1.0) / (float(all) + 2.0);
        share * (1.0 - share) / float(all)
    };
    let from_observed = variance_of(observed.passed(), observed.total());
    let from_passes = variance_of(judged.both_pass, judged.human_passed());
    let from_fails = variance_of(judged.both_fail, judged.human_failed());
    let informedness = sensitivity + specificity - 1.0;
    let far = 1.0 - rate;
    let variance = from_observed + rate * rate * from_passes + far * far * from_fails;
    let standard_error = variance.sqrt() / informedness;
    let interval = Interval::around(rate, standard_error, confidence.z(), 0.0, 1.0);
    Ok(Corrected { rate, uncut, interval })
}
