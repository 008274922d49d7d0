//! Handles interrupts: the first lets running executions finish, the second aborts them.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use kindlm_engine::Control;
use kindlm_providers::transport::Waits;
use kindlm_types::{
    AgentEnd, AgentReply, AgentSession, AgentStart, AgentTurn, Agents, AttemptBudget, BoxFuture,
    CommandOutput, CommandSpec, Commands, Embedding, Models, Ports, Prompt, ProviderError,
    ProviderErrorKind, Reply,
};
use tokio::sync::watch;

use crate::Interrupt;

/// Ports whose running calls can all be aborted.
///
/// An aborted call returns a lost-request error. Completed calls are not affected.
pub(crate) struct Abortable<'a> {
    inner: Ports<'a>,
    abort: watch::Receiver<bool>,
}

/// Waits until a run ends, and handles interrupts.
///
/// The first interrupt stops the run with `control`, and ends the `waits` for permits and retries. The second interrupt
/// aborts running calls with `abort`.
///
/// `say` gets messages about interrupts, and about long waits that providers request. The returned flag is true if the
/// run was interrupted.
pub(crate) async fn attend<T>(
    run: impl Future<Output = T>,
    control: &Control,
    waits: &Waits,
    abort: watch::Sender<bool>,
    mut interrupts: Box<dyn Interrupt>,
    say: impl Fn(&str),
) -> (T, bool) {
    let mut run = pin!(run);
    let mut interrupted = false;
    loop {
        tokio::select! {
            result = &mut run => {
                report_remaining(waits, &say);
                return (result, interrupted);
            }
            notice = waits.next() => say(&notice.in_words()),
            stop = interrupts.next() => {
                if interrupted {
                    say("stopping now; running calls are aborted");
                    abort.send_replace(true);
                } else {
                    interrupted = true;
                    say(&format!(
                        "{stop}: no new calls, waiting for running ones (again to stop now)"
                    ));
                    control.stop(format!("the run was {stop}"));
                    waits.stop();
                }
            }
        }
    }
}

/// Waits for work that cannot be stopped, and reports long waits that providers request.
pub(crate) async fn report_waits<T>(
    work: impl Future<Output = T>,
    waits: &Waits,
    say: impl Fn(&str),
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            result = &mut work => {
                report_remaining(waits, &say);
                return result;
            }
            notice = waits.next() => say(&notice.in_words()),
        }
    }
}

/// Reports the remaining notices.
fn report_remaining(waits: &Waits, say: &impl Fn(&str)) {
    while let Some(notice) = waits.try_next() {
        say(&notice.in_words());
    }
}

impl<'a> Abortable<'a> {
    /// Wraps `inner`; also returns a sender that aborts all running calls.
    pub(crate) fn new(inner: Ports<'a>) -> (Self, watch::Sender<bool>) {
        let (sender, abort) = watch::channel(false);
        (Self { inner, abort }, sender)
    }

    /// Returns ports whose calls can be aborted, except scripts.
    ///
    /// Scripts have a time limit and cost nothing.
    pub(crate) fn ports(&self) -> Ports<'_> {
        Ports { models: self, commands: self, agents: self, ..self.inner }
    }

    async fn unless_aborted<T>(
        &self,
        provider: &str,
        call: BoxFuture<'_, Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let mut abort = self.abort.clone();
        let aborted = async {
            if abort.wait_for(|it| *it).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            result = call => result,
            () = aborted => Err(given_up(provider)),
        }
    }
}

/// Returns the error of an aborted request. The provider did not cause the error, and may charge for the request.
fn given_up(provider: &str) -> ProviderError {
    let message = "aborted, because the run was interrupted twice";
    let err = ProviderError::new(ProviderErrorKind::Connection, provider, message);
    // With zero attempts, the execution counts as not run, like an execution that still waited to send its request.
    ProviderError { attempts: 0, ..err.retryable().lost() }
}

/// An agent session whose turn can be aborted.
struct AbortableSession<'a> {
    inner: Box<dyn AgentSession + 'a>,
    id: &'a str,
    backend: &'a Abortable<'a>,
}

impl AgentSession for AbortableSession<'_> {
    fn turn(&mut self, turn: AgentTurn) -> BoxFuture<'_, Result<AgentReply, ProviderError>> {
        let call = self.inner.turn(turn);
        Box::pin(self.backend.unless_aborted(self.id, call))
    }

    /// Ends the session. This takes a few seconds at most, so it is not aborted.
    fn end(&mut self) -> BoxFuture<'_, AgentEnd> {
        self.inner.end()
    }
}

impl Models for Abortable<'_> {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        let call = self.inner.models.complete(provider, prompt, timeout, budget);
        Box::pin(self.unless_aborted(provider, call))
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        let call = self.inner.models.embed(provider, model, text, timeout);
        Box::pin(self.unless_aborted(provider, call))
    }

    fn has_answer(&self, provider: &str, prompt: &Prompt) -> bool {
        self.inner.models.has_answer(provider, prompt)
    }

    fn has_vector(&self, provider: &str, model: &str, text: &str) -> bool {
        self.inner.models.has_vector(provider, model, text)
    }

    fn limits_calls(&self) -> bool {
        self.inner.models.limits_calls()
    }
}

impl Commands for Abortable<'_> {
    fn run_command<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        let call = self.inner.commands.run_command(command);
        Box::pin(self.unless_aborted("command", call))
    }
}

impl Agents for Abortable<'_> {
    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        Box::pin(async move {
            let call = self.inner.agents.start_agent(start);
            let inner = self.unless_aborted(&start.id, call).await?;
            let session: Box<dyn AgentSession + 'a> =
                Box::new(AbortableSession { inner, id: &start.id, backend: self });
            Ok(session)
        })
    }
}
