//! Gates: thresholds over a whole run.
//!
//! Each gate has its own folder, and [`REGISTRY`] lists them. [`compile`] parses the `gates` block of a suite, and
//! [`schema`] describes it.

mod compare;
mod config;
mod floor;
mod named;
mod unjudged;

use std::fmt;

use kindlm_types::{
    CanaryWatch, CaseResult, ExactSum, GateResult, Outcome, Problem, Registered, Registry,
};
use serde_json::{Map, Value};

pub use compare::{at_least, at_most, dollars, missing_evidence, nothing_to_measure, percent};
pub use config::{compile, compile_with, defaults, schema, schema_with};
pub use judge_kappa_min::{Calibrated, JudgeKappa, KappaDemand, Labels, judge_kappa_min};
pub use named::{Subject, kind_of_result};
pub use no_regression::{NOT_COMPARED, RegressionDemand, no_regression};

// Each gate has a folder, a `mod` line here, and an entry in `REGISTRY` below.
mod assertions;
mod avg_score_min;
mod cost_max_usd;
mod deterministic_pass_rate;
mod drift_score_max;
mod errored_max;
mod judge_avg_min;
mod judge_kappa_min;
mod keyword_failures_max;
mod latency_max_ms;
mod metrics;
mod mutation_score_min;
mod no_regression;
mod pass_rate_min;
mod pii_failures_max;
mod probabilistic_pass_rate;
mod provider_errors_max;
mod schema_failures_max;
mod tags;

/// A threshold over the results of a whole run.
pub trait Gate: fmt::Debug + Send + Sync {
    /// Starts the measurement of a run.
    fn begin(&self) -> Box<dyn Measurement>;

    /// Evaluates the gate over all cases of a finished run.
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let mut measurement = self.begin();
        cases.iter().filter(|it| was_run(it)).for_each(|it| measurement.observe(it));
        measurement.finish()
    }

    /// Returns the budget of the run in US dollars, if the gate sets one; `None` by default.
    ///
    /// The run then sends no request whose maximum cost exceeds the remaining budget.
    fn budget_usd(&self) -> Option<f64> {
        None
    }

    /// Returns a copy of the gate that includes a cost outside of the cases. An example is the cost of canaries, which
    /// are questions that test the judges before the run. Returns `None` if the gate counts no cost.
    ///
    /// `known_usd` is the known cost in US dollars, and `unknown` the number of costs that are not known in full.
    fn with_spent(&self, _known_usd: f64, _unknown: u32) -> Option<Box<dyn Gate>> {
        None
    }

    /// Returns the required agreement of the judges with people; `None` by default.
    ///
    /// The caller of a run then loads the calibrations, and replaces this gate by the result of [`judge_kappa_min`].
    fn judge_kappa_min(&self) -> Option<KappaDemand> {
        None
    }

    /// Returns the demand on the comparison with the baseline; `None` by default.
    ///
    /// The caller of a run then compares the run with the baseline, and replaces the gate's result by the result of
    /// [`no_regression`].
    fn no_regression(&self) -> Option<RegressionDemand> {
        None
    }

    /// Returns the required mutation score, from 0 to 1; `None` by default.
    ///
    /// A run does not measure the mutation score. The caller compares the score of mutated executions with this
    /// minimum.
    fn mutation_score_min(&self) -> Option<f64> {
        None
    }

    /// Returns the part of the suite that the gate names; `None` by default.
    ///
    /// A config file whose suite has no such part is invalid.
    fn subject(&self) -> Option<Subject<'_>> {
        None
    }

    /// Returns the minimum that the lower end of a confidence interval over cases must reach; `None` by default.
    ///
    /// A config file gets a warning if its suite has too few cases for this minimum.
    fn low_bound(&self) -> Option<LowBound<'_>> {
        None
    }
}

/// A minimum that the lower end of a confidence interval over cases must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LowBound<'a> {
    /// The key under `gates`.
    pub gate: &'a str,
    /// The minimum, from 0 to 1.
    pub min: f64,
}

impl<'a> LowBound<'a> {
    /// Creates a minimum from the key under `gates`.
    pub const fn new(gate: &'a str, min: f64) -> Self {
        Self { gate, min }
    }
}

