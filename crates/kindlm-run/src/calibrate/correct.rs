//! Corrects the pass rates that a judge measured, by the error rates of the judge.

use kindlm_assertions::{JudgeBlock, judged_by};
use kindlm_stats::{
    Confusion, Corrected, PredictionPowered, Tally, Undefined, prediction_powered_rate,
    rogan_gladen,
};
use kindlm_types::{AnyReport, AssertionResult, CaseError, Verdict};

use super::findings::CONFIDENCE;

/// The known agreement of a judge with people, for one check.
#[derive(Clone, Debug)]
pub(super) struct StoredCalibration {
    /// The id of the check.
    pub(super) check: String,
    /// The digests of the judge's instructions.
    pub(super) prompts: Vec<String>,
    /// The confusion matrix of people's labels and the judge's verdicts.
    pub(super) confusion: Confusion,
}

/// A pass rate that the judge measured, and two estimates of the pass rate that people's labels would give.
#[derive(Debug)]
pub(super) struct Correction {
    /// The description of the judged outputs.
    pub(super) of: String,
    /// The id of the check.
    pub(super) check: String,
    /// The number of outputs that the judge passed, out of the number that it judged.
    pub(super) observed: Tally,
    /// The rate corrected by the judge's error rates (Rogan and Gladen).
    pub(super) by_errors: Result<Corrected, Undefined>,
    /// The rate corrected by prediction-powered inference.
    pub(super) by_predictions: Result<PredictionPowered, Undefined>,
}

impl Correction {
    /// Corrects an observed pass rate by the judge's calibration.
    pub(super) fn new(of: String, known: &StoredCalibration, observed: Tally) -> Self {
        Self {
            of,
            check: known.check.clone(),
            observed,
            by_errors: rogan_gladen(observed, &known.confusion, CONFIDENCE),
            by_predictions: prediction_powered_rate(&known.confusion, observed, CONFIDENCE),
        }
    }
}

/// Corrects the pass rates of a run, for each calibrated check.
///
/// A check that judged no output is left out.
///
/// `is_judge` returns true for the settings of the calibrated judge.
///
/// Fails if a case of the report cannot be read.
pub(super) fn in_report(
    report: &AnyReport<'_>,
    name: &str,
    is_judge: &dyn Fn(&JudgeBlock) -> bool,
    known: &[StoredCalibration],
) -> Result<Vec<Correction>, CaseError> {
    let mut corrections = Vec::new();
    for it in known {
        let (mut passed, mut total) = (0, 0);
        for case in report.each() {
            for execution in &case?.executions {
                count(&execution.results, it, is_judge, &mut passed, &mut total);
            }
        }
        if let Ok(observed) = Tally::new(passed, total) {
            corrections.push(Correction::new(name.to_owned(), it, observed));
        }
    }
    Ok(corrections)
}

fn count(
    results: &[AssertionResult],
    known: &StoredCalibration,
    is_judge: &dyn Fn(&JudgeBlock) -> bool,
    passed: &mut u64,
    total: &mut u64,
) {
    for result in results {
        let prompt = result.judging.as_ref().and_then(|it| it.prompt_digest.as_ref());
        let is_told = prompt.is_none_or(|it| known.prompts.iter().any(|own| own == it));
        let is_known = result.assertion == known.check && is_told;
        if is_known && judged_by(result).is_some_and(|it| is_judge(&it)) {
            match result.verdict {
                Verdict::Pass => {
                    *passed += 1;
                    *total += 1;
                }
                Verdict::Fail { .. } => *total += 1,
                Verdict::Errored { .. } | Verdict::Skipped { .. } => {}
            }
        }
        count(result.parts(), known, is_judge, passed, total);
    }
}
