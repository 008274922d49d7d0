//! Who answers the judge questions of records.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use kindlm_assertions::Check;
use kindlm_engine::{Judges, Model, judge};
use kindlm_types::{AssertionResult, Backend, Execution};
use tokio::runtime::Runtime;

use crate::Failure;

/// Somebody to ask, or nobody.
pub(crate) struct Asking<'a> {
    judges: Judges<'a>,
    /// Only where somebody is asked over the network.
    runtime: Option<Runtime>,
    /// Whether a check asked although there is nobody.
    in_vain: AtomicBool,
}

impl<'a> Asking<'a> {
    /// Asks one of these models; `default` where a check does not say which.
    pub(crate) fn somebody(
        backend: &'a dyn Backend,
        models: &'a [Model],
        default: Option<&'a str>,
        concurrency: usize,
    ) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let judges = Judges::new(backend, models, default).with_concurrency(concurrency);
        Ok(Self { judges, runtime: Some(runtime), in_vain: AtomicBool::new(false) })
    }

    /// Has nobody to ask: checks that want to know something are errored.
    pub(crate) fn nobody(backend: &'a dyn Backend) -> Self {
        let judges = Judges::new(backend, &[], None);
        Self { judges, runtime: None, in_vain: AtomicBool::new(false) }
    }

    /// Whether a check asked although there is nobody.
    pub(super) fn was_in_vain(&self) -> bool {
        self.in_vain.load(Ordering::Relaxed)
    }

    pub(super) fn has_judge(&self) -> bool {
        self.runtime.is_some()
    }

    /// Asks, waits, and evaluates.
    pub(super) fn judge(
        &self,
        checks: &[Check],
        execution: &Execution,
        baseline: Option<&str>,
    ) -> Vec<AssertionResult> {
        let judged = judge(checks, execution, baseline, &self.judges);
        let Some(runtime) = &self.runtime else {
            self.in_vain.store(true, Ordering::Relaxed);
            // Nobody is asked, so nothing is waited for.
            return judged.now_or_never().map(|it| it.results).unwrap_or_default();
        };
        runtime.handle().block_on(judged).results
    }
}
