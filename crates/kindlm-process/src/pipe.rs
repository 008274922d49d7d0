//! A process with line-based input and output. It ends together with every process that it started.

use std::collections::VecDeque;
use std::future::pending;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::capture::MAX_OUTPUT;
use crate::group::{GRACE, Group};
use crate::guard::Guard;

/// The number of bytes of stderr that are stored: the last 256 KiB.
const MAX_STDERR: usize = 256 * 1024;

/// A running process with its pipes.
pub struct Pipe {
    child: Child,
    group: Group,
    stdin: Option<ChildStdin>,
    outgoing: VecDeque<u8>,
    /// True if stdin closes after all queued input is written.
    closes: bool,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    pending: Vec<u8>,
    /// The position in `pending` at which the search for the next line break continues.
    searched: usize,
    /// The number of further bytes of stdout that are accepted. Each input resets this number to [`MAX_OUTPUT`].
    room: usize,
    buffers: (Vec<u8>, Vec<u8>),
}

/// The size of a read buffer, in bytes.
const BUFFER: usize = 32 * 1024;

/// The reason why no line could be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The deadline has passed.
    Late,
    /// The process wrote more than [`MAX_OUTPUT`] to stdout since the last input.
    TooMuch,
    /// The line is not UTF-8.
    NotText,
}

/// The way in which a process ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The process ended by itself, with this exit code; `None` after a signal.
    Itself(Option<i32>),
    /// The process had to be stopped.
    Stopped,
}

impl Pipe {
    /// Starts a program.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started.
    pub fn start(command: Command, guard: &Guard) -> io::Result<Self> {
        let (mut child, group) = Group::spawn(command, guard)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Self {
            child,
            group,
            stdin,
            outgoing: VecDeque::new(),
            closes: false,
            stdout,
            stderr,
            pending: Vec::new(),
            searched: 0,
            room: MAX_OUTPUT,
            buffers: (vec![0; BUFFER], vec![0; BUFFER]),
        })
    }

    /// Queues text for stdin. The text is written while [`line`](Self::line) waits. Write errors are ignored, because
    /// the process may end without reading its stdin.
    pub fn queue_input(&mut self, text: &str) {
        self.outgoing.extend(text.as_bytes());
        self.room = MAX_OUTPUT;
    }

    /// Requests that stdin closes after all queued input is written.
    pub fn close(&mut self) {
        self.closes = true;
    }

    /// Returns the next line that is not blank, without surrounding white space. Returns `None` at the end of stdout.
    /// Fails at the deadline, if the process writes too much, or if the line is not UTF-8.
    pub async fn line(
        &mut self,
        deadline: Instant,
        tail: &mut Tail,
    ) -> Result<Option<String>, Fault> {
        loop {
            if let Some(line) = self.take_line()? {
                return Ok(Some(line));
            }
            if self.stdout.is_none() {
                return Ok(None);
            }
            self.step(deadline, tail).await?;
        }
    }

    /// Returns the next complete line that has already been read. Returns `None` if more of stdout is needed. Fails if
    /// the line is not UTF-8.
    fn take_line(&mut self) -> Result<Option<String>, Fault> {
        loop {
            let end = self
                .pending
                .get(self.searched..)
                .and_then(|it| it.iter().position(|b| *b == b'\n'));
            let end = match end {
                Some(at) => self.searched + at,
                // The last line may lack a line break.
                None if self.stdout.is_none() && !self.pending.is_empty() => self.pending.len(),
                None => {
                    self.searched = self.pending.len();
                    return Ok(None);
                }
            };
            let rest = self.pending.split_off((end + 1).min(self.pending.len()));
            let line = std::mem::replace(&mut self.pending, rest);
            self.searched = 0;
            let line = String::from_utf8(line).map_err(|_| Fault::NotText)?;
            if !line.trim().is_empty() {
                return Ok(Some(line.trim().to_owned()));
            }
        }
    }

    /// Reads or writes one of the pipes, as soon as this is possible. Fails at the deadline, or if stdout exceeds its
    /// limit.
    async fn step(&mut self, deadline: Instant, tail: &mut Tail) -> Result<(), Fault> {
        let Self { stdin, outgoing, stdout, stderr, buffers, .. } = self;
        let (from_stdout, from_stderr) = buffers;
        if outgoing.is_empty() && self.closes {
            *stdin = None;
        }
        tokio::select! {
            count = read_pipe(stdout.as_mut(), from_stdout) => match count {
                0 => *stdout = None,
                count if count > self.room => return Err(Fault::TooMuch),
                count => {
                    self.room -= count;
                    self.pending.extend(from_stdout.iter().take(count));
                }
            },
            count = read_pipe(stderr.as_mut(), from_stderr) => match count {
                0 => *stderr = None,
                count => tail.extend(from_stderr.get(..count).unwrap_or_default()),
            },
            count = write(stdin.as_mut(), outgoing) => if let Ok(count) = count {
                outgoing.drain(..count);
            } else {
                outgoing.clear();
                *stdin = None;
            },
            () = sleep_until(deadline) => return Err(Fault::Late),
        }
        Ok(())
    }

    /// Closes stdin, and waits until the process ends. Discards unwritten input and the rest of stdout. Stops the
    /// process at the deadline. Finally kills the other processes that the process started.
    pub async fn wait(&mut self, deadline: Instant, tail: &mut Tail) -> Ended {
        self.stdin = None;
        match timeout_at(deadline, self.exit(tail)).await {
            Ok(code) => {
                self.drain(tail).await;
                self.group.end().await;
                Ended::Itself(code)
            }
            Err(_) => self.stop(tail).await,
        }
    }

    /// Stops the process and every process that it started.
    pub async fn stop(&mut self, tail: &mut Tail) -> Ended {
        self.stdin = None;
        self.group.terminate(&mut self.child);
        if timeout(GRACE, self.exit(tail)).await.is_err() {
            self.group.kill(&mut self.child);
            let _ = timeout(GRACE, self.exit(tail)).await;
        }
        self.drain(tail).await;
        self.group.end().await;
        Ended::Stopped
    }

    /// Waits for the end of the process, and returns its exit code; `None` if there is no exit code. Keeps reading the
    /// pipes, because a full pipe would block the process.
    async fn exit(&mut self, tail: &mut Tail) -> Option<i32> {
        loop {
            let Self { child, stdout, stderr, buffers, .. } = self;
            let (from_stdout, from_stderr) = buffers;
            tokio::select! {
                status = child.wait() => return status.ok().and_then(|it| it.code()),
                // The rest of stdout is discarded.
                count = read_pipe(stdout.as_mut(), from_stdout) => if count == 0 {
                    *stdout = None;
                },
                count = read_pipe(stderr.as_mut(), from_stderr) => match count {
                    0 => *stderr = None,
                    count => tail.extend(from_stderr.get(..count).unwrap_or_default()),
                },
            }
        }
    }

    /// Reads the rest of stderr for at most [`GRACE`], because another process may still hold the pipe open.
    async fn drain(&mut self, tail: &mut Tail) {
        let deadline = Instant::now() + GRACE;
        while self.stderr.is_some() {
            let from_stderr = &mut self.buffers.1;
            let count = timeout_at(deadline, read_pipe(self.stderr.as_mut(), from_stderr)).await;
            match count {
                Ok(0) | Err(_) => self.stderr = None,
                Ok(count) => tail.extend(from_stderr.get(..count).unwrap_or_default()),
            }
        }
    }
}

