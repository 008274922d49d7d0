//! Checks that should have given a verdict or a score, but gave none.

use kindlm_types::{AssertionResult, CaseResult, GateResult, Verdict};

use super::compare::{missing_evidence, nothing_to_measure};
use crate::checks::checks;

/// The missing evidence of a gate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unjudged {
    /// The number of errored results of the gate's kind of checks.
    results: u64,
    /// The number of executions without checks, because they ended with an error or were not run.
    executions: u64,
    /// True if a check of the kind was skipped, because it did not apply.
    was_skipped: bool,
}

impl Unjudged {
    /// Adds the missing evidence of a case. `is_one` returns true for results of the gate's kind of checks.
    pub(super) fn add(&mut self, case: &CaseResult, is_one: fn(&AssertionResult) -> bool) {
        for execution in &case.executions {
            let has_no_results = execution.error.is_some() && execution.results.is_empty();
            self.executions += u64::from(has_no_results);
            for check in checks(&execution.results).filter(|it| is_one(it.result)) {
                match check.result.verdict {
                    Verdict::Errored { .. } => self.results += 1,
                    Verdict::Skipped { .. } => self.was_skipped = true,
                    Verdict::Pass | Verdict::Fail { .. } => {}
                }
            }
        }
    }

    /// Formats the number of errored results as `; 2 results are errored`; empty without errored results.
    pub(super) fn text(self) -> String {
        errored_results(self.results)
    }

    /// Returns the result of a gate that measured nothing.
    ///
    /// The gate is violated if a check of the gate's kind of checks is errored. It is also violated if executions ended
    /// before their checks, unless a check of this kind was skipped. `start` and `limit` are parts of the message.
    pub(super) fn result(
        self,
        id: &str,
        threshold: f64,
        start: &str,
        kind: &str,
        limit: &str,
    ) -> GateResult {
        let is_missing = self.results > 0 || self.executions > 0 && !self.was_skipped;
        if !is_missing {
            let message = format!("{start}nothing to measure, no {kind} applied ({limit})");
            return nothing_to_measure(id, threshold, message);
        }
        let executions = match self.executions {
            0 => String::new(),
            1 => "; 1 execution ended before its checks".to_owned(),
            all => format!("; {all} executions ended before their checks"),
        };
        let message = format!(
            "{start}no {kind} has a verdict, so the gate cannot hold ({limit}){}{executions}",
            self.text()
        );
        missing_evidence(id, threshold, message)
    }
}

/// Formats a number of errored results as `; 2 results are errored`; empty for 0.
pub(super) fn errored_results(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => "; 1 result is errored".to_owned(),
        all => format!("; {all} results are errored"),
    }
}
