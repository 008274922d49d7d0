//! Executes a plan: so many at once, results in the order of the plan.

mod conversation;
mod simulate;
mod turns;
mod unit;

use futures_util::{StreamExt, stream};
use kindlm_types::{Backend, CaseResult, Execution, ExecutionError, ExecutionResult};

use crate::aggregate::TOLERANCE;
use crate::gates::dollars;
use crate::{
    Baseline, Control, Event, Judges, Plan, Record, RecordError, RunOptions, Suite, TestCase, Unit,
    aggregate,
};

/// Everything that a run needs: what is executed, by whom, and who is told.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// What the plan was made of.
    pub suite: &'a Suite,
    /// What is executed.
    pub plan: &'a Plan,
    /// What the user wants differently from the suite.
    pub options: &'a RunOptions,
    /// The way to models and programs.
    pub backend: &'a dyn Backend,
    /// What drift is measured against, if anything.
    pub baseline: Option<&'a Baseline>,
    /// Stops the run from outside.
    pub control: Option<&'a Control>,
    /// Hears of things as they happen.
    pub watch: &'a (dyn Fn(Event<'_>) + Sync),
    /// Keeps what is finished, and knows what was finished before.
    pub record: &'a dyn Record,
}

impl<'a> Run<'a> {
    /// A run without a baseline, of which nothing is kept, that nobody watches and nobody stops.
    pub fn new(
        suite: &'a Suite,
        plan: &'a Plan,
        options: &'a RunOptions,
        backend: &'a dyn Backend,
    ) -> Self {
        let watch: &(dyn Fn(Event<'_>) + Sync) = &|_| {};
        Self { suite, plan, options, backend, baseline: None, control: None, watch, record: &() }
    }
}

/// What has become of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Executed {
    /// Each case on each model, in the order of the plan.
    pub cases: Vec<CaseResult>,
    /// Why the run was given up, if something could not be kept or brought back: the first such error. What it was
    /// about is in `cases` as an internal error.
    pub failure: Option<RecordError>,
}

/// Executes the plan, judges every execution, and aggregates the repeats.
///
/// What [`Run::record`] knows already is not executed, and counts as if it had been. At most `concurrency` calls of
/// the backend are in flight, questions to judges included. The results are in the order of the plan, whatever
/// finished first. What could not be done is in the results.
///
/// The run stops early when [`Run::control`] says so, after so many cases that do not pass as
/// [`RunOptions::max_failures`] allows, when a gate's budget
/// ([`Gate::budget_usd`](crate::gates::Gate::budget_usd)) is spent, and when an execution cannot be kept. Then what
/// is in flight is finished, and the rest is reported as not run.
///
/// Runs on any tokio runtime that has time enabled. All of it is one task, so the checks run on one thread.
pub async fn execute(run: Run<'_>) -> Executed {
    let Run { suite, options, .. } = run;
    let concurrency = options.concurrency.unwrap_or(suite.defaults.concurrency).max(1);
    let judges = Judges::new(run.backend, &suite.models, suite.defaults.judge_model.as_deref())
        .with_timeout(options.timeout.unwrap_or(suite.defaults.timeout))
        .with_concurrency(concurrency);
    Running { run, judges, own_control: Control::default() }.all(concurrency).await
}

/// What all executions of a run share.
struct Running<'a> {
    run: Run<'a>,
    judges: Judges<'a>,
    /// The run's own switch, so that the caller's tells only what the caller did.
    own_control: Control,
}

impl Running<'_> {
    fn stopped(&self) -> Option<&str> {
        let callers = self.run.control.and_then(Control::reason);
        callers.or_else(|| self.own_control.reason())
    }

    async fn all(&self, concurrency: usize) -> Executed {
        let units = &self.run.plan.units;
        (self.run.watch)(Event::RunStarted { total: units.len() });
        let mut ledger = Ledger::new(self);
        let mut open = Vec::with_capacity(units.len());
        for (index, unit) in units.iter().copied().enumerate() {
            match self.recall(unit) {
                Ok(None) => open.push((index, unit)),
                Ok(Some(result)) => ledger.count(index, result),
                Err(err) => {
                    let result = lost(self.begun(unit), &err);
                    ledger.give_up(err);
                    ledger.count(index, result);
                }
            }
        }
        let mut finished = stream::iter(open)
            .map(|(index, unit)| async move { (index, self.unit(unit).await) })
            .buffer_unordered(concurrency);
        while let Some((index, result)) = finished.next().await {
            ledger.take(index, result);
        }
        drop(finished);
        ledger.finish()
    }

    fn recall(&self, unit: Unit) -> Result<Option<ExecutionResult>, RecordError> {
        let Some((case, model)) = self.subject(unit) else { return Ok(None) };
        self.run.record.recall(&case.name, unit::model_id(model), unit.repeat)
    }
}

/// An execution that may have been carried out, but of which nothing is left.
fn lost(execution: Execution, err: &RecordError) -> ExecutionResult {
    unit::broken(execution, ExecutionError::Internal { message: err.to_string() })
}

/// Counts what is finished, and stops the run when that is enough.
struct Ledger<'r, 'a> {
    running: &'r Running<'a>,
    collector: Collector<'a>,
    budget: Option<Budget>,
    failures: Failures,
    failure: Option<RecordError>,
}