async fn read_pipe(pipe: Option<&mut (impl AsyncRead + Unpin)>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => pending().await,
    }
}

async fn write(pipe: Option<&mut ChildStdin>, outgoing: &VecDeque<u8>) -> io::Result<usize> {
    match pipe {
        Some(pipe) if !outgoing.is_empty() => pipe.write(outgoing.as_slices().0).await,
        _ => pending().await,
    }
}

/// The last part of stderr, up to 256 KiB, with notes of KindLM.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
    cut: bool,
}

impl Tail {
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(MAX_STDERR);
        self.cut |= over > 0;
        self.bytes.drain(..over);
    }

    /// Adds a note of KindLM, as a line with the prefix `[kindlm]`.
    pub fn note(&mut self, text: &str) {
        if self.bytes.back().is_some_and(|it| *it != b'\n') {
            self.extend(b"\n");
        }
        self.extend(format!("[kindlm] {text}\n").as_bytes());
    }

    /// Returns the last part of stderr, with a note if the beginning is missing. Invalid UTF-8 becomes U+FFFD.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        if self.cut {
            format!("[kindlm] only the last {} KiB of stderr are kept\n{text}", MAX_STDERR / 1024)
        } else {
            text.into_owned()
        }
    }

    /// Returns the last lines that are not blank, for an error message: at most 5 lines and 500 characters. Returns
    /// `None` if all lines are blank.
    pub fn last_lines(&self) -> Option<String> {
        const LINES: usize = 5;
        const CHARS: usize = 500;
        let text = self.text();
        let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..)?.join("\n");
        let skipped = last.chars().count().saturating_sub(CHARS);
        Some(last.chars().skip(skipped).collect()).filter(|it: &String| !it.is_empty())
    }
}
