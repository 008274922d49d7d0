//! Runs a command line, and ends it: whatever it started, and whatever that ignores.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use kindlm_types::{CommandOutput, CommandSpec, ProviderError, ProviderErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{sleep, timeout};

use super::guard::Guard;
use super::protocol;

/// The most that a command may write to stdout, in bytes; stderr is cut there. 16 MiB.
pub const MAX_OUTPUT: usize = 16 * 1024 * 1024;

/// From `SIGTERM` to `SIGKILL`, and from the end of a command to the end of waiting for its pipes.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// Runs a command as an agent under test: no stdin, and any exit code is an answer.
///
/// It runs in the folder that it names, or in the suite's.
pub async fn run(command: &CommandSpec, suite: &Path) -> Result<CommandOutput, ProviderError> {
    run_guarded(command, suite, &Guard::default()).await
}

/// The same, with a guard that others have, too.
pub(crate) async fn run_guarded(
    command: &CommandSpec,
    suite: &Path,
    guard: &Guard,
) -> Result<CommandOutput, ProviderError> {
    let folder = command.folder.as_deref().unwrap_or(suite);
    let variables = Variables { without: &command.without, env: &command.env };
    let ran = capture_with(&command.command_line, folder, command.timeout, None, variables, guard)
        .await
        .map_err(|failure| failure.into_error("command", command.raise))?;
    let read = protocol::parse(&ran.stdout);
    Ok(CommandOutput {
        text: read.text,
        output_json: read.output_json,
        tool_calls: read.tool_calls,
        events: read.events,
        coverage: read.coverage,
        unreadable: read.unreadable,
        stderr: ran.stderr,
        exit_code: ran.exit_code,
        latency_ms: ran.latency_ms,
    })
}

/// What a command left behind.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) stdout: String,
    /// With notes about what else is worth knowing.
    pub(super) stderr: String,
    pub(super) exit_code: Option<i32>,
    pub(super) latency_ms: f64,
}

/// Why a command left nothing behind.
#[derive(Debug)]
pub(super) enum Failure {
    NotStarted(String),
    TimedOut { after: Duration, stderr: String },
    TooMuchOutput,
}

impl Failure {
    /// The error of a provider; `raise` is what lets a command take longer.
    pub(super) fn into_error(self, provider: &str, raise: &str) -> ProviderError {
        match self {
            Self::NotStarted(message) => {
                let mut err = ProviderError::new(ProviderErrorKind::Command, provider, message);
                err.attempts = 0;
                err
            }
            Self::TimedOut { after, stderr } => {
                let mut message = format!(
                    "the command did not end within {} ms and was stopped; if it needs longer, raise {raise}",
                    after.as_millis(),
                );
                if let Some(line) = last_line(&stderr) {
                    message = format!("{message} (the end of its stderr: `{line}`)");
                }
                ProviderError::new(ProviderErrorKind::Timeout, provider, message)
            }
            Self::TooMuchOutput => ProviderError::new(
                ProviderErrorKind::Command,
                provider,
                format!(
                    "the command wrote more than {} MiB to stdout and was stopped",
                    MAX_OUTPUT / (1024 * 1024),
                ),
            ),
        }
    }
}

/// The last line that says something, shortened.
pub(super) fn last_line(stderr: &str) -> Option<String> {
    let line = stderr.lines().rfind(|it| !it.trim().is_empty())?;
    Some(line.trim().chars().take(200).collect())
}

/// Runs a command line and collects what it writes.
#[cfg(feature = "http")]
pub(super) async fn capture(
    line: &str,
    folder: &Path,
    limit: Duration,
    stdin: Option<Vec<u8>>,
    guard: &Guard,
) -> Result<Ran, Failure> {
    capture_with(line, folder, limit, stdin, Variables::default(), guard).await
}

/// What a command finds in its environment other than we do.
#[derive(Clone, Copy, Default)]
struct Variables<'a> {
    without: &'a [String],
    env: &'a [(String, String)],
}

/// The same, with an environment of its own.
async fn capture_with(
    line: &str,
    folder: &Path,
    limit: Duration,
    stdin: Option<Vec<u8>>,
    variables: Variables<'_>,
    guard: &Guard,
) -> Result<Ran, Failure> {
    let started = Instant::now();
    guard.wake();
    let mut child = spawn(line, folder, stdin.is_some(), variables)?;
    let group = Group::of(&child, guard);
    let (mut out, mut err) = (Capture::default(), Capture::default());
    let ended = {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut reading = pin!(async {
            tokio::try_join!(out.fill(stdout, OnOverflow::Fail), err.fill(stderr, OnOverflow::Cut))
        });
        let mut feeding = pin!(feed(child.stdin.take(), stdin));
        let mut deadline = pin!(sleep(limit));
        let (mut read_all, mut fed) = (false, false);
        let how = loop {
            tokio::select! {
                status = child.wait() => break Ended::Exited(status, started.elapsed()),
                result = &mut reading, if !read_all => match result {
                    Ok(_) => read_all = true,
                    Err(Overflow) => break Ended::Overflowed,
                },
                () = &mut feeding, if !fed => fed = true,
                () = &mut deadline => break Ended::TimedOut,
            }
        };
        match how {
            Ended::Exited(status, elapsed) => {
                // Something that the command started may still hold its pipes.
                if !read_all && let Ok(Err(Overflow)) = timeout(GRACE, &mut reading).await {
                    return Err(Failure::TooMuchOutput);
                }
                Some((status, elapsed))
            }
            Ended::TimedOut => {
                group.terminate(&mut child);
                let ending = async {
                    let _ = child.wait().await;
                    if !read_all {
                        let _ = reading.as_mut().await;
                    }
                };
                let _ = timeout(GRACE, ending).await;
                None
            }
            Ended::Overflowed => {
                group.kill(&mut child);
                let _ = timeout(GRACE, child.wait()).await;
                return Err(Failure::TooMuchOutput);
            }
        }
    };
    let Some((status, elapsed)) = ended else {
        group.kill(&mut child);
        let _ = timeout(GRACE, child.wait()).await;
        return Err(Failure::TimedOut { after: limit, stderr: err.text().0 });
    };
    let status =
        status.map_err(|err| Failure::NotStarted(format!("cannot wait for the command: {err}")))?;
    Ok(finished(status, &out, &err, elapsed.as_secs_f64() * 1000.0))
}

