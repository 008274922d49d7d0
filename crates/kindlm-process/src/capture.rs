//! Runs a command line to its end, and then ends every process that it started.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{sleep, timeout};

use crate::group::{GRACE, Group};
use crate::guard::Guard;

/// The size limit of stdout and of stderr, in bytes: 16 MiB. Larger stdout is a failure; larger stderr is truncated.
pub const MAX_OUTPUT: usize = 16 * 1024 * 1024;

/// The result of a command.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ran {
    /// The text on stdout.
    pub stdout: String,
    /// The text on stderr. KindLM may append notes, for example if stderr was truncated. Each note begins with
    /// `[kindlm]`.
    pub stderr: String,
    /// The exit code; `None` if the command has no exit code, for example after a signal.
    pub exit_code: Option<i32>,
    /// The duration of the command, in milliseconds.
    pub latency_ms: f64,
}

/// The reason why a command has no result.
#[derive(Debug)]
pub enum Failure {
    /// The command could not be started or awaited; the text is the reason.
    NotStarted(String),
    /// The command exceeded its timeout.
    TimedOut {
        /// The timeout.
        after: Duration,
        /// The text that the command wrote to stderr before it was stopped.
        stderr: String,
    },
    /// The command wrote more than [`MAX_OUTPUT`] to stdout.
    TooMuchOutput,
}

/// Returns the first 200 characters of the last non-blank line. Returns `None` if all lines are blank.
pub fn last_line(stderr: &str) -> Option<String> {
    let line = stderr.lines().rfind(|it| !it.trim().is_empty())?;
    Some(line.trim().chars().take(200).collect())
}

/// Runs a command line, captures its output, and ends all processes it started. Any exit code is a success here.
///
/// Fails if the command cannot be started or awaited, does not end within `limit`, or writes more than [`MAX_OUTPUT`]
/// to stdout.
pub async fn capture(
    line: &str,
    folder: &Path,
    limit: Duration,
    stdin: Option<Vec<u8>>,
    guard: &Guard,
) -> Result<Ran, Failure> {
    capture_with(line, folder, limit, stdin, Variables::default(), guard).await
}

/// The changes to the environment of a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables<'a> {
    /// The names of the variables that the command does not inherit.
    pub without: &'a [String],
    /// The names and values of the variables that are set for the command.
    pub env: &'a [(String, String)],
}

/// Runs a command line like [`capture`], with changes to its environment.
pub async fn capture_with(
    line: &str,
    folder: &Path,
    limit: Duration,
    stdin: Option<Vec<u8>>,
    variables: Variables<'_>,
    guard: &Guard,
) -> Result<Ran, Failure> {
    let command = command(line, folder, stdin.is_some(), variables);
    let (mut child, mut group) = Group::spawn(command, guard)
        .map_err(|err| Failure::NotStarted(not_started(folder, "command", &err)))?;
    let ran = run_to_end(&mut child, &group, limit, stdin).await;
    group.end().await;
    ran
}

/// Captures the output of a command until it ends. Fails if the command cannot be awaited, exceeds its timeout, or
/// writes too much to stdout.
async fn run_to_end(
    child: &mut Child,
    group: &Group,
    limit: Duration,
    stdin: Option<Vec<u8>>,
) -> Result<Ran, Failure> {
    let started = Instant::now();
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
                // Another process that the command started may still hold the pipes open.
                if !read_all && let Ok(Err(Overflow)) = timeout(GRACE, &mut reading).await {
                    return Err(Failure::TooMuchOutput);
                }
                Some((status, elapsed))
            }
            Ended::TimedOut => {
                group.terminate(child);
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
                group.kill(child);
                let _ = timeout(GRACE, child.wait()).await;
                return Err(Failure::TooMuchOutput);
            }
        }
    };
    let Some((status, elapsed)) = ended else {
        group.kill(child);
        let _ = timeout(GRACE, child.wait()).await;
        return Err(Failure::TimedOut { after: limit, stderr: err.text().0 });
    };
    let status =
        status.map_err(|err| Failure::NotStarted(format!("cannot wait for the command: {err}")))?;
    Ok(finished(status, &out, &err, elapsed.as_secs_f64() * 1000.0))
}

/// The result of waiting for a command.
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

fn command(
    line: &str,
    folder: &Path,
    has_stdin: bool,
    Variables { without, env }: Variables<'_>,
) -> Command {
    let mut command = prepared(line, folder);
    for name in without {
        command.env_remove(name);
    }
    command.envs(env.iter().map(|(name, value)| (name, value)));
    if !has_stdin {
        command.stdin(Stdio::null());
    }
    command
}

/// Returns the command that runs a command line in a folder, [prepared](prepare) for [`Group::spawn`].
pub fn prepared(line: &str, folder: &Path) -> Command {
    let mut command = shell(line);
    command.current_dir(folder);
    prepare(&mut command);
    command
}

/// Prepares a program for [`Group::spawn`]. All streams are pipes, and dropping the [`Child`] kills the program.
///
/// On Unix, the program gets its own process group, so that Ctrl-C in a terminal does not end it.
pub fn prepare(command: &mut Command) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
}

/// Returns the reason why a program could not be started in its folder. `what` names the program, such as `command`.
pub fn not_started(folder: &Path, what: &str, err: &io::Error) -> String {
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

/// Writes the input to stdin, and closes stdin. Errors are ignored, because a program may end without reading its
/// stdin.
async fn feed(pipe: Option<ChildStdin>, input: Option<Vec<u8>>) {
    if let (Some(mut pipe), Some(input)) = (pipe, input) {
        let _ = pipe.write_all(&input).await;
        let _ = pipe.shutdown().await;
    }
}

/// The error for output above the size limit.
struct Overflow;

#[derive(Clone, Copy, PartialEq)]
enum OnOverflow {
    Fail,
    Cut,
}

/// The bytes captured from a pipe, up to the size limit. The bytes remain available if reading is cancelled.
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

    /// Returns the captured text, and true if all bytes were UTF-8. Invalid bytes become U+FFFD.
    fn text(&self) -> (String, bool) {
        let text = String::from_utf8_lossy(&self.bytes);
        let is_text = matches!(text, std::borrow::Cow::Borrowed(_));
        (text.into_owned(), is_text)
    }
}
