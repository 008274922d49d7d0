//! Carries out one execution and judges it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use kindlm_types::{
    Channel, CommandSpec, Completeness, Execution, ExecutionError, ExecutionResult, OpenWorkspace,
    Outcome, Spend, Transcript, UsageSum, Written, ecma,
};
use serde_json::{Map, Value};

use super::Running;
use super::agent::AgentRun;
use super::conversation::Conversation;
use super::required::{Early, Required};
use crate::calls::Unanswered;
use crate::{CaseBody, CaseKind, Model, RunProgress, Subject, Suite, TestCase, Unit};

/// A finished execution.
pub(super) struct Finished {
    pub(super) result: Box<ExecutionResult>,
    /// True if the checks that compare outputs must still be evaluated.
    pub(super) awaits_comparison: bool,
}

impl From<Box<ExecutionResult>> for Finished {
    /// Wraps a final result.
    fn from(result: Box<ExecutionResult>) -> Self {
        Self { result, awaits_comparison: false }
    }
}

impl From<ExecutionResult> for Finished {
    /// Wraps a final result.
    fn from(result: ExecutionResult) -> Self {
        Box::new(result).into()
    }
}

impl Running<'_> {
    /// Carries out one execution of the plan and judges it. Errors are part of the result.
    ///
    /// An execution that an earlier process carried out (`earlier`) is only judged.
    pub(super) async fn unit(&self, unit: Unit, earlier: Option<ExecutionResult>) -> Finished {
        self.unit_with(unit, earlier, &Map::new()).await
    }

    /// Carries out one execution of the plan like [`unit`](Self::unit). `vars` replace variables of the case with the
    /// same name.
    pub(super) async fn unit_with(
        &self,
        unit: Unit,
        earlier: Option<ExecutionResult>,
        vars: &Map<String, Value>,
    ) -> Finished {
        let Some((case, model)) = subject(self.run.suite, unit) else {
            let message = "the plan was made for another suite";
            return errored(Execution::default(), internal(message)).into();
        };
        // Errors are ignored here: loading the executions from an unreadable record already ends the run.
        let earlier_usd = match earlier {
            None => self.spent_before(unit).unwrap_or_default(),
            Some(_) => 0.0,
        };
        let begun = |vars| {
            let mut begun = begun_of(case, vars, model, unit);
            begun.spend.earlier_usd = earlier_usd;
            begun
        };
        let body = match case.made_body(vars) {
            Ok(body) => body,
            Err(err) => {
                let error = internal(&err.to_string());
                let Some(it) = earlier else { return errored(begun(Map::new()), error).into() };
                // Keep the stored evidence, because it has cost money.
                let error = Some(error);
                return ExecutionResult { outcome: Outcome::Errored, error, ..it }.into();
            }
        };
        let execution = begun(body.vars.clone());
        if let Some(reason) = self.stopped() {
            let not_run = ExecutionError::NotRun { reason: reason.to_owned() };
            return earlier.unwrap_or_else(|| errored(execution, not_run)).into();
        }
        // Boxed, because an execution has about 1 KiB and is moved many times.
        let mut execution = Box::new(of_case(execution, case, &body, model));
        if self.run.observed.is_some() {
            execution.completeness.declared.extend(&self.run.suite.trace.evidence.complete);
        }
        (self.run.watch)(RunProgress::ExecutionStarted {
            case: &execution.case,
            model: &execution.model,
            repeat: unit.repeat,
        });
        // A panic must not abort a run that has cost money. Panics in checks are caught in `judge`, which keeps the
        // evidence.
        let timeout = self.timeout(case, model);
        let work = async {
            match earlier {
                Some(earlier) => Box::pin(self.judge_again(case, &body, model, earlier)).await,
                None => self.carry_out((case, &body), timeout, model, execution).await,
            }
        };
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(finished) => finished,
            Err(panic) => {
                let mut execution = begun(body.vars.clone());
                execution.spend.cost_usd = None;
                errored(execution, internal(&words_of_panic(&*panic))).into()
            }
        }
    }

    async fn carry_out(
        &self,
        (case, body): (&TestCase, &CaseBody),
        timeout: Duration,
        model: Option<&Model>,
        execution: Box<Execution>,
    ) -> Finished {
        if let Some(observed) = self.run.observed {
            let (execution, error) = observed.observe(*execution);
            return match error {
                Some(error) => errored(execution, error).into(),
                None => self.judge(case, body, model, Box::new(execution)).await,
            };
        }
        if let Some(output) = &body.recorded {
            let execution = recorded(body, output, *execution);
            return self.judge(case, body, model, Box::new(execution)).await;
        }
        if let Subject::Transcript(transcript) = &body.subject {
            let labels: Vec<&str> = body.conversation.iter().map(|it| it.label.as_str()).collect();
            let execution = Transcript::clone(transcript).into_execution(&labels, *execution);
            return self.judge(case, body, model, Box::new(execution)).await;
        }
        let calls = &self.judges.calls;
        let permit = match model.and_then(|it| it.agent.as_ref()) {
            Some(_) => calls.agent_permit().await,
            None => None,
        };
        // The run may have been stopped while this execution waited for other agents.
        if let Some(reason) = self.stopped().filter(|_| permit.is_some()) {
            let not_run = ExecutionError::NotRun { reason: reason.to_owned() };
            return errored(*execution, not_run).into();
        }
        let open = match Box::pin(self.open_workspace(body, timeout, &execution)).await {
            Ok(open) => open,
            Err(error) => return errored(*execution, error).into(),
        };
        let early = Early::default();
        let ended = match (&body.subject, model) {
            (Subject::Prompt { messages }, Some(model)) => {
                let required = Required { running: self, model, early: &early };
                if let Some(agent) = &model.agent {
                    let opening = messages.as_slice();
                    let around = open.as_deref();
                    let run = AgentRun {
                        body,
                        opening,
                        model,
                        agent,
                        around,
                        calls,
                        timeout,
                        execution,
                        usage: UsageSum::default(),
                    };
                    Box::pin(run.hold(&required)).await
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
                Box::pin(self.command(&spec, open.as_deref(), execution)).await
            }
            (Subject::Prompt { .. } | Subject::Transcript(_), _) => {
                let message = "a prompt was planned without a model".to_owned();
                return errored(*execution, ExecutionError::Internal { message }).into();
            }
        };
        drop(permit);
        let finished = self.conclude((case, body), model, open, ended).await;
        Finished { result: early.added_to(finished.result), ..finished }
    }

    /// Closes the workspace and judges the execution. An execution with an error is not judged.
    async fn conclude(
        &self,
        (case, body): (&TestCase, &CaseBody),
        model: Option<&Model>,
        open: Option<Box<dyn OpenWorkspace>>,
        (mut execution, error): (Box<Execution>, Option<Unanswered>),
    ) -> Finished {
        let open = match (open, &error) {
            (Some(open), Some(_)) => {
                Box::pin(open.discard(self.run.ports.commands)).await;
                None
            }
            (open, _) => open,
        };
        match error {
            Some(Unanswered::Provider(error)) => {
                let error = match self.stopped() {
                    // The run was stopped before the request was sent.
                    Some(reason) if error.attempts == 0 && error.retryable => {
                        ExecutionError::NotRun { reason: reason.to_owned() }
                    }
                    _ => ExecutionError::Provider(error),
                };
                errored(*execution, error).into()
            }
            Some(Unanswered::Budget(reason)) => {
                errored(*execution, ExecutionError::NotRun { reason }).into()
            }
            None => {
                if let Some(open) = open
                    && let Err(error) =
                        Box::pin(self.close_workspace(open, body, &mut execution)).await
                {
                    return errored(*execution, error).into();
                }
                self.judge(case, body, model, execution).await
            }
        }
    }

    fn timeout(&self, case: &TestCase, model: Option<&Model>) -> Duration {
        let agent = model.and_then(|it| it.agent.as_ref()).and_then(|it| it.timeout_ms);
        let said = self.run.options.timeout.or(case.timeout);
        said.or(agent.map(Duration::from_millis)).unwrap_or(self.run.suite.defaults.timeout)
    }
}

