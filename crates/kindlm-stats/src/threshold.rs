//! The score threshold with the best agreement between a judge and people.

use crate::{Confidence, Confusion, Undefined};

/// The number of folds of the cross-validation.
///
/// Cross-validation measures a threshold on outputs that were not used to choose it.
const FOLDS: usize = 10;

/// The best threshold for a judge with scores.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BestThreshold {
    /// The lowest score that passes an output. The threshold is one of the judge's scores.
    pub threshold: f64,
    /// The counts of answers with this threshold.
    ///
    /// The counts are from the outputs that were used to choose the threshold.
    pub confusion: Confusion,
    /// The kappa on these outputs, from -1 to 1.
    ///
    /// This value is too optimistic, because the threshold was chosen on these outputs.
    pub kappa: f64,
    /// The kappa by ten-fold cross-validation.
    ///
    /// Each output is judged with a threshold that was chosen on nine tenths of the outputs, without this output. `None` if
    /// kappa or one of these thresholds is undefined, or for fewer than 20 outputs.
    pub held_out_kappa: Option<f64>,
}

/// Finds the threshold with the highest kappa.
///
/// If several thresholds have the highest kappa, the threshold with the highest agreement is returned. If the agreement
/// is equal too, the highest threshold is returned.
///
/// Each pair has the judge's score from 0 to 1, and `true` if people passed the output.
///
/// Fails without outputs, or if a score is not from 0 to 1. Also fails if people gave every output the same answer,
/// because all thresholds are then equally good.
pub fn best_threshold(scored: &[(f64, bool)]) -> Result<BestThreshold, Undefined> {
    if scored.is_empty() {
        return Err(Undefined::Empty);
    }
    if scored.iter().any(|(score, _)| !(0.0..=1.0).contains(score)) {
        return Err(Undefined::OutOfRange);
    }
    let (threshold, confusion, kappa) = choose(scored.to_vec()).ok_or(Undefined::OneClass)?;
    let held_out_kappa = held_out(scored).and_then(|it| it.kappa(Confidence::P95).ok());
    Ok(BestThreshold {
        threshold,
        confusion,
        kappa,
        held_out_kappa: held_out_kappa.map(|it| it.value),
    })
}

/// Tries all thresholds from the highest score down, and returns the best.
///
/// Returns `None` if people gave all outputs the same answer.
fn choose(mut scored: Vec<(f64, bool)>) -> Option<(f64, Confusion, f64)> {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let human_passed = scored.iter().filter(|it| it.1).count() as u64;
    let mut confusion = Confusion {
        only_human: human_passed,
        both_fail: scored.len() as u64 - human_passed,
        ..Confusion::default()
    };
    if human_passed == 0 || confusion.both_fail == 0 {
        return None;
    }
    let mut best: Option<(f64, Confusion, f64)> = None;
    for (at, &(score, human)) in scored.iter().enumerate() {
        if human {
            confusion.only_human -= 1;
            confusion.both_pass += 1;
        } else {
            confusion.both_fail -= 1;
            confusion.only_judge += 1;
        }
        // Equal scores must pass together.
        if scored.get(at + 1).is_some_and(|next| next.0 >= score) {
            continue;
        }
        let Ok(kappa) = confusion.kappa(Confidence::P95) else { continue };
        let key = |kappa: f64, it: &Confusion| (kappa, it.both_pass + it.both_fail);
        let is_better = best
            .as_ref()
            .is_none_or(|(_, known, value)| key(kappa.value, &confusion) > key(*value, known));
        if is_better {
            best = Some((score, confusion, kappa.value));
        }
    }
    best
}

/// Returns the counts if each output is judged with a threshold that was chosen without this output.
///
/// Returns `None` for fewer than 2 × [`FOLDS`] outputs, or if a threshold cannot be chosen.
fn held_out(scored: &[(f64, bool)]) -> Option<Confusion> {
    if scored.len() < 2 * FOLDS {
        return None;
    }
    let mut confusion = Confusion::default();
    for fold in 0..FOLDS {
        let is_mine = |at: usize| at % FOLDS == fold;
        let others = scored.iter().enumerate().filter(|(at, _)| !is_mine(*at)).map(|(_, it)| *it);
        let (threshold, _, _) = choose(others.collect())?;
        for (_, &(score, human)) in scored.iter().enumerate().filter(|(at, _)| is_mine(*at)) {
            confusion.add(human, score >= threshold);
        }
    }
    Some(confusion)
}
