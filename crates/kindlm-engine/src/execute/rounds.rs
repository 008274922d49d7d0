//! Compares executions with each other, after all executions of a round are complete.
//!
//! A round is a group of executions to compare: one repeat of all tests in a comparison group, over all their models.
//! The executions of a round are carried out together, so that only a few rounds are in memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::join_all;
use kindlm_assertions::{Candidate, OutputComparison};
use kindlm_types::{ExecutionError, ExecutionResult, Outcome};

use super::Running;
use super::unit::{Finished, internal, subject, words_of_panic};
use crate::{Comparison, RecordError, Suite, Unit};

/// The reason for a missing verdict while other executions of the round are missing. The evidence is stored until the
/// round is complete.
const WAITING: &str = "not judged: it waits for the outputs that it is compared with";

/// The plan positions of the executions in one round. These executions are compared with each other.
pub(super) type Round = Vec<usize>;

/// Returns the rounds of a plan, in the order in which they begin.
pub(super) fn rounds(suite: &Suite, units: &[Unit]) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    let mut known: HashMap<(&Comparison, u32), usize> = HashMap::new();
    for (at, unit) in units.iter().enumerate() {
        let Some(group) = suite.cases.get(unit.case).and_then(|it| it.compared.as_ref()) else {
            continue;
        };
        let place = *known.entry((group, unit.repeat)).or_insert(rounds.len());
        match rounds.get_mut(place) {
            Some(round) => round.push(at),
            None => rounds.push(vec![at]),
        }
    }
    rounds
}

/// The state of an execution for storing and counting.
pub(super) enum Ended {
    /// A new result that must be stored.
    New(Box<ExecutionResult>),
    /// A result that is already stored and unchanged.
    Kept(Box<ExecutionResult>),
    /// A stored result that cannot be loaded.
    Lost(RecordError),
    /// No result: the remaining repeats of the case are unnecessary, so the case is complete.
    Unnecessary,
}

/// One execution of a round, judged without the comparison.
struct Member {
    finished: Finished,
    /// The final result that an earlier process stored; `None` without a stored result.
    settled: Option<ExecutionResult>,
}

impl Running<'_> {
    /// Carries out a round, and compares its executions.
    ///
    /// Only missing executions are carried out. Each execution is first judged without the comparison.
    pub(super) async fn round(&self, round: &[usize]) -> Vec<(usize, Ended)> {
        let members = join_all(round.iter().map(|at| self.member(*at))).await;
        let is_there = |it: &Result<Member, RecordError>| {
            let error = it.as_ref().map(|it| it.finished.result.error.as_ref());
            error.is_ok_and(|it| !matches!(it, Some(ExecutionError::NotRun { .. })))
        };
        let ended = if self.stopped().is_none() && members.iter().all(is_there) {
            let members = members.into_iter().flatten().map(|it| it.finished).collect();
            self.compare(round, members).await.into_iter().map(|it| Ended::New(it.into())).collect()
        } else {
            members.into_iter().map(uncompared).collect::<Vec<_>>()
        };
        round.iter().copied().zip(ended).collect()
    }

    /// Returns one execution of a round, judged without the comparison.
    ///
    /// A new execution that must still be compared is stored at once, because the other executions may take long.
    async fn member(&self, at: usize) -> Result<Member, RecordError> {
        let Some(unit) = self.run.plan.units.get(at).copied() else {
            let finished = super::errored_at(self.run.suite, at).into();
            return Ok(Member { finished, settled: None });
        };
        if let Some(earlier) = self.recall(at, unit)? {
            let settled = (!earlier.is_unjudged()).then(|| earlier.clone());
            let finished = self.unit(unit, Some(earlier)).await;
            return Ok(Member { finished, settled });
        }
        let finished = self.unit(unit, None).await;
        if finished.awaits_comparison && finished.result.error.is_none() {
            // Ignore errors: the final result is stored again, and an error then aborts the run.
            let _ = self.run.record.keep(&mut [(at, waiting((*finished.result).clone()))]);
        }
        Ok(Member { finished, settled: None })
    }

    async fn compare(&self, round: &[usize], members: Vec<Finished>) -> Vec<ExecutionResult> {
        let awaiting: Vec<bool> = members.iter().map(|it| it.awaits_comparison).collect();
        let results: Vec<ExecutionResult> = members.into_iter().map(|it| *it.result).collect();
        let work = async {
            let names = names(&results);
            let candidates: Vec<Candidate<'_>> = results
                .iter()
                .zip(&names)
                .map(|(it, name)| {
                    let execution = Cow::Borrowed(&it.execution);
                    Candidate::new(name.as_str(), execution, &it.results, it.error.is_none())
                })
                .collect();
            let candidates = &candidates;
            let all = results.iter().zip(awaiting).zip(round).enumerate();
            join_all(all.map(|(own, ((result, awaits), at))| async move {
                let unit = self.run.plan.units.get(*at).copied();
                let found = unit.and_then(|it| subject(self.run.suite, it));
                let Some((case, _)) = found.filter(|_| awaits && result.error.is_none()) else {
                    return result.clone();
                };
                let comparison = OutputComparison::new(candidates, own);
                self.judge_beside(case, result.clone(), comparison).await
            }))
            .await
        };
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(compared) => compared,
            Err(panic) => {
                let error = internal(&words_of_panic(&*panic));
                let errored = |it| ExecutionResult {
                    outcome: Outcome::Errored,
                    error: Some(error.clone()),
                    ..it
                };
                results.into_iter().map(errored).collect()
            }
        }
    }
}

