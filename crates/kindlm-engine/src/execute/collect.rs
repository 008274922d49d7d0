//! Collects the repeats of each case, in the order in which they finish.

use std::collections::HashMap;

use kindlm_types::{CaseResult, ExecutionResult};

use crate::{Plan, Suite, TestCase, Unit, aggregate};

/// A receiver of the cases of a run, which finish in any order.
pub(crate) trait Sink: Send {
    /// Receives an execution that the run's record did not store, or could not load.
    ///
    /// `at` is its position in the plan.
    fn not_kept(&mut self, at: usize, result: &ExecutionResult);

    /// Receives a finished case, with its position among the cases of the plan.
    fn take(&mut self, position: usize, case: CaseResult);
}

/// The cases of a run in memory, by position.
pub(super) struct Held(pub(super) Vec<Option<CaseResult>>);

impl Held {
    pub(super) fn for_units(units: &[Unit]) -> Self {
        Self((0..Groups::from_units(units).len()).map(|_| None).collect())
    }
}

impl Sink for Held {
    fn not_kept(&mut self, _at: usize, _result: &ExecutionResult) {}

    fn take(&mut self, position: usize, case: CaseResult) {
        if let Some(slot) = self.0.get_mut(position) {
            *slot = Some(case);
        }
    }
}

/// The cases of a plan, by position. Consecutive units (planned executions) with the same test case and model form one
/// case.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// The index of the first unit of each case, and the end of the last case.
    bounds: Vec<usize>,
}

impl Groups {
    pub(crate) fn from_units(units: &[Unit]) -> Self {
        let mut bounds = vec![0];
        let mut end = 0;
        for same in units.chunk_by(|a, b| (a.case, a.model) == (b.case, b.model)) {
            end += same.len();
            bounds.push(end);
        }
        Self { bounds }
    }

    pub(crate) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Returns the position of the case that contains the unit `at`.
    pub(crate) fn position(&self, at: usize) -> usize {
        self.bounds.partition_point(|bound| *bound <= at).saturating_sub(1)
    }

    /// Returns the units of a case; an empty range after the last case.
    pub(crate) fn units(&self, position: usize) -> std::ops::Range<usize> {
        match (self.bounds.get(position), self.bounds.get(position + 1)) {
            (Some(&from), Some(&to)) => from..to,
            _ => 0..0,
        }
    }
}

/// The executions of cases that are not yet complete.
pub(super) struct Collector {
    pub(super) groups: Groups,
    open: HashMap<usize, Vec<ExecutionResult>>,
}

impl Collector {
    pub(super) fn new(units: &[Unit]) -> Self {
        Self { groups: Groups::from_units(units), open: HashMap::new() }
    }

    /// Adds a result. If the result completes its case, returns the case's position and executions; otherwise `None`.
    pub(super) fn add(
        &mut self,
        at: usize,
        result: ExecutionResult,
    ) -> Option<(usize, Vec<ExecutionResult>)> {
        let position = self.groups.position(at);
        let all = self.groups.units(position).len();
        if all == 1 {
            return Some((position, vec![result]));
        }
        let open = self.open.entry(position).or_default();
        open.push(result);
        if open.len() < all {
            return None;
        }
        self.open.remove(&position).map(|executions| (position, executions))
    }

    /// Completes the case of a unit with the results so far, because no further repeat is necessary.
    ///
    /// Returns the case's position and executions; `None` if the case is already complete.
    pub(super) fn complete(&mut self, at: usize) -> Option<(usize, Vec<ExecutionResult>)> {
        let position = self.groups.position(at);
        self.open.remove(&position).map(|executions| (position, executions))
    }
}

/// Aggregates the executions of the case that a unit belongs to. `planned` is the planned number of repeats of the
/// case.
///
/// Returns `None` if there are no executions.
pub(crate) fn case_of(
    (suite, plan): (&Suite, &Plan),
    (unit, planned): (Unit, usize),
    executions: Vec<ExecutionResult>,
) -> Option<CaseResult> {
    let case = suite.cases.get(unit.case);
    let pass_rate_min = case.map_or(1.0, |it| it.pass_rate_min);
    let tags = case.map(|it: &TestCase| it.tags.to_vec()).unwrap_or_default();
    let mut done = aggregate(executions, pass_rate_min, tags).ok()?;
    if let Some(ending) = case.and_then(|it| plan.ending(it, planned)) {
        ending.conclude(&mut done);
    }
    done.source = case.and_then(|it| it.source.clone());
    done.digest = case.and_then(|it| it.digest).map(|it| it.to_string());
    done.task_digest = case.and_then(|it| it.task_digest).map(|it| it.to_string());
    done.cluster = case.and_then(|it| it.cluster.as_deref()).map(str::to_owned);
    Some(done)
}
