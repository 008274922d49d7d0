//! Ctrl-C, and signals that end a program.

use kindlm_run::Interrupt;
use kindlm_types::BoxFuture;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for a signal that ends the program.
///
/// This call installs the handlers, before the first poll. So a signal before the first poll is not lost, and leaves no
/// child process behind.
pub(crate) fn interrupted() -> impl Future<Output = ()> {
    let mut signals = Signals::new();
    async move {
        signals.received().await;
    }
}

/// The kind of a signal that stops a run.
#[derive(Clone, Copy)]
enum Stop {
    /// Ctrl-C.
    Keys,
    /// A signal from another program, or the end of the session.
    #[cfg(unix)]
    Signal,
}

impl Stop {
    fn describe(self) -> &'static str {
        match self {
            Self::Keys => "interrupted",
            #[cfg(unix)]
            Self::Signal => "stopped by a signal",
        }
    }
}

/// The signals that stop a run: Ctrl-C, graceful termination, and a closed terminal.
///
/// CI services use graceful termination.
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
        // Turn the signal for exceeding the file size limit into a write error. Without a handler it would end the
        // process without a message. One call of `signal` installs a handler, which stays after the drop.
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
                // Without signal handling, the run cannot be interrupted.
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

/// Returns true if the process was started to outlive its terminal.
///
/// `nohup` starts such a process. This is detected on Linux only.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    // The mask is hexadecimal, with one bit per signal. The lowest bit is signal 1, SIGHUP: the last digit is odd.
    ignored.is_some_and(|it| it.trim().ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f']))
}

impl Interrupt for Signals {
    fn next(&mut self) -> BoxFuture<'_, &'static str> {
        Box::pin(async move { self.received().await.describe() })
    }
}
