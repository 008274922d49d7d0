//! Calls the hooks of a suite with the results of a run.

use std::sync::Arc;

use kindlm_engine::{Hook, HookEvent, Suite};
use kindlm_types::script::{
    ScriptAnswer, ScriptOutcome, ScriptQuestion, ScriptRunner, ScriptValue,
};
use kindlm_types::{AnyReport, ExitStatus, ecma};
use serde_json::{Value, json};

use crate::hook_results::HookResults;
use crate::secrets::Secrets;
use crate::{Failure, World};

/// Calls the hooks of a suite with the results of a finished run.
///
/// `afterEach` is called for each result in the order of the report, then `afterAll` once. A failure of `afterEach` is
/// only a notice, as in promptfoo. An interrupted run has no calls, because the run can be resumed.
///
/// # Errors
///
/// Fails if `afterAll` fails, if a result cannot be loaded, or if the user interrupts the calls.
pub(crate) fn call(
    world: &World,
    (runner, secrets): (&dyn ScriptRunner, &Secrets),
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
    let calls = Calls { world, runner, secrets, suite, failed: 0, has_told_changes: false };
    let called = runtime.block_on(async {
        // The signal handlers can only be installed inside the runtime.
        let mut interrupts = (world.interrupts)();
        tokio::select! {
            called = calls.all(report) => called,
            stop = interrupts.next() => Err(interrupted(stop)),
        }
    });
    // A task that hangs must not delay the end.
    runtime.shutdown_background();
    called
}

fn interrupted(stop: &str) -> Failure {
    let message = format!("{stop} while `extensions` were called; the reports are complete");
    Failure { status: ExitStatus::Interrupted, ..Failure::input(message) }
}

/// The calls of one run.
struct Calls<'a> {
    world: &'a World,
    runner: &'a dyn ScriptRunner,
    secrets: &'a Secrets,
    suite: &'a Suite,
    /// The number of calls of `afterEach` that failed.
    failed: usize,
    /// True after the notice that changes of a result have no effect.
    has_told_changes: bool,
}

