//! Ctrl-C, and signals that end a program: once to finish what is under way, twice to stop now.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kindlm_engine::Control;
use kindlm_providers::transport::Waits;
use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use kindlm_types::{
    AgentEnd, AgentReply, AgentSession, AgentStart, AgentTurn, Backend, BoxFuture, CommandOutput,
    CommandSpec, Prompt, ProviderError, ProviderErrorKind, Purse, Reply,
};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// A backend whose calls can all be given up at once: what they stand for is reported as lost, and nothing
/// that came before is.
pub(crate) struct Abortable<'a> {
    inner: &'a dyn Backend,
    abort: watch::Receiver<bool>,
}

/// Waits for a run, and for people who lose patience with it.
///
/// Tells of long waits that providers ask for. The first interrupt stops the run by `control`, and ends `waits` for turns and retries; the second gives up what is
/// under way by `abort`. `say` hears what an interrupt leads to.
pub(crate) async fn attend<T>(
    run: impl Future<Output = T>,
    control: &Control,
    waits: &Waits,
    abort: watch::Sender<bool>,
    say: impl Fn(&str),
) -> (T, bool) {
    let mut run = pin!(run);
    let mut signals = Signals::new();
    let mut interrupted = false;
    loop {
        tokio::select! {
            result = &mut run => {
                tell_rest(waits, &say);
                return (result, interrupted);
            }
            notice = waits.next() => say(&notice.in_words()),
            stop = signals.next() => {
                if interrupted {
                    say("stopping now; calls under way are given up");
                    abort.send_replace(true);
                } else {
                    interrupted = true;
                    say(&format!(
                        "{}: nothing new is begun, waiting for what is under way (again to stop now)",
                        stop.words()
                    ));
                    control.stop(format!("the run was {}", stop.words()));
                    waits.stop();
                }
            }
        }
    }
}

/// Waits for what nobody can stop, and tells of long waits that providers ask for.
pub(crate) async fn heed<T>(work: impl Future<Output = T>, waits: &Waits, say: impl Fn(&str)) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            result = &mut work => {
                tell_rest(waits, &say);
                return result;
            }
            notice = waits.next() => say(&notice.in_words()),
        }
    }
}

/// What nobody has heard of before the end.
fn tell_rest(waits: &Waits, say: &impl Fn(&str)) {
    while let Some(notice) = waits.unheard() {
        say(&notice.in_words());
    }
}

/// Waits for somebody who wants the program to end. It listens from now on, and not only when it is waited for: what is
/// started meanwhile must not be left behind.
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    let mut signals = Signals::new();
    async move {
        signals.next().await;
    }
}

/// What asks a run to stop.
#[derive(Clone, Copy)]
enum Stop {
    /// Ctrl-C.
    Keys,
    /// Another program, or the end of the session.
    #[cfg(unix)]
    Signal,
}

impl Stop {
    fn words(self) -> &'static str {
        match self {
            Self::Keys => "interrupted",
            #[cfg(unix)]
            Self::Signal => "stopped by a signal",
        }
    }
}

/// Ctrl-C, the polite end that a CI service asks for, and the end of the terminal.
struct Signals {
    #[cfg(unix)]
    interrupt: Option<Signal>,
    #[cfg(unix)]
    terminate: Option<Signal>,
    #[cfg(unix)]
    hang_up: Option<Signal>,
}

impl Signals {
    fn new() -> Self {
        // A file that may not grow any further is to be an error where it is written. Who does not listen is ended there
        // without a word; who has listened once is not.
        #[cfg(unix)]
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())));
        Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt()).ok(),
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate()).ok(),
            #[cfg(unix)]
            hang_up: if ignores_hang_up() { None } else { signal(SignalKind::hangup()).ok() },
        }
    }

    async fn next(&mut self) -> Stop {
        #[cfg(unix)]
        return tokio::select! {
            () = received(&mut self.interrupt) => Stop::Keys,
            () = received(&mut self.terminate) => Stop::Signal,
            () = received(&mut self.hang_up) => Stop::Signal,
        };
        #[cfg(not(unix))]
        {
            if tokio::signal::ctrl_c().await.is_err() {
                // No signals here: then nobody can interrupt.
                std::future::pending::<()>().await;
            }
            Stop::Keys
        }
    }
}

#[cfg(unix)]
async fn received(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Whether the process was started to outlive its terminal, as by `nohup`: then it must not listen either. Known
/// on Linux only.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    // A bit for each signal, from 1; SIGHUP is 1.
    ignored.is_some_and(|it| it.trim().ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f']))
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
            () = aborted => Err(given_up(provider)),
        }
    }
}

/// Nobody waits any more for what is under way: that is no fault of the provider's, who may charge for it all the same.
fn given_up(provider: &str) -> ProviderError {
    let message = "given up, because the run was interrupted twice";
    let err = ProviderError::new(ProviderErrorKind::Connection, provider, message);
    // As what only had to wait when the run was stopped: it was not run.
    ProviderError { attempts: 0, ..err.retryable().lost() }
}

/// A running agent whose turn can be given up.
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

    /// It takes a few seconds at most, so it is not given up.
    fn end(&mut self) -> BoxFuture<'_, AgentEnd> {
        self.inner.end()
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

    fn complete_paid<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        purse: &'a dyn Purse,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        let call = self.inner.complete_paid(provider, prompt, timeout, purse);
        Box::pin(self.unless_aborted(provider, call))
    }

    fn bounds_itself(&self) -> bool {
        self.inner.bounds_itself()
    }

    fn recalls(&self, provider: &str, prompt: &Prompt) -> bool {
        self.inner.recalls(provider, prompt)
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Arc<[f64]>, ProviderError>> {
        Box::pin(self.unless_aborted(provider, self.inner.embed(provider, model, text, timeout)))
    }

    fn run<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        Box::pin(self.unless_aborted("command", self.inner.run(command)))
    }

    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        Box::pin(async move {
            let inner = self.unless_aborted(&start.id, self.inner.start_agent(start)).await?;
            let session: Box<dyn AgentSession + 'a> =
                Box::new(AbortableSession { inner, id: &start.id, backend: self });
            Ok(session)
        })
    }

    /// Scripts have a time limit of their own, and nothing is paid for them, so they are not given up.
    fn script<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        self.inner.script(question)
    }
}
