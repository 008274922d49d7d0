//! What a worker knows outside the engine's memory: its pipes, the modules that it has seen, the call it serves.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Stdin, Stdout};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::frame::{self, Ask, Call, Format, Frame, FromWorker, Loaded, Refusal, ToWorker};

/// Most lines, and most bytes, that a call may write to the console; the rest is counted.
const CONSOLE_LINES: usize = 200;
const CONSOLE_BYTES: usize = 64 << 10;

/// Shared by everything in a worker; one thread.
#[derive(Debug)]
pub(crate) struct State {
    link: RefCell<Link>,
    next_ask: Cell<u64>,
    start: Instant,
    random: Cell<u64>,
    pub(crate) call: RefCell<Current>,
    pub(crate) modules: RefCell<Modules>,
}

#[derive(Debug)]
struct Link {
    input: BufReader<Stdin>,
    output: Stdout,
    /// Calls that arrived while an answer was waited for.
    calls: VecDeque<Frame<ToWorker>>,
    /// Answers that nobody has picked up yet.
    replies: VecDeque<Reply>,
}

/// An answer of the host.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) id: u64,
    pub(crate) result: Result<(serde_json::Value, Vec<u8>), Refusal>,
}

/// The call that is served.
#[derive(Debug, Default)]
pub(crate) struct Current {
    pub(crate) scope: u64,
    pub(crate) net: bool,
    pub(crate) read: bool,
    /// When it is interrupted.
    pub(crate) deadline: Option<Instant>,
    /// It was interrupted at its deadline.
    pub(crate) interrupted: bool,
    /// It called `process.exit` with this code.
    pub(crate) exited: Option<i32>,
    /// Requests that are under way.
    pub(crate) pending: usize,
    console: Vec<String>,
    console_bytes: usize,
    console_dropped: usize,
}

/// Modules that were seen, for as long as the worker lives.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// What a specifier means; by scope, asking folder and specifier.
    pub(crate) resolved: HashMap<(u64, String, String), String>,
    /// By absolute path.
    pub(crate) known: HashMap<String, Rc<Source>>,
    /// The root folder, absolute.
    pub(crate) root: String,
    /// What was compiled in the current call and is worth keeping compiled.
    pub(crate) wanted: Vec<Compiled>,
}

/// What is kept compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Compiled {
    /// A built-in module.
    Builtin(&'static str),
    /// A CommonJS file.
    Commonjs(String),
    /// An ES module.
    Module(String),
    /// A body: its parameters, and its code.
    Body(Vec<String>, Rc<str>),
}