/// Returns an execution with a recorded output. No model was called, so it has no cost.
fn recorded(body: &CaseBody, output: &Value, execution: Execution) -> Execution {
    let input = match &body.subject {
        Subject::Prompt { messages } => messages.clone(),
        Subject::Command { .. } | Subject::Transcript(_) => Vec::new(),
    };
    let output_json = (!output.is_string()).then(|| output.clone());
    // A recorded output contains only messages; calls, errors and tokens are unknown.
    let coverage = [Channel::Messages].into_iter().collect();
    Execution {
        input,
        output: ecma::text(output),
        output_json,
        completeness: Completeness { coverage, ..execution.completeness },
        ..execution
    }
}

/// Returns an execution of the plan that has not started.
///
/// Returns the default if the unit does not belong to the suite.
pub(crate) fn begun(suite: &Suite, unit: Unit) -> Execution {
    let Some((case, model)) = subject(suite, unit) else { return Execution::default() };
    let vars = case.body.body().map(|it| it.into_owned().vars).unwrap_or_default();
    begun_of(case, vars, model, unit)
}

/// Returns the case of a unit, and its model if the case runs on a model.
///
/// Returns `None` if the unit does not belong to the suite.
pub(super) fn subject(suite: &Suite, unit: Unit) -> Option<(&TestCase, Option<&Model>)> {
    let case = suite.cases.get(unit.case)?;
    let model = match unit.model {
        Some(index) => Some(suite.models.get(index)?),
        None => None,
    };
    (model.is_some() == (case.kind == CaseKind::Prompt)).then_some((case, model))
}

/// Returns the model id for reports, such as `command` for a command test.
pub(super) fn model_id<'a>(case: &TestCase, model: Option<&'a Model>) -> &'a str {
    model.map_or(case.kind.alone().unwrap_or_default(), |it| it.id.as_str())
}

/// Adds the data of the test case, which the journal does not store, to an execution.
pub(super) fn of_case(
    execution: Execution,
    case: &TestCase,
    body: &CaseBody,
    model: Option<&Model>,
) -> Execution {
    let written = Written {
        expect: body.expect.clone(),
        threshold: case.threshold,
        params: model.map(|it| it.params.clone()).unwrap_or_default(),
        options: body.options.clone(),
        is_chat: body.is_chat,
        calls_as_output: case.calls_as_output,
    };
    let offered = model.into_iter().flat_map(|it| &*it.offers);
    Execution {
        test_metadata: body.metadata.clone(),
        tools: body.tools.iter().map(|it| &it.spec).chain(offered).cloned().collect(),
        written: Some(Arc::new(written)),
        completeness: Completeness {
            declared: model
                .into_iter()
                .flat_map(|it| &it.declared)
                .chain(&body.declared)
                .copied()
                .collect(),
            ..execution.completeness
        },
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
        model: model_id(case, model).to_owned(),
        repeat: unit.repeat,
        vars,
        spend: Spend { cost_usd: Some(0.0), ..Spend::default() },
        ..Execution::default()
    }
}

/// Returns the errored result of an execution that could not be carried out.
pub(crate) fn errored(execution: Execution, error: ExecutionError) -> ExecutionResult {
    ExecutionResult {
        outcome: Outcome::Errored,
        error: Some(error),
        ..ExecutionResult::new(execution, Vec::new())
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
