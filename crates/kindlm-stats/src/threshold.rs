//! The score from which a judge's "pass" agrees best with people's.

use crate::{Confidence, Confusion, Undefined};

/// Into how many parts the outputs are divided to see how good a threshold is on outputs that it was not chosen on.
const FOLDS: usize = 10;

/// The best threshold for a judge that gives scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestThreshold {
    /// The judge passes an output from this score on. One of the scores that it gave.
    pub threshold: f64,
    /// The agreement with people then, on the outputs on which the threshold was chosen.
    pub confusion: Confusion,
    /// Kappa on these outputs, from -1 to 1. Too good, because the threshold was made for them.
    pub kappa: f64,
    /// Kappa where each output was judged with a threshold that was chosen on others (ten parts in turn); `None` if it
    /// does not exist, or a part has too few outputs to choose on.
    pub held_out_kappa: Option<f64>,
}

/// The threshold with the highest kappa. Of several the one with the highest agreement, and of these the strictest.
///
/// Pairs are the judge's score, from 0 to 1, and whether people passed the output. Fails if people gave every output
/// the same answer: then every threshold is as good as any other.
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

/// Goes down through the scores, and lets one more of them pass at each step.
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
        // Equal scores pass together.
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

/// The agreement of people and judge if every output is judged with a threshold that was chosen without it.
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
