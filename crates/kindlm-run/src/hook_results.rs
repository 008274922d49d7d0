//! The results of a run in the form that promptfoo's hooks get.

use std::collections::HashSet;

use kindlm_types::{
    AnyReport, AssertionResult, CaseResult, ExecutionResult, Outcome, Usage, Verdict, named_scores,
    weighted_score,
};
use serde_json::{Map, Value, json};

/// The results, collected for `afterAll`.
pub(crate) struct HookResults<'a, 'b> {
    report: &'a AnyReport<'b>,
    results: Vec<Value>,
    /// The totals of each model, in the order of the report.
    totals: Vec<(String, Totals)>,
}

/// The totals of one model, which promptfoo calls the metrics of a prompt.
#[derive(Default)]
struct Totals {
    score: f64,
    passed: u64,
    failed: u64,
    errored: u64,
    checks_passed: u64,
    checks_failed: u64,
    latency_ms: f64,
    cost: f64,
    usage: Usage,
    named_scores: Map<String, Value>,
}

impl<'a, 'b> HookResults<'a, 'b> {
    pub(crate) fn new(report: &'a AnyReport<'b>) -> Self {
        let totals = report.models.iter().map(|it| (it.id.clone(), Totals::default())).collect();
        Self { report, results: Vec::new(), totals }
    }

    /// Adds the result of an execution, and returns it.
    pub(crate) fn add(&mut self, case: &CaseResult, ran: &ExecutionResult) -> Value {
        let column = self.totals.iter().position(|(model, _)| *model == case.model);
        let column = column.unwrap_or_else(|| {
            self.totals.push((case.model.clone(), Totals::default()));
            self.totals.len() - 1
        });
        let result = self.result(column, case, ran);
        if let Some((_, totals)) = self.totals.get_mut(column) {
            totals.add(ran);
        }
        self.results.push(result.clone());
        result
    }

    fn result(&self, column: usize, case: &CaseResult, ran: &ExecutionResult) -> Value {
        let execution = &ran.execution;
        let test = json!({
            "description": case.case,
            "vars": execution.vars,
            "metadata": execution.test_metadata,
            "threshold": execution.written.as_ref().and_then(|it| it.threshold),
        });
        let prompt = match execution.input.as_slice() {
            [only] => Value::from(only.content.as_str()),
            messages => {
                let message = |it: &kindlm_types::Message| json!({"role": it.role.as_str(), "content": it.content});
                let messages: Vec<Value> = messages.iter().map(message).collect();
                Value::from(Value::from(messages).to_string())
            }
        };
        let output = match &execution.output_json {
            Some(value) => value.clone(),
            None => Value::from(execution.output.as_str()),
        };
        let error = ran.error.as_ref().map(kindlm_types::ExecutionError::message);
        let failure = ran.results.iter().find(|it| !it.verdict.held());
        json!({
            "promptIdx": column,
            "testIdx": self.results.len(),
            "testCase": test,
            "description": case.case,
            "vars": execution.vars,
            "metadata": execution.metadata,
            "provider": self.provider(&case.model),
            "prompt": {"raw": prompt, "label": case.case},
            "response": {
                "output": output,
                "tokenUsage": token_usage(execution.usage),
                "cost": execution.spend.cost_usd,
                "cached": execution.spend.cached,
                "finishReason": execution.finish_reason.as_ref().map(kindlm_types::FinishReason::as_str),
                "metadata": execution.metadata,
                "raw": execution.provider_response,
            },
            "success": ran.outcome.held(),
            "failureReason": match ran.outcome {
                Outcome::Errored => 2,
                outcome => u8::from(!outcome.held()),
            },
            "error": error.or_else(|| failure.map(reason)),
            "score": weighted_score(&ran.results),
            "namedScores": scores_by_name(&ran.results),
            "gradingResult": grading_result(ran),
            "latencyMs": execution.latency_ms,
            "cost": execution.spend.cost_usd,
            "tokenUsage": token_usage(execution.usage),
        })
    }

    fn provider(&self, model: &str) -> Value {
        let id = self.report.models.iter().find(|it| it.id == model);
        let id = id.map_or_else(|| model.to_owned(), |it| format!("{}:{}", it.provider, it.name));
        json!({"id": id, "label": model})
    }

