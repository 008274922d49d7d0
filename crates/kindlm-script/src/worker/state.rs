//! The state of a worker outside of the engine's memory: the pipes, the loaded modules and the current call.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Stdin, Stdout};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::compile::{Bytecode, Compiler, Head, Problem};
use crate::frame::{self, Ask, Call, Format, Frame, FromWorker, Loaded, Refusal, ToWorker};

/// The maximum number of console lines of a call. After this number of lines, or after [`CONSOLE_BYTES`], further lines
/// are only counted.
const CONSOLE_LINES: usize = 200;
/// The maximum total size of the console lines of a call, in bytes.
const CONSOLE_BYTES: usize = 64 << 10;

/// The state that all parts of a worker share; single-threaded.
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
    /// The replies that were received but not yet processed.
    replies: VecDeque<Reply>,
}

/// A reply of the host to a question.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) id: u64,
    pub(crate) result: Result<(serde_json::Value, Vec<u8>), Refusal>,
}

/// The state of the current call.
#[derive(Debug, Default)]
pub(crate) struct Current {
    scope: u64,
    /// The id of the first question of this call. Replies to earlier questions are ignored.
    first_ask: u64,
    pub(crate) net: bool,
    pub(crate) read: bool,
    /// The time at which the call is interrupted.
    pub(crate) deadline: Option<Instant>,
    /// True if the call was interrupted at its deadline.
    pub(crate) interrupted: bool,
    /// The code of `process.exit`; `None` if the script has not called it.
    pub(crate) exited: Option<i32>,
    /// The number of pending HTTP requests.
    pub(crate) pending: usize,
    console: Vec<String>,
    console_bytes: usize,
    console_dropped: usize,
}

/// The loaded modules, cached for the life of the worker.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// The absolute path of the root folder.
    pub(crate) root: String,
    /// The modules, by the id of the set of readable folders. Calls with different sets must not share modules.
    scopes: HashMap<u64, Scope>,
}

/// The modules that calls with the same readable folders have loaded.
#[derive(Debug, Default)]
struct Scope {
    /// The resolved paths, by importing folder and specifier.
    resolved: HashMap<(String, String), String>,
    /// The sources, by absolute path.
    known: HashMap<String, Rc<Source>>,
}

/// The source of a file, with its compiled form.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: Rc<str>,
    format: Format,
    unit: OnceCell<Result<Unit, Problem>>,
}

/// A compiled file.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    /// JSON data.
    Json,
    /// A CommonJS file: a function with Node's module parameters.
    Commonjs(Bytecode),
    /// An ES module.
    Module(Bytecode),
}

impl Source {
    /// Compiles the file on first use. If the file name does not determine the format, the code does, as in Node. Then
    /// the file is an ES module if it looks like a module and does not compile as CommonJS. Fails if the file does not
    /// compile.
    pub(crate) fn unit(&self, compiler: &Compiler) -> Result<Unit, Problem> {
        let compile = || match self.format {
            Format::Json => Ok(Unit::Json),
            Format::Module => compiler.module(&self.text, &self.path).map(Unit::Module),
            Format::Commonjs => self.commonjs(compiler),
            Format::Either => match self.commonjs(compiler) {
                Err(_) if self.looks_like_module() => {
                    compiler.module(&self.text, &self.path).map(Unit::Module)
                }
                commonjs => commonjs,
            },
        };
        self.unit.get_or_init(compile).clone()
    }

    fn commonjs(&self, compiler: &Compiler) -> Result<Unit, Problem> {
        let params = "exports,require,module,__filename,__dirname";
        let head = Head { prefix: "", params, file: &self.path };
        // A shebang line is not JavaScript, so it becomes a comment.
        let shebang = if self.text.starts_with("#!") { "//" } else { "" };
        compiler.function(head, &format!("{shebang}{}", self.text)).map(Unit::Commonjs)
    }

