//! The results of a run whose executions are in its record instead of in memory.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use kindlm_types::{
    CanaryWatch, CaseError, CaseMark, CaseResult, CaseSource, ExecutionError, ExecutionResult,
    GateResult, Outcome, Tally,
};

use crate::execute::{Groups, Sink, begun, case_of, errored};
use crate::gates::Measurements;
use crate::{Plan, ReadRecord, RecordError, Suite};

/// The results of a run whose executions were not held in memory: outcomes and totals.
#[derive(Debug)]
pub struct Streamed {
    groups: Groups,
    /// The outcomes of the cases, by position.
    outcomes: Vec<Outcome>,
    /// For each case that ended early, by position: the repeats that were carried out.
    ///
    /// A damaged line of the record can leave a gap, so these are not always the first repeats.
    ended_early: HashMap<usize, Box<[u32]>>,
    /// The executions that are not in the record, by position in the plan.
    missing: HashMap<usize, Missing>,
    /// The distinct reasons for executions that were not run.
    reasons: HashSet<Arc<str>>,
    tally: Tally,
    measurements: Measurements,
    /// The first error in storing or loading an execution; `None` without an error.
    ///
    /// Such an error aborts the run.
    pub failure: Option<RecordError>,
}

/// An execution that is not in the record.
#[derive(Debug)]
enum Missing {
    /// The execution was not run, for this reason.
    NotRun(Arc<str>),
    /// Any other execution, such as one that could not be stored or loaded.
    Lost(Box<ExecutionResult>),
}

impl Streamed {
    pub(crate) fn new(suite: &Suite, plan: &Plan, canaries: &[CanaryWatch]) -> Self {
        let groups = Groups::from_units(&plan.units);
        let mut measurements = Measurements::after(&suite.gates, canaries);
        let mut tally = Tally::default();
        if plan.cases_are_independent(suite) {
            measurements.cases_are_independent();
            tally = Tally::of_independent_cases();
        }
        Self {
            outcomes: vec![Outcome::Skipped; groups.len()],
            groups,
            ended_early: HashMap::new(),
            missing: HashMap::new(),
            reasons: HashSet::new(),
            tally,
            measurements,
            failure: None,
        }
    }

    /// Returns the results of the gates over all cases.
    pub fn gates(&self) -> Vec<GateResult> {
        self.measurements.finish()
    }

    fn reason(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.reasons.get(text) {
            return Arc::clone(known);
        }
        let reason: Arc<str> = text.into();
        self.reasons.insert(Arc::clone(&reason));
        reason
    }
}

impl Sink for Streamed {
    fn not_kept(&mut self, at: usize, result: &ExecutionResult) {
        let missing = match &result.error {
            // Keep the whole execution if an earlier attempt had costs, because reports include them.
            Some(ExecutionError::NotRun { reason })
                if result.execution.spend.earlier_usd <= 0.0 =>
            {
                Missing::NotRun(self.reason(reason))
            }
            _ => Missing::Lost(Box::new(result.clone())),
        };
        self.missing.insert(at, missing);
    }

    fn take(&mut self, position: usize, case: CaseResult) {
        if case.executions.len() < self.groups.units(position).len() {
            let repeats = case.executions.iter().map(|it| it.execution.repeat);
            self.ended_early.insert(position, repeats.collect());
        }
        self.tally.observe(position, &case);
        self.measurements.observe(&case);
        if let Some(outcome) = self.outcomes.get_mut(position) {
            *outcome = case.outcome;
        }
    }
}

/// The cases of a run, which are rebuilt from the run's record on request.
pub struct Recorded<'a> {
    suite: &'a Suite,
    plan: &'a Plan,
    record: &'a dyn ReadRecord,
    streamed: Streamed,
}

impl<'a> Recorded<'a> {
    pub(crate) fn new(
        suite: &'a Suite,
        plan: &'a Plan,
        record: &'a dyn ReadRecord,
        streamed: Streamed,
    ) -> Self {
        Self { suite, plan, record, streamed }
    }

    /// Returns the positions of the executions of a case in the plan, without unnecessary executions.
    fn units(&self, position: usize) -> Vec<usize> {
        let units = self.streamed.groups.units(position);
        let Some(repeats) = self.streamed.ended_early.get(&position) else {
            return units.collect();
        };
        let is_carried_out =
            |at: &usize| self.plan.units.get(*at).is_some_and(|it| repeats.contains(&it.repeat));
        units.filter(is_carried_out).collect()
    }

    fn execution(&self, at: usize) -> Result<ExecutionResult, CaseError> {
        let unit = self.plan.units.get(at).copied();
        let unit = unit.ok_or_else(|| CaseError::new(format!("the plan has no execution {at}")))?;
        let mut result = match self.streamed.missing.get(&at) {
            None => {
                self.record.read_execution(at).map_err(|err| CaseError::new(err.to_string()))?
            }
            Some(Missing::Lost(result)) => (**result).clone(),
            Some(Missing::NotRun(reason)) => errored(
                begun(self.suite, unit),
                ExecutionError::NotRun { reason: reason.to_string() },
            ),
        };
        self.record.clean(&mut result);
        Ok(result)
    }
}

impl CaseSource for Recorded<'_> {
    fn len(&self) -> usize {
        self.streamed.groups.len()
    }

    fn mark(&self, position: usize) -> Option<CaseMark<'_>> {
        let unit = self.plan.units.get(self.streamed.groups.units(position).next()?)?;
        let model = unit.target(self.suite);
        let part = self.plan.part.as_ref();
        let plan_index = part.and_then(|it| it.cases.get(position).copied());
        Some(CaseMark::new(model, *self.streamed.outcomes.get(position)?, plan_index))
    }

    fn read_case(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError> {
        let planned = self.streamed.groups.units(position).len();
        let units = self.units(position);
        let first = units.first().and_then(|at| self.plan.units.get(*at)).copied();
        let executions: Vec<ExecutionResult> =
            units.into_iter().map(|at| self.execution(at)).collect::<Result<_, _>>()?;
        let of = (self.suite, self.plan);
        let case = first.and_then(|unit| case_of(of, (unit, planned), executions));
        let mut case =
            case.ok_or_else(|| CaseError::new(format!("there is no case result {position}")))?;
        let part = self.plan.part.as_ref();
        case.plan_index = part.and_then(|it| it.cases.get(position).copied());
        Ok(Cow::Owned(case))
    }

    fn written(&self, position: usize) -> Result<Option<String>, CaseError> {
        let units = self.units(position);
        let (Some(first), Some(last)) = (units.first(), units.last()) else { return Ok(None) };
        let range = *first..*last + 1;
        // The stored JSON of a case lacks `planIndex`, which the report of a shard needs.
        if self.plan.part.is_some()
            || range.len() != units.len()
            || units.iter().any(|at| self.streamed.missing.contains_key(at))
        {
            return Ok(None);
        }
        self.record.written(position, range).map_err(|err| CaseError::new(err.to_string()))
    }

    fn tally(&self) -> Cow<'_, Tally> {
        Cow::Borrowed(&self.streamed.tally)
    }
}

impl fmt::Debug for Recorded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded").field("streamed", &self.streamed).finish_non_exhaustive()
    }
}
