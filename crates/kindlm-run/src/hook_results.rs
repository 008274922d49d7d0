//! The results of a run in the form that promptfoo's hooks get.

use std::collections::{HashMap, HashSet};

use kindlm_engine::Suite;
use kindlm_types::{
    AnyReport, AssertionResult, CaseResult, ExecutionResult, Outcome, Usage, Verdict, named_scores,
    weighted_score,
};
use serde_json::{Map, Value, json};

/// The results, collected for `afterAll`.
pub(crate) struct HookResults<'a, 'b> {
    report: &'a AnyReport<'b>,
    /// The thresholds of test cases by name.
    thresholds: HashMap<&'a str, f64>,
    /// The number of each test case and repeat, which is the same for all models.
    numbers: HashMap<(String, u32), usize>,
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
    pub(crate) fn new(suite: &'a Suite, report: &'a AnyReport<'b>) -> Self {
        let totals = report.models.iter().map(|it| (it.id.clone(), Totals::default())).collect();
        let thresholds =
            suite.cases.iter().filter_map(|it| Some((it.name.as_str(), it.threshold?)));
        Self {
            report,
            thresholds: thresholds.collect(),
            numbers: HashMap::new(),
            results: Vec::new(),
            totals,
        }
    }

    /// Adds an execution to the totals, and returns the context of `afterEach`.
    ///
    /// Returns `None` if the execution is skipped, because promptfoo has no such results.
    pub(crate) fn add(&mut self, case: &CaseResult, ran: &ExecutionResult) -> Option<Value> {
        let column = self.totals.iter().position(|(model, _)| *model == case.model);
        let column = column.unwrap_or_else(|| {
            self.totals.push((case.model.clone(), Totals::default()));
            self.totals.len() - 1
        });
        if let Some((_, totals)) = self.totals.get_mut(column) {
            totals.add(ran);
        }
        if ran.outcome == Outcome::Skipped {
            return None;
        }
        let next = self.numbers.len();
        let key = (case.case.clone(), ran.execution.repeat);
        let number = *self.numbers.entry(key).or_insert(next);
        let result = self.result((column, number), case, ran);
        let mut context = json!({"test": result["testCase"]});
        context["result"] = result;
        Some(context)
    }

    /// Stores a result for `afterAll`.
    pub(crate) fn keep(&mut self, result: Value) {
        self.results.push(result);
    }

    fn result(
        &self,
        (column, number): (usize, usize),
        case: &CaseResult,
        ran: &ExecutionResult,
    ) -> Value {
        let execution = &ran.execution;
        let test = json!({
            "description": case.case,
            "vars": execution.vars,
            "metadata": execution.test_metadata,
            "threshold": self.thresholds.get(case.case.as_str()),
        });
        let mut metadata = execution.test_metadata.clone();
        metadata.extend(execution.metadata.clone());
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
        json!({
            "promptIdx": column,
            "testIdx": number,
            "testCase": test,
            "description": case.case,
            "vars": execution.vars,
            "metadata": metadata,
            "provider": provider(self.report, &case.model),
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
            "error": error.or_else(|| failure(ran).map(reason)),
            "score": score(ran),
            "namedScores": scores_by_name(&ran.results),
            "gradingResult": grading_result(ran),
            "latencyMs": execution.latency_ms,
            "cost": execution.spend.cost_usd,
            "tokenUsage": token_usage(execution.usage),
        })
    }

    /// Returns the context of `afterAll`.
    pub(crate) fn into_context(self) -> Value {
        let Self { report, results, totals, .. } = self;
        let mut prompts = Vec::new();
        for (model, totals) in &totals {
            let id = provider(report, model)["id"].take();
            prompts.push(json!({
                "raw": "",
                "label": model,
                "provider": id,
                "metrics": totals.to_json(),
            }));
        }
        // Each test has a result for each model and repeat.
        let mut known = HashSet::new();
        let tests = results.iter().map(|it| &it["testCase"]);
        let tests: Vec<&Value> = tests.filter(|it| known.insert(it.to_string())).collect();
        let suite = &report.suite;
        let description = suite.description.as_ref().unwrap_or(&suite.name);
        let providers: Vec<Value> =
            totals.iter().map(|(model, _)| provider(report, model)).collect();
        let mut context = json!({
            "evalId": report.run.id,
            "config": {"description": description},
            "suite": {"description": description, "providers": providers, "tests": tests},
            "prompts": prompts,
        });
        context["results"] = Value::Array(results);
        context
    }
}

fn provider(report: &AnyReport<'_>, model: &str) -> Value {
    let id = report.models.iter().find(|it| it.id == model);
    let id = id.map_or_else(|| model.to_owned(), |it| format!("{}:{}", it.provider, it.name));
    json!({"id": id, "label": model})
}

impl Totals {
    fn add(&mut self, ran: &ExecutionResult) {
        self.score += score(ran);
        match ran.outcome {
            Outcome::Passed | Outcome::Scored => self.passed += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Errored => self.errored += 1,
            Outcome::Skipped => {}
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
            "score": it.score.map_or_else(|| full_or_zero(it.verdict.held()), kindlm_types::Score::get),
            "reason": reason(it),
            "assertion": {"type": it.written_id(), "metric": it.metric, "weight": it.weight},
        })
    };
    let components: Vec<Value> = checks(&ran.results).map(component).collect();
    if components.is_empty() {
        return Value::Null;
    }
    json!({
        "pass": ran.outcome.held(),
        "score": score(ran),
        "reason": failure(ran).map_or_else(|| "All assertions passed".to_owned(), reason),
        "namedScores": scores_by_name(&ran.results),
        "tokensUsed": token_usage(ran.judge_usage),
        "componentResults": components,
    })
}

/// Returns the score of an execution. promptfoo needs a score for each result. If no check has a score, the score is 1
/// for an execution that held, and 0 for any other execution.
fn score(ran: &ExecutionResult) -> f64 {
    weighted_score(&ran.results).unwrap_or_else(|| full_or_zero(ran.outcome.held()))
}

fn full_or_zero(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

/// Returns the first check that failed or is errored; `None` if the execution passed.
fn failure(ran: &ExecutionResult) -> Option<&AssertionResult> {
    if ran.outcome.held() { None } else { ran.results.iter().find(|it| !it.verdict.held()) }
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

#[cfg(test)]
mod tests {
    use kindlm_testing::green_report;

    use super::*;

    #[test]
    fn skipped_executions_are_no_results() {
        let mut report = green_report();
        let mut case = report.cases[0].clone();
        case.executions.truncate(1);
        let mut skipped = case.clone();
        skipped.executions[0].outcome = Outcome::Skipped;
        report.cases = vec![case, skipped];
        let suite = Suite::default();
        let mut results = HookResults::new(&suite, &report);
        let [case, skipped] = report.cases.as_slice() else { panic!("two cases") };
        assert!(results.add(case, &case.executions[0]).is_some());
        assert_eq!(results.add(skipped, &skipped.executions[0]), None);
        let metrics = results.into_context()["prompts"][0]["metrics"].take();
        assert_eq!(metrics["testPassCount"], 1);
        assert_eq!(metrics["testFailCount"], 0, "{metrics}");
    }
}
