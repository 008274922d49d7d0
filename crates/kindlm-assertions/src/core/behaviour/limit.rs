//! An upper limit for a measured value.

use kindlm_types::AssertionResult;

use crate::EntryOptions;
use crate::core::check::TOLERANCE;
use crate::core::grade::Grade;
use crate::core::recorded::missing;

/// An upper limit, with the label and the options of its check.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) most: f64,
    pub(crate) label: String,
    pub(crate) own: EntryOptions,
}

impl Limit {
    /// Returns the result for a measured value.
    ///
    /// If nothing was measured, the result is errored with the message `unknown`.
    pub(crate) fn result(
        &self,
        id: &str,
        measured: Option<f64>,
        shown: impl Fn(f64) -> String,
        unknown: &str,
    ) -> Vec<AssertionResult> {
        let Some(measured) = measured else {
            return missing(id, &self.label, unknown);
        };
        let within = measured <= self.most + TOLERANCE;
        let reason = format!("{}, at most {} expected", shown(measured), shown(self.most));
        vec![Grade::with(within != self.own.negate, reason).result(id, &self.label)]
    }
}
