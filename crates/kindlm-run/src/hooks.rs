//! Calls the functions of a suite that get the results of a run.

use std::sync::Arc;

use kindlm_engine::{Hook, HookEvent, Suite};
use kindlm_types::script::{
    ScriptAnswer, ScriptOutcome, ScriptQuestion, ScriptRunner, ScriptValue,
};
use kindlm_types::{AnyReport, ecma};
use serde_json::{Value, json};

use crate::hook_results::HookResults;
use crate::{Failure, World};

/// Calls the hooks of a suite with the results of a finished run.
///
/// `afterEach` is called for each result in the order of the report, then `afterAll` once. A failure of `afterEach` is
/// only a notice, as in promptfoo. An interrupted run has no calls, because the run can be resumed.
///
/// # Errors
///
/// Fails if `afterAll` fails, or if a result cannot be loaded.
pub(crate) fn call(
    world: &World,
    runner: &dyn ScriptRunner,
    suite: &Suite,
    report: &AnyReport<'_>,
) -> Result<(), Failure> {
    if suite.hooks.is_empty() {
        return Ok(());
    }
    if report.run.interrupted {
        world.notify("`extensions` were not called, because the run was interrupted");
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
    let mut calls = Calls { world, suite, failed: 0, has_told_changes: false };
    let mut results = HookResults::new(report);
    for case in report.each() {
        let case = case.map_err(|err| Failure::internal(err.to_string()))?;
        for ran in &case.executions {
            let result = results.add(&case, ran);
            let context = json!({"test": result["testCase"], "result": result});
            runtime.block_on(calls.after_each(runner, &context));
        }
    }
    calls.report_failures();
    runtime.block_on(calls.after_all(runner, &results.into_context()))
}

/// The calls of one run.
struct Calls<'a> {
    world: &'a World,
    suite: &'a Suite,
    /// The number of calls of `afterEach` that failed.
    failed: usize,
    /// True if the user knows that changes of results have no effect.
    has_told_changes: bool,
}

impl Calls<'_> {
    async fn after_each(&mut self, runner: &dyn ScriptRunner, context: &Value) {
        let event = HookEvent::AfterEach;
        for hook in self.suite.hooks.iter().filter(|it| it.runs_for(event)) {
            match self.answer(runner, hook, event, context).await {
                Ok(returned) => self.note_changes(hook, context, &returned),
                Err(why) => {
                    if self.failed == 0 {
                        self.world.notify(&format!("warning: {why}"));
                    }
                    self.failed += 1;
                }
            }
        }
    }

    async fn after_all(
        &mut self,
        runner: &dyn ScriptRunner,
        context: &Value,
    ) -> Result<(), Failure> {
        let event = HookEvent::AfterAll;
        for hook in self.suite.hooks.iter().filter(|it| it.runs_for(event)) {
            self.answer(runner, hook, event, context).await.map_err(Failure::input)?;
        }
        Ok(())
    }

    /// Calls a hook. The lines that it prints are notices.
    async fn answer(
        &self,
        runner: &dyn ScriptRunner,
        hook: &Hook,
        event: HookEvent,
        context: &Value,
    ) -> Result<Value, String> {
        let name = json!(event.as_str());
        let context = ecma::stringify(context);
        // As in promptfoo, a function that is named after its event gets the context first.
        let args = match hook.event {
            Some(_) => [context, ecma::stringify(&json!({"hookName": name}))],
            None => [ecma::stringify(&name), context],
        };
        let question = ScriptQuestion {
            runtime: hook.runtime,
            source: hook.source.clone(),
            args: args.map(Into::into).to_vec(),
            permissions: Arc::clone(&self.suite.scripts.permissions),
            timeout: self.suite.scripts.timeout,
        };
        let failed = |why: &str| format!("`{}` of `{}` failed: {why}", event.as_str(), hook.name);
        let ScriptAnswer { outcome, console } =
            runner.run(&question).await.map_err(|err| failed(&err.message))?;
        for line in console {
            self.world.notify(&line);
        }
        match outcome {
            ScriptOutcome::Returned(ScriptValue::Json(value)) => Ok(value),
            ScriptOutcome::Returned(_) => Ok(Value::Null),
            ScriptOutcome::Threw { message, thrown, .. } => {
                Err(failed(&format!("it threw `{}`", message.unwrap_or(thrown))))
            }
        }
    }

    /// Notes once that changes of a result have no effect.
    fn note_changes(&mut self, hook: &Hook, context: &Value, returned: &Value) {
        let changes = |key: &str| {
            let new = &returned["result"][key];
            // As JSON texts, because 1 and 1.0 are the same number in a script.
            !new.is_null() && ecma::stringify(new) != ecma::stringify(&context["result"][key])
        };
        if self.has_told_changes || !["namedScores", "metadata"].into_iter().any(changes) {
            return;
        }
        self.has_told_changes = true;
        self.world.notify(&format!(
            "warning: `{}` changed named scores or metadata of a result, which has no effect; a script check can return \
             named scores",
            hook.name
        ));
    }

    fn report_failures(&self) {
        if self.failed > 1 {
            let others = self.failed - 1;
            self.world.notify(&format!("warning: `afterEach` also failed {others} other times"));
        }
    }
}
