//! What ends a run before its plan does.

use kindlm_types::{CaseResult, ExecutionResult};

use crate::aggregate::TOLERANCE;
use crate::gates::dollars;
use crate::{RunOptions, Suite};

/// The money that may be spent.
pub(super) struct Budget {
    usd: f64,
    spent: f64,
}

impl Budget {
    pub(super) fn of(suite: &Suite) -> Option<Self> {
        let usd = suite.gates.iter().filter_map(|gate| gate.budget_usd()).reduce(f64::min)?;
        Some(Self { usd, spent: 0.0 })
    }

    /// Why nothing more may be sent, if so. What is not known to cost something is not held against the run
    /// before its end.
    pub(super) fn spend(&mut self, result: &ExecutionResult) -> Option<String> {
        self.spent += result.execution.cost_usd.unwrap_or(0.0);
        self.spent += result.judge_cost_usd.unwrap_or(0.0);
        (self.spent > self.usd + TOLERANCE).then(|| {
            let (spent, budget) = (dollars(self.spent), dollars(self.usd));
            format!("not sent: the run's budget is exceeded: {spent} > {budget}")
        })
    }
}

/// The failures that end a run.
pub(super) struct Failures {
    most: Option<u32>,
    seen: u32,
}

impl Failures {
    pub(super) fn of(options: &RunOptions) -> Self {
        let first = options.fail_fast.then_some(1);
        let most = first.or(options.max_failures.map(|it| it.max(1)));
        Self { most, seen: 0 }
    }

    /// Why nothing more may be sent, if so.
    pub(super) fn count(&mut self, case: &CaseResult) -> Option<String> {
        let most = self.most.filter(|_| !case.passed())?;
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