    fn looks_like_module(&self) -> bool {
        self.text.lines().map(str::trim_start).any(|line| {
            [
                "import ", "import{", "import*", "import\"", "import'", "export ", "export{",
                "export*",
            ]
            .iter()
            .any(|word| line.starts_with(word))
        }) || self.text.contains("import.meta")
            || self.text.contains("await ")
    }
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            link: RefCell::new(Link {
                input: BufReader::with_capacity(1 << 16, io::stdin()),
                output: io::stdout(),
                replies: VecDeque::new(),
            }),
            next_ask: Cell::new(1),
            start: Instant::now(),
            random: Cell::new(seed | 1),
            call: RefCell::default(),
            modules: RefCell::default(),
        }
    }

    /// Returns the milliseconds since the start of the worker.
    pub(crate) fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * 1000.0
    }

    /// Returns a random number in `[0, 1)` (xorshift64*, Vigna 2016). A rollback of the engine's memory does not reset
    /// the generator.
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
            first_ask: self.next_ask.get(),
            net: call.net,
            read: call.read,
            deadline: Some(Instant::now() + Duration::from_millis(call.soft_ms)),
            ..Current::default()
        };
        let mut link = self.link.borrow_mut();
        link.replies.clear();
    }

    /// Returns true if the engine must stop now, and records an interruption.
    pub(crate) fn must_stop(&self) -> bool {
        // The engine may call this function at any time. If Rust code is using the state, the check is skipped.
        let Ok(mut call) = self.call.try_borrow_mut() else { return false };
        if call.exited.is_some() {
            return true;
        }
        if call.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            call.interrupted = true;
        }
        call.interrupted
    }

    /// Adds a line to the console. Lines above the limits are cut or only counted.
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

    /// Takes the lines on the console, with a note about dropped lines.
    pub(crate) fn take_console(&self) -> Vec<String> {
        let mut call = self.call.borrow_mut();
        let mut console = std::mem::take(&mut call.console);
        if call.console_dropped > 0 {
            console.push(format!("… ({} lines more)", call.console_dropped));
        }
        console
    }

    /// Returns the next call; `None` if the host has ended. Fails if a message cannot be read or decoded.
    pub(crate) fn next_call(&self) -> io::Result<Option<(Call, Vec<Vec<u8>>)>> {
        let mut link = self.link.borrow_mut();
        loop {
            let Some(bytes) = frame::read_frame(&mut link.input)? else { return Ok(None) };
            let frame: Frame<ToWorker> = frame::decode(&bytes)?;
            match frame.header {
                ToWorker::Call(call) => return Ok(Some((call, frame.parts))),
                ToWorker::Hello { root, .. } => self.modules.borrow_mut().root = root,
                // Ignore a late reply to a question of an earlier call.
                ToWorker::Reply { .. } => {}
            }
        }
    }

    pub(crate) fn send(&self, message: &FromWorker, part: &[u8]) -> io::Result<()> {
        let parts: &[&[u8]] = if part.is_empty() { &[] } else { &[part] };
        let bytes = frame::encode(message, parts)?;
        frame::write(&mut self.link.borrow_mut().output, &bytes)
    }

    /// Sends a question to the host without waiting, and returns the question's id.
    pub(crate) fn ask(&self, ask: Ask, part: &[u8]) -> io::Result<u64> {
        let id = self.next_ask.replace(self.next_ask.get() + 1);
        self.send(&FromWorker::Ask { id, ask }, part)?;
        Ok(id)
    }

    /// Waits for the next reply to any question of this call. Fails if the host has ended.
    pub(crate) fn next_reply(&self) -> io::Result<Reply> {
        let mut link = self.link.borrow_mut();
        if let Some(reply) = link.replies.pop_front() {
            return Ok(reply);
        }
        link.read_reply(self.call.borrow().first_ask)
    }

    /// Sends a question to the host, and waits for its reply. Replies to other questions are kept for later. Fails if
    /// the host refuses the question, or has ended.
    pub(crate) fn ask_and_wait(&self, ask: Ask) -> Result<(serde_json::Value, Vec<u8>), Refusal> {
        let gone =
            |err: io::Error| Refusal::new("EPIPE", format!("the script host has stopped: {err}"));
        let id = self.ask(ask, &[]).map_err(gone)?;
        let first = self.call.borrow().first_ask;
        let mut link = self.link.borrow_mut();
        loop {
            let reply = link.read_reply(first).map_err(gone)?;
            if reply.id == id {
                return reply.result;
            }
            link.replies.push_back(reply);
        }
    }

    /// Loads the file for a `specifier` in the file `from`, and returns the path of the loaded file. `from` is empty
    /// for the file of the call. Cached files are not loaded again. Fails if the host refuses the file, if the file is
    /// not UTF-8 text, or if TypeScript cannot be converted.
    pub(crate) fn load(&self, from: &str, specifier: &str) -> Result<String, Refusal> {
        let scope = self.call.borrow().scope;
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        let key = (folder.to_owned(), specifier.to_owned());
        if let Some(path) =
            self.modules.borrow().scopes.get(&scope).and_then(|it| it.resolved.get(&key))
        {
            return Ok(path.clone());
        }
        let (facts, content) = self.ask_and_wait(Ask::Load {
            from: (!from.is_empty()).then(|| from.to_owned()),
            specifier: specifier.to_owned(),
        })?;
        let bad = |message: String| Refusal::new("EINVAL", message);
        let Loaded { path, format } =
            serde_json::from_value(facts).map_err(|err| bad(err.to_string()))?;
        let mut modules = self.modules.borrow_mut();
        let modules = modules.scopes.entry(scope).or_default();
        if !modules.known.contains_key(&path) {
            let text = String::from_utf8(content)
                .map_err(|_| bad(format!("`{path}` is not UTF-8 text: save it as UTF-8")))?;
            let text = crate::typescript::strip(&path, text).map_err(bad)?;
            let source =
                Source { path: path.clone(), text: text.into(), format, unit: OnceCell::new() };
            modules.known.insert(path.clone(), Rc::new(source));
        }
        modules.resolved.insert(key, path.clone());
        Ok(path)
    }

    /// Returns a file that a call with the same readable folders has loaded. Fails if the file is not loaded.
    pub(crate) fn source(&self, path: &str) -> rquickjs::Result<Rc<Source>> {
        let scope = self.call.borrow().scope;
        let modules = self.modules.borrow();
        let known = modules.scopes.get(&scope).and_then(|it| it.known.get(path));
        known.cloned().ok_or_else(|| rquickjs::Error::new_loading(path))
    }
}

impl Link {
    /// Waits for the next reply to a question whose id is `first` or higher. Fails if the host has ended.
    fn read_reply(&mut self, first: u64) -> io::Result<Reply> {
        loop {
            let Some(bytes) = frame::read_frame(&mut self.input)? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let frame = frame::decode::<ToWorker>(&bytes)?;
            match frame.header {
                ToWorker::Call(_) | ToWorker::Hello { .. } => {
                    return Err(io::Error::other("it sent a call during another call"));
                }
                ToWorker::Reply { id, .. } if id < first => {}
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
