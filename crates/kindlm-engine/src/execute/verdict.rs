//! Judges executions, individually and in comparison with others.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use kindlm_assertions::codes::SCORE_BELOW_THRESHOLD;
use kindlm_assertions::{Check, OutputComparison};
use kindlm_types::{
    AGGREGATE_SCORE, AssertionResult, CheckedText, Execution, ExecutionError, ExecutionResult,
    FailureCode, Outcome, Score, UsageSum, Verdict, ecma, weighted_score,
};
use serde_json::Map;

use super::Running;
use super::turns;
use super::unit::{Finished, errored, internal, of_case, words_of_panic};
use crate::aggregate::TOLERANCE;
use crate::check_places::{PlaceFinder, note_place};
use crate::judge::{CheckEvidence, Halt, Judgement, judge_evidence as judge, not_run};
use crate::{CaseBody, Model, TestCase};

impl Running<'_> {
    /// Judges an execution of an earlier process again. The cost of judging is added to the earlier cost of judging.
    pub(super) async fn judge_again(
        &self,
        case: &TestCase,
        body: &CaseBody,
        model: Option<&Model>,
        earlier: ExecutionResult,
    ) -> Finished {
        let ExecutionResult { execution, judge_cost_usd, judge_usage, judge_spending, .. } =
            earlier;
        let execution = Box::new(of_case(execution, case, body, model));
        let mut judged = self.judge(case, body, model, execution).await;
        let result = &mut judged.result;
        result.judge_cost_usd = result.judge_cost_usd.zip(judge_cost_usd).map(|(a, b)| a + b);
        result.judge_usage += judge_usage;
        for it in judge_spending {
            it.add_to(&mut result.judge_spending);
        }
        judged
    }

    /// Judges the labelled turns, then the whole execution.
    ///
    /// If outputs must be compared, the result is not final; see [`judge_beside`](Self::judge_beside).
    pub(super) async fn judge(
        &self,
        case: &TestCase,
        body: &CaseBody,
        model: Option<&Model>,
        execution: Box<Execution>,
    ) -> Finished {
        let mut sum = Judgement {
            results: execution
                .completeness
                .truncated
                .then(|| truncated(&execution))
                .into_iter()
                .collect(),
            result_counts: Vec::new(),
            outcome: Outcome::Passed,
            cost_usd: Some(0.0),
            known_cost_usd: 0.0,
            usage: UsageSum::default(),
            spending: Vec::new(),
            halt: None,
        };
        let work = self.judge_checks((case, body), model, &execution, &mut sum);
        let comparing = match AssertUnwindSafe(work).catch_unwind().await {
            Ok(comparing) => comparing,
            // A bug in a check must not lose the evidence, which may have cost money.
            Err(panic) => {
                let error = internal(&words_of_panic(&*panic));
                let errored = errored(*execution, error);
                // The check that panicked may have asked a judge.
                let judge_usage = sum.usage.total();
                return ExecutionResult { judge_cost_usd: None, judge_usage, ..errored }.into();
            }
        };
        if case.compared.is_none() {
            return self.concluded(case, execution, sum).into();
        }
        // A required check did not hold: the comparison is skipped, and the result is final.
        if let Some(halt) = &sum.halt {
            sum.results.extend(comparing.iter().map(|it| not_run(it, halt)));
            return self.concluded(case, execution, sum).into();
        }
        let Judgement { results, cost_usd, usage, spending: judge_spending, .. } = sum;
        let outcome = Outcome::from_results(&results);
        let (judge_cost_usd, judge_usage) = (cost_usd, usage.total());
        let error = self.unjudged(&results);
        let execution = *execution;
        let result = ExecutionResult {
            execution,
            results,
            outcome,
            error,
            judge_cost_usd,
            judge_usage,
            judge_spending,
        };
        Finished { result: Box::new(result), awaits_comparison: true }
    }

    /// Evaluates the checks of the labelled turns, then the checks of the whole execution.
    ///
    /// Returns the checks that compare outputs, which are not evaluated here.
    async fn judge_checks(
        &self,
        (case, body): (&TestCase, &CaseBody),
        model: Option<&Model>,
        execution: &Execution,
        sum: &mut Judgement,
    ) -> Vec<Check> {
        if !body.conversation.is_empty() {
            Box::pin(self.judge_turns(case, body, model, execution, sum)).await;
        }
        let (comparing, alone): (Vec<Check>, Vec<Check>) = match case.compared {
            Some(_) => body.checks.iter().cloned().partition(Check::compares),
            None => (Vec::new(), Vec::new()),
        };
        let checks = if case.compared.is_some() { &alone } else { &*body.checks };
        if let Some(halt) = &sum.halt {
            sum.results.extend(checks.iter().map(|it| not_run(it, halt)));
        } else {
            let baseline =
                self.run.baseline.and_then(|it| it.output(&execution.case, &execution.model));
            let places = places_of(case, None);
            let evidence = CheckEvidence { places, ..CheckEvidence::new(execution, baseline) };
            add(sum, judge(checks, evidence, &self.judges).await, None);
        }
        comparing
    }

    /// Completes the judgement of an execution: compares its output with the other outputs of its round.
    pub(super) async fn judge_beside(
        &self,
        case: &TestCase,
        result: ExecutionResult,
        comparison: OutputComparison<'_>,
    ) -> ExecutionResult {
        // A case of a history is never compared, so no variables are replaced here.
        let body = match case.made_body(&Map::new()) {
            Ok(body) => body,
            Err(err) => return errored(result.execution, internal(&err.to_string())),
        };
        let checks: Vec<Check> = body.checks.iter().filter(|it| it.compares()).cloned().collect();
        let ExecutionResult {
            execution, results, judge_cost_usd, judge_usage, judge_spending, ..
        } = result;
        let mut sum = Judgement {
            results,
            result_counts: Vec::new(),
            outcome: Outcome::Passed,
            cost_usd: judge_cost_usd,
            known_cost_usd: judge_cost_usd.unwrap_or(0.0),
            usage: judge_usage.into(),
            spending: judge_spending,
            halt: None,
        };
        let evidence = CheckEvidence {
            comparison: Some(comparison),
            places: places_of(case, None),
            ..CheckEvidence::new(&execution, None)
        };
        add(&mut sum, judge(&checks, evidence, &self.judges).await, None);
        *self.concluded(case, Box::new(execution), sum)
    }

    /// Returns the final result, with the outcome and the aggregate score.
    fn concluded(
        &self,
        case: &TestCase,
        execution: Box<Execution>,
        mut sum: Judgement,
    ) -> Box<ExecutionResult> {
        let fails_required = sum.halt.as_ref().is_some_and(|it| it.failed);
        let outcome = Outcome::concluded(case.threshold, &sum.results, fails_required);
        if let Some(threshold) = case.threshold {
            sum.results.extend(aggregate_score(threshold, &sum.results));
        }
        if let Some(place) = &case.source {
            note_place(place, &mut sum.results);
        }
        let outcome = match outcome {
            Outcome::Scored if self.run.options.strict => Outcome::Failed,
            outcome => outcome,
        };
        Box::new(ExecutionResult {
            execution: *execution,
            error: self.unjudged(&sum.results),
            results: sum.results,
            outcome,
            judge_cost_usd: sum.cost_usd,
            judge_usage: sum.usage.total(),
            judge_spending: sum.spending,
        })
    }

    /// Returns a not-run error if the budget did not allow some judgements; else `None`.
    fn unjudged(&self, results: &[AssertionResult]) -> Option<ExecutionError> {
        let reason = self.judges.calls.exhausted()?;
        let lacks = |it: &AssertionResult| {
            let code = it.cause.as_ref().or_else(|| it.verdict.code());
            matches!(it.verdict, Verdict::Errored { .. })
                && code == Some(&FailureCode::BUDGET_EXCEEDED)
        };
        let reason = reason.to_owned();
        results.iter().any(lacks).then_some(ExecutionError::NotRun { reason })
    }

    async fn judge_turns(
        &self,
        case: &TestCase,
        body: &CaseBody,
        model: Option<&Model>,
        execution: &Execution,
        sum: &mut Judgement,
    ) {
        for (index, turn) in body.conversation.iter().enumerate() {
            let label = turn.label.as_str();
            if let Some(halt) = &sum.halt {
                let results = turn.checks.iter().map(|it| turns::not_sent(it, label, halt));
                sum.results.extend(results.collect::<Vec<_>>());
                continue;
            }
            // Search by label, because a turn without a message is skipped if the model finishes early.
            let reached = execution.turns.iter().position(|it| it.label == label);
            let Some(evidence) = reached.and_then(|it| turns::evidence(execution, it, model))
            else {
                let reached = execution.turns.len();
                for check in &*turn.checks {
                    let mut results = [turns::not_reached(check, label, reached)];
                    places_of(case, Some(index)).note(check, &mut results);
                    sum.results.extend(results);
                }
                continue;
            };
            let baseline =
                self.run.baseline.and_then(|it| it.turn(&execution.case, &execution.model, label));
            let places = places_of(case, Some(index));
            let seen = CheckEvidence { places, ..CheckEvidence::new(&evidence, baseline) };
            let mut judged = judge(&turn.checks, seen, &self.judges).await;
            if evidence.output != execution.output {
                let name = format!("turn `{label}`");
                let text = CheckedText::Other { name };
                judged.results.iter_mut().for_each(|it| it.set_checked_text(&text));
            }
            add(sum, judged, Some(label));
        }
    }
}

