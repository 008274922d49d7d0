//! Carries out one execution and judges it.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use kindlm_assertions::codes::SCORE_BELOW_THRESHOLD;
use kindlm_assertions::{Check, Contest};
use kindlm_types::{
    AGGREGATE_SCORE, AssertionResult, BoxFuture, CommandSpec, Event, Execution, ExecutionError,
    ExecutionResult, FailureCode, Outcome, ProviderError, ProviderErrorKind, Score, Usage, Verdict,
    Written, ecma, weighted_score,
};
use serde_json::{Map, Value};

use super::Running;
use super::agent::AgentRun;
use super::conversation::{Conversation, GoesOn};
use super::turns;
use crate::aggregate::TOLERANCE;
use crate::calls::Unanswered;
use crate::judge::{Halt, Judged, Seen, judge_seen as judge, not_run, up_to_the_last_required};
use crate::{
    COMMAND, CaseBody, CaseKind, ConversationTurn, Model, RunProgress, Subject, Suite, TestCase,
    Unit,
};

impl Running<'_> {
    /// Carries out one unit of the plan, or only judges it where that was done `earlier`. Whatever goes wrong is part of
    /// the result.
    pub(super) async fn unit(
        &self,
        unit: Unit,
        earlier: Option<ExecutionResult>,
    ) -> ExecutionResult {
        let Some((case, model)) = subject(self.run.suite, unit) else {
            let message = "the plan was made for another suite";
            return broken(Execution::default(), internal(message));
        };
        let body = match case.made_body() {
            Ok(body) => body,
            Err(err) => {
                let execution = begun_of(case, Map::new(), model, unit);
                return broken(execution, internal(&err.to_string()));
            }
        };
        let execution = begun_of(case, body.vars.clone(), model, unit);
        let execution = of_case(execution, case, &body, model);
        if let Some(reason) = self.stopped() {
            let not_run = ExecutionError::NotRun { reason: reason.to_owned() };
            return earlier.unwrap_or_else(|| broken(execution, not_run));
        }
        (self.run.watch)(RunProgress::ExecutionStarted {
            case: &execution.case,
            model: &execution.model,
            repeat: unit.repeat,
        });
        // A bug in a check must not take down a run that has been paid for.
        let timeout = self.timeout(case, model);
        let work = async {
            match earlier {
                Some(earlier) => self.judge_again(case, &body, model, earlier).await,
                None => self.carry_out((case, &body), timeout, model, execution).await,
            }
        };
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(result) => result,
            Err(panic) => {
                let execution =
                    Execution { cost_usd: None, ..begun_of(case, body.vars.clone(), model, unit) };
                broken(execution, internal(&words_of_panic(&*panic)))
            }
        }
    }

    async fn carry_out(
        &self,
        (case, body): (&TestCase, &CaseBody),
        timeout: Duration,
        model: Option<&Model>,
        execution: Execution,
    ) -> ExecutionResult {
        if let Some(observed) = self.run.observed {
            let (execution, error) = observed.observe(execution);
            return match error {
                Some(error) => broken(execution, error),
                None => self.judge(case, body, model, execution).await,
            };
        }
        if let Some(output) = &body.recorded {
            let execution = recorded(body, output, execution);
            return self.judge(case, body, model, execution).await;
        }
        let open = match self.open_workspace(body, timeout, &execution).await {
            Ok(open) => open,
            Err(error) => return broken(execution, error),
        };
        let early = Early::default();
        let (mut execution, error) = match (&body.subject, model) {
            (Subject::Prompt { messages }, Some(model)) => {
                let calls = &self.judges.calls;
                let required = Required { running: self, model, early: &early };
                if let Some(agent) = &model.agent {
                    let opening = messages.as_slice();
                    let run = AgentRun { body, opening, model, agent, calls, timeout, execution };
                    run.hold(&required).await
                } else {
                    let conversation =
                        Conversation::new(body, messages, model, calls, timeout, execution);
                    conversation.hold(&required).await
                }
            }
            (Subject::Command { command_line }, _) => {
                let spec = match &open {
                    Some(open) => open.command(command_line, timeout),
                    None => CommandSpec::new(command_line, timeout),
                };
                self.command(&spec, execution).await
            }
            (Subject::Prompt { .. }, None) => {
                let message = "a prompt was planned without a model".to_owned();
                return broken(execution, ExecutionError::Internal { message });
            }
        };
        let result = match error {
            Some(Unanswered::Provider(error)) => {
                let error = match self.stopped() {
                    // It only had to wait, and nobody waits any more.
                    Some(reason) if error.attempts == 0 && error.retryable => {
                        ExecutionError::NotRun { reason: reason.to_owned() }
                    }
                    _ => ExecutionError::Provider(error),
                };
                broken(execution, error)
            }
            Some(Unanswered::Budget(reason)) => {
                broken(execution, ExecutionError::NotRun { reason })
            }
            None => {
                if let Some(open) = open
                    && let Err(error) = self.close_workspace(open, body, &mut execution).await
                {
                    return broken(execution, error);
                }
                self.judge(case, body, model, execution).await
            }
        };
        early.added_to(result)
    }

    /// Whether all that is required of a turn holds, so that the next one is sent.
    async fn goes_on(
        &self,
        so_far: &Execution,
        turn: &ConversationTurn,
        model: &Model,
        early: &Early,
    ) -> bool {
        let reached = so_far.turns.iter().position(|it| it.label == turn.label);
        let evidence = reached.and_then(|it| turns::evidence(so_far, it, model.price));
        let Some(evidence) = evidence else { return true };
        let baseline =
            self.run.baseline.and_then(|it| it.turn(&so_far.case, &so_far.model, &turn.label));
        let checks = up_to_the_last_required(&turn.checks);
        let evidence = Seen { execution: &evidence, baseline, contest: None };
        let judged = judge(checks, evidence, &self.judges).await;
        early.add(&judged);
        judged.halt.is_none()
    }

    fn timeout(&self, case: &TestCase, model: Option<&Model>) -> Duration {
        let agent = model.and_then(|it| it.agent.as_ref()).and_then(|it| it.timeout_ms);
        let said = self.run.options.timeout.or(case.timeout);
        said.or(agent.map(Duration::from_millis)).unwrap_or(self.run.suite.defaults.timeout)
    }

    async fn command(
        &self,
        spec: &CommandSpec,
        mut execution: Execution,
    ) -> (Execution, Option<Unanswered>) {
        // What a program spends is not known to us.
        execution.cost_usd = None;
        match self.judges.calls.run(spec).await {
            Ok(output) => {
                execution.output = output.text;
                execution.output_json = output.output_json;
                execution.tool_calls = output.tool_calls;
                let (usage, cost) = Event::usage(&output.events);
                execution.usage = usage.unwrap_or_default();
                execution.cost_usd = cost;
                execution.recorded_events = output.events;
                execution.coverage = output.coverage;
                execution.stderr = output.stderr;
                execution.exit_code = output.exit_code;
                execution.latency_ms = Some(output.latency_ms);
                execution.requests = 1;
                let error = crash(&execution).or_else(|| unreadable(&output.unreadable));
                (execution, error.map(Unanswered::Provider))
            }
            Err(error) => (execution, Some(error.into())),
        }
    }

    /// Judges what was executed before; what judging it cost then is not forgotten.
    async fn judge_again(
        &self,
        case: &TestCase,
        body: &CaseBody,
        model: Option<&Model>,
        earlier: ExecutionResult,
    ) -> ExecutionResult {
        let ExecutionResult { execution, judge_cost_usd, judge_usage, .. } = earlier;
        let execution = of_case(execution, case, body, model);
        let mut judged = self.judge(case, body, model, execution).await;
        judged.judge_cost_usd = judged.judge_cost_usd.zip(judge_cost_usd).map(|(a, b)| a + b);
        judged.judge_usage += judge_usage;
        judged
    }

    /// Judges first the labelled turns, then the whole. Where outputs are compared, this is not the last word: see
    /// [`judge_beside`](Self::judge_beside).
    async fn judge(
        &self,
        case: &TestCase,
        body: &CaseBody,
        model: Option<&Model>,
        execution: Execution,
    ) -> ExecutionResult {
        let mut sum = Judged {
            results: execution.truncated.then(|| truncated(&execution)).into_iter().collect(),
            outcome: Outcome::Passed,
            cost_usd: Some(0.0),
            usage: Usage::default(),
            halt: None,
        };
        if !body.conversation.is_empty() {
            Box::pin(self.judge_turns(body, model, &execution, &mut sum)).await;
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
            let evidence = Seen { execution: &execution, baseline, contest: None };
            add(&mut sum, judge(checks, evidence, &self.judges).await, None);
        }
        if case.compared.is_none() {
            return self.concluded(case, execution, sum);
        }
        // What is required does not hold: the comparison is not made, and this is the last word.
        if let Some(halt) = &sum.halt {
            sum.results.extend(comparing.iter().map(|it| not_run(it, halt)));
            return self.concluded(case, execution, sum);
        }
        let Judged { results, cost_usd, usage, .. } = sum;
        let outcome = Outcome::of(&results);
        let (judge_cost_usd, judge_usage) = (cost_usd, usage);
        let error = self.unjudged(&results);
        ExecutionResult { execution, results, outcome, error, judge_cost_usd, judge_usage }
    }

    /// Judges what was judged by itself beside those that it is compared with.
    pub(super) async fn judge_beside(
        &self,
        case: &TestCase,
        result: ExecutionResult,
        contest: Contest<'_>,
    ) -> ExecutionResult {
        let body = match case.made_body() {
            Ok(body) => body,
            Err(err) => return broken(result.execution, internal(&err.to_string())),
        };
        let checks: Vec<Check> = body.checks.iter().filter(|it| it.compares()).cloned().collect();
        // Where something that is required did not hold, it is clear already that nothing is compared.
        let is_of = |it: &AssertionResult| checks.iter().any(|check| check.meta.id == it.assertion);
        if result.results.iter().any(is_of) {
            return result;
        }
        let ExecutionResult { execution, results, judge_cost_usd, judge_usage, .. } = result;
        let mut sum = Judged {
            results,
            outcome: Outcome::Passed,
            cost_usd: judge_cost_usd,
            usage: judge_usage,
            halt: None,
        };
        let evidence = Seen { execution: &execution, baseline: None, contest: Some(contest) };
        add(&mut sum, judge(&checks, evidence, &self.judges).await, None);
        self.concluded(case, execution, sum)
    }

    /// What all results of an execution add up to.
    fn concluded(&self, case: &TestCase, execution: Execution, mut sum: Judged) -> ExecutionResult {
        let outcome = match case.threshold {
            Some(threshold) => {
                let outcome = Outcome::against(threshold, &sum.results);
                // What is required must hold, however well the rest has done.
                let required = sum.halt.as_ref().filter(|it| it.failed);
                let outcome = required.map_or(outcome, |_| outcome.max(Outcome::Failed));
                sum.results.extend(aggregate_score(threshold, &sum.results));
                outcome
            }
            None => Outcome::of(&sum.results),
        };
        let outcome = match outcome {
            Outcome::Scored if self.run.options.strict => Outcome::Failed,
            outcome => outcome,
        };
        ExecutionResult {
            execution,
            error: self.unjudged(&sum.results),
            results: sum.results,
            outcome,
            judge_cost_usd: sum.cost_usd,
            judge_usage: sum.usage,
        }
    }

    /// What was to be asked, and was not for want of money, has not been run.
    fn unjudged(&self, results: &[AssertionResult]) -> Option<ExecutionError> {
        let reason = self.judges.calls.exhausted()?;
        let lacks = |it: &AssertionResult| matches!(&it.verdict, Verdict::Errored { message, .. } if message.contains(reason));
        let reason = reason.to_owned();
        results.iter().any(lacks).then_some(ExecutionError::NotRun { reason })
    }

    async fn judge_turns(
        &self,
        body: &CaseBody,
        model: Option<&Model>,
        execution: &Execution,
        sum: &mut Judged,
    ) {
        let price = model.and_then(|it| it.price);
        for turn in &body.conversation {
            let label = turn.label.as_str();
            if let Some(halt) = &sum.halt {
                let results = turn.checks.iter().map(|it| turns::not_sent(it, label, halt));
                sum.results.extend(results.collect::<Vec<_>>());
                continue;
            }
            // By label, as a turn without a message is passed over when the model is done before it.
            let reached = execution.turns.iter().position(|it| it.label == label);
            let Some(evidence) = reached.and_then(|it| turns::evidence(execution, it, price))
            else {
                let reached = execution.turns.len();
                let results =
                    turn.checks.iter().map(|check| turns::not_reached(check, label, reached));
                sum.results.extend(results);
                continue;
            };
            let baseline =
                self.run.baseline.and_then(|it| it.turn(&execution.case, &execution.model, label));
            let evidence = Seen { execution: &evidence, baseline, contest: None };
            let judged = judge(&turn.checks, evidence, &self.judges).await;
            add(sum, judged, Some(label));
        }
    }
}