    /// Returns the context of `afterAll`.
    pub(crate) fn into_context(self) -> Value {
        let mut prompts = Vec::new();
        for (model, totals) in &self.totals {
            let provider = self.provider(model)["id"].take();
            prompts.push(json!({
                "raw": "",
                "label": model,
                "provider": provider,
                "metrics": totals.to_json(),
            }));
        }
        // Each test has a result for each model and repeat.
        let mut known = HashSet::new();
        let tests = self.results.iter().map(|it| &it["testCase"]);
        let tests: Vec<&Value> = tests.filter(|it| known.insert(it.to_string())).collect();
        let suite = &self.report.suite;
        let description = suite.description.as_ref().unwrap_or(&suite.name);
        let providers: Vec<Value> =
            self.totals.iter().map(|(model, _)| self.provider(model)).collect();
        json!({
            "evalId": self.report.run.id,
            "config": {"description": description},
            "suite": {"description": description, "providers": providers, "tests": tests},
            "prompts": prompts,
            "results": self.results,
        })
    }
}

impl Totals {
    fn add(&mut self, ran: &ExecutionResult) {
        self.score += weighted_score(&ran.results).unwrap_or_default();
        match ran.outcome {
            Outcome::Errored => self.errored += 1,
            outcome if outcome.held() => self.passed += 1,
            _ => self.failed += 1,
        }
        for check in checks(&ran.results) {
            if check.verdict.held() {
                self.checks_passed += 1;
            } else {
                self.checks_failed += 1;
            }
        }
        self.latency_ms += ran.execution.latency_ms.unwrap_or_default();
        self.cost += ran.execution.spend.cost_usd.unwrap_or_default();
        self.usage += ran.execution.usage;
        for it in named_scores(&ran.results) {
            let sum = self.named_scores.get(&it.name).and_then(Value::as_f64).unwrap_or_default();
            self.named_scores.insert(it.name, json!(sum + it.score.get()));
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "score": self.score,
            "testPassCount": self.passed,
            "testFailCount": self.failed,
            "testErrorCount": self.errored,
            "assertPassCount": self.checks_passed,
            "assertFailCount": self.checks_failed,
            "totalLatencyMs": self.latency_ms,
            "cost": self.cost,
            "tokenUsage": token_usage(self.usage),
            "namedScores": self.named_scores,
        })
    }
}

/// Returns the results of checks that were evaluated.
fn checks(results: &[AssertionResult]) -> impl Iterator<Item = &AssertionResult> {
    let is_skipped = |it: &AssertionResult| matches!(it.verdict, Verdict::Skipped { .. });
    results.iter().filter(move |it| it.is_check() && !is_skipped(it))
}

fn grading_result(ran: &ExecutionResult) -> Value {
    let component = |it: &AssertionResult| {
        json!({
            "pass": it.verdict.held(),
            "score": it.score.map(kindlm_types::Score::get),
            "reason": reason(it),
            "assertion": {"type": it.written_id(), "metric": it.metric, "weight": it.weight},
        })
    };
    let components: Vec<Value> = checks(&ran.results).map(component).collect();
    if components.is_empty() {
        return Value::Null;
    }
    let failure = ran.results.iter().find(|it| !it.verdict.held());
    json!({
        "pass": ran.outcome.held(),
        "score": weighted_score(&ran.results),
        "reason": failure.map_or_else(|| "All assertions passed".to_owned(), reason),
        "namedScores": scores_by_name(&ran.results),
        "tokensUsed": token_usage(ran.judge_usage),
        "componentResults": components,
    })
}

fn reason(result: &AssertionResult) -> String {
    let message: &str = match &result.verdict {
        Verdict::Pass => "Assertion passed",
        Verdict::Fail { message, .. } | Verdict::Errored { message, .. } => message,
        Verdict::Skipped { reason } => reason,
    };
    result.reasoning.clone().unwrap_or_else(|| message.to_owned())
}

fn scores_by_name(results: &[AssertionResult]) -> Map<String, Value> {
    named_scores(results).into_iter().map(|it| (it.name, json!(it.score.get()))).collect()
}

fn token_usage(usage: Usage) -> Value {
    json!({
        "total": usage.total_tokens,
        "prompt": usage.input_tokens,
        "completion": usage.output_tokens,
        "cached": usage.cached_input_tokens.unwrap_or_default(),
    })
}