impl<'r, 'a> Ledger<'r, 'a> {
    fn new(running: &'r Running<'a>) -> Self {
        let Run { suite, plan, options, .. } = running.run;
        Self {
            running,
            collector: Collector::new(&plan.units),
            budget: Budget::of(suite),
            failures: Failures::of(options),
            failure: None,
        }
    }

    /// Keeps what has just finished, and counts it. What was not run is not kept: it is still to be done.
    fn take(&mut self, index: usize, mut result: ExecutionResult) {
        if !matches!(result.error, Some(ExecutionError::NotRun { .. }))
            && let Err(err) = self.running.run.record.keep(&mut result)
        {
            // The money is spent, whatever becomes of what it bought.
            let unit = self.running.run.plan.units.get(index).copied();
            let begun = unit.map(|it| self.running.begun(it)).unwrap_or_default();
            let ExecutionResult { execution, judge_cost_usd, judge_usage, .. } = result;
            let (cost_usd, usage) = (execution.cost_usd, execution.usage);
            let lost = lost(Execution { cost_usd, usage, ..begun }, &err);
            result = ExecutionResult { judge_cost_usd, judge_usage, ..lost };
            self.give_up(err);
        }
        self.count(index, result);
    }

    fn give_up(&mut self, err: RecordError) {
        self.running.own_control.stop(format!("not sent: the run was given up: {err}"));
        self.failure.get_or_insert(err);
    }

    fn count(&mut self, index: usize, result: ExecutionResult) {
        let Running { run, own_control, .. } = self.running;
        if let Some(reason) = self.budget.as_mut().and_then(|it| it.spend(&result)) {
            own_control.stop(reason);
        }
        (run.watch)(Event::ExecutionFinished(&result));
        if let Some(case) = self.collector.add(index, result, run.suite) {
            (run.watch)(Event::CaseFinished(case));
            if let Some(reason) = self.failures.count(case) {
                own_control.stop(reason);
            }
        }
    }

    fn finish(self) -> Executed {
        Executed { cases: self.collector.finish(), failure: self.failure }
    }
}

/// The money that may be spent.
struct Budget {
    usd: f64,
    spent: f64,
}

impl Budget {
    fn of(suite: &Suite) -> Option<Self> {
        let usd = suite.gates.iter().filter_map(|gate| gate.budget_usd()).reduce(f64::min)?;
        Some(Self { usd, spent: 0.0 })
    }

    /// Why nothing more may be sent, if so. What is not known to cost something is not held against the run
    /// before its end.
    fn spend(&mut self, result: &ExecutionResult) -> Option<String> {
        self.spent += result.execution.cost_usd.unwrap_or(0.0);
        self.spent += result.judge_cost_usd.unwrap_or(0.0);
        (self.spent > self.usd + TOLERANCE).then(|| {
            let (spent, budget) = (dollars(self.spent), dollars(self.usd));
            format!("not sent: the run's budget is exceeded: {spent} > {budget}")
        })
    }
}

/// The failures that end a run.
struct Failures {
    most: Option<u32>,
    seen: u32,
}

impl Failures {
    fn of(options: &RunOptions) -> Self {
        let first = options.fail_fast.then_some(1);
        let most = first.or(options.max_failures.map(|it| it.max(1)));
        Self { most, seen: 0 }
    }

    /// Why nothing more may be sent, if so.
    fn count(&mut self, case: &CaseResult) -> Option<String> {
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

/// Brings results that come in any order into the order of the plan.
struct Collector<'a> {
    units: &'a [Unit],
    /// Of each unit, its group: consecutive units of one case and model.
    group_of: Vec<usize>,
    groups: Vec<Group>,
}

#[derive(Default)]
struct Group {
    missing: usize,
    executions: Vec<ExecutionResult>,
    done: Option<CaseResult>,
}

impl<'a> Collector<'a> {
    fn new(units: &'a [Unit]) -> Self {
        let mut group_of = Vec::with_capacity(units.len());
        let mut groups = Vec::new();
        for same in units.chunk_by(|a, b| (a.case, a.model) == (b.case, b.model)) {
            group_of.extend(std::iter::repeat_n(groups.len(), same.len()));
            groups.push(Group { missing: same.len(), ..Group::default() });
        }
        Self { units, group_of, groups }
    }

    /// Takes one result in; gives back the case if it was the last one missing.
    fn add(&mut self, unit: usize, result: ExecutionResult, suite: &Suite) -> Option<&CaseResult> {
        let group = self.groups.get_mut(*self.group_of.get(unit)?)?;
        group.executions.push(result);
        group.missing = group.missing.saturating_sub(1);
        if group.missing > 0 {
            return None;
        }
        let case = suite.cases.get(self.units.get(unit)?.case);
        let pass_rate_min = case.map_or(1.0, |it| it.pass_rate_min);
        let tags = case.map(|it: &TestCase| it.tags.to_vec()).unwrap_or_default();
        let executions = std::mem::take(&mut group.executions);
        group.done = aggregate(executions, pass_rate_min, tags).ok();
        if let Some(done) = &mut group.done {
            done.digest = case.and_then(|it| it.digest).map(|it| it.to_string());
        }
        group.done.as_ref()
    }

    fn finish(self) -> Vec<CaseResult> {
        self.groups.into_iter().filter_map(|group| group.done).collect()
    }
}