/// Returns the state of an execution in an incomplete round.
///
/// A final result of an earlier process keeps its verdict. If judging again cost money, the new judge cost replaces the
/// stored judge cost.
fn uncompared(member: Result<Member, RecordError>) -> Ended {
    let Member { finished, settled } = match member {
        Ok(member) => member,
        Err(err) => return Ended::Lost(err),
    };
    let Finished { result, awaits_comparison } = finished;
    match settled {
        Some(settled) if settled.judge_cost_usd == result.judge_cost_usd => {
            Ended::Kept(settled.into())
        }
        // Judging again cost money, although the round is incomplete.
        Some(mut settled) => {
            settled.judge_cost_usd = result.judge_cost_usd;
            settled.judge_usage = result.judge_usage;
            settled.judge_spending.clone_from(&result.judge_spending);
            Ended::New(settled.into())
        }
        None if awaits_comparison => Ended::New(waiting(*result).into()),
        None => Ended::New(result),
    }
}

/// Returns the result for an execution in an incomplete round: evidence without a final verdict.
///
/// A result with an error stays unchanged.
fn waiting(mut result: ExecutionResult) -> ExecutionResult {
    if result.error.is_none() {
        let reason = WAITING.to_owned();
        let code = kindlm_types::FailureCode::INTERNAL_ERROR;
        // The added result shows that the execution was started.
        result.results.push(kindlm_types::AssertionResult::errored(
            "comparison",
            "Comparison",
            code,
            WAITING,
        ));
        result.outcome = Outcome::Errored;
        result.error = Some(ExecutionError::NotRun { reason });
    }
    result
}

/// Returns a distinct name for each execution of a round.
///
/// The names are the models if all executions are of one test, and the tests if all are on one model. Otherwise, each
/// name has the model and the test.
fn names(results: &[ExecutionResult]) -> Vec<String> {
    let of = |it: &ExecutionResult| (it.execution.case.clone(), it.execution.model.clone());
    let all: Vec<(String, String)> = results.iter().map(of).collect();
    let is_one_test = all.windows(2).all(|it| matches!(it, [a, b] if a.0 == b.0));
    let is_one_model = all.windows(2).all(|it| matches!(it, [a, b] if a.1 == b.1));
    all.into_iter()
        .map(|(case, model)| match (is_one_test, is_one_model) {
            (true, _) => model,
            (false, true) => case,
            (false, false) => format!("{case} [{model}]"),
        })
        .collect()
}