/// An execution whose output is there already: nobody was asked, so nothing was spent.
fn recorded(body: &CaseBody, output: &Value, execution: Execution) -> Execution {
    let input = match &body.subject {
        Subject::Prompt { messages } => messages.clone(),
        Subject::Command { .. } => Vec::new(),
    };
    let (output, output_json) = match output {
        Value::String(text) => (text.clone(), None),
        value => (ecma::stringify(value), Some(value.clone())),
    };
    Execution { input, output, output_json, ..execution }
}

/// An execution of the plan of which nothing has happened yet.
pub(crate) fn begun(suite: &Suite, unit: Unit) -> Execution {
    let Some((case, model)) = subject(suite, unit) else { return Execution::default() };
    let vars = case.body.body().map(|it| it.into_owned().vars).unwrap_or_default();
    begun_of(case, vars, model, unit)
}

/// The case, and the model that it runs on unless it is a command.
pub(super) fn subject(suite: &Suite, unit: Unit) -> Option<(&TestCase, Option<&Model>)> {
    let case = suite.cases.get(unit.case)?;
    let model = match unit.model {
        Some(index) => Some(suite.models.get(index)?),
        None => None,
    };
    (model.is_some() == (case.kind == CaseKind::Prompt)).then_some((case, model))
}

/// The name under which a model's executions are reported.
pub(super) fn model_id(model: Option<&Model>) -> &str {
    model.map_or(COMMAND, |it| it.id.as_str())
}