/// Returns the places of the checks of a test, or of its turn with this index.
fn places_of(case: &TestCase, turn: Option<usize>) -> PlaceFinder<'_> {
    PlaceFinder { test: case.source.as_ref(), checks: case.check_places.as_deref(), turn }
}

fn add(sum: &mut Judgement, judged: Judgement, turn: Option<&str>) {
    sum.halt = sum.halt.take().or_else(|| {
        let halt = judged.halt?;
        let label = turn.map_or_else(|| halt.label.clone(), |it| format!("{it}: {}", halt.label));
        Some(Halt { label, ..halt })
    });
    sum.cost_usd = sum.cost_usd.zip(judged.cost_usd).map(|(sum, cost)| sum + cost);
    sum.known_cost_usd += judged.known_cost_usd;
    sum.usage.extend(judged.usage);
    judged.spending.into_iter().for_each(|it| it.add_to(&mut sum.spending));
    let mut results = judged.results;
    if let Some(turn) = turn {
        for result in &mut results {
            result.turn = Some(turn.to_owned());
        }
    }
    if sum.results.is_empty() {
        sum.results = results;
    } else {
        sum.results.append(&mut results);
    }
}

/// Returns the result of the test case's threshold, in the wording of promptfoo.
///
/// Returns `None` without a score.
fn aggregate_score(threshold: f64, results: &[AssertionResult]) -> Option<AssertionResult> {
    let score = weighted_score(results)?;
    let held = score >= threshold - TOLERANCE;
    let reason = format!(
        "Aggregate score {} {} {} threshold",
        ecma::to_fixed(score, 2),
        if held { '≥' } else { '<' },
        ecma::number(threshold)
    );
    let (id, label) = (AGGREGATE_SCORE, "Aggregate score");
    let result = if held {
        AssertionResult::pass(id, label)
    } else {
        AssertionResult::fail(id, label, SCORE_BELOW_THRESHOLD, reason.as_str())
    };
    let score = Score::new(score).ok();
    // The aggregate consists of the other scores, so its weight is 0.
    Some(AssertionResult { weight: 0.0, score, ..result.with_reasoning(reason) })
}

/// Returns the failed result of a conversation that `maxTurns` ended.
///
/// The label and the message are those of the original KindLM, which reported the code `INTERNAL_ERROR`.
fn truncated(execution: &Execution) -> AssertionResult {
    let message = format!("MAX_TURNS_EXCEEDED: conversation exceeded {} turns", execution.requests);
    AssertionResult::fail(
        "conversation",
        "Conversation within maxTurns limit",
        FailureCode::MAX_TURNS_EXCEEDED,
        message,
    )
}