impl LowBound<'_> {
    /// Returns the lower end of the interval, from 0 to 1, if all cases pass in this number of clusters.
    pub fn highest(clusters: u64) -> f64 {
        let tally = kindlm_stats::Tally::new(clusters, clusters);
        tally.map_or(0.0, |it| it.wilson(kindlm_stats::Confidence::P95).low)
    }

    /// Returns the lowest number of clusters with which the gate can hold; `None` if no number is sufficient.
    pub fn needed_clusters(self) -> Option<u64> {
        kindlm_stats::Tally::needed_passes(self.min, kindlm_stats::Confidence::P95)
    }
}

/// The measurement of one gate, which is updated with each case.
///
/// A measurement is pure: the same cases give the same result in any order. The size of a measurement does not depend
/// on the number of cases, with one exception: an interval over dependent cases stores their clusters.
pub trait Measurement: fmt::Debug + Send {
    /// Adds a case that was run. Skipped cases are not passed.
    fn observe(&mut self, case: &CaseResult);

    /// Declares that no two cases belong to the same cluster, which saves memory. Called before the first case.
    fn cases_are_independent(&mut self) {}

    /// Compares the measured value with the threshold.
    fn finish(&self) -> GateResult;
}

/// The measurements of all gates of a suite, which are updated with each case.
#[derive(Debug)]
pub struct Measurements(Vec<Box<dyn Measurement>>);

impl Measurements {
    /// Starts the measurement of a run.
    pub fn begin(gates: &[Box<dyn Gate>]) -> Self {
        Self::after(gates, &[])
    }

    /// Starts the measurement of a run, including the cost of its canaries.
    pub fn after(gates: &[Box<dyn Gate>], canaries: &[CanaryWatch]) -> Self {
        let (known_usd, unknown) = spent_on(canaries);
        let begin = |gate: &dyn Gate| match gate.with_spent(known_usd, unknown) {
            Some(gate) => gate.begin(),
            None => gate.begin(),
        };
        Self(gates.iter().map(|it| begin(it.as_ref())).collect())
    }

    /// Declares that no two cases belong to the same cluster, which saves memory.
    pub fn cases_are_independent(&mut self) {
        self.0.iter_mut().for_each(|it| it.cases_are_independent());
    }

    /// Adds a case. Cases may be added in any order, each once. Skipped cases are ignored.
    pub fn observe(&mut self, case: &CaseResult) {
        if was_run(case) {
            self.0.iter_mut().for_each(|it| it.observe(case));
        }
    }

    /// Returns the results in the order of the gates.
    pub fn finish(&self) -> Vec<GateResult> {
        self.0.iter().map(|it| it.finish()).collect()
    }
}

/// Returns the known cost of canaries in US dollars, and the number of judges with a cost that is not known in full.
///
/// Canaries are questions that test the judges before the run.
pub(crate) fn spent_on(canaries: &[CanaryWatch]) -> (f64, u32) {
    let (mut known_usd, mut unknown) = (ExactSum::default(), 0);
    for it in canaries {
        known_usd.add(it.known_cost_usd);
        unknown += u32::from(it.cost_usd.is_none());
    }
    (known_usd.value(), unknown)
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
    /// `true`. The gate has no threshold of its own.
    Switch,
    /// An object with a threshold for each name. Each name is a gate of its own.
    ///
    /// [`Options::build`] reads the object. [`Registration::build`] gets no names, so its gate is always violated.
    Names,
}

/// The static description of a gate.
///
/// There is no `Default` and no constructor: an entry states all of these facts in a literal. A further fact changes
/// every entry, also those of other crates.
#[derive(Debug)]
pub struct Meta {
    /// The id, which is the key under `gates`.
    pub id: &'static str,
    /// The summary: one sentence.
    pub summary: &'static str,
    /// The version that introduced the gate.
    pub since: &'static str,
    /// The range of the threshold.
    pub threshold: Threshold,
    /// The default threshold. Without a default, the gate applies only if it is configured.
    pub default: Option<f64>,
    /// The documentation page. Its examples are tests.
    pub docs: &'static str,
}

/// An entry of the registry of gates.
#[derive(Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The static description.
    pub meta: Meta,
    /// The options object that may replace the threshold; `None` without options.
    pub options: Option<Options>,
    /// The function that creates a gate with this threshold.
    pub build: fn(f64) -> Box<dyn Gate>,
}

