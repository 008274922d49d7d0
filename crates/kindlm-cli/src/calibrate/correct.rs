//! Pass rates that only the judge has seen, corrected for the errors that it is known to make.

use kindlm_stats::{
    Confusion, Corrected, Labelled, PredictionPowered, Tally, Tuning, Undefined,
    prediction_powered, rogan_gladen,
};
use kindlm_types::{AnyReport, AssertionResult, CaseError, Verdict};
use serde_json::Value;

use super::findings::CONFIDENCE;

/// What is known about a judge.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// For which kind of check.
    pub(crate) check: String,
    pub(crate) confusion: Confusion,
}

/// A pass rate, as the judge sees it and as people probably would.
#[derive(Debug)]
pub(crate) struct Correction {
    /// Of what, in words.
    pub(crate) of: String,
    pub(crate) check: String,
    pub(crate) observed: Tally,
    pub(crate) by_errors: Result<Corrected, Undefined>,
    pub(crate) by_predictions: Result<PredictionPowered, Undefined>,
}

impl Correction {
    pub(crate) fn of(of: String, known: &Known, observed: Tally) -> Self {
        let by_predictions = Labelled::of_answers(&known.confusion).and_then(|labelled| {
            prediction_powered(&labelled, &observed.into(), Tuning::Power, CONFIDENCE)
        });
        Self {
            of,
            check: known.check.clone(),
            observed,
            by_errors: rogan_gladen(observed, &known.confusion, CONFIDENCE),
            by_predictions,
        }
    }
}

/// What the judge found in a run, for each kind of check that it is known for; `ids` are what the run may call it.
pub(crate) fn in_report(
    report: &AnyReport<'_>,
    name: &str,
    ids: &[&str],
    known: &[Known],
) -> Result<Vec<Correction>, CaseError> {
    let mut corrections = Vec::new();
    for it in known {
        let (mut passed, mut total) = (0, 0);
        for case in report.each() {
            for execution in &case?.executions {
                count(&execution.results, &it.check, ids, &mut passed, &mut total);
            }
        }
        if let Ok(observed) = Tally::new(passed, total) {
            corrections.push(Correction::of(name.to_owned(), it, observed));
        }
    }
    Ok(corrections)
}

fn count(
    results: &[AssertionResult],
    check: &str,
    ids: &[&str],
    passed: &mut u64,
    total: &mut u64,
) {
    for result in results {
        let judge = result.metadata.get("judgeModel").and_then(Value::as_str);
        if result.assertion == check && judge.is_some_and(|it| ids.contains(&it)) {
            match result.verdict {
                Verdict::Pass => {
                    *passed += 1;
                    *total += 1;
                }
                Verdict::Fail { .. } => *total += 1,
                Verdict::Errored { .. } | Verdict::Skipped { .. } => {}
            }
        }
        count(result.parts(), check, ids, passed, total);
    }
}
