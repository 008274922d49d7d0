//! Gates: thresholds over a whole run.
//!
//! Each gate is a folder of its own; [`REGISTRY`] lists them. A `gates` block of a suite is read by
//! [`compile`] and described by [`schema`].

mod compare;
mod config;

use std::fmt;

use kindlm_types::{CaseResult, GateResult, Outcome, Problem, Registered, Registry};
use serde_json::{Map, Value};

pub use compare::{at_least, at_most, dollars, nothing_to_measure, percent};
pub use config::{compile, compile_with, defaults, schema, schema_with};
pub use judge_kappa_min::{Calibrated, JudgeKappa, KappaDemand, Labels, judge_kappa_min};

// Every gate is one folder, one `mod` line and one line in the slice below.
mod cost_max_usd;
mod deterministic_pass_rate;
mod drift_score_max;
mod errored_max;
mod judge_avg_min;
mod judge_kappa_min;
mod keyword_failures_max;
mod latency_max_ms;
mod pass_rate_min;
mod pii_failures_max;
mod probabilistic_pass_rate;
mod provider_errors_max;
mod schema_failures_max;

/// A threshold over the results of a whole run.
pub trait Gate: fmt::Debug + Send + Sync {
    /// Begins to measure a run.
    fn begin(&self) -> Box<dyn Measurement>;

    /// Measures a run that is over, and compares.
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let mut measurement = self.begin();
        cases.iter().filter(|it| was_run(it)).for_each(|it| measurement.observe(it));
        measurement.finish()
    }

    /// The money that the run may spend, in US dollars: the run stops before more is spent.
    fn budget_usd(&self) -> Option<f64> {
        None
    }

    /// What the agreement of the judges with people must be: the caller of a run looks up before it what is known about
    /// the judges, and puts the gate of [`judge_kappa_min`] in the place of this one.
    fn judge_kappa_min(&self) -> Option<KappaDemand> {
        None
    }
}

/// The measurement of one gate while the cases of a run finish.
///
/// Pure: the same cases give the same answer, in whatever order they come. Its size does not depend on how many
/// there are.
pub trait Measurement: fmt::Debug + Send {
    /// Takes in a case that was run; those that were skipped do not count.
    fn observe(&mut self, case: &CaseResult);

    /// Compares what was measured with the threshold.
    fn finish(&self) -> GateResult;
}

/// The measurements of all gates of a suite while the cases of a run finish.
#[derive(Debug)]
pub struct Measurements(Vec<Box<dyn Measurement>>);

impl Measurements {
    /// Begins to measure a run.
    pub fn begin(gates: &[Box<dyn Gate>]) -> Self {
        Self(gates.iter().map(|it| it.begin()).collect())
    }

    /// Takes in a case. Cases may come in any order, each once.
    pub fn observe(&mut self, case: &CaseResult) {
        if was_run(case) {
            self.0.iter_mut().for_each(|it| it.observe(case));
        }
    }

    /// Compares each with its threshold, in the order of the gates.
    pub fn finish(&self) -> Vec<GateResult> {
        self.0.iter().map(|it| it.finish()).collect()
    }
}

fn was_run(case: &CaseResult) -> bool {
    case.outcome != Outcome::Skipped || case.is_unchecked()
}

/// The range of a gate's threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// A share from 0 to 1.
    Rate,
    /// A whole number from 0.
    Count,
    /// A number above 0.
    Amount,
}

/// The facts about a gate that are known without running it.
#[derive(Debug)]
pub struct Meta {
    /// The id: its key under `gates`.
    pub id: &'static str,
    /// The measure: one sentence.
    pub summary: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// The range of its threshold.
    pub threshold: Threshold,
    /// The threshold that holds when the suite does not say; `None` if the gate is then absent.
    pub default: Option<f64>,
    /// The page, whose examples are tests.
    pub docs: &'static str,
}

/// One entry of the registry.
#[derive(Debug)]
pub struct Registration {
    /// The facts that are known without running it.
    pub meta: Meta,
    /// The options that may stand in the place of a threshold, if there are any.
    pub options: Option<Options>,
    /// Makes a gate with this threshold.
    pub build: fn(f64) -> Box<dyn Gate>,
}

/// Makes a gate of an object.
pub type BuildWithOptions = fn(&Map<String, Value>) -> Result<Box<dyn Gate>, Vec<Problem>>;

/// An object in the place of a threshold.
#[derive(Debug)]
pub struct Options {
    /// The JSON Schema of the object.
    pub schema: fn() -> Value,
    /// Makes a gate of the object. Problems point from there.
    pub build: BuildWithOptions,
}

/// Every gate, in the order in which reports show them.
pub static REGISTRY: &[&Registration] = &[
    &pass_rate_min::REGISTRATION,
    &schema_failures_max::REGISTRATION,
    &pii_failures_max::REGISTRATION,
    &keyword_failures_max::REGISTRATION,
    &judge_avg_min::REGISTRATION,
    &judge_kappa_min::REGISTRATION,
    &drift_score_max::REGISTRATION,
    &cost_max_usd::REGISTRATION,
    &latency_max_ms::REGISTRATION,
    &deterministic_pass_rate::REGISTRATION,
    &probabilistic_pass_rate::REGISTRATION,
    &errored_max::REGISTRATION,
    &provider_errors_max::REGISTRATION,
];

impl Registered for Registration {
    fn id(&self) -> &'static str {
        self.meta.id
    }
}

/// The gates of this crate, to which [`Registry::with`] adds your own; `examples/own_gate.rs` shows it.
pub fn built_in() -> Registry<Registration> {
    Registry::new(REGISTRY)
}

/// The gate of this crate with this id.
pub fn find(id: &str) -> Option<&'static Registration> {
    REGISTRY.iter().copied().find(|it| it.meta.id == id)
}