impl Registration {
    /// Creates an entry without an options object.
    pub const fn new(meta: Meta, build: fn(f64) -> Box<dyn Gate>) -> Self {
        Self { meta, options: None, build }
    }

    /// Adds the options object that may replace the threshold.
    #[must_use]
    pub const fn with_options(self, options: Options) -> Self {
        Self { options: Some(options), ..self }
    }
}

/// A function that creates the gates of an options object: one gate, or one for each name in it.
pub type BuildWithOptions = fn(&Map<String, Value>) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>>;

/// An options object that may replace the threshold.
#[derive(Debug)]
#[non_exhaustive]
pub struct Options {
    /// True if a result of the gate has all options, so that [`of_result`] can create the gate again.
    pub are_recorded: bool,
    /// The function that returns the JSON Schema of the object.
    pub schema: fn() -> Value,
    /// The function that creates the gates of the object. The JSON pointers of problems are relative to the object.
    pub build: BuildWithOptions,
}

impl Options {
    /// Creates an options object from its JSON Schema and the function that creates its gates.
    ///
    /// A result of the gate has its threshold, but not its options. `kindlm merge` therefore measures the merged run
    /// with the threshold alone. If the threshold alone does not give the result of each shard, the gate is violated.
    pub const fn new(schema: fn() -> Value, build: BuildWithOptions) -> Self {
        Self { are_recorded: false, schema, build }
    }

    /// Declares that a result of the gate has all options, as its threshold and in its id; see [`of_result`].
    ///
    /// The id must differ from the plain id if an option other than the threshold is set: `id.low` for
    /// `{ value, bound: low }`, `id[name]` for `{ name: threshold }`, and `id[name].low` for both.
    #[must_use]
    pub const fn recorded(self) -> Self {
        Self { are_recorded: true, ..self }
    }
}

/// All gates, in the order of reports.
pub static REGISTRY: &[&Registration] = &[
    &pass_rate_min::REGISTRATION,
    &avg_score_min::REGISTRATION,
    &assertions::REGISTRATION,
    &metrics::REGISTRATION,
    &tags::REGISTRATION,
    &schema_failures_max::REGISTRATION,
    &pii_failures_max::REGISTRATION,
    &keyword_failures_max::REGISTRATION,
    &judge_avg_min::REGISTRATION,
    &judge_kappa_min::REGISTRATION,
    &drift_score_max::REGISTRATION,
    &no_regression::REGISTRATION,
    &cost_max_usd::REGISTRATION,
    &latency_max_ms::REGISTRATION,
    &deterministic_pass_rate::REGISTRATION,
    &probabilistic_pass_rate::REGISTRATION,
    &mutation_score_min::REGISTRATION,
    &errored_max::REGISTRATION,
    &provider_errors_max::REGISTRATION,
];

impl Registered for Registration {
    fn id(&self) -> &'static str {
        self.meta.id
    }
}

/// Returns the gates of this crate.
///
/// [`Registry::with`] adds custom gates; see `examples/own_gate.rs`.
pub fn built_in() -> Registry<Registration> {
    Registry::new(REGISTRY)
}

/// Returns the gate of a result, with the threshold of this result.
///
/// The id of a result ends in `.low` if the gate compares the lower end of an interval. The id of a gate per name has
/// the name in brackets. Returns `None` if the registry has no such gate.
pub fn of_result(registry: &Registry<Registration>, result: &GateResult) -> Option<Box<dyn Gate>> {
    if let Some(registration) = registry.find(&result.gate) {
        return Some((registration.build)(result.threshold));
    }
    let (id, name, is_low) = named::parts_of_id(&result.gate);
    let mut object = Map::new();
    if is_low {
        object.insert("value".to_owned(), result.threshold.into());
        object.insert("bound".to_owned(), "low".into());
    }
    if let Some(name) = name {
        let min = if is_low { Value::Object(object) } else { result.threshold.into() };
        object = Map::from_iter([(name.to_owned(), min)]);
    }
    let options = registry.find(id)?.options.as_ref().filter(|_| !object.is_empty())?;
    (options.build)(&object).ok()?.pop()
}

/// Returns the gate of this crate with this id; `None` if there is no such gate.
pub fn find(id: &str) -> Option<&'static Registration> {
    REGISTRY.iter().copied().find(|it| it.meta.id == id)
}
