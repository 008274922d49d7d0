//! Executes a plan with limited concurrency. The results are in the order of the plan.

mod agent;
mod collect;
mod command;
mod conversation;
mod histories;
mod required;
mod rounds;
mod simulate;
mod stop;
mod turns;
mod unit;
mod verdict;
mod waves;
mod workspace;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{FutureExt, Stream, StreamExt, stream};
use kindlm_types::{
    CanaryWatch, CaseResult, Execution, ExecutionError, ExecutionResult, Ports, Spend, Workspaces,
};
use tokio::sync::Notify;

use crate::budget::worst_case;
use crate::gates::spent_on;
use crate::{
    Baseline, CaseBody, CaseKind, Control, Judges, Model, Plan, Record, RecordError, RunOptions,
    RunProgress, Streamed, Subject, Suite, Unit,
};
use collect::{Collector, Held};
pub(crate) use collect::{Groups, Sink, case_of};
use histories::Sequence;
use rounds::Ended;
use stop::Failures;
pub(crate) use unit::{begun, errored};

/// The number of collected executions at which collecting ends and the executions are stored.
const AT_ONCE: usize = 64;

/// The parameters of a run.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The suite of the plan.
    pub suite: &'a Suite,
    /// The executions to carry out. Their indices refer to `suite`.
    pub plan: &'a Plan,
    /// The user's options, which take precedence over the suite.
    pub options: &'a RunOptions,
    /// The access to models, programs and scripts.
    pub ports: Ports<'a>,
    /// The interface for creating workspaces. If `None`, the executions of tests with a workspace are errored.
    pub workspaces: Option<&'a dyn Workspaces>,
    /// The baseline for measuring drift; `None` without a baseline.
    pub baseline: Option<&'a Baseline>,
    /// The switch with which the caller can stop the run; `None` if the caller does not stop the run.
    pub control: Option<&'a Control>,
    /// The listener for progress events.
    pub watch: &'a (dyn Fn(RunProgress<'_>) + Sync),
    /// The record that stores finished executions, and loads the executions of an earlier process.
    pub record: &'a dyn Record,
    /// Executions from outside of the run, which are only judged. The field is `None` for a run that executes its plan.
    pub observed: Option<&'a dyn Observed>,
    /// The results of the canaries: outputs of the calibration that the judges were asked about again before the run.
    /// The cost counts in the budget, and for the gates.
    pub canaries: &'a [CanaryWatch],
}

/// Evidence that was recorded outside of the run.
pub trait Observed: Sync {
    /// Returns the evidence of an execution of the plan.
    ///
    /// `begun` has the data from the suite: the test case, the model's id, the repeat and the variables. An error
    /// means that the evidence is missing or incomplete.
    fn observe(&self, begun: Execution) -> (Execution, Option<ExecutionError>);
}

