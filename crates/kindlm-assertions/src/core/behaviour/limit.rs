//! An upper limit for a measured value.

use kindlm_types::{AssertionResult, Bound};

use crate::EntryOptions;
use crate::core::check::TOLERANCE;
use crate::core::grade::Grade;
use crate::core::recorded::missing;
use crate::core::result_evidence::measure;

/// An upper limit, with the label and the options of its check.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) most: f64,
    pub(crate) label: String,
    pub(crate) own: EntryOptions,
}

impl Limit {
    /// Returns a duration in milliseconds as text, with at most one decimal.
    pub(crate) fn milliseconds(ms: f64) -> String {
        format!("{} ms", (ms * 10.0).round() / 10.0)
    }

    /// Returns the result for a measured value.
    ///
    /// `name` and `unit` are for the evidence, and `shown` formats a value for the reason. If `measured` is `None`, the
    /// result is errored with the message in `unknown`.
    pub(crate) fn result(
        &self,
        id: &str,
        measured: Option<f64>,
        (name, unit): (&str, Option<&str>),
        shown: impl Fn(f64) -> String,
        unknown: &str,
    ) -> Vec<AssertionResult> {
        let Some(measured) = measured else {
            return missing(id, &self.label, unknown);
        };
        let within = measured <= self.most + TOLERANCE;
        let reason = format!("{}, at most {} expected", shown(measured), shown(self.most));
        let bound = if self.own.negate { Bound::MoreThan } else { Bound::AtMost };
        let result = Grade::with(within != self.own.negate, reason).result(id, &self.label);
        vec![result.with_failure_evidence(|| [measure(name, measured, (self.most, bound), unit)])]
    }
}
