//! Ctrl-C: once to finish what is under way, twice to stop now.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kindlm_engine::Control;
use kindlm_types::{
    Backend, BoxFuture, CommandOutput, CommandSpec, Prompt, ProviderError, ProviderErrorKind, Reply,
};
use tokio::sync::watch;

/// A backend whose calls can all be given up at once: what they stand for is reported as lost, and nothing
/// that came before is.
pub(crate) struct Abortable<'a> {
    inner: &'a dyn Backend,
    abort: watch::Receiver<bool>,
}

/// Waits for a run, and for people who lose patience with it.
///
/// `say` hears what an interrupt leads to.
pub(crate) async fn attend<T>(
    run: impl Future<Output = T>,
    control: &Control,
    abort: watch::Sender<bool>,
    say: impl Fn(&str),
) -> (T, bool) {
    let mut run = pin!(run);
    let mut signals = Signals::new();
    let mut interrupted = false;
    loop {
        tokio::select! {
            result = &mut run => return (result, interrupted),
            () = signals.next() => {
                if interrupted {
                    say("stopping now; calls under way are given up");
                    abort.send_replace(true);
                } else {
                    interrupted = true;
                    say("interrupted: nothing more is sent, waiting for what is under way (again to stop now)");
                    control.stop("the run was interrupted");
                }
            }
        }
    }
}

/// Ctrl-C, and the polite end that a CI service asks for.
struct Signals {
    #[cfg(unix)]
    terminate: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    fn new() -> Self {
        Self {
            #[cfg(unix)]
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .ok(),
        }
    }

    async fn next(&mut self) {
        let ctrl_c = async {
            if tokio::signal::ctrl_c().await.is_err() {
                // No signals here: then nobody can interrupt.
                std::future::pending::<()>().await;
            }
        };
        #[cfg(unix)]
        if let Some(terminate) = &mut self.terminate {
            tokio::select! {
                () = ctrl_c => {}
                _ = terminate.recv() => {}
            }
            return;
        }
        ctrl_c.await;
    }
}

impl<'a> Abortable<'a> {
    /// Calls of `inner`, and the switch that gives them up.
    pub(crate) fn new(inner: &'a dyn Backend) -> (Self, watch::Sender<bool>) {
        let (sender, abort) = watch::channel(false);
        (Self { inner, abort }, sender)
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
            () = aborted => Err(ProviderError::new(
                ProviderErrorKind::Connection,
                provider,
                "the call was given up, because the run was interrupted twice",
            )),
        }
    }
}

impl Backend for Abortable<'_> {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(self.unless_aborted(provider, self.inner.complete(provider, prompt, timeout)))
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Arc<[f32]>, ProviderError>> {
        Box::pin(self.unless_aborted(provider, self.inner.embed(provider, model, text, timeout)))
    }

    fn run<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        Box::pin(self.unless_aborted("command", self.inner.run(command)))
    }
}
