//! Builds cases whose totals match their executions.

use kindlm_types::{
    AssertionResult, CaseResult, CheckCounts, Class, Cost, Execution, ExecutionError,
    ExecutionResult, FinishReason, JudgeSpending, Message, Outcome, Role, ScoreSummary, Spend,
    ToolCall, Usage, Verdict,
};
use serde_json::Value;

/// Returns an execution with an answer, 640 input tokens and 85 output tokens.
pub(super) fn answered(output: &str, latency_ms: f64, cost_usd: Option<f64>) -> Execution {
    Execution {
        input: vec![
            Message::new(Role::System, "You are the support agent of ACME."),
            Message::new(Role::User, "Where is my order 12345?"),
        ],
        output: output.to_owned(),
        requests: 1,
        usage: Usage {
            input_tokens: 640,
            output_tokens: 85,
            total_tokens: 725,
            ..Usage::default()
        },
        latency_ms: Some(latency_ms),
        spend: Spend { cost_usd, ..Spend::default() },
        finish_reason: Some(FinishReason::Stop),
        ..Execution::default()
    }
}

pub(super) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments, ..ToolCall::default() }
}

/// Returns the spending of a judge with this number of answers.
fn spending(answers: u64) -> JudgeSpending {
    JudgeSpending {
        judge: "gpt-4o".to_owned(),
        answers,
        tokens: 340 * answers,
        known_usd: 0.000_4,
        unknown: 0,
    }
}

/// Returns an execution with its results, its outcome, and the cost of its judges.
pub(super) fn judged(execution: Execution, results: Vec<AssertionResult>) -> ExecutionResult {
    let judges = results.iter().filter(|it| it.class == Class::Probabilistic).count() as u64;
    ExecutionResult {
        judge_cost_usd: Some(if judges > 0 { 0.000_4 } else { 0.0 }),
        judge_usage: Usage {
            input_tokens: 300 * judges,
            output_tokens: 40 * judges,
            total_tokens: 340 * judges,
            ..Usage::default()
        },
        judge_spending: if judges > 0 { vec![spending(judges)] } else { Vec::new() },
        ..ExecutionResult::new(execution, results)
    }
}

/// Returns an execution that ended with an error.
pub(super) fn stopped(outcome: Outcome, error: ExecutionError) -> ExecutionResult {
    ExecutionResult {
        outcome,
        error: Some(error),
        ..ExecutionResult::new(Execution::default(), Vec::new())
    }
}

/// Returns a case whose totals are computed from its executions.
#[expect(clippy::cast_precision_loss, reason = "a handful of repeats")]
pub(super) fn case(
    name: &str,
    model: &str,
    tags: &[&str],
    mut executions: Vec<ExecutionResult>,
) -> CaseResult {
    for (repeat, it) in (0..).zip(&mut executions) {
        name.clone_into(&mut it.execution.case);
        model.clone_into(&mut it.execution.model);
        it.execution.repeat = repeat;
    }
    let count = |outcome| executions.iter().filter(|it| it.outcome == outcome).count();
    let held = count(Outcome::Passed) + count(Outcome::Scored);
    let judged = held + count(Outcome::Failed);
    let executed = executions.iter().filter(|it| it.outcome != Outcome::Skipped);
    let mut cost = Cost::default();
    executed.clone().for_each(|it| cost.add(&it.execution));
    let latencies: Vec<f64> = executions
        .iter()
        .filter(|it| !it.execution.spend.cached)
        .filter_map(|it| it.execution.latency_ms)
        .collect();
    let outcome = executions.iter().map(|it| it.outcome).max().unwrap_or(Outcome::Passed);
    CaseResult {
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        pass_rate: if judged == 0 { 0.0 } else { held as f64 / judged as f64 },
        repeats: u32::try_from(executed.count()).unwrap_or(u32::MAX),
        errored_repeats: u32::try_from(count(Outcome::Errored)).unwrap_or(u32::MAX),
        scores: scores(&executions),
        failure_codes: failure_codes(&executions),
        checks: checks(&executions),
        latency_avg_ms: (!latencies.is_empty())
            .then(|| latencies.iter().sum::<f64>() / latencies.len() as f64),
        cost,
        total_tokens: executions.iter().map(|it| it.execution.usage.total_tokens).sum(),
        executions,
        ..CaseResult::new(name, model, outcome)
    }
}

fn results(executions: &[ExecutionResult]) -> impl Iterator<Item = &AssertionResult> {
    executions.iter().flat_map(|it| &it.results)
}

fn scores(executions: &[ExecutionResult]) -> Vec<ScoreSummary> {
    let mut summaries: Vec<ScoreSummary> = Vec::new();
    for result in results(executions) {
        let Some(score) = result.score.map(kindlm_types::Score::get) else { continue };
        let same =
            |it: &&mut ScoreSummary| it.assertion == result.assertion && it.label == result.label;
        if let Some(it) = summaries.iter_mut().find(same) {
            it.mean = (it.mean * f64::from(it.count) + score) / f64::from(it.count + 1);
            it.min = it.min.min(score);
            it.max = it.max.max(score);
            it.count += 1;
        } else {
            summaries.push(ScoreSummary {
                assertion: result.assertion.clone(),
                label: result.label.clone(),
                class: result.class,
                mean: score,
                min: score,
                max: score,
                count: 1,
            });
        }
    }
    summaries
}

fn failure_codes(executions: &[ExecutionResult]) -> Vec<kindlm_types::FailureCode> {
    let mut codes = Vec::new();
    for code in results(executions).filter_map(|it| it.verdict.code()) {
        if !codes.contains(code) {
            codes.push(code.clone());
        }
    }
    codes
}

fn checks(executions: &[ExecutionResult]) -> CheckCounts {
    let mut counts = CheckCounts::default();
    for result in results(executions) {
        let passed = match result.verdict {
            Verdict::Pass => 1,
            Verdict::Fail { .. } => 0,
            Verdict::Errored { .. } | Verdict::Skipped { .. } => continue,
        };
        match result.class {
            Class::Deterministic => {
                counts.deterministic_passed += passed;
                counts.deterministic_total += 1;
            }
            Class::Probabilistic => {
                counts.probabilistic_passed += passed;
                counts.probabilistic_total += 1;
            }
        }
    }
    counts
}