/// An execution with what the test case says of it: the journal does not repeat that.
fn of_case(
    execution: Execution,
    case: &TestCase,
    body: &CaseBody,
    model: Option<&Model>,
) -> Execution {
    let written = Written {
        expect: body.expect.clone(),
        threshold: case.threshold,
        params: model.map(|it| it.params.clone()).unwrap_or_default(),
    };
    Execution {
        test_metadata: body.metadata.clone(),
        tools: body.tools.iter().map(|it| it.spec.clone()).collect(),
        written: Some(Arc::new(written)),
        ..execution
    }
}

fn begun_of(
    case: &TestCase,
    vars: Map<String, Value>,
    model: Option<&Model>,
    unit: Unit,
) -> Execution {
    Execution {
        case: case.name.clone(),
        model: model_id(model).to_owned(),
        repeat: unit.repeat,
        vars,
        cost_usd: Some(0.0),
        ..Execution::default()
    }
}

/// A conversation goes on as long as what is required of its turns holds.
struct Required<'a> {
    running: &'a Running<'a>,
    model: &'a Model,
    early: &'a Early,
}

impl GoesOn for Required<'_> {
    fn after<'a>(
        &'a self,
        so_far: &'a Execution,
        turn: &'a ConversationTurn,
    ) -> BoxFuture<'a, bool> {
        Box::pin(self.running.goes_on(so_far, turn, self.model, self.early))
    }
}

