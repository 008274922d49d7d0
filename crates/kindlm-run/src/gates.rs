//! The gates of a run, as arguments and reports change them.

use kindlm_engine::gates::{self, Gate};
use kindlm_types::GateResult;

use crate::{Failure, World};

/// The gate that `--gate` is about.
const PASS_RATE: &str = "passRateMin";

/// The gate that `--budget-usd` is about.
const COST_MAX: &str = "costMaxUsd";

/// The gates that a report was made with.
pub fn rebuild(world: &World, results: &[GateResult]) -> Result<Vec<Box<dyn Gate>>, Failure> {
    let gate = |result: &GateResult| match world.registries.gates.find(&result.gate) {
        Some(registration) => Ok((registration.build)(result.threshold)),
        None => Err(Failure::input(format!(
            "the report has a gate `{}` that this KindLM does not know",
            result.gate
        ))
        .with_help("use the KindLM that wrote it, or name a suite with `-c`")),
    };
    results.iter().map(gate).collect()
}

/// Replaces the least pass rate; puts the gate in its place if there was none.
pub fn set_pass_rate(gates: &mut Vec<Box<dyn Gate>>, rate: f64) {
    set(gates, PASS_RATE, |_| rate);
}

/// Lets the run cost no more than this, in US dollars, if the suite does not say less.
pub fn set_cost_max(gates: &mut Vec<Box<dyn Gate>>, usd: f64) {
    set(gates, COST_MAX, |before| before.map_or(usd, |it| it.min(usd)));
}

/// Gives a gate another threshold, made of the one it has; puts it in its place among the others if there was none.
fn set(gates: &mut Vec<Box<dyn Gate>>, id: &str, threshold: impl FnOnce(Option<f64>) -> f64) {
    let order = |id: &str| gates::REGISTRY.iter().position(|it| it.meta.id == id);
    let Some(registration) = gates::find(id) else { return };
    let found: Vec<_> = gates.iter().map(|it| it.evaluate(&[])).collect();
    if let Some(at) = found.iter().position(|it| it.gate == id) {
        let before = found.get(at).map(|it| it.threshold);
        if let Some(place) = gates.get_mut(at) {
            *place = (registration.build)(threshold(before));
        }
    } else {
        let at = found.iter().filter(|it| order(&it.gate) < order(id)).count();
        gates.insert(at, (registration.build)(threshold(None)));
    }
}