impl<'a> Run<'a> {
    /// Creates a run with the required parameters only.
    pub fn new(
        suite: &'a Suite,
        plan: &'a Plan,
        options: &'a RunOptions,
        ports: impl Into<Ports<'a>>,
    ) -> Self {
        let watch: &(dyn Fn(RunProgress<'_>) + Sync) = &|_| {};
        Self {
            suite,
            plan,
            options,
            ports: ports.into(),
            workspaces: None,
            baseline: None,
            control: None,
            watch,
            record: &(),
            observed: None,
            canaries: &[],
        }
    }
}

/// The results of the executions of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Executed {
    /// Each case on each model, in the order of the plan.
    pub cases: Vec<CaseResult>,
    /// The first error in storing or loading an execution; `None` if there was no such error.
    ///
    /// Such an error aborts the run. The execution itself is in `cases` as an internal error.
    pub failure: Option<RecordError>,
}

/// Executes the plan, judges every execution, and aggregates the repeats.
///
/// Executions that [`Run::record`] has stored are not carried out again. At most `concurrency` calls of the ports are
/// in flight, including questions to judges. At most `concurrency` agents run. Neither limit applies if the ports limit
/// their calls themselves. The results are in the order of the plan, and errors are part of the results.
///
/// The run stops early if:
///
/// - [`Run::control`] requests it;
/// - the number of failed or errored cases reaches [`RunOptions::max_failures`], or 1 with [`RunOptions::fail_fast`];
/// - an execution cannot be stored or loaded;
/// - the budget is exceeded, or the maximum cost of a request exceeds the remaining budget. The budget is the lowest of
///   [`Gate::budget_usd`](crate::gates::Gate::budget_usd) and [`RunOptions::budget_usd`].
///
/// When the run stops, executions in progress are finished, and all other executions are reported as not run. If the
/// budget is exhausted, executions in progress send no further request.
///
/// Each request to a model with a price reserves its maximum cost before it is sent. The maximum cost is one token for
/// each byte of the prompt, and the longest allowed answer (16,384 tokens by default). For a model without a price, the
/// reported cost of each answer counts.
///
/// This function runs on any tokio runtime with time enabled. The run is a single task, so the checks run on one
/// thread. All results are held in memory; see also [`execute_streamed`].
pub async fn execute(run: Run<'_>) -> Executed {
    let mut cases = Held::for_units(&run.plan.units);
    let failure = execute_into(run, &mut cases).await;
    Executed { cases: cases.0.into_iter().flatten().collect(), failure }
}

/// Executes the plan like [`execute`], but does not hold the executions in memory.
///
/// The run's record stores the executions. Only a few dozen bytes of each finished case are held in memory.
/// [`report_streamed`](crate::report_streamed) creates the report.
pub async fn execute_streamed(run: Run<'_>) -> Streamed {
    let mut streamed = Streamed::new(run.suite, run.plan, run.canaries);
    streamed.failure = execute_into(run, &mut streamed).await;
    streamed
}

async fn execute_into(run: Run<'_>, sink: &mut dyn Sink) -> Option<RecordError> {
    let Run { suite, options, .. } = run;
    let concurrency = options.concurrency.unwrap_or(suite.defaults.concurrency).max(1);
    let judges = Judges::new(run.ports, &suite.models, suite.defaults.judge_model.as_deref())
        .with_timeout(options.timeout.unwrap_or(suite.defaults.timeout))
        .with_concurrency(concurrency)
        .with_budget(budget_usd(suite, options));
    judges.calls.spend(Some(spent_on(run.canaries).0));
    Running { run, judges, own_control: Control::default() }.all(concurrency, sink).await
}

/// Returns the lowest of all budgets of the gates and the options, in US dollars.
///
/// Returns `None` without a budget.
pub fn budget_usd(suite: &Suite, options: &RunOptions) -> Option<f64> {
    let gates = suite.gates.iter().filter_map(|gate| gate.budget_usd());
    gates.chain(options.budget_usd).reduce(f64::min)
}

/// Returns the amount in US dollars that the first request of a case reserves.
///
/// Returns `None` for commands, transcripts and agents, or if the price is unknown.
pub fn reserve_usd(body: &CaseBody, model: &Model) -> Option<f64> {
    let Subject::Prompt { messages } = &body.subject else { return None };
    if model.agent.is_some() {
        return None;
    }
    let prompt = conversation::first_prompt(body, messages, model, 0);
    model.price.map(|price| worst_case(&prompt, &price))
}

/// The state that all executions of a run share.
struct Running<'a> {
    run: Run<'a>,
    judges: Judges<'a>,
    /// The run's own switch. The caller's switch stays unchanged.
    own_control: Control,
}