/// A module's source.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: Rc<str>,
    /// What it turned out to be.
    pub(crate) format: Cell<Format>,
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            link: RefCell::new(Link {
                input: BufReader::with_capacity(1 << 16, io::stdin()),
                output: io::stdout(),
                calls: VecDeque::new(),
                replies: VecDeque::new(),
            }),
            next_ask: Cell::new(1),
            start: Instant::now(),
            random: Cell::new(seed | 1),
            call: RefCell::default(),
            modules: RefCell::default(),
        }
    }

    /// Milliseconds since the worker began.
    pub(crate) fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * 1000.0
    }

    /// A number in `[0, 1)`, from a state that no rollback touches (xorshift64*, Vigna 2016).
    pub(crate) fn random(&self) -> f64 {
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let number = bits as f64 / (1_u64 << 53) as f64;
        number
    }

    pub(crate) fn begin(&self, call: &Call) {
        *self.call.borrow_mut() = Current {
            scope: call.scope,
            net: call.net,
            read: call.read,
            deadline: Some(Instant::now() + Duration::from_millis(call.soft_ms)),
            ..Current::default()
        };
        let mut link = self.link.borrow_mut();
        link.replies.clear();
    }

    /// Whether the engine must stop now; remembers that it did.
    pub(crate) fn must_stop(&self) -> bool {
        // The engine asks in the middle of anything; a borrow that is taken means that Rust code is at work.
        let Ok(mut call) = self.call.try_borrow_mut() else { return false };
        if call.exited.is_some() {
            return true;
        }
        if call.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            call.interrupted = true;
        }
        call.interrupted
    }

    /// Writes a line to the console, as far as there is room.
    pub(crate) fn log(&self, line: &str) {
        let mut call = self.call.borrow_mut();
        let room = CONSOLE_BYTES.saturating_sub(call.console_bytes);
        if call.console.len() >= CONSOLE_LINES || room == 0 {
            call.console_dropped += 1;
            return;
        }
        call.console_bytes += line.len() + 1;
        if line.len() <= room {
            call.console.push(line.to_owned());
        } else {
            let cut = line.floor_char_boundary(room);
            let rest = line.len() - cut;
            call.console.push(format!("{}… ({rest} bytes more)", &line[..cut]));
        }
    }

    /// What was written to the console.
    pub(crate) fn take_console(&self) -> Vec<String> {
        let mut call = self.call.borrow_mut();
        let mut console = std::mem::take(&mut call.console);
        if call.console_dropped > 0 {
            console.push(format!("… ({} lines more)", call.console_dropped));
        }
        console
    }

    /// The next call; `None` when the host is gone.
    pub(crate) fn next_call(&self) -> io::Result<Option<(Call, Vec<Vec<u8>>)>> {
        let mut link = self.link.borrow_mut();
        loop {
            let frame = match link.calls.pop_front() {
                Some(frame) => frame,
                None => match frame::read(&mut link.input)? {
                    Some(bytes) => frame::decode(&bytes)?,
                    None => return Ok(None),
                },
            };
            match frame.header {
                ToWorker::Call(call) => return Ok(Some((call, frame.parts))),
                ToWorker::Hello { root, .. } => self.modules.borrow_mut().root = root,
                // To a question of an earlier call that did not wait for it.
                ToWorker::Reply { .. } => {}
            }
        }
    }

    pub(crate) fn send(&self, message: &FromWorker, part: &[u8]) -> io::Result<()> {
        let parts: &[&[u8]] = if part.is_empty() { &[] } else { &[part] };
        let bytes = frame::encode(message, parts)?;
        frame::write(&mut self.link.borrow_mut().output, &bytes)
    }

    /// Asks the host, and does not wait.
    pub(crate) fn ask(&self, ask: Ask, part: &[u8]) -> io::Result<u64> {
        let id = self.next_ask.replace(self.next_ask.get() + 1);
        self.send(&FromWorker::Ask { id, ask }, part)?;
        Ok(id)
    }

    /// The next answer, whatever it is to. `Err` when the host is gone.
    pub(crate) fn next_reply(&self) -> io::Result<Reply> {
        let mut link = self.link.borrow_mut();
        if let Some(reply) = link.replies.pop_front() {
            return Ok(reply);
        }
        link.read_reply()
    }

    /// Asks the host, and waits for the answer.
    pub(crate) fn ask_and_wait(&self, ask: Ask) -> Result<(serde_json::Value, Vec<u8>), Refusal> {
        let gone = |err: io::Error| Refusal {
            code: "EPIPE".to_owned(),
            message: format!("the host of this script is gone: {err}"),
        };
        let id = self.ask(ask, &[]).map_err(gone)?;
        let mut link = self.link.borrow_mut();
        loop {
            let reply = link.read_reply().map_err(gone)?;
            if reply.id == id {
                return reply.result;
            }
            link.replies.push_back(reply);
        }
    }

    /// What `specifier` means to a file in `folder`.
    pub(crate) fn load(&self, from: &str, specifier: &str) -> Result<String, Refusal> {
        let scope = self.call.borrow().scope;
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        let key = (scope, folder.to_owned(), specifier.to_owned());
        if let Some(path) = self.modules.borrow().resolved.get(&key) {
            return Ok(path.clone());
        }
        let (facts, content) = self.ask_and_wait(Ask::Load {
            from: (!from.is_empty()).then(|| from.to_owned()),
            specifier: specifier.to_owned(),
        })?;
        let bad = |message: String| Refusal { code: "EINVAL".to_owned(), message };
        let Loaded { path, format } =
            serde_json::from_value(facts).map_err(|err| bad(err.to_string()))?;
        let mut modules = self.modules.borrow_mut();
        if !modules.known.contains_key(&path) {
            let text = String::from_utf8(content)
                .map_err(|_| bad(format!("`{path}` is not UTF-8 text: save it as UTF-8")))?;
            let text = super::typescript::strip(&path, text).map_err(bad)?;
            let source =
                Source { path: path.clone(), text: text.into(), format: Cell::new(format) };
            modules.known.insert(path.clone(), Rc::new(source));
        }
        modules.resolved.insert(key, path.clone());
        Ok(path)
    }
}

impl Link {
    fn read_reply(&mut self) -> io::Result<Reply> {
        loop {
            let Some(bytes) = frame::read(&mut self.input)? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let frame = frame::decode::<ToWorker>(&bytes)?;
            match frame.header {
                ToWorker::Call(_) | ToWorker::Hello { .. } => self.calls.push_back(frame),
                ToWorker::Reply { id, error, facts } => {
                    let part = frame.parts.into_iter().next().unwrap_or_default();
                    let result = match error {
                        Some(refusal) => Err(refusal),
                        None => Ok((facts, part)),
                    };
                    return Ok(Reply { id, result });
                }
            }
        }
    }
}
