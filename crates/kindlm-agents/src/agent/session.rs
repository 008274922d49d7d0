//! A running agent: one process for all turns, or one process for each turn.

use std::time::Duration;

use kindlm_types::{
    AgentEnd, AgentKind, AgentReply, AgentSession, AgentStart, AgentTurn, BoxFuture, CommandOutput,
    Event, ProviderError, ProviderErrorKind,
};
use serde_json::{Value, json};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::launch::{Surroundings, hello};
use super::rollout::Files;
use super::{Dialect, Reported, Step, dialect, thread_files};
use kindlm_process::{Ended, Fault, MAX_OUTPUT, Pipe, Tail, not_started};

/// Starts the session of an agent. An agent with KindLM's protocol must answer with `hello`. Codex is not started yet:
/// each turn starts a process. The concurrency slot stays occupied until the session is dropped.
///
/// Fails if the process cannot be started, or if the agent does not answer with `hello` in time.
pub async fn start<'a>(
    start: &'a AgentStart,
    surroundings: Surroundings<'a>,
    slot: Option<SemaphorePermit<'a>>,
) -> Result<Box<dyn AgentSession + 'a>, ProviderError> {
    let mut session = Session {
        start,
        surroundings,
        dialect: dialect(&start.agent),
        reported: Reported::default(),
        pipe: None,
        tail: Tail::default(),
        lines: 0,
        exit_code: None,
        spoke: false,
        broken: false,
        _slot: slot,
    };
    match start.agent.kind {
        AgentKind::Kindlm => {
            session.open(None)?;
            if let Some(pipe) = &mut session.pipe {
                pipe.queue_input(&format!("{}\n", hello(start)));
            }
            session.until(&Step::Ready, start.timeout, HELLO).await?;
        }
        AgentKind::ClaudeCode => session.open(None)?,
        // Codex starts with each turn, because it receives the message at its start.
        AgentKind::Codex => {}
    }
    Ok(Box::new(session))
}

/// The phrases of error messages for a step that the agent has not done, such as `hello`.
#[derive(Clone, Copy)]
struct Awaited<'w> {
    /// The phrase after "it" while the agent runs, such as "sent no `hello`".
    missing: &'w str,
    /// The phrase after "it ended before it", such as "sent `hello`".
    done: &'w str,
}

/// The first line of an agent with KindLM's protocol.
const HELLO: Awaited<'static> = Awaited { missing: "sent no `hello`", done: "sent `hello`" };

struct Session<'a> {
    start: &'a AgentStart,
    surroundings: Surroundings<'a>,
    dialect: Box<dyn Dialect>,
    reported: Reported,
    /// The process; `None` between the turns of Codex.
    pipe: Option<Pipe>,
    tail: Tail,
    /// The number of lines read from the process.
    lines: u64,
    exit_code: Option<i32>,
    /// True if the process has written a line.
    spoke: bool,
    /// True if a turn has begun but not ended.
    broken: bool,
    _slot: Option<SemaphorePermit<'a>>,
}

impl AgentSession for Session<'_> {
    fn turn(&mut self, turn: AgentTurn) -> BoxFuture<'_, Result<AgentReply, ProviderError>> {
        Box::pin(async move {
            let started = Instant::now();
            self.broken = true;
            self.speak(&turn)?;
            let answered = format!("answered turn {}", turn.number);
            let (missing, done) = (format!("has not {answered}"), format!("had {answered}"));
            let awaited = Awaited { missing: &missing, done: &done };
            self.until(&Step::Done, turn.timeout, awaited).await?;
            let latency_ms = started.elapsed().as_secs_f64() * 1000.0;
            if self.start.agent.kind == AgentKind::Codex {
                self.finish_process().await?;
                // The process may have used up the turn's timeout. So reading the thread files may take at least the
                // grace period.
                let grace = self.dialect.farewell();
                let limit = turn.timeout.saturating_sub(started.elapsed()).max(grace);
                let files = self.thread_files(limit).await;
                self.dialect.settle(files, &mut self.reported);
            }
            self.broken = false;
            let mut reported = self.reported.take_turn();
            // With a schema, the structured output is the answer. The text may only describe this output.
            if self.start.agent.output_schema.is_some() && reported.output_json.is_some() {
                reported.text = String::new();
            }
            Ok(AgentReply {
                text: reported.text,
                unread: reported.unread,
                output_json: reported.output_json,
                events: reported.events,
                tool_calls: reported.tool_calls,
                finish_reason: reported.finish_reason,
                coverage: self.reported.coverage(),
                usage: reported.usage,
                cost_usd: reported.cost_usd,
                latency_ms,
                first_token_ms: reported.first_token_ms,
            })
        })
    }

    fn end(&mut self) -> BoxFuture<'_, AgentEnd> {
        Box::pin(async move {
            let mut error = None;
            if self.broken {
                if let Some(mut pipe) = self.pipe.take() {
                    pipe.stop(&mut self.tail).await;
                }
            } else if self.pipe.is_some() {
                error = self.finish_process().await.err();
            }
            AgentEnd {
                events: self.reported.take_turn().events,
                coverage: self.spoke.then(|| self.reported.coverage()),
                stderr: self.tail.text(),
                exit_code: self.exit_code,
                metadata: self.reported.metadata(),
                unsupported: self.reported.unsupported(),
                error,
            }
        })
    }
}

