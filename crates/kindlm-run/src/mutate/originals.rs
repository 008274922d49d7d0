//! The executions to mutate, which come from a past run, and the checks that judge their mutants.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kindlm_assertions::Check;
use kindlm_engine::{CaseBody, Plan, Suite, Unit};
use kindlm_mutate::{MutatedEvidence, Operator, Original, Tally, unusable};
use kindlm_store::SavedCases;
use kindlm_types::{CaseResult, CaseSource as _, Class, Execution};

use super::is_ignored;
use crate::Failure;

/// The executions to mutate.
pub(super) struct Originals {
    /// The executions, one for each case and model.
    executions: Vec<Execution>,
    /// The mutants of each execution.
    mutated: Vec<Mutated>,
    /// The index of each execution, by case and model.
    index: HashMap<(String, String), usize>,
    /// The cases, and parts of cases, that are left out: name, model (`None` for all models) and reason.
    left_out: Vec<(String, Option<String>, String)>,
}

/// The mutants of one execution.
struct Mutated {
    unit: Unit,
    seed: String,
    threshold: Option<f64>,
    operators: Vec<&'static Operator>,
}

/// The parts of a recorded case that mutation uses.
struct RecordedCase {
    name: String,
    model: String,
    digest: Option<String>,
    /// The first execution that passed; `None` if no execution passed.
    passed: Option<Execution>,
}

impl RecordedCase {
    fn new(result: CaseResult) -> Self {
        let CaseResult { case: name, model, executions, digest, .. } = result;
        let mut passed =
            executions.into_iter().filter(|it| it.outcome.held() && it.error.is_none());
        Self { name, model, digest, passed: passed.next().map(|it| it.execution) }
    }
}

