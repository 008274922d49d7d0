//! Judges mutants with the engine, like the executions of a run, and counts the results.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kindlm_engine::{
    self as engine, Baseline, Control, Observed, Plan, Record, RecordError, RunOptions,
    RunProgress, Suite, execute_streamed,
};
use kindlm_mutate::Tally;
use kindlm_store::responses::Recorded;
use kindlm_types::{Completeness, Execution, ExecutionError, ExecutionResult, Ports};

use super::offline::NoModels;
use super::originals::Originals;
use crate::Progress;
use crate::interrupt::{Abortable, attend};
use crate::responses::report_use;
use crate::session::ports;
use crate::{Failure, Session, World};

/// The mutants to judge, and the checks that judge them.
pub(super) struct Judging<'a> {
    pub(super) suite: &'a Suite,
    pub(super) plan: &'a Plan,
    pub(super) options: &'a RunOptions,
    pub(super) baseline: &'a Baseline,
    pub(super) originals: &'a Originals,
    /// True if checks may ask models.
    pub(super) asks_models: bool,
}

/// The counted mutants, and the problems that make the counts incomplete.
pub(super) struct Judged {
    pub(super) tally: Tally,
    /// True if the user interrupted the judging.
    pub(super) is_interrupted: bool,
    /// True if an execution could not be judged because a provider failed.
    pub(super) failed_by_provider: bool,
}

impl Judging<'_> {
    /// Judges the originals and all their mutants.
    pub(super) fn run(
        &self,
        world: &World,
        session: Session,
        progress: Box<dyn Progress + '_>,
    ) -> Result<Judged, Failure> {
        let Session { client, runner, responses, waits, .. } = session;
        let recorded = Recorded::new(&client, responses);
        let all = ports(&client, &recorded, &runner);
        let ports = if self.asks_models { all } else { Ports { models: &NoModels, ..all } };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let (tally, places) = self.originals.tally();
        let counting = Counting {
            tally: Mutex::new(tally),
            places,
            originals: self.originals,
            failed_by_provider: AtomicBool::new(false),
        };
        let control = Control::default();
        let (abortable, abort) = Abortable::new(ports);
        let watch = |event: RunProgress<'_>| progress.on(event);
        let run = execute_streamed(engine::Run {
            baseline: Some(self.baseline),
            control: Some(&control),
            watch: &watch,
            record: &counting,
            observed: Some(self.originals),
            ..engine::Run::new(self.suite, self.plan, self.options, abortable.ports())
        });
        let say = |text: &str| progress.show_notice(text);
        let (streamed, is_interrupted) = runtime.block_on(async {
            // The signal handlers can only be installed inside the runtime.
            let interrupts = (world.interrupts)();
            attend(run, &control, &waits, abort, interrupts, say).await
        });
        drop(progress);
        runtime.shutdown_background();
        if let Some(err) = streamed.failure {
            return Err(Failure::internal(err.to_string()));
        }
        if self.asks_models {
            report_use(world, recorded.responses(), false);
        }
        let tally = counting.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        let failed_by_provider = counting.failed_by_provider.into_inner();
        Ok(Judged { tally, is_interrupted, failed_by_provider })
    }
}

impl Observed for Originals {
    fn observe(&self, begun: Execution) -> (Execution, Option<ExecutionError>) {
        let Some(found) = self.execution(&begun.case, &begun.model, begun.repeat) else {
            let message = "the mutant could not be made again".to_owned();
            return (begun, Some(ExecutionError::Internal { message }));
        };
        let mut declared = found.completeness.declared;
        declared.extend(begun.completeness.declared);
        let execution = Execution {
            test_metadata: begun.test_metadata,
            written: begun.written,
            completeness: Completeness { declared, ..found.completeness },
            ..found
        };
        (execution, None)
    }
}

/// Counts each judged execution, and stores none.
struct Counting<'a> {
    tally: Mutex<Tally>,
    /// For each position of the plan: the index of the case in the tally, and the repeat.
    places: Vec<(usize, usize)>,
    originals: &'a Originals,
    failed_by_provider: AtomicBool,
}

impl Record for Counting<'_> {
    fn recall(
        &self,
        _: usize,
        _: &str,
        _: &str,
        _: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        Ok(None)
    }

    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, result) in finished {
            let Some((case, repeat)) = self.places.get(*at).copied() else { continue };
            if result.failed_by_provider() {
                self.failed_by_provider.store(true, Ordering::Relaxed);
            }
            let Execution { case: name, model, .. } = &result.execution;
            match (repeat.checked_sub(1), self.originals.original(name, model)) {
                (None, _) => tally.add_original(case, result),
                (Some(operator), Some(original)) => {
                    tally.add_mutant(case, operator, original, result);
                }
                (Some(_), None) => {}
            }
        }
        Ok(())
    }
}