impl Session<'_> {
    fn open(&mut self, thread: Option<&str>) -> Result<(), ProviderError> {
        self.lines = 0;
        let command = self.surroundings.command(self.start, thread);
        let pipe = Pipe::start(command, self.surroundings.guard).map_err(|err| {
            let message = not_started(&self.surroundings.folder(self.start), "agent", &err);
            let mut err = self.error(ProviderErrorKind::Command, message);
            err.attempts = 0;
            err
        })?;
        self.pipe = Some(pipe);
        Ok(())
    }

    /// Sends the user message to the process. For Codex, starts the process first. Fails if the agent has ended.
    fn speak(&mut self, turn: &AgentTurn) -> Result<(), ProviderError> {
        let line = match self.start.agent.kind {
            AgentKind::Kindlm => {
                let mut line = json!({"kindlm": "turn", "turn": turn.number, "user": turn.text});
                if let (Some(label), Value::Object(line)) = (&turn.label, &mut line) {
                    line.insert("label".to_owned(), label.as_str().into());
                }
                format!("{line}\n")
            }
            AgentKind::ClaudeCode => {
                let content = json!([{"type": "text", "text": turn.text}]);
                let message = json!({"role": "user", "content": content});
                format!("{}\n", json!({"type": "user", "message": message}))
            }
            AgentKind::Codex => {
                let thread = self.reported.metadata.get("threadId").and_then(Value::as_str);
                let thread = thread.map(str::to_owned);
                self.open(thread.as_deref())?;
                // Codex has no option for a system prompt, so the prompt precedes the first message.
                match self.start.system.as_deref().filter(|_| thread.is_none()) {
                    Some(system) => format!("{system}\n\n{}", turn.text),
                    None => turn.text.clone(),
                }
            }
        };
        let is_last = self.start.agent.kind == AgentKind::Codex;
        let Some(pipe) = &mut self.pipe else {
            return Err(self.error(ProviderErrorKind::Command, "it has ended already".to_owned()));
        };
        pipe.queue_input(&line);
        if is_last {
            pipe.close();
        }
        Ok(())
    }

    /// Reads lines up to the wanted step. `awaited` describes this step in error messages.
    async fn until(
        &mut self,
        wanted: &Step,
        limit: Duration,
        awaited: Awaited<'_>,
    ) -> Result<(), ProviderError> {
        let deadline = Instant::now() + limit;
        loop {
            let Some(pipe) = &mut self.pipe else { return Err(self.ended_early(awaited).await) };
            let line = match pipe.line(deadline, &mut self.tail).await {
                Ok(Some(line)) => line,
                Ok(None) => return Err(self.ended_early(awaited).await),
                Err(Fault::Late)
                    if *wanted == Step::Done && self.dialect.ends_late(&mut self.reported) =>
                {
                    return Ok(());
                }
                Err(fault) => return Err(self.fault(&fault, limit, awaited)),
            };
            match self.read_line(&line)? {
                step if step == *wanted => return Ok(()),
                Step::More | Step::Ready => {}
                Step::Done => {
                    let message = format!("{} answered an unknown request", self.place());
                    return Err(self.error(ProviderErrorKind::MalformedResponse, message));
                }
                Step::Failed(message) => {
                    return Err(self.error(ProviderErrorKind::Command, message));
                }
            }
        }
    }

    /// Returns the error for an agent that gave no readable line. The agent was too slow, wrote too much, or wrote a
    /// line that is not UTF-8.
    fn fault(&self, fault: &Fault, limit: Duration, awaited: Awaited<'_>) -> ProviderError {
        let Awaited { missing, done } = awaited;
        let (kind, message) = match fault {
            Fault::Late => (
                ProviderErrorKind::Timeout,
                self.with_last_error(format!(
                    "it {missing} within {} ms and was stopped; if it needs longer, raise its `timeoutMs` or \
                     `--timeout`",
                    limit.as_millis()
                )),
            ),
            Fault::TooMuch => (
                ProviderErrorKind::Command,
                format!(
                    "it wrote more than {} MiB to stdout before it {done}, and was stopped",
                    MAX_OUTPUT / (1024 * 1024)
                ),
            ),
            Fault::NotText => (
                ProviderErrorKind::MalformedResponse,
                format!("line {} of its stdout is not UTF-8", self.lines + 1),
            ),
        };
        self.error(kind, message)
    }

    /// Appends the agent's last error message, if the agent has reported an error.
    fn with_last_error(&self, message: String) -> String {
        match self.dialect.last_error() {
            Some(error) => format!("{message}; its last error: {error}"),
            None => message,
        }
    }

    fn read_line(&mut self, line: &str) -> Result<Step, ProviderError> {
        self.lines += 1;
        self.spoke = true;
        self.dialect.read_line(line, &mut self.reported).map_err(|why| {
            let message = format!("{} cannot be read: {why}", self.place());
            self.error(ProviderErrorKind::MalformedResponse, message)
        })
    }

    /// Loads the files in which Codex stores the thread and its subagents. Fails with the reason if they cannot be read
    /// within `limit`.
    async fn thread_files(&mut self, limit: Duration) -> Result<Files, String> {
        let home = self.surroundings.codex_home(self.start);
        let home = home.ok_or("the folder of Codex's threads is unknown")?;
        let thread = self.reported.metadata.get("threadId").and_then(Value::as_str);
        let thread = thread.unwrap_or_default().to_owned();
        let read = tokio::task::spawn_blocking(move || thread_files::load_files(&home, &thread));
        let read = tokio::time::timeout(limit, read).await;
        let read = read.map_err(|_| "the files of its thread were not read in time")?;
        read.unwrap_or_else(|err| Err(err.to_string()))
    }

    fn place(&self) -> String {
        format!("line {} of its stdout", self.lines)
    }

    /// Closes stdin, reads the remaining lines, and waits for the process to end. Stops a process that does not end in
    /// time.
    ///
    /// Fails if a remaining line is unreadable, or if it is another answer or an error.
    async fn finish_process(&mut self) -> Result<(), ProviderError> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        pipe.close();
        let deadline = Instant::now() + self.dialect.farewell();
        let read = loop {
            let Some(pipe) = &mut self.pipe else { break Ok(()) };
            match pipe.line(deadline, &mut self.tail).await {
                Ok(None) | Err(Fault::Late) => break Ok(()),
                Ok(Some(line)) => match self.read_line(&line) {
                    Ok(Step::More | Step::Ready) => {}
                    Ok(Step::Done) => {
                        let message = format!("{} answered an unknown request", self.place());
                        break Err(self.error(ProviderErrorKind::MalformedResponse, message));
                    }
                    Ok(Step::Failed(message)) => {
                        break Err(self.error(ProviderErrorKind::Command, message));
                    }
                    Err(err) => break Err(err),
                },
                Err(Fault::TooMuch | Fault::NotText) => {
                    let message =
                        "what it wrote to stdout after its answer is too much, or not UTF-8";
                    break Err(self.error(ProviderErrorKind::MalformedResponse, message.to_owned()));
                }
            }
        };
        if let Some(mut pipe) = self.pipe.take() {
            match pipe.wait(deadline, &mut self.tail).await {
                Ended::Itself(Some(code)) => {
                    self.exit_code = Some(code);
                    if let Some(signal) = CommandOutput::signal(code) {
                        self.ended_badly(&format!("the agent was ended by signal {signal}"));
                    }
                }
                Ended::Itself(None) => self.ended_badly("the agent was ended by a signal"),
                Ended::Stopped => self.ended_badly(
                    "the agent did not end when its stdin was closed, and was stopped",
                ),
            }
        }
        read
    }

    /// Records an abnormal end of the agent.
    fn ended_badly(&mut self, how: &str) {
        self.tail.note(how);
        self.reported.push(Event::Error { message: how.to_owned() });
    }

    /// Returns the error for an agent whose stdout has ended too early.
    async fn ended_early(&mut self, awaited: Awaited<'_>) -> ProviderError {
        let done = awaited.done;
        let ended = match self.pipe.take() {
            Some(mut pipe) => {
                pipe.wait(Instant::now() + self.dialect.farewell(), &mut self.tail).await
            }
            None => Ended::Itself(None),
        };
        let how = match ended {
            Ended::Itself(Some(code)) => {
                self.exit_code = Some(code);
                // Some exit codes mean that the shell could not start the agent, or that a signal ended it.
                match CommandOutput::broken_off(Some(code)) {
                    Some(why) => format!("it ended before it {done}: {why}"),
                    None => format!("it ended with exit code {code} before it {done}"),
                }
            }
            Ended::Itself(None) => format!("a signal ended it before it {done}"),
            Ended::Stopped => format!("it closed its stdout before it {done}"),
        };
        self.error(ProviderErrorKind::Command, self.with_last_error(how))
    }

    /// Returns an error of the agent, with the last lines of its stderr.
    fn error(&self, kind: ProviderErrorKind, mut message: String) -> ProviderError {
        if let Some(lines) = self.tail.last_lines() {
            message = format!("{message}; the end of its stderr: {lines}");
        }
        ProviderError::new(kind, &*self.start.id, message)
    }
}
