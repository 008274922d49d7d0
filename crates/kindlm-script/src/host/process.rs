//! A worker process: its start, communication and end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kindlm_process::Group;
use kindlm_types::BoxFuture;
use kindlm_types::script::{ScriptError, ScriptErrorKind, ScriptRuntime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::Instant;

use super::job::Job;
use super::{Shared, answer, command, error};
use crate::frame::{self, Ask, Frame, FromWorker, MAX_FRAME, Refusal, ToWorker};
use crate::limits;

/// The maximum time for the start of a worker. A busy machine starts interpreters slowly.
const START: Duration = Duration::from_secs(30);
/// If at least this number of bytes waits to be written to the worker, the answers to its questions wait too.
const UNREAD: usize = 2 * limits::CONTENT;
/// The maximum time for reading stderr after the process has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A running worker.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
    child: Child,
    /// The worker's process and all processes that it started.
    group: Group,
    input: ChildStdin,
    output: FrameReader,
    unread: UnwrittenFrames,
    /// True if the worker was killed or should be replaced.
    done: bool,
    next_call: u64,
}

/// The pending answer to a worker's question: the id of the question, and the `facts` with the byte string of the
/// reply.
type PendingAnswer = BoxFuture<'static, (u64, Result<(serde_json::Value, Vec<u8>), Refusal>)>;

/// The reason why the worker gave no answer to a call.
enum Lost {
    Late,
    Memory,
    Broken(String),
}