impl Running<'_> {
    fn stopped(&self) -> Option<&str> {
        let callers = self.run.control.and_then(Control::reason);
        callers.or_else(|| self.own_control.reason()).or_else(|| self.judges.calls.exhausted())
    }

    async fn all(&self, concurrency: usize, sink: &mut dyn Sink) -> Option<RecordError> {
        let units = &self.run.plan.units;
        (self.run.watch)(RunProgress::RunStarted { total: units.len() });
        let mut tally = RunTally::new(self, sink);
        // Only positions are stored, because a plan may have a million executions.
        let mut open = Vec::with_capacity(units.len());
        let mut unjudged = HashSet::new();
        let mut rounds = rounds::rounds(self.run.suite, units);
        let compared: HashSet<usize> = rounds.iter().flatten().copied().collect();
        let mut settled = HashSet::new();
        let mut courses = waves::courses(self.run.suite, self.run.plan, &tally.collector.groups);
        let sequences = histories::sequences(self.run.suite, units);
        let ordered: HashSet<usize> = sequences.iter().flat_map(Sequence::open).collect();
        for (index, unit) in units.iter().copied().enumerate() {
            let recalled = self.recall(index, unit);
            self.count_spent(unit, recalled.as_ref().ok().and_then(Option::as_ref));
            match recalled {
                // A sequence loads its executions itself.
                _ if ordered.contains(&index) => {}
                // The comparison round loads its executions itself.
                Ok(None) | Err(_) if compared.contains(&index) => {}
                Ok(None) if courses.has(index) => {}
                Ok(None) => open.push(index),
                Ok(Some(result)) => {
                    if courses.has(index) {
                        if courses.recalled(index, &result) {
                            tally.count(index, result);
                        }
                    } else if compared.contains(&index) {
                        if !result.is_unjudged() {
                            settled.insert(index);
                        }
                    } else if result.is_unjudged() {
                        unjudged.insert(index);
                        open.push(index);
                    } else {
                        tally.count(index, result);
                    }
                }
                Err(err) => {
                    courses.lost(index);
                    tally.lose(index, err);
                }
            }
        }
        rounds.retain(|round| {
            let is_open = !round.iter().all(|it| settled.contains(it));
            if !is_open {
                for at in round {
                    tally.recount(*at);
                }
            }
            is_open
        });
        let gathering = &Gathering::default();
        let alone = self.alone(open, &unjudged, concurrency, gathering);
        let rounds = stream::iter(rounds)
            .map(|round| async move {
                gathering.over().await;
                self.round(&round).await
            })
            .buffer_unordered(concurrency);
        let waves = self.waves(courses.in_queues(self.run), concurrency, gathering);
        let sequences = self.sequences(sequences, concurrency, gathering);
        let together = stream::select(waves, sequences);
        let mut finished = stream::select(stream::select(alone, rounds), together);
        while let Some(ended) = gathering.next(&mut finished).await {
            tally.settle(ended);
        }
        drop(finished);
        if let Some((attempts, usd)) = self.judges.calls.lost() {
            (self.run.watch)(RunProgress::AnswersLost { attempts, usd });
        }
        tally.failure
    }

    /// Carries out executions that do not depend on each other. Each item of the stream contains one execution.
    fn alone<'r>(
        &'r self,
        open: Vec<usize>,
        unjudged: &'r HashSet<usize>,
        concurrency: usize,
        gathering: &'r Gathering,
    ) -> impl Stream<Item = Vec<(usize, Ended)>> + Unpin {
        let units = &self.run.plan.units;
        let queues = if self.run.ports.models.limits_calls() && concurrency > 1 {
            by_model(units, open)
        } else {
            vec![open]
        };
        stream::select_all(queues.into_iter().map(move |queue| {
            let units = queue.into_iter().filter_map(|index| Some((index, *units.get(index)?)));
            stream::iter(units)
                .map(move |(index, unit)| {
                    // Boxed, because the future has about 10 KiB and is moved several times before it starts.
                    Box::pin(async move {
                        gathering.over().await;
                        let ended = if unjudged.contains(&index) {
                            self.unit_again(index, unit).await
                        } else {
                            Ended::New(self.unit(unit, None).await.result)
                        };
                        vec![(index, ended)]
                    })
                })
                .buffer_unordered(concurrency)
        }))
    }

    /// Judges a stored execution again.
    async fn unit_again(&self, at: usize, unit: Unit) -> Ended {
        match self.recall(at, unit) {
            Ok(earlier) => Ended::New(self.unit(unit, earlier).await.result),
            Err(err) => Ended::Lost(err),
        }
    }

    /// Returns true if the run itself pays for the execution.
    ///
    /// Observed executions and transcripts cost nothing.
    fn sends(&self, unit: Unit) -> bool {
        let case = self.run.suite.cases.get(unit.case);
        self.run.observed.is_none() && case.is_some_and(|it| it.kind != CaseKind::Transcript)
    }

    /// Counts the money that earlier processes spent on an execution, including its judges.
    ///
    /// `left` is the stored result. Without a stored result, only the cost of earlier attempts counts.
    fn count_spent(&self, unit: Unit, left: Option<&ExecutionResult>) {
        let calls = &self.judges.calls;
        calls.spend(self.spent_before(unit).ok());
        let Some(left) = left else { return };
        if self.sends(unit) {
            calls.spend(left.execution.spent_at_least());
        }
        calls.spend(left.judge_cost_usd);
    }

    /// Returns the cost of earlier attempts without a result; 0 if the run does not pay for the execution.
    fn spent_before(&self, unit: Unit) -> Result<f64, RecordError> {
        let found = unit::subject(self.run.suite, unit).filter(|_| self.sends(unit));
        let Some((case, model)) = found else { return Ok(0.0) };
        self.run.record.spent_before(&case.name, unit::model_id(case, model), unit.repeat)
    }

    fn recall(&self, at: usize, unit: Unit) -> Result<Option<ExecutionResult>, RecordError> {
        let Some((case, model)) = unit::subject(self.run.suite, unit) else { return Ok(None) };
        self.run.record.recall(at, &case.name, unit::model_id(case, model), unit.repeat)
    }
}

