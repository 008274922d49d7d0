//! Limits on failures that end a run early.

use kindlm_types::{CaseResult, Outcome};

use crate::RunOptions;

/// The number of failed cases, and the limit at which the run ends.
pub(super) struct Failures {
    most: Option<u32>,
    seen: u32,
}

impl Failures {
    pub(super) fn from_options(options: &RunOptions) -> Self {
        let first = options.fail_fast.then_some(1);
        let most = first.or(options.max_failures.map(|it| it.max(1)));
        Self { most, seen: 0 }
    }

    /// Counts the case if it is failed or errored; returns the reason to stop the run if the limit is reached.
    pub(super) fn count(&mut self, case: &CaseResult) -> Option<String> {
        let is_failure = matches!(case.outcome, Outcome::Failed | Outcome::Errored);
        let most = self.most.filter(|_| is_failure)?;
        self.seen = self.seen.saturating_add(1);
        let last = format!("`{}` on `{}`", case.case, case.model);
        (self.seen >= most).then(|| match most {
            1 => format!("not sent: the run stops at the first failure, which was {last}"),
            _ => format!(
                "not sent: the run stops after {most} failures, the last of which was {last}"
            ),
        })
    }
}
