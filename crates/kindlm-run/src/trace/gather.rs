//! Waits for the spans of an agent. A command starts the agent, or the agent runs separately.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use kindlm_providers::command::run;
use kindlm_types::{CommandOutput, CommandSpec, ExitStatus, ProviderError};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::receiver::{Inbox, Receiver, State};
use super::{GatheredTraces, agent};
use crate::{Failure, World};

/// The interval between two checks of the received spans.
const LOOK: Duration = Duration::from_millis(20);

/// The wait for missing root spans and expected traces, as a multiple of the settle time.
const LATE: u32 = 5;

/// The settings of the span receiver.
pub(crate) struct Gathering<'a> {
    /// The address to listen on.
    pub host: IpAddr,
    /// The port; 0 means any free port.
    pub port: u16,
    /// True if another port may be used when the requested port is taken.
    pub any_port: bool,
    /// The maximum wait for the spans, or for the end of the command.
    pub timeout: Duration,
    /// The time without new spans after which the traces are complete.
    pub settle: Duration,
    /// The agent's command line; `None` if the agent runs separately.
    pub command: Option<&'a str>,
    /// The folder in which the command runs.
    pub folder: &'a Path,
    /// The number of expected traces, if it is known.
    pub traces: Option<usize>,
    /// True to send no notice of the address if there is a command.
    pub quiet: bool,
}

/// Opens the port, runs the command if a command is given, and collects the spans.
///
/// Fails if the port cannot be opened, or on an interrupt.
pub(crate) fn gather(world: &World, gathering: &Gathering<'_>) -> Result<GatheredTraces, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
    let gathered = runtime.block_on(async {
        let receiver = bind(gathering).await?;
        let address = receiver.address;
        if gathering.command.is_none() || !gathering.quiet {
            world.notify(&format!("receiving spans at http://{address}/v1/traces"));
        }
        if !address.ip().is_loopback() {
            world.notify("warning: anyone who can reach this address can send spans to it");
        }
        let mut interrupts = (world.interrupts)();
        let working = async {
            match gathering.command {
                Some(command) => gathering.run(command, address, &receiver.inbox).await,
                None => gathering.wait(&receiver.inbox).await,
            }
        };
        let Ended { command, failure, note } = tokio::select! {
            ended = working => ended,
            _ = interrupts.next() => return Err(given_up()),
            never = receiver.serve() => match never {},
        };
        let (all, rejected, lost) = receiver.inbox.take();
        let lost = lost.or_else(|| note.clone());
        let notes = note.map(|it| format!("warning: {it}")).into_iter().collect();
        Ok(GatheredTraces { traces: all.into_traces(), command, failure, rejected, lost, notes })
    });
    runtime.shutdown_background();
    gathered
}

/// Returns the failure of an interrupted wait. The command and its child processes are stopped by then.
fn given_up() -> Failure {
    Failure {
        message: Some("interrupted while waiting for spans: nothing was judged".to_owned()),
        ..Failure::already_shown(ExitStatus::Interrupted)
    }
}

async fn bind(gathering: &Gathering<'_>) -> Result<Receiver, Failure> {
    let Gathering { host, port, any_port, .. } = gathering;
    let address = SocketAddr::new(*host, *port);
    let bound = match Receiver::bind(address).await {
        Err(err) if *any_port && err.kind() == ErrorKind::AddrInUse => {
            Receiver::bind(SocketAddr::new(*host, 0)).await
        }
        bound => bound,
    };
    bound.map_err(|err| {
        let words = kindlm_store::describe_io_error(&err);
        let failure = Failure::input(format!("cannot receive spans at {address}: {words}"));
        match err.kind() {
            ErrorKind::AddrInUse => failure
                .with_help("another program listens there; choose another port with `--port`, or any with `--port 0`"),
            ErrorKind::AddrNotAvailable => failure
                .with_help("this machine does not have that address; `--host 0.0.0.0` is all that it has"),
            _ => failure,
        }
    })
}

