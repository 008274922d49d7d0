//! Rebuilds the gates of a report, and sets gates from command-line arguments.

use kindlm_engine::gates::{self, Gate};
use kindlm_types::GateResult;

use crate::{Failure, World};

/// The id of the gate that `--gate` sets.
const PASS_RATE: &str = "passRateMin";

/// The id of the gate that `--budget-usd` sets.
const COST_MAX: &str = "costMaxUsd";

/// Rebuilds the gates of a report from their results.
///
/// # Errors
///
/// Fails if a gate is not in the registry.
pub fn rebuild(world: &World, results: &[GateResult]) -> Result<Vec<Box<dyn Gate>>, Failure> {
    let gate = |result: &GateResult| match gates::of_result(&world.registries.gates, result) {
        Some(gate) => Ok(gate),
        None => Err(Failure::input(format!(
            "the report has a gate `{}` that this KindLM does not know",
            result.gate
        ))
        .with_help("use the KindLM that wrote it, or name a suite with `-c`")),
    };
    results.iter().map(gate).collect()
}

/// Sets the minimum pass rate, from 0 to 1; adds the gate if it is missing.
pub fn set_pass_rate(gates: &mut Vec<Box<dyn Gate>>, rate: f64) {
    set(gates, PASS_RATE, |_| rate);
}

/// Lowers the maximum cost of the run to `usd` US dollars.
///
/// A missing gate is added.
pub(crate) fn set_cost_max(gates: &mut Vec<Box<dyn Gate>>, usd: f64) {
    set(gates, COST_MAX, |before| before.map_or(usd, |it| it.min(usd)));
}

/// Sets the threshold of a gate.
///
/// `threshold` computes the new threshold from the previous threshold, which is `None` for a missing gate.
///
/// A missing gate is added in the order of the registry.
fn set(gates: &mut Vec<Box<dyn Gate>>, id: &str, threshold: impl FnOnce(Option<f64>) -> f64) {
    let plain = gates::kind_of_result;
    let order = |id: &str| gates::REGISTRY.iter().position(|it| it.meta.id == id);
    let Some(registration) = gates::find(id) else { return };
    let found: Vec<_> = gates.iter().map(|it| it.evaluate(&[])).collect();
    if let Some(at) = found.iter().position(|it| plain(&it.gate) == id) {
        let (Some(before), Some(place)) = (found.get(at), gates.get_mut(at)) else { return };
        let threshold = threshold(Some(before.threshold));
        // If the gate compares the lower end of an interval with its threshold, the new gate does so, too.
        let mut same = before.clone();
        same.threshold = threshold;
        let built_in = gates::built_in();
        let gate = gates::of_result(&built_in, &same);
        *place = gate.unwrap_or_else(|| (registration.build)(threshold));
    } else {
        let at = found.iter().filter(|it| order(plain(&it.gate)) < order(id)).count();
        gates.insert(at, (registration.build)(threshold(None)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_threshold_keeps_the_bound() {
        for (written, id) in [
            (serde_json::json!({"passRateMin": 0.5}), "passRateMin"),
            (serde_json::json!({"passRateMin": {"value": 0.5, "bound": "low"}}), "passRateMin.low"),
        ] {
            let (mut all, problems) = gates::compile(written.as_object().unwrap());
            assert!(problems.is_empty(), "{problems:?}");
            set_pass_rate(&mut all, 0.8);
            let results = all.iter().map(|it| it.evaluate(&[]));
            let found: Vec<_> = results.filter(|it| it.gate.starts_with(PASS_RATE)).collect();
            assert_eq!(found.len(), 1);
            assert_eq!((found[0].gate.as_str(), found[0].threshold), (id, 0.8));
        }
    }
}