impl Calls<'_> {
    /// Calls the hooks for each result, and then for all results.
    async fn all(mut self, report: &AnyReport<'_>) -> Result<(), Failure> {
        let has_after_all = self.suite.hooks.iter().any(|it| it.runs_for(HookEvent::AfterAll));
        let mut results = HookResults::new(self.suite, report);
        for case in report.each() {
            let case = case.map_err(|err| Failure::internal(err.to_string()))?;
            for ran in &case.executions {
                let Some(mut context) = results.add(&case, ran) else { continue };
                self.after_each(&context).await;
                if has_after_all {
                    results.keep(context["result"].take());
                }
            }
        }
        self.report_failures();
        if has_after_all { self.after_all(&results.into_context()).await } else { Ok(()) }
    }

    async fn after_each(&mut self, context: &Value) {
        let event = HookEvent::AfterEach;
        for hook in self.suite.hooks.iter().filter(|it| it.runs_for(event)) {
            match self.answer(hook, event, context).await {
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

    async fn after_all(&self, context: &Value) -> Result<(), Failure> {
        let event = HookEvent::AfterAll;
        for hook in self.suite.hooks.iter().filter(|it| it.runs_for(event)) {
            self.answer(hook, event, context).await.map_err(Failure::input)?;
        }
        Ok(())
    }

    /// Calls a hook, and returns its JSON value; `null` for any other value.
    ///
    /// Each line that the hook prints is a notice. Secrets are masked in notices and errors.
    async fn answer(
        &self,
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
        let question = ScriptQuestion::new(hook.runtime, hook.source.clone())
            .with_args(args.map(Into::into).to_vec())
            .with_permissions(Arc::clone(&self.suite.scripts.permissions))
            .with_timeout(self.suite.scripts.timeout);
        let failed = |why: &str| {
            let mut text = format!("`{}` of `{}` failed: {why}", event.as_str(), hook.name);
            self.secrets.redact_text(&mut text);
            text
        };
        let ScriptAnswer { outcome, console, .. } =
            self.runner.run(&question).await.map_err(|err| failed(&err.message))?;
        for mut line in console {
            self.secrets.redact_text(&mut line);
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

    /// Sends one notice that changes of a result have no effect.
    fn note_changes(&mut self, hook: &Hook, context: &Value, returned: &Value) {
        let changes = |key: &str| {
            let new = &returned["result"][key];
            // Compare JSON texts, because 1 and 1.0 are the same number in a script.
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
            let times = if others == 1 { "time" } else { "times" };
            self.world.notify(&format!("warning: `afterEach` also failed {others} other {times}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future;
    use std::sync::Mutex;

    use kindlm_testing::green_report;
    use kindlm_types::BoxFuture;
    use kindlm_types::script::{ScriptError, ScriptRuntime, ScriptSource};
    use serde_json::Map;

    use super::*;
    use crate::Interrupt;

    /// A runner that always gives this answer. Without an answer, it hangs.
    struct Fixed(Option<ScriptAnswer>);

    impl ScriptRunner for Fixed {
        fn run<'a>(
            &'a self,
            _question: &'a ScriptQuestion,
        ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
            match &self.0 {
                Some(answer) => Box::pin(future::ready(Ok(answer.clone()))),
                None => Box::pin(future::pending()),
            }
        }
    }

    /// A user who interrupts at once.
    struct AtOnce;

    impl Interrupt for AtOnce {
        fn next(&mut self) -> BoxFuture<'_, &'static str> {
            Box::pin(future::ready("interrupted"))
        }
    }

    fn suite() -> Suite {
        let source = ScriptSource::File { path: "hooks.js".to_owned(), function: None };
        let hook = Hook::new("hooks.js:every", ScriptRuntime::QuickJs, source, None);
        Suite { hooks: vec![hook], ..Suite::default() }
    }

    #[test]
    fn an_interrupt_ends_the_calls() {
        let mut world = World::new("/", Arc::new(|_| None));
        world.interrupts = Arc::new(|| Box::new(AtOnce));
        let runner = (&Fixed(None) as &dyn ScriptRunner, &Secrets::default());
        let failure = call(&world, runner, &suite(), &green_report()).unwrap_err();
        assert_eq!(failure.status, ExitStatus::Interrupted);
        let message = "interrupted while `extensions` were called; the reports are complete";
        assert_eq!(failure.message.as_deref(), Some(message));
    }

    #[test]
    fn texts_of_hooks_are_masked() {
        const KEY: &str = "sk-live-1234567890abcdef";
        let notices = Arc::new(Mutex::new(Vec::new()));
        let mut world = World::new("/", Arc::new(|_| Some(KEY.to_owned())));
        world.variables = vec!["API_KEY".to_owned()];
        let seen = Arc::clone(&notices);
        world.notices = Arc::new(move |text| seen.lock().unwrap().push(text.to_owned()));
        let secrets = Secrets::new(&world, &Map::new());
        let outcome = ScriptOutcome::Threw {
            message: Some(format!("refused {KEY}")),
            stack: String::new(),
            thrown: String::new(),
        };
        let answer = ScriptAnswer::new(outcome).with_console(vec![format!("sent {KEY}")]);
        let runner = Fixed(Some(answer));
        let failure = call(&world, (&runner, &secrets), &suite(), &green_report()).unwrap_err();
        let mut texts = notices.lock().unwrap().clone();
        texts.extend(failure.message);
        assert!(texts.iter().any(|it| it == "sent [redacted]"), "{texts:?}");
        assert!(texts.iter().any(|it| it.contains("it threw `refused [redacted]`")), "{texts:?}");
        assert!(!texts.concat().contains(KEY), "{texts:?}");
    }
}