/// The result of waiting for spans.
#[derive(Default)]
struct Ended {
    command: Option<CommandOutput>,
    failure: Option<ProviderError>,
    /// The note that the wait was cut off, so spans may be missing; `None` if the wait was not cut off.
    note: Option<String>,
}

impl Gathering<'_> {
    /// Runs the command, and waits for its last spans.
    async fn run(&self, command: &str, address: SocketAddr, inbox: &Inbox) -> Ended {
        let spec =
            CommandSpec { env: agent::env(address), ..CommandSpec::new(command, self.timeout) };
        let output = match run(&spec, self.folder).await {
            Ok(output) => output,
            Err(err) => return Ended { failure: Some(Self::unfinished(err)), ..Ended::default() },
        };
        if let Some(crash) = agent::crash(&output) {
            return Ended { command: Some(output), failure: Some(crash), note: None };
        }
        // A child process of the command may send spans forever, so limit the wait.
        let ended = Instant::now();
        let settled = timeout_at(ended + self.timeout, self.settle(inbox, ended)).await;
        let note = settled.err().map(|_| self.unsettled("after the command had ended"));
        let failure = (inbox.state().spans == 0).then(|| {
            let code = output.exit_code.map_or_else(String::new, |it| format!(" with exit code {it}"));
            let message = format!(
                "the command ended{code}, and no span arrived: the agent must export its spans by OTLP/HTTP to \
                 `OTEL_EXPORTER_OTLP_ENDPOINT`, and flush them before it ends"
            );
            agent::error(agent::with_stderr(message, &output.stderr))
        });
        Ended { command: Some(output), failure, note }
    }

    /// Renames the setting in an error message to the setting of `kindlm trace`.
    fn unfinished(err: ProviderError) -> ProviderError {
        // The error message of a command names a setting of tests.
        let message = err.message.replace("`defaults.timeoutMs`", "`trace.timeoutMs`");
        ProviderError { message, ..err }
    }

    fn unsettled(&self, when: &str) -> String {
        format!(
            "spans still arrived {} ms {when}, and later ones are not judged; raise `trace.timeoutMs` or \
             `--timeout`, or stop the sender",
            self.timeout.as_millis()
        )
    }

    /// Waits for the spans of an agent that runs separately.
    async fn wait(&self, inbox: &Inbox) -> Ended {
        let begun = Instant::now();
        let all = async {
            while !self.has_enough(inbox.state()) {
                sleep(LOOK).await;
            }
            self.settle(inbox, begun).await;
        };
        let settled = timeout_at(begun + self.timeout, all).await;
        // If expected traces are missing, another message reports this.
        let is_late = settled.is_err() && self.has_enough(inbox.state());
        let note = is_late.then(|| self.unsettled("after the start of the wait"));
        let failure = (inbox.state().spans == 0).then(|| {
            agent::missing(format!(
                "no span arrived within {} ms: start the agent while `kindlm trace` waits, with \
                 `OTEL_EXPORTER_OTLP_ENDPOINT` set to this address, or start it with `--command`; if it needs \
                 longer, raise `trace.timeoutMs` or `--timeout`",
                self.timeout.as_millis()
            ))
        });
        Ended { command: None, failure, note }
    }

    fn has_enough(&self, state: State) -> bool {
        state.finished >= self.traces.unwrap_or(1)
    }

    /// Waits until no new spans have arrived for the settle time.
    ///
    /// The wait is [`LATE`] times as long while the root span of a trace, or an expected trace, is missing.
    async fn settle(&self, inbox: &Inbox, begun: Instant) {
        loop {
            let state = inbox.state();
            let whole = state.finished >= state.traces.max(self.traces.unwrap_or(0));
            let wait = if whole { self.settle } else { self.settle * LATE };
            let until = state.last.unwrap_or(begun).max(begun) + wait;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until.min(Instant::now() + LOOK)).await;
        }
    }
}
