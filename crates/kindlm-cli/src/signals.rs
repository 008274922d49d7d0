//! Ctrl-C, and signals that ask a program to end.

use kindlm_run::Interrupt;
use kindlm_types::BoxFuture;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for a signal to end the program. It listens from now on, and not only when it is awaited: processes that are
/// started meanwhile must not be left behind.
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    let mut signals = Signals::new();
    async move {
        signals.received().await;
    }
}

/// The signals that ask a run to stop.
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
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: Option<Signal>,
    #[cfg(unix)]
    terminate: Option<Signal>,
    #[cfg(unix)]
    hang_up: Option<Signal>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        // Reaching the limit of a file's size is to be an error of the write. Without a handler for this signal, the
        // process would be ended without a message. One call of `signal` is enough to install the handler.
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

    async fn received(&mut self) -> Stop {
        #[cfg(unix)]
        return tokio::select! {
            () = received(&mut self.interrupt) => Stop::Keys,
            () = received(&mut self.terminate) => Stop::Signal,
            () = received(&mut self.hang_up) => Stop::Signal,
        };
        #[cfg(not(unix))]
        {
            if tokio::signal::ctrl_c().await.is_err() {
                // Without signals, the run cannot be interrupted.
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

/// True if the process was started to outlive its terminal, as by `nohup`: then it must not listen either. Known
/// on Linux only.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    // A bit for each signal, from 1; SIGHUP is 1.
    ignored.is_some_and(|it| it.trim().ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f']))
}

impl Interrupt for Signals {
    fn next(&mut self) -> BoxFuture<'_, &'static str> {
        Box::pin(async move { self.received().await.words() })
    }
}