/// A flag that is set while finished executions are collected. No execution may start during this time.
// perf: process, 10 % to 17 % less CPU time for an execution, together with reading the journal ahead
#[derive(Default)]
struct Gathering {
    is_under_way: AtomicBool,
    ended: Notify,
}

impl Gathering {
    /// Waits for a finished execution, and returns it with other executions that have finished by then; `None` at the
    /// end.
    ///
    /// The caller stores the returned executions with one write. No execution starts during the collection, because a
    /// start would delay this write.
    async fn next<T>(&self, finished: &mut (impl Stream<Item = Vec<T>> + Unpin)) -> Option<Vec<T>> {
        let mut all = finished.next().await?;
        self.is_under_way.store(true, Ordering::Relaxed);
        while all.len() < AT_ONCE
            && let Some(Some(more)) = finished.next().now_or_never()
        {
            all.extend(more);
        }
        self.is_under_way.store(false, Ordering::Relaxed);
        self.ended.notify_waiters();
        Some(all)
    }

    /// Waits until no executions are being collected.
    async fn over(&self) {
        while self.is_under_way.load(Ordering::Relaxed) {
            // The run is a single task, so the notification cannot be missed.
            self.ended.notified().await;
        }
    }
}

/// Groups positions by model, in order, so that a model with a low rate limit does not delay other models.
fn by_model(units: &[Unit], open: Vec<usize>) -> Vec<Vec<usize>> {
    let mut queues: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for index in open {
        queues.entry(units.get(index).and_then(|it| it.model)).or_default().push(index);
    }
    queues.into_values().collect()
}

/// Returns an errored execution for a position that the plan does not have.
fn errored_at(suite: &Suite, at: usize) -> ExecutionResult {
    let message = format!("the plan has no execution {at} of the suite `{}`", suite.info.name);
    errored(Execution::default(), ExecutionError::Internal { message })
}

/// Returns the errored result for an execution that could not be stored or loaded.
fn lost(execution: Execution, err: &RecordError) -> ExecutionResult {
    unit::errored(execution, ExecutionError::Internal { message: err.to_string() })
}

/// The counts of finished executions, and the limits that stop the run.
struct RunTally<'r, 'a> {
    running: &'r Running<'a>,
    collector: Collector,
    sink: &'r mut dyn Sink,
    failures: Failures,
    failure: Option<RecordError>,
}

impl<'r, 'a> RunTally<'r, 'a> {
    fn new(running: &'r Running<'a>, sink: &'r mut dyn Sink) -> Self {
        let Run { plan, options, .. } = running.run;
        Self {
            running,
            collector: Collector::new(&plan.units),
            sink,
            failures: Failures::from_options(options),
            failure: None,
        }
    }