/// What judging has cost before an execution was over.
#[derive(Default)]
struct Early(Mutex<(f64, bool, Usage)>);

impl Early {
    fn add(&self, judged: &Judged) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, unknown, usage) = &mut *sum;
        *known += judged.cost_usd.unwrap_or_default();
        *unknown |= judged.cost_usd.is_none();
        *usage += judged.usage;
    }

    fn added_to(self, mut result: ExecutionResult) -> ExecutionResult {
        let (known, unknown, usage) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        result.judge_cost_usd = result.judge_cost_usd.filter(|_| !unknown).map(|it| it + known);
        result.judge_usage += usage;
        result
    }
}

fn add(sum: &mut Judged, judged: Judged, turn: Option<&str>) {
    sum.halt = sum.halt.take().or_else(|| {
        let halt = judged.halt?;
        let label = turn.map_or_else(|| halt.label.clone(), |it| format!("{it}: {}", halt.label));
        Some(Halt { label, ..halt })
    });
    sum.cost_usd = sum.cost_usd.zip(judged.cost_usd).map(|(sum, cost)| sum + cost);
    sum.usage += judged.usage;
    sum.results.extend(judged.results.into_iter().map(|mut result| {
        if let Some(turn) = turn {
            result.turn = Some(turn.to_owned());
        }
        result
    }));
}