impl Worker {
    pub(crate) async fn start(
        runtime: ScriptRuntime,
        shared: &Arc<Shared>,
    ) -> Result<Self, ScriptError> {
        let command = command::command(runtime, &shared.options);
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let not_started = |why: String| {
            error(ScriptErrorKind::Runtime, format!("a worker for scripts does not start: {why}"))
        };
        let (mut child, group) = Group::spawn(command, &shared.guard)
            .map_err(|err| not_started(command::not_found(runtime, &program, &err)))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(not_started("it has no pipes".to_owned()));
        };
        let output = FrameReader { from: output, buffer: Vec::new() };
        let shared = Arc::clone(shared);
        let unread = UnwrittenFrames::default();
        let (done, next_call) = (false, 1);
        let mut worker = Self { shared, child, group, input, output, unread, done, next_call };
        let ready = tokio::time::timeout(START, worker.output.next()).await;
        match ready {
            Ok(Ok(Some(Frame { header: FromWorker::Ready, .. }))) => {}
            Ok(Ok(Some(_)) | Err(_)) => {
                return Err(not_started("its first message is not `ready`".to_owned()));
            }
            Ok(Ok(None)) => {
                let why = worker.last_words().await;
                return Err(not_started(why));
            }
            Err(_) => {
                return Err(not_started(format!("it sent nothing for {} s", START.as_secs())));
            }
        }
        let hello = ToWorker::Hello {
            root: worker.shared.files.root_text(),
            typescript: match runtime {
                ScriptRuntime::Node => command::typescript(&worker.shared.options),
                _ => Vec::new(),
            },
        };
        let hello = frame::encode(&hello, &[]).map_err(|err| not_started(err.to_string()))?;
        worker.unread.push(hello);
        if runtime != ScriptRuntime::QuickJs
            && let Some(mut stderr) = worker.child.stderr.take()
        {
            // Read and discard stderr. Otherwise, the output of a script's child processes could fill the pipe and
            // block them.
            tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
        }
        Ok(worker)
    }

    /// Returns true if the worker must not serve further calls.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Kills all processes of the worker, and waits until they have ended.
    pub(crate) async fn end(mut self) {
        self.kill();
        let _ = self.child.wait().await;
        self.group.end().await;
    }

    fn kill(&mut self) {
        self.group.kill(&mut self.child);
    }

    /// Runs the job's script in the worker, and sends the answer to the caller.
    pub(crate) async fn serve(&mut self, job: Job) {
        if job.answer.is_closed() {
            return;
        }
        let id = self.next_call;
        let result = match answer::call(&self.shared, id, &job.question, job.compile_only) {
            Ok(bytes) => {
                self.next_call += 1;
                self.unread.push(bytes);
                self.exchange(id, &job).await
            }
            Err(err) => Err(err),
        };
        // The send only fails if the caller no longer waits.
        let _ = job.answer.send(result);
    }

    async fn exchange(
        &mut self,
        id: u64,
        job: &Job,
    ) -> Result<kindlm_types::script::ScriptAnswer, ScriptError> {
        let timeout = job.question.timeout.unwrap_or(self.shared.options.timeout);
        match self.wait(id, job, timeout).await {
            Ok((ending, console, part, retire)) => {
                self.done = retire;
                answer::parse_answer(ending, console, &part, timeout)
            }
            Err(Lost::Late) => {
                self.done = true;
                self.kill();
                Err(answer::late(timeout))
            }
            Err(Lost::Memory) => {
                self.done = true;
                let message = format!(
                    "out of memory: beside the {} MiB of the script, its process may take {} MiB",
                    limits::MEMORY >> 20,
                    limits::PROCESS >> 20
                );
                Err(error(ScriptErrorKind::Memory, message))
            }
            Err(Lost::Broken(why)) => {
                self.done = true;
                self.kill();
                Err(error(
                    ScriptErrorKind::Internal,
                    format!("the worker of the script failed: {why}"),
                ))
            }
        }
    }

    /// Waits for the answer to a call, and answers the worker's questions meanwhile. Fails if the worker gives no
    /// answer in time, ends, or breaks the protocol.
    ///
    /// One deadline covers reading, writing and answering, so that a worker that reads nothing or writes endlessly
    /// times out.
    async fn wait(
        &mut self,
        id: u64,
        job: &Job,
        timeout: Duration,
    ) -> Result<(frame::Ending, Vec<String>, Vec<u8>, bool), Lost> {
        let soft = Instant::now() + timeout;
        let hard = tokio::time::sleep_until(soft + limits::GRACE);
        tokio::pin!(hard);
        let mut asked: FuturesUnordered<PendingAnswer> = FuturesUnordered::new();
        loop {
            let waits = self.unread.len();
            let frame = tokio::select! {
                biased;
                () = &mut hard => return Err(Lost::Late),
                frame = self.output.next() => frame,
                () = self.unread.write_some(&mut self.input), if waits > 0 => continue,
                Some((id, result)) = asked.next(), if !asked.is_empty() && waits < UNREAD => {
                    self.reply(id, result)?;
                    continue;
                }
            };
            match frame.map_err(|err| Lost::Broken(err.to_string()))? {
                None => return Err(self.ended().await),
                Some(Frame { header: FromWorker::Ready, .. }) => {
                    return Err(Lost::Broken("it started twice".to_owned()));
                }
                Some(Frame {
                    header: FromWorker::Answer { id: of, ending, console, retire },
                    parts,
                }) => {
                    if of != id {
                        return Err(Lost::Broken("it answered another call".to_owned()));
                    }
                    return Ok((
                        ending,
                        console,
                        parts.into_iter().next().unwrap_or_default(),
                        retire,
                    ));
                }
                Some(Frame { header: FromWorker::Ask { id, ask }, parts }) => {
                    let body = parts.into_iter().next().unwrap_or_default();
                    if let Some(answer) = self.answer(id, ask, body, job, soft)? {
                        asked.push(answer);
                    }
                }
            }
        }
    }

    /// Answers a worker's question immediately, or returns a future for the answer. Returns `None` after an immediate
    /// answer. Fails if the reply cannot be sent.
    fn answer(
        &mut self,
        id: u64,
        ask: Ask,
        body: Vec<u8>,
        job: &Job,
        soft: Instant,
    ) -> Result<Option<PendingAnswer>, Lost> {
        let permissions = &job.question.permissions;
        match ask {
            Ask::Load { from, specifier } => {
                let found = self.shared.files.load(permissions, from.as_deref(), &specifier);
                self.reply(id, found)?;
                Ok(None)
            }
            Ask::Look { op, path } => {
                let found = self.shared.files.look(permissions, op, &path);
                self.reply(id, found)?;
                Ok(None)
            }
            Ask::Sleep { ms } => {
                // The wait ends at the deadline at the latest, because the worker stops the call then.
                let until = Instant::now()
                    .checked_add(Duration::from_millis(ms))
                    .map_or(soft, |until| until.min(soft));
                Ok(Some(Box::pin(async move {
                    tokio::time::sleep_until(until).await;
                    (id, Ok((serde_json::Value::Null, Vec::new())))
                })))
            }
            Ask::Fetch { url, method, headers } => {
                let request = super::fetch::Request { url, method, headers, body };
                let left = soft.saturating_duration_since(Instant::now());
                let shared = Arc::clone(&self.shared);
                let permissions = Arc::clone(permissions);
                Ok(Some(Box::pin(async move {
                    (id, super::fetch::send(&shared, &permissions, request, left).await)
                })))
            }
        }
    }

    fn reply(
        &mut self,
        id: u64,
        result: Result<(serde_json::Value, Vec<u8>), Refusal>,
    ) -> Result<(), Lost> {
        let (error, facts, part) = match result {
            Ok((facts, part)) => (None, facts, part),
            Err(refusal) => (Some(refusal), serde_json::Value::Null, Vec::new()),
        };
        let reply = ToWorker::Reply { id, error, facts };
        let bytes = frame::encode(&reply, &[&part]).map_err(|err| Lost::Broken(err.to_string()))?;
        self.unread.push(bytes);
        Ok(())
    }

    /// Returns the reason why the process ended during a call: a lack of memory, or the exit status with stderr.
    async fn ended(&mut self) -> Lost {
        let why = self.last_words().await;
        // Error messages of Rust's allocator begin with this text.
        if why.contains("memory allocation of ") { Lost::Memory } else { Lost::Broken(why) }
    }

    /// Kills the process if it still runs, and returns its exit status and stderr.
    async fn last_words(&mut self) -> String {
        self.kill();
        let status = match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(err) => err.to_string(),
        };
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut stderr = stderr.take(4096);
            let read = stderr.read_to_string(&mut said);
            // Output that is not UTF-8 is omitted. A child of the process may hold the pipe open, so the read has a
            // time limit.
            let _ = tokio::time::timeout(LAST_WORDS, read).await;
        }
        let said = said.trim();
        if said.is_empty() { status } else { format!("{status}: {said}") }
    }
}

