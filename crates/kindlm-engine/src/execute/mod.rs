//! Executes a plan: so many at once, results in the order of the plan.

mod conversation;
mod simulate;
mod turns;
mod unit;

use futures_util::{StreamExt, stream};
use kindlm_types::{Backend, CaseResult, ExecutionResult};

use crate::aggregate::TOLERANCE;
use crate::gates::dollars;
use crate::{Baseline, Control, Event, Judges, Plan, RunOptions, Suite, TestCase, Unit, aggregate};

/// Executes the plan, judges every execution, and aggregates the repeats.
///
/// At most `concurrency` calls of the backend are in flight, questions to judges included. The results are in
/// the order of the plan, whatever finished first; `watch` hears of things as they happen. Nothing here
/// fails: what could not be done is in the results.
///
/// The run stops early when `control` says so, after so many cases that do not pass as
/// [`RunOptions::max_failures`] allows, and when a gate's budget ([`Gate::budget_usd`](crate::gates::Gate::budget_usd)) is spent. Then what
/// is in flight is finished, and the rest is reported as not run.
///
/// Runs on any tokio runtime that has time enabled. All of it is one task, so the checks run on one thread.
pub async fn execute(
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    backend: &dyn Backend,
    baseline: &Baseline,
    control: &Control,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Vec<CaseResult> {
    let concurrency = options.concurrency.unwrap_or(suite.defaults.concurrency).max(1);
    let judges = Judges::new(backend, &suite.models, suite.defaults.judge_model.as_deref())
        .with_timeout(options.timeout.unwrap_or(suite.defaults.timeout))
        .with_concurrency(concurrency);
    let own_control = Control::default();
    let run = Run { suite, options, baseline, judges, watch, control, own_control };
    let budget = Budget::of(suite);
    run.all(&plan.units, concurrency, budget).await
}

/// What all executions of a run share.
struct Run<'a> {
    suite: &'a Suite,
    options: &'a RunOptions,
    baseline: &'a Baseline,
    judges: Judges<'a>,
    watch: &'a (dyn Fn(Event<'_>) + Sync),
    /// The caller's switch.
    control: &'a Control,
    /// The run's own switch, so that the caller's tells only what the caller did.
    own_control: Control,
}

impl Run<'_> {
    fn stopped(&self) -> Option<&str> {
        self.control.reason().or_else(|| self.own_control.reason())
    }

    async fn all(
        &self,
        units: &[Unit],
        concurrency: usize,
        mut budget: Option<Budget>,
    ) -> Vec<CaseResult> {
        (self.watch)(Event::RunStarted { total: units.len() });
        let mut collector = Collector::new(units);
        let mut failures = Failures::of(self.options);
        let mut finished = stream::iter(units.iter().copied().enumerate())
            .map(|(index, unit)| async move { (index, self.unit(unit).await) })
            .buffer_unordered(concurrency);
        while let Some((index, result)) = finished.next().await {
            if let Some(reason) = budget.as_mut().and_then(|it| it.spend(&result)) {
                self.own_control.stop(reason);
            }
            (self.watch)(Event::ExecutionFinished(&result));
            if let Some(case) = collector.add(index, result, self.suite) {
                (self.watch)(Event::CaseFinished(case));
                if let Some(reason) = failures.count(case) {
                    self.own_control.stop(reason);
                }
            }
        }
        collector.finish()
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
        let tags = case.map(|it: &TestCase| it.tags.clone()).unwrap_or_default();
        let executions = std::mem::take(&mut group.executions);
        group.done = aggregate(executions, pass_rate_min, tags).ok();
        if let Some(done) = &mut group.done {
            done.digest = case.and_then(|it| it.digest.clone());
        }
        group.done.as_ref()
    }

    fn finish(self) -> Vec<CaseResult> {
        self.groups.into_iter().filter_map(|group| group.done).collect()
    }
}