/// What the threshold of the test case decides, in promptfoo's words; without a score it decides nothing.
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
    // It is made of the others' scores, so it does not count with them.
    Some(AssertionResult { weight: 0.0, score, ..result.with_reasoning(reason) })
}

/// The original's words for a conversation that `maxTurns` ended.
fn truncated(execution: &Execution) -> AssertionResult {
    let message = format!("MAX_TURNS_EXCEEDED: conversation exceeded {} turns", execution.requests);
    AssertionResult::fail(
        "conversation",
        "Conversation within maxTurns limit",
        FailureCode::INTERNAL_ERROR,
        message,
    )
}

/// An execution that could not be carried out.
pub(crate) fn broken(execution: Execution, error: ExecutionError) -> ExecutionResult {
    ExecutionResult {
        execution,
        results: Vec::new(),
        outcome: Outcome::Errored,
        error: Some(error),
        judge_cost_usd: Some(0.0),
        judge_usage: Usage::default(),
    }
}

pub(super) fn internal(message: &str) -> ExecutionError {
    ExecutionError::Internal { message: message.to_owned() }
}

pub(super) fn words_of_panic(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    match text {
        Some(text) => format!("a check panicked, which is a bug: {text}"),
        None => "a check panicked, which is a bug".to_owned(),
    }
}

/// What speaks against a command whose evidence cannot be read: every negative check would hold.
fn unreadable(lines: &[String]) -> Option<ProviderError> {
    let first = lines.first()?;
    let more = match lines.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let message = format!("the command told what cannot be read: {first}{more}");
    Some(ProviderError::new(ProviderErrorKind::Command, COMMAND, message))
}

/// What speaks against a command that came back: it was never started, or a signal ended it.
///
/// Any other exit code is the program's own word and no failure by itself, as in the original. But a program
/// that was not there, or crashed, has done nothing wrong either, and every negative check would hold.
fn crash(execution: &Execution) -> Option<ProviderError> {
    let what = match execution.exit_code {
        Some(127) => "the command was not found (exit code 127)",
        Some(126) => "the command cannot be executed (exit code 126)",
        None => "a signal ended the command before it was done",
        Some(_) => return None,
    };
    let said = execution.stderr.trim();
    let said: String = said.chars().take(500).collect();
    let message = if said.is_empty() {
        what.to_owned()
    } else {
        format!("{what}; it wrote to stderr: {said}")
    };
    Some(ProviderError::new(ProviderErrorKind::Command, COMMAND, message))
}
