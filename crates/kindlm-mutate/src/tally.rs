//! Counts the mutants that the checks of each case notice.

use kindlm_types::{
    AssertionResult, Execution, ExecutionError, ExecutionResult, Outcome, Verdict as Judged,
};
use kindlm_wire::mutation::{
    CaseScore, CheckScore, Family, LeftOut, MutantCounts, MutantDiff, MutationReport,
    OperatorScore, ScoreGate,
};

use crate::evidence::shown;
use crate::operator::Operator;
use crate::registry::OPERATORS;

/// The result of judging a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A check failed the execution, or the mean score is below the threshold.
    Killed,
    /// The checks did not fail the execution, and all checks could be decided.
    Survived,
    /// The checks did not fail the execution, but at least one check could not be decided.
    Errored,
}

impl Verdict {
    /// Returns the verdict of a judged mutant; `None` if the mutant was not judged.
    ///
    /// `threshold` is the minimum mean score of the test case. Without a threshold, a failed check kills the mutant,
    /// even if another check could not be decided.
    pub fn from_result(result: &ExecutionResult, threshold: Option<f64>) -> Option<Self> {
        let is_failed = threshold.is_none() && result.results.iter().any(fails);
        Some(match result.outcome {
            Outcome::Failed => Self::Killed,
            _ if is_failed => Self::Killed,
            _ if matches!(result.error, Some(ExecutionError::NotRun { .. })) => return None,
            Outcome::Errored => Self::Errored,
            Outcome::Passed | Outcome::Scored | Outcome::Skipped => Self::Survived,
        })
    }
}

/// The counts of all cases. The results may be added in any order.
#[derive(Debug, Default)]
pub struct Tally {
    cases: Vec<CaseTally>,
    left_out: Vec<LeftOut>,
}

/// The counts of one case on one model.
#[derive(Debug)]
struct CaseTally {
    case: String,
    model: String,
    threshold: Option<f64>,
    checks: Vec<CheckScore>,
    /// `Ok` if the original passes the checks, `Err` with the reason if not, `None` if the original was not judged.
    original: Option<Result<(), String>>,
    mutants: Vec<Mutant>,
}

#[derive(Debug)]
struct Mutant {
    operator: &'static Operator,
    verdict: Option<Verdict>,
    /// The indices of the checks that failed.
    failed: Vec<usize>,
    /// The indices of the decisive checks: without such a check, the mutant would not be killed.
    alone: Vec<usize>,
    /// The indices of the checks that could not be decided.
    errored: Vec<usize>,
    /// The evidence before and after the change, for harmful mutants that survived and harmless mutants that were
    /// killed.
    diff: Option<(String, String)>,
}

impl Mutant {
    /// Creates a mutant without a result.
    fn new(operator: &'static Operator) -> Self {
        Self {
            operator,
            verdict: None,
            failed: Vec::new(),
            alone: Vec::new(),
            errored: Vec::new(),
            diff: None,
        }
    }
}

impl Tally {
    /// Adds a case with the operators of its mutants, and returns the index of the case.
    ///
    /// `threshold` is the minimum mean score of the case, from 0 to 1. It is `None` if every check must pass.
    pub fn add_case(
        &mut self,
        original: &Execution,
        threshold: Option<f64>,
        operators: impl IntoIterator<Item = &'static Operator>,
    ) -> usize {
        self.cases.push(CaseTally {
            case: original.case.clone(),
            model: original.model.clone(),
            threshold,
            checks: Vec::new(),
            original: None,
            mutants: operators.into_iter().map(Mutant::new).collect(),
        });
        self.cases.len() - 1
    }

    /// Adds a reason why a case, or a part of the case, was left out. Equal reasons are added once.
    ///
    /// `model` is `None` if the reason applies to every model.
    pub fn leave_out(&mut self, case: &str, model: Option<&str>, reason: impl Into<String>) {
        let left_out = LeftOut::new(case, model.map(str::to_owned), reason);
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }

    /// Adds the judged original of the case at an index. An unknown index is ignored.
    pub fn add_original(&mut self, case: usize, result: &ExecutionResult) {
        let Some(case) = self.cases.get_mut(case) else { return };
        for it in result.results.iter().filter(|it| decides(it)) {
            case.check(it);
        }
        case.original = match (result.outcome, &result.error) {
            (_, Some(ExecutionError::NotRun { .. })) => None,
            (Outcome::Passed | Outcome::Scored, _) => Some(Ok(())),
            (Outcome::Skipped, _) => Some(Err("no check of the case applies".to_owned())),
            _ => Some(Err(why_not(result))),
        };
    }