/// The queue of frames that are not yet written to the worker.
#[derive(Debug, Default)]
struct UnwrittenFrames {
    frames: VecDeque<Vec<u8>>,
    /// The number of written bytes of the first frame.
    written: usize,
    /// The number of unwritten bytes in all frames.
    length: usize,
}

impl UnwrittenFrames {
    fn push(&mut self, frame: Vec<u8>) {
        self.length += frame.len();
        self.frames.push_back(frame);
    }

    fn len(&self) -> usize {
        self.length
    }

    /// Writes as much of the first frame as the pipe accepts. The function is cancel safe: it neither loses nor repeats
    /// bytes.
    async fn write_some(&mut self, to: &mut ChildStdin) {
        let Some(frame) = self.frames.front() else { return };
        match to.write(&frame[self.written..]).await {
            Ok(written) => {
                self.written += written;
                self.length -= written;
                if self.written == frame.len() {
                    self.frames.pop_front();
                    self.written = 0;
                }
            }
            // The worker has ended; reading its output reports the reason.
            Err(_) => *self = Self::default(),
        }
    }
}

/// A reader of frames. Reads are cancel safe: they lose no bytes.
#[derive(Debug)]
struct FrameReader {
    from: ChildStdout,
    buffer: Vec<u8>,
}

impl FrameReader {
    async fn next(&mut self) -> io::Result<Option<Frame<FromWorker>>> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > MAX_FRAME {
                    return Err(io::Error::other("it writes to its stdout"));
                }
                if let Some(bytes) = self.buffer.get(4..4 + length) {
                    let frame = frame::decode(bytes)?;
                    self.buffer.drain(..4 + length);
                    return Ok(Some(frame));
                }
                self.buffer.reserve(4 + length - self.buffer.len());
            }
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}
