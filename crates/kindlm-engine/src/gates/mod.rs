//! Gates: thresholds over a whole run.
//!
//! Each gate is a folder of its own; [`REGISTRY`] lists them.

use std::fmt;

use kindlm_types::{CaseResult, GateResult};

/// A threshold over the results of a whole run.
pub trait Gate: fmt::Debug + Send + Sync {
    /// Measures the run and compares. Pure: the same results always give the same answer.
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult;
}

/// What numbers a gate's threshold may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// A share from 0 to 1.
    Rate,
    /// A whole number from 0.
    Count,
    /// A number above 0.
    Amount,
}

/// What is known about a gate without running it.
#[derive(Debug)]
pub struct Meta {
    /// The id: its key under `gates`.
    pub id: &'static str,
    /// What it measures: one sentence.
    pub summary: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// What numbers its threshold may be.
    pub threshold: Threshold,
    /// The threshold that holds when the suite does not say; `None` if the gate is then absent.
    pub default: Option<f64>,
    /// The page, whose examples are tests.
    pub docs: &'static str,
}

/// One entry of the registry.
#[derive(Debug)]
pub struct Registration {
    /// What is known without running it.
    pub meta: Meta,
    /// Makes a gate with this threshold.
    pub build: fn(f64) -> Box<dyn Gate>,
}

/// Every gate, in the order in which reports show them.
pub static REGISTRY: &[&Registration] = &[];

/// The gate with this id.
pub fn find(id: &str) -> Option<&'static Registration> {
    REGISTRY.iter().copied().find(|it| it.meta.id == id)
}