    /// Adds a judged mutant of the case at an index. Unknown indices are ignored.
    ///
    /// The operator at the index `operator` made the mutant from `original`.
    pub fn add_mutant(
        &mut self,
        case: usize,
        operator: usize,
        original: &Execution,
        result: &ExecutionResult,
    ) {
        let Some(case) = self.cases.get_mut(case) else { return };
        let threshold = case.threshold;
        let verdict = Verdict::from_result(result, threshold);
        let of_check = |case: &mut CaseTally, is: fn(&AssertionResult) -> bool| {
            let mut found: Vec<usize> = Vec::new();
            for it in result.results.iter().filter(|it| decides(it) && is(it)) {
                let index = case.check(it);
                if !found.contains(&index) {
                    found.push(index);
                }
            }
            found
        };
        let failed = of_check(case, fails);
        let errored = of_check(case, |it| matches!(it.verdict, Judged::Errored { .. }));
        let alone =
            failed.iter().copied().filter(|it| case.is_alone(*it, &failed, result)).collect();
        let Some(mutant) = case.mutants.get_mut(operator) else { return };
        let kind = mutant.operator.evidence;
        let is_shown = match mutant.operator.family {
            Family::Harmful => verdict == Some(Verdict::Survived),
            Family::Harmless => verdict == Some(Verdict::Killed),
        };
        mutant.diff = is_shown.then(|| (shown(kind, original), shown(kind, &result.execution)));
        (mutant.verdict, mutant.failed, mutant.alone, mutant.errored) =
            (verdict, failed, alone, errored);
    }

    /// Computes the scores. `min` is the minimum score of the gate, from 0 to 1; `None` for no gate.
    ///
    /// Mutants without a result count as not judged. If an original has no result, all its mutants count as not judged.
    /// A case whose original does not pass the checks is left out.
    pub fn report(mut self, run: &str, suite: &str, min: Option<f64>) -> MutationReport {
        let (mut kept, failing): (Vec<CaseTally>, Vec<CaseTally>) =
            self.cases.drain(..).partition(|it| !matches!(it.original, Some(Err(_))));
        for case in failing {
            if let Some(Err(why)) = &case.original {
                let reason = format!("the recorded execution does not pass the checks: {why}");
                self.leave_out(&case.case, Some(&case.model), reason);
            }
        }
        for case in kept.iter_mut().filter(|it| it.original.is_none()) {
            // The checks may fail on the original, too, so a kill would prove nothing.
            for mutant in &mut case.mutants {
                *mutant = Mutant::new(mutant.operator);
            }
            let reason = "the recorded execution was not judged, so its mutants do not count";
            self.leave_out(&case.case, Some(&case.model), reason);
        }
        let mut report = MutationReport::new(run, suite);
        report.operators = operator_scores(&kept);
        report.cases.reserve(kept.len());
        report.left_out = self.left_out;
        for case in kept {
            case.add_to(&mut report);
        }
        for it in &report.operators {
            let counts = match it.family {
                Family::Harmful => &mut report.harmful,
                Family::Harmless => &mut report.harmless,
            };
            counts.killed += it.counts.killed;
            counts.survived += it.counts.survived;
            counts.errored += it.counts.errored;
            counts.not_judged += it.counts.not_judged;
        }
        report.score = report.harmful.score();
        report.gate = min.map(|min| {
            let held = report.harmful.not_judged == 0
                && report.harmful.errored == 0
                && report.score.is_some_and(|it| it + 1e-9 >= min);
            ScoreGate::new(min, held)
        });
        report
    }
}

impl CaseTally {
    /// Returns the index of the check of a result; `None` for a new check.
    fn position(&self, result: &AssertionResult) -> Option<usize> {
        let assertion = result.written_id();
        self.checks.iter().position(|it| {
            it.assertion == assertion && it.label == result.label && it.turn == result.turn
        })
    }