impl Originals {
    /// Reads the passed executions of the selected cases, and finds their mutants.
    ///
    /// Also replaces the bodies of these cases in the suite, if checks are left out because they ask models.
    pub(super) fn load(
        cases: &SavedCases,
        suite: &mut Suite,
        selected: &Plan,
        operators: &[&'static Operator],
        judges: bool,
    ) -> Result<Self, Failure> {
        let units: HashMap<(&str, &str), Unit> = selected
            .units
            .iter()
            .filter_map(|it| {
                Some(((suite.cases.get(it.case)?.name.as_str(), it.target(suite)), *it))
            })
            .map(|(of, mut unit)| {
                unit.repeat = 0;
                (of, unit)
            })
            .collect();
        let mut found = Vec::new();
        let mut this = Self {
            executions: Vec::new(),
            mutated: Vec::new(),
            index: HashMap::new(),
            left_out: Vec::new(),
        };
        for position in 0..cases.len() {
            let case = cases.read_case(position).map_err(|err| Failure::input(err.to_string()))?;
            let of = (case.case.as_str(), case.model.as_str());
            if let Some(unit) = units.get(&of) {
                found.push((*unit, RecordedCase::new(case.into_owned())));
            } else if let Some(it) = suite.cases.iter().find(|it| it.name == of.0) {
                let alone = it.kind.alone().filter(|_| it.models.is_empty());
                if alone != Some(of.1) && it.models.iter().all(|model| model != of.1) {
                    let reason = "the suite does not run the case on this model";
                    this.leave_out(&case.case, Some(&case.model), reason);
                }
            } else {
                this.leave_out(&case.case, None, "the suite has no such test case");
            }
        }
        let read: HashSet<(&str, &str)> =
            found.iter().map(|(_, it)| (it.name.as_str(), it.model.as_str())).collect();
        for unit in &selected.units {
            let Some(case) = suite.cases.get(unit.case) else { continue };
            let model = unit.target(suite);
            if !read.contains(&(case.name.as_str(), model)) {
                this.leave_out(&case.name, Some(model), "the run has no execution of it");
            }
        }
        for (unit, case) in found {
            this.add_case(suite, unit, case, judges)?;
        }
        this.add_operators(suite, operators);
        Ok(this)
    }

    /// Adds the first passed execution of a case.
    fn add_case(
        &mut self,
        suite: &mut Suite,
        unit: Unit,
        recorded: RecordedCase,
        judges: bool,
    ) -> Result<(), Failure> {
        let RecordedCase { name, model, digest, passed } = recorded;
        let declared: Vec<_> = suite.trace.evidence.complete.iter().copied().collect();
        let offered = unit.model.and_then(|it| suite.models.get(it));
        let (offers, of_model) =
            offered.map(|it| (it.offers.to_vec(), it.declared.clone())).unwrap_or_default();
        let Some(case) = suite.cases.get_mut(unit.case) else { return Ok(()) };
        if case.compared.is_some() {
            self.leave_out(&name, None, "its checks compare several executions");
            return Ok(());
        }
        // The engine would pass the mutants of this case to the later cases as their history.
        if case.history.is_some() {
            self.leave_out(
                &name,
                None,
                "it has a `history`: it depends on the answers to other tests",
            );
            return Ok(());
        }
        let Some(mut execution) = passed else {
            self.leave_out(&name, Some(&model), "no execution passed");
            return Ok(());
        };
        let body = case.body.body().map_err(|err| Failure::input(format!("`{name}`: {err}")))?;
        let mut body = body.into_owned();
        let dropped = if judges { None } else { drop_judged(&mut body) };
        if let Some(reason) = &dropped {
            self.leave_out(&name, None, reason);
            case.body = Arc::new(body.clone());
        }
        if body.checks.is_empty() && body.conversation.iter().all(|it| it.checks.is_empty()) {
            // The body has lost its checks already if another model of the case was added before.
            let is_known =
                self.left_out.iter().any(|(it, model, _)| *it == name && model.is_none());
            if !is_known {
                self.leave_out(&name, None, "it has no check");
            }
            return Ok(());
        }
        execution.tools = body.tools.iter().map(|it| it.spec.clone()).chain(offers).collect();
        execution.completeness.declared.extend(declared.into_iter().chain(of_model));
        execution.completeness.declared.extend(body.declared);
        self.index.insert((name.clone(), model), self.executions.len());
        self.executions.push(execution);
        let seed = digest.unwrap_or(name);
        let threshold = case.threshold;
        self.mutated.push(Mutated { unit, seed, threshold, operators: Vec::new() });
        Ok(())
    }

    /// Finds the mutation operators that apply to each execution.
    fn add_operators(&mut self, suite: &Suite, operators: &[&'static Operator]) {
        let mut unusable_parts = Vec::new();
        for (execution, mutated) in self.executions.iter().zip(&mut self.mutated) {
            let (others, seed) = (&*self.executions, &*mutated.seed);
            let original = Original::new(execution, others, seed);
            let usable =
                operators.iter().copied().filter(|it| !is_ignored(suite, it, &execution.case));
            mutated.operators = usable.filter(|it| it.mutant(&original).is_some()).collect();
            let has_tools = !execution.tool_calls.is_empty() || !execution.tools.is_empty();
            let kinds = [MutatedEvidence::Text, MutatedEvidence::Tools, MutatedEvidence::Files];
            for kind in kinds.into_iter().filter(|it| has_tools || *it != MutatedEvidence::Tools) {
                if let Some(why) = unusable(kind, execution) {
                    let (case, model) = (execution.case.clone(), execution.model.clone());
                    let reason = format!("{} not changed: {why}", kind.as_str());
                    unusable_parts.push((case, Some(model), reason));
                }
            }
        }
        self.left_out.extend(unusable_parts);
    }

    fn leave_out(&mut self, case: &str, model: Option<&str>, reason: &str) {
        let left_out = (case.to_owned(), model.map(str::to_owned), reason.to_owned());
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }

    /// Returns the names of the cases that are left out, with the reasons.
    pub(super) fn left_out(&self) -> Vec<(&str, &str)> {
        self.left_out.iter().map(|(case, _, why)| (case.as_str(), why.as_str())).collect()
    }

    /// Returns the executions to judge: for each case, the original as repeat 0, and then its mutants.
    ///
    /// Cases without mutants are left out.
    pub(super) fn units(&self) -> Vec<Unit> {
        let mutated = self.mutated.iter().filter(|it| !it.operators.is_empty());
        let repeats = |it: &Mutated| 0..=u32::try_from(it.operators.len()).unwrap_or(u32::MAX);
        let unit = |it: &Mutated, repeat| {
            let mut unit = it.unit;
            unit.repeat = repeat;
            unit
        };
        mutated.flat_map(|it| repeats(it).map(move |repeat| unit(it, repeat))).collect()
    }

    /// Returns a tally of all cases with mutants, and the case and repeat of each unit.
    pub(super) fn tally(&self) -> (Tally, Vec<(usize, usize)>) {
        let mut tally = Tally::default();
        for (case, model, why) in &self.left_out {
            tally.leave_out(case, model.as_deref(), why.as_str());
        }
        let mut places = Vec::new();
        for (execution, mutated) in self.executions.iter().zip(&self.mutated) {
            let count = mutated.operators.len();
            if count > 0 {
                let operators = mutated.operators.iter().copied();
                let case = tally.add_case(execution, mutated.threshold, operators);
                places.extend((0..=count).map(|repeat| (case, repeat)));
            }
        }
        (tally, places)
    }

    /// Returns the original of a case on a model; `None` without such an original.
    pub(super) fn original(&self, case: &str, model: &str) -> Option<&Execution> {
        let at = self.index.get(&(case.to_owned(), model.to_owned()))?;
        self.executions.get(*at)
    }

    /// Returns the original (repeat 0) or a mutant of a case on a model; `None` if the execution does not exist.
    pub(super) fn execution(&self, case: &str, model: &str, repeat: u32) -> Option<Execution> {
        let at = *self.index.get(&(case.to_owned(), model.to_owned()))?;
        let (execution, mutated) = (self.executions.get(at)?, self.mutated.get(at)?);
        let Some(operator) = (repeat as usize).checked_sub(1) else {
            return Some(execution.clone());
        };
        let (others, seed) = (&*self.executions, &*mutated.seed);
        mutated.operators.get(operator)?.mutant(&Original::new(execution, others, seed))
    }
}

/// Removes the checks that ask models or services. Returns a sentence about the removed checks; `None` if no check was
/// removed.
fn drop_judged(body: &mut CaseBody) -> Option<String> {
    let (mut dropped, mut all) = (0, 0);
    let mut keep = |checks: &Arc<[Check]>| -> Arc<[Check]> {
        let kept: Vec<Check> = checks.iter().filter(|it| !asks(it)).cloned().collect();
        dropped += checks.len() - kept.len();
        all += checks.len();
        kept.into()
    };
    body.checks = keep(&body.checks);
    for turn in &mut body.conversation {
        turn.checks = keep(&turn.checks);
    }
    (dropped > 0)
        .then(|| format!("{dropped} of {all} checks ask models, and `--judges` was not given"))
}

/// Returns true if a check, or a check in its set, asks a model or a service.
fn asks(check: &Check) -> bool {
    let asks = |it: &Check| {
        it.meta.class == Class::Probabilistic
            || it.traits.instructions.is_some()
            // A webhook sends the output to a service.
            || it.meta.id == "webhook"
    };
    check.leaves().into_iter().any(asks)
}