    /// Stores and counts finished executions.
    fn settle(&mut self, ended: Vec<(usize, Ended)>) {
        let mut new = Vec::with_capacity(ended.len());
        let mut unnecessary = Vec::new();
        for (index, ended) in ended {
            match ended {
                Ended::New(result) => new.push((index, *result)),
                Ended::Kept(result) => self.count(index, *result),
                Ended::Lost(err) => self.lose(index, err),
                Ended::Unnecessary => unnecessary.push(index),
            }
        }
        self.take(new);
        for index in unnecessary {
            if let Some((position, executions)) = self.collector.complete(index) {
                self.finish(index, position, executions);
            }
        }
        if self.failure.is_none()
            && let Some(err) = self.running.run.record.failure()
        {
            self.give_up(err);
        }
    }

    /// Stores new executions and counts them.
    ///
    /// Executions that did not start are not stored, so a resumed run carries them out.
    fn take(&mut self, mut new: Vec<(usize, ExecutionResult)>) {
        let record = self.running.run.record;
        let not_begun: Vec<_> = new.extract_if(.., |(_, it)| it.was_never_begun()).collect();
        for (index, result) in not_begun {
            self.sink.not_kept(index, &result);
            self.count(index, result);
        }
        let kept = if new.is_empty() { Ok(()) } else { record.keep(&mut new) };
        let are_several = new.len() > 1;
        for mut finished in new {
            // If the executions cannot be stored together, store as many as possible one by one.
            let kept = match &kept {
                Err(_) if are_several => record.keep(std::slice::from_mut(&mut finished)),
                all => all.clone(),
            };
            let (index, result) = finished;
            match kept {
                Ok(()) => self.count(index, result),
                Err(err) => self.not_kept(index, result, err),
            }
        }
    }

    /// Counts an execution that could not be stored, with its cost, and aborts the run.
    fn not_kept(&mut self, index: usize, result: ExecutionResult, err: RecordError) {
        // The money is spent, even if the result is lost.
        let unit = self.running.run.plan.units.get(index).copied();
        let begun = unit.map(|it| begun(self.running.run.suite, it)).unwrap_or_default();
        let ExecutionResult { execution, judge_cost_usd, judge_usage, judge_spending, .. } = result;
        let (cost_usd, usage) = (execution.spent(), execution.usage);
        let lost =
            lost(Execution { spend: Spend { cost_usd, ..begun.spend }, usage, ..begun }, &err);
        let result = ExecutionResult { judge_cost_usd, judge_usage, judge_spending, ..lost };
        self.sink.not_kept(index, &result);
        self.give_up(err);
        self.count(index, result);
    }

    /// Loads an execution that an earlier process finished, and counts it.
    fn recount(&mut self, index: usize) {
        let Some(unit) = self.running.run.plan.units.get(index).copied() else { return };
        match self.running.recall(index, unit) {
            Ok(Some(result)) => self.count(index, result),
            Ok(None) => {}
            Err(err) => self.lose(index, err),
        }
    }

    /// Counts an execution that cannot be loaded, and aborts the run.
    fn lose(&mut self, index: usize, err: RecordError) {
        let unit = self.running.run.plan.units.get(index).copied();
        let begun = unit.map(|it| begun(self.running.run.suite, it)).unwrap_or_default();
        let result = lost(begun, &err);
        self.sink.not_kept(index, &result);
        self.give_up(err);
        self.count(index, result);
    }

    fn give_up(&mut self, err: RecordError) {
        self.running.own_control.stop(format!("not sent: the run was aborted: {err}"));
        self.failure.get_or_insert(err);
    }

    fn count(&mut self, index: usize, result: ExecutionResult) {
        (self.running.run.watch)(RunProgress::ExecutionFinished(&result));
        if let Some((position, executions)) = self.collector.add(index, result) {
            self.finish(index, position, executions);
        }
    }

    /// Aggregates the executions of a case, and reports the case.
    fn finish(&mut self, index: usize, position: usize, executions: Vec<ExecutionResult>) {
        let Running { run, own_control, .. } = self.running;
        let Some(unit) = run.plan.units.get(index) else { return };
        let planned = self.collector.groups.units(position).len();
        let of = (run.suite, run.plan);
        let Some(case) = case_of(of, (*unit, planned), executions) else { return };
        (run.watch)(RunProgress::CaseFinished(&case));
        if let Some(reason) = self.failures.count(&case) {
            own_control.stop(reason);
        }
        run.record.case_finished(position, &case);
        self.sink.take(position, case);
    }
}