    /// Returns the index of the check of a result. A new check is added.
    fn check(&mut self, result: &AssertionResult) -> usize {
        self.position(result).unwrap_or_else(|| {
            self.checks.push(CheckScore {
                case: self.case.clone(),
                model: self.model.clone(),
                turn: result.turn.clone(),
                assertion: result.written_id().into_owned(),
                label: result.label.clone(),
                kills: 0,
                kills_alone: 0,
                errored: 0,
                brittle: 0,
            });
            self.checks.len() - 1
        })
    }

    /// Returns true if a mutant would not be killed without the check at this index.
    fn is_alone(&self, check: usize, failed: &[usize], result: &ExecutionResult) -> bool {
        let Some(threshold) = self.threshold else { return failed.len() == 1 };
        let others =
            result.results.iter().filter(|it| it.is_check() && self.position(it) != Some(check));
        let rest: Vec<AssertionResult> = others.cloned().collect();
        Outcome::against(threshold, &rest) != Outcome::Failed
    }

    fn add_to(mut self, report: &mut MutationReport) {
        let (mut harmful, mut harmless) = (MutantCounts::default(), MutantCounts::default());
        for mutant in &mut self.mutants {
            let is_harmful = mutant.operator.family == Family::Harmful;
            count(if is_harmful { &mut harmful } else { &mut harmless }, mutant.verdict);
            let is_killed = mutant.verdict == Some(Verdict::Killed);
            for (at, check) in self.checks.iter_mut().enumerate() {
                let is_in = |list: &[usize]| u64::from(list.contains(&at));
                if is_harmful {
                    check.errored += is_in(&mutant.errored);
                    if is_killed {
                        check.kills += is_in(&mutant.failed);
                        check.kills_alone += is_in(&mutant.alone);
                    }
                } else if is_killed {
                    check.brittle += is_in(&mutant.failed);
                }
            }
            if let Some((before, after)) = mutant.diff.take() {
                let labels = mutant.failed.iter().filter_map(|it| self.checks.get(*it));
                let diff = MutantDiff {
                    case: self.case.clone(),
                    model: self.model.clone(),
                    operator: mutant.operator.id.to_owned(),
                    before,
                    after,
                    failed: labels.map(|it| it.label.clone()).collect(),
                };
                if is_harmful { &mut report.survivors } else { &mut report.brittle }.push(diff);
            }
        }
        report.checks.append(&mut self.checks);
        report.cases.push(CaseScore {
            case: self.case,
            model: self.model,
            score: harmful.score(),
            harmful,
            harmless,
        });
    }
}

fn operator_scores(cases: &[CaseTally]) -> Vec<OperatorScore> {
    let score = |operator: &'static Operator| {
        let mut counts = MutantCounts::default();
        let mutants = cases.iter().flat_map(|it| &it.mutants);
        for mutant in mutants.filter(|it| it.operator.id == operator.id) {
            count(&mut counts, mutant.verdict);
        }
        (counts.all() > 0).then(|| OperatorScore {
            operator: operator.id.to_owned(),
            family: operator.family,
            evidence: operator.evidence,
            summary: operator.summary.to_owned(),
            advice: operator.advice.to_owned(),
            counts,
        })
    };
    OPERATORS.into_iter().flatten().filter_map(score).collect()
}

fn count(counts: &mut MutantCounts, verdict: Option<Verdict>) {
    *match verdict {
        Some(Verdict::Killed) => &mut counts.killed,
        Some(Verdict::Survived) => &mut counts.survived,
        Some(Verdict::Errored) => &mut counts.errored,
        None => &mut counts.not_judged,
    } += 1;
}

/// Returns true if the check of a result can fail an execution, and was not skipped.
fn decides(result: &AssertionResult) -> bool {
    result.is_check()
        && result.severity == kindlm_types::Severity::Gate
        && !matches!(result.verdict, Judged::Skipped { .. })
}

/// Returns true if a result fails the execution.
fn fails(result: &AssertionResult) -> bool {
    decides(result) && matches!(result.verdict, Judged::Fail { .. })
}

/// Returns the first reason why an execution does not pass.
fn why_not(result: &ExecutionResult) -> String {
    if let Some(error) = &result.error {
        return error.message();
    }
    let found = result
        .results
        .iter()
        .find(|it| !it.verdict.held() && it.severity == kindlm_types::Severity::Gate);
    found.map_or_else(
        || format!("it is {}", result.outcome),
        |it| format!("{}: {}", it.label, it.verdict.message().unwrap_or_default()),
    )
}