/// How waiting for a command ended.
enum Ended {
    Exited(io::Result<ExitStatus>, Duration),
    Overflowed,
    TimedOut,
}

fn finished(status: ExitStatus, out: &Capture, err: &Capture, latency_ms: f64) -> Ran {
    let (stdout, stdout_is_text) = out.text();
    let (mut stderr, _) = err.text();
    let mut note = |text: String| {
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        stderr.push_str("[kindlm] ");
        stderr.push_str(&text);
        stderr.push('\n');
    };
    if err.cut {
        note(format!("stderr was cut after {} MiB", MAX_OUTPUT / (1024 * 1024)));
    }
    if !stdout_is_text {
        note("stdout is not UTF-8; invalid bytes were replaced by U+FFFD".to_owned());
    }
    if let Some(signal) = signal_of(status) {
        note(format!("the command was ended by signal {signal}"));
    }
    Ran { stdout, stderr, exit_code: status.code(), latency_ms }
}

fn spawn(
    line: &str,
    folder: &Path,
    has_stdin: bool,
    Variables { without, env }: Variables<'_>,
) -> Result<Child, Failure> {
    let mut command = prepared(line, folder);
    for name in without {
        command.env_remove(name);
    }
    command.envs(env.iter().map(|(name, value)| (name, value)));
    if !has_stdin {
        command.stdin(Stdio::null());
    }
    command.spawn().map_err(|err| Failure::NotStarted(not_started(folder, "command", &err)))
}

/// A command line that is ready to be started in a folder: a process group of its own that ends when nobody waits for it
/// any more, with pipes for all that it reads and writes.
pub(crate) fn prepared(line: &str, folder: &Path) -> Command {
    let mut command = shell(line);
    command
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    command
}

/// Why it could not be started in its folder, in words; `what` is what it is.
pub(crate) fn not_started(folder: &Path, what: &str, err: &io::Error) -> String {
    if folder.is_dir() {
        format!("the shell cannot be started: {err}")
    } else {
        format!("the folder `{}`, in which the {what} should run, does not exist", folder.display())
    }
}

#[cfg(unix)]
fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    command
}

#[cfg(not(unix))]
fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(line);
    command
}

#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal_of(_status: ExitStatus) -> Option<i32> {
    None
}

/// Writes all of stdin. A program that does not read it is free not to.
async fn feed(pipe: Option<ChildStdin>, input: Option<Vec<u8>>) {
    if let (Some(mut pipe), Some(input)) = (pipe, input) {
        let _ = pipe.write_all(&input).await;
        let _ = pipe.shutdown().await;
    }
}

/// More was written than is kept.
struct Overflow;

#[derive(Clone, Copy, PartialEq)]
enum OnOverflow {
    Fail,
    Cut,
}

/// What came through a pipe. It survives when the reading is given up.
#[derive(Default)]
struct Capture {
    bytes: Vec<u8>,
    cut: bool,
}

impl Capture {
    async fn fill(
        &mut self,
        pipe: Option<impl AsyncRead + Unpin>,
        on_overflow: OnOverflow,
    ) -> Result<(), Overflow> {
        let Some(mut pipe) = pipe else { return Ok(()) };
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = match pipe.read(&mut buffer).await {
                Ok(0) | Err(_) => return Ok(()),
                Ok(count) => count,
            };
            let room = MAX_OUTPUT - self.bytes.len();
            self.bytes.extend_from_slice(&buffer[..count.min(room)]);
            if count > room {
                if on_overflow == OnOverflow::Fail {
                    return Err(Overflow);
                }
                self.cut = true;
            }
        }
    }

    /// The text, and whether it really is text.
    fn text(&self) -> (String, bool) {
        let text = String::from_utf8_lossy(&self.bytes);
        let is_text = matches!(text, std::borrow::Cow::Borrowed(_));
        (text.into_owned(), is_text)
    }
}

/// A command with everything it started. What is left of it when this is dropped, or when this process is killed, is
/// killed.
#[cfg(unix)]
pub(crate) struct Group(Option<(rustix::process::Pid, super::guard::Entry)>);

#[cfg(unix)]
impl Group {
    pub(crate) fn of(child: &Child, guard: &Guard) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(rustix::process::Pid::from_raw).map(|id| (id, guard.add(id))))
    }

    /// Asks the whole group to end.
    pub(crate) fn terminate(&self, _child: &mut Child) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Ends the whole group.
    pub(crate) fn kill(&self, _child: &mut Child) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some((id, _)) = &self.0 {
            // It fails if the group is gone already, which is what is wanted.
            let _ = rustix::process::kill_process_group(*id, signal);
        }
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

/// Where there are no process groups, only the command itself is ended.
#[cfg(not(unix))]
pub(crate) struct Group;

#[cfg(not(unix))]
impl Group {
    pub(crate) fn of(_child: &Child, _guard: &Guard) -> Self {
        Self
    }

    pub(crate) fn terminate(&self, child: &mut Child) {
        let _ = child.start_kill();
    }

    pub(crate) fn kill(&self, child: &mut Child) {
        let _ = child.start_kill();
    }
}
