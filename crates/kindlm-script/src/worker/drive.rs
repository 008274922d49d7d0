//! Runs one call to its end, with promises, timers and requests.

use std::rc::Rc;

use rquickjs::function::Args;
use rquickjs::{Ctx, Error, Exception, Function, Object, Promise, Type, Value};

use super::compile::{self, Problem};
use super::shared::Shared;
use crate::frame::{Ask, Call, CallCode, Ending, Stop, Usage};
use crate::limits;

/// The reason why a call was stopped early, with an error message.
#[derive(Debug)]
pub(crate) struct Halt {
    pub(crate) why: Stop,
    pub(crate) message: String,
}

/// Returns the outcome of a call that was stopped early.
pub(crate) fn stop(halt: Halt) -> (Ending, Vec<u8>) {
    (Ending::Stopped { why: halt.why, message: halt.message }, Vec::new())
}

/// Compiles the file of a call without running it. Inline code has already been compiled at this point.
pub(crate) fn compile_only(shared: &Shared, call: &Call) -> (Ending, Vec<u8>) {
    let CallCode::File { path, .. } = &call.what else { return (Ending::Undefined, Vec::new()) };
    let compiled = entry(shared, path).and_then(|absolute| {
        let source = shared
            .state
            .source(&absolute)
            .map_err(|err| Halt { why: Stop::Internal, message: err.to_string() })?;
        source.unit(&shared.compiler).map_err(not_compiled)
    });
    compiled.map_or_else(stop, |_| (Ending::Undefined, Vec::new()))
}

/// Returns the absolute path of a call's file. Fails if the file cannot be loaded.
fn entry(shared: &Shared, path: &str) -> Result<String, Halt> {
    let specifier =
        if path.starts_with(['/', '.']) { path.to_owned() } else { format!("./{path}") };
    let loaded = shared.state.load("", &specifier);
    loaded.map_err(|refusal| Halt { why: Stop::Load, message: refusal.message })
}

/// Runs a call, and returns its outcome with the JSON of its result.
pub(crate) fn run(
    ctx: &Ctx<'_>,
    shared: &Rc<Shared>,
    call: &Call,
    body: Option<&[u8]>,
    args: &[Vec<u8>],
) -> (Ending, Vec<u8>) {
    let driver = Driver { ctx, shared, call };
    let ended = driver.start(body, args).and_then(|value| driver.settle(value));
    let ending = match ended {
        Ok(value) => driver.encode(value),
        Err(err) => Err(err),
    };
    match ending {
        Ok(done) => driver.stopped().map_or(done, stop),
        Err(Trouble::Halt(halt)) => stop(halt),
        Err(Trouble::Js(err)) => driver.thrown(&err, false),
        Err(Trouble::Loading(err)) => driver.thrown(&err, true),
    }
}

/// The reason why a call has no result.
enum Trouble {
    /// An error of the engine; an exception may be pending.
    Js(Error),
    /// An error of the engine before the script's function could be called.
    Loading(Error),
    Halt(Halt),
}

impl From<Error> for Trouble {
    fn from(err: Error) -> Self {
        Self::Js(err)
    }
}

struct Driver<'a, 'js> {
    ctx: &'a Ctx<'js>,
    shared: &'a Rc<Shared>,
    call: &'a Call,
}

impl<'js> Driver<'_, 'js> {
    /// Calls the function, and returns its result, which may be a promise. Fails if the function cannot be loaded or
    /// throws.
    fn start(&self, body: Option<&[u8]>, args: &[Vec<u8>]) -> Result<Value<'js>, Trouble> {
        let ctx = self.ctx;
        if !self.call.env.is_empty() {
            let env = Object::new(ctx.clone())?;
            for (name, value) in &self.call.env {
                env.set(name.as_str(), value.as_str())?;
            }
            self.shared.hook(ctx, "begin")?.call::<_, ()>((env, ""))?;
        }
        let (function, params) = match (body, &self.call.what) {
            (Some(body), CallCode::Body { params }) => {
                (compile::function(ctx, body)?, params.as_slice())
            }
            (_, CallCode::File { path, function, usage }) => {
                (self.exported(path, function.as_deref(), *usage)?, &[][..])
            }
            _ => return Err(Error::Unknown.into()),
        };
        let mut list = Args::new_unsized(ctx.clone());
        for arg in args {
            list.push_arg(self.argument(arg)?)?;
        }
        // A parameter without an argument gets the global of the same name: promptfoo passes `process` to inline code.
        for name in params.iter().skip(args.len()) {
            let global: Value<'js> = self.shared.hook(ctx, "global")?.call((name.as_str(),))?;
            list.push_arg(global)?;
        }
        let value: Value<'js> = function.call_arg(list)?;
        Ok(value)
    }

    fn argument(&self, json: &[u8]) -> Result<Value<'js>, Trouble> {
        let value = self.ctx.json_parse(json)?;
        // An argument that starts with `{"prompt":` is a context object of promptfoo. An argument with the marker
        // contains a function.
        let marker = b"\"$returns\"";
        let is_context = json.starts_with(b"{\"prompt\":")
            || json.first() == Some(&b'{') && json.windows(marker.len()).any(|it| it == marker);
        if is_context {
            return Ok(self.shared.hook(self.ctx, "revive")?.call((value,))?);
        }
        Ok(value)
    }

    /// Loads a script file, and returns the function for its export.
    ///
    /// `function` is the name of the export; `None` means the default export. Fails if the file cannot be loaded.
    fn exported(
        &self,
        path: &str,
        function: Option<&str>,
        usage: Usage,
    ) -> Result<Function<'js>, Trouble> {
        let absolute = entry(self.shared, path).map_err(Trouble::Halt)?;
        let entry = self.shared.hook(self.ctx, "entry")?;
        let loading = |trouble| match trouble {
            Trouble::Js(err) => Trouble::Loading(err),
            other => other,
        };
        let picked =
            entry.call((absolute, function, path, usage.as_str())).map_err(Trouble::Loading)?;
        let picked = self.settle(picked).map_err(loading)?;
        Ok(Function::from_value(picked)?)
    }

    /// Waits for the result of a promise, and serves timers and requests meanwhile. Returns any other value unchanged.
    /// Fails if the promise is rejected or can never be resolved, or if the call must stop.
    fn settle(&self, value: Value<'js>) -> Result<Value<'js>, Trouble> {
        let Some(promise) = self.promise(&value)? else { return Ok(value) };
        loop {
            if let Some(halt) = self.stopped() {
                return Err(Trouble::Halt(halt));
            }
            if let Some(result) = promise.result::<Value<'js>>() {
                return Ok(result?);
            }
            if !self.ctx.execute_pending_job() {
                self.wait()?;
            }
        }
    }

    /// Returns a promise; converts an object with a `then` method to a promise. Returns `None` for any other value.
    fn promise(&self, value: &Value<'js>) -> Result<Option<Promise<'js>>, Error> {
        if let Some(promise) = value.as_promise() {
            return Ok(Some(promise.clone()));
        }
        let Some(object) = value.as_object() else { return Ok(None) };
        let then: Value<'js> = object.get("then")?;
        let Some(then) = then.into_function() else { return Ok(None) };
        let (promise, resolve, reject) = self.ctx.promise()?;
        then.call::<_, ()>((rquickjs::function::This(object.clone()), resolve, reject))?;
        Ok(Some(promise))
    }

    /// Waits for the next timer or reply, and handles it. Fails if no timer or request is pending, because the promise
    /// can then never be resolved.
    fn wait(&self) -> Result<(), Trouble> {
        let due: f64 = self.shared.hook(self.ctx, "wait")?.call(())?;
        if due == 0.0 {
            return Ok(self.shared.hook(self.ctx, "fire")?.call::<_, ()>(())?);
        }
        let state = &self.shared.state;
        if due < 0.0 && state.call.borrow().pending == 0 {
            return Err(Trouble::Halt(Halt {
                why: Stop::NeverResolved,
                message:
                    "its promise was never resolved: no timer, request or other work is left that \
                          could resolve it"
                        .to_owned(),
            }));
        }
        let gone = |err: std::io::Error| {
            Trouble::Halt(Halt {
                why: Stop::Internal,
                message: format!("the script host has stopped: {err}"),
            })
        };
        let mut sleep = None;
        if due > 0.0 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive, and saturating is right"
            )]
            let ms = due.ceil() as u64;
            sleep = Some(state.ask(Ask::Sleep { ms }, &[]).map_err(gone)?);
        }
        let reply = state.next_reply().map_err(gone)?;
        if Some(reply.id) == sleep {
            return Ok(());
        }
        // The reply belongs to an HTTP request, or to an earlier sleep, which needs no handling.
        let (error, host, facts, body) = match reply.result {
            Ok((facts, body)) => (None, None, facts, body),
            Err(refusal) => {
                (Some(refusal.message), refusal.host, serde_json::Value::Null, Vec::new())
            }
        };
        if facts.is_null() && error.is_none() {
            return Ok(());
        }
        let facts = self.ctx.json_parse(facts.to_string())?;
        let body = rquickjs::ArrayBuffer::new_copy(self.ctx.clone(), &body)?;
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let id = reply.id as f64;
        self.shared.hook(self.ctx, "settled")?.call::<_, ()>((id, error, facts, body, host))?;
        let mut call = state.call.borrow_mut();
        call.pending = call.pending.saturating_sub(1);
        Ok(())
    }

    /// Returns the reason why the call must stop; `None` if it may continue. A script cannot hide the reason by
    /// catching the exception.
    fn stopped(&self) -> Option<Halt> {
        // Check the clock here, too, because a loop of short jobs never reaches the engine's own check.
        self.shared.state.must_stop();
        let call = self.shared.state.call.borrow();
        if let Some(code) = call.exited {
            let message =
                format!("it called `process.exit({code})`: return a result, or throw an error");
            return Some(Halt { why: Stop::Exited, message });
        }
        call.interrupted.then(|| Halt { why: Stop::Timeout, message: String::new() })
    }

    /// Encodes the return value of a script for the protocol. Fails if the result is too large or cannot be serialized.
    fn encode(&self, value: Value<'js>) -> Result<(Ending, Vec<u8>), Trouble> {
        let is_object = value.is_object();
        let json = match value.type_of() {
            Type::Undefined | Type::Uninitialized => return Ok((Ending::Undefined, Vec::new())),
            Type::Null => Some("null".to_owned()),
            Type::Bool => {
                Some(if value.as_bool() == Some(true) { "true" } else { "false" }.to_owned())
            }
            Type::Int | Type::Float => {
                let text = value.as_number().unwrap_or(f64::NAN).to_string();
                return Ok((Ending::Number { text }, Vec::new()));
            }
            Type::Function | Type::Constructor | Type::Symbol | Type::BigInt => {
                let type_name = match value.type_of() {
                    Type::Symbol => "symbol",
                    Type::BigInt => "bigint",
                    _ => "function",
                };
                let text = self.shared.hook(self.ctx, "text")?.call((value,))?;
                return Ok((Ending::Opaque { type_name: type_name.to_owned(), text }, Vec::new()));
            }
            _ => self.stringify(value)?,
        };
        match json {
            None => Ok((Ending::Undefined, Vec::new())),
            Some(json) if json.len() > limits::RESULT => Err(Trouble::Halt(Halt {
                why: Stop::Memory,
                message: format!(
                    "its result is {} MiB of JSON; at most {} MiB are taken: return less",
                    json.len() >> 20,
                    limits::RESULT >> 20
                ),
            })),
            // `new Boolean(true)`, and an object whose `toJSON` returns a boolean or a number, are still objects. So
            // the host must not take them for a boolean or a number.
            Some(json) if is_object && !json.starts_with(['{', '[', '"', 'n']) => {
                Ok((Ending::Opaque { type_name: "object".to_owned(), text: json }, Vec::new()))
            }
            Some(json) => Ok((Ending::Json, json.into_bytes())),
        }
    }

    fn stringify(&self, value: Value<'js>) -> Result<Option<String>, Trouble> {
        let Some(text) = self.ctx.json_stringify(value.clone())? else { return Ok(None) };
        let text = text.to_string()?;
        // NaN and infinities are serialized as `null`. The slower serialization that finds them is only needed if the
        // text has `null`.
        if value.is_object() && text.contains("null") {
            let numbers = self.shared.hook(self.ctx, "numbers")?;
            let text = self.ctx.json_stringify_replacer(value, numbers)?;
            return Ok(text.map(|text| text.to_string()).transpose()?);
        }
        Ok(Some(text))
    }

    /// Returns the outcome of a call with an uncaught error. The outcome is the script's exception, or the limit that
    /// stopped the call.
    fn thrown(&self, err: &Error, loading: bool) -> (Ending, Vec<u8>) {
        if let Some(halt) = self.stopped() {
            return stop(halt);
        }
        let thrown = self.pending(err);
        // If no memory is left for an error object, the engine throws `null`. But scripts may throw `null`, too.
        if thrown.is_null() && self.shared.arena.used() > limits::MEMORY / 4 {
            return stop(memory());
        }
        let describe = self.shared.hook(self.ctx, "describe");
        let parts: Result<Vec<String>, Error> =
            describe.and_then(|describe| describe.call((thrown.clone(),)));
        // A getter of the error may have exceeded a limit.
        if let Some(halt) = self.stopped() {
            return stop(halt);
        }
        let Ok([has_message, message, stack, thrown, code, name]) =
            parts.and_then(|parts| <[String; 6]>::try_from(parts).map_err(|_| Error::Unknown))
        else {
            self.ctx.catch();
            let message = "it threw something that cannot be described".to_owned();
            return (
                Ending::Threw { message: None, stack: String::new(), thrown: message },
                Vec::new(),
            );
        };
        // QuickJS appends ` in regexp execution` to `out of memory` if a regular expression ran out of memory.
        if name == "InternalError" && message.starts_with("out of memory") {
            return stop(memory());
        }
        if name == "RangeError" && message == "Maximum call stack size exceeded" {
            return stop(Halt {
                why: Stop::Memory,
                message: format!(
                    "it recursed too deeply: its stack is limited to {} KiB",
                    limits::STACK >> 10
                ),
            });
        }
        if matches!(code.as_str(), "MODULE_NOT_FOUND" | "ERR_SCRIPT_EXPORT") {
            return stop(Halt { why: Stop::Load, message });
        }
        if loading && name == "SyntaxError" {
            let at =
                stack.lines().nth(1).map_or_else(String::new, |at| format!(" ({})", at.trim()));
            return stop(Halt { why: Stop::Load, message: format!("SyntaxError: {message}{at}") });
        }
        let message = (has_message == "1").then(|| shortened(message));
        (Ending::Threw { message, stack: shortened(stack), thrown: shortened(thrown) }, Vec::new())
    }

    fn pending(&self, err: &Error) -> Value<'js> {
        if matches!(err, Error::Exception) {
            return self.ctx.catch();
        }
        // An error of the Rust binding becomes a JavaScript exception, so that the caller only handles exceptions.
        match Exception::from_message(self.ctx.clone(), &err.to_string()) {
            Ok(exception) => exception.into_value(),
            Err(_) => self.ctx.catch(),
        }
    }
}

/// Returns the text of an error, cut to the length limit.
fn shortened(mut text: String) -> String {
    if text.len() > limits::THROWN {
        text.truncate(text.floor_char_boundary(limits::THROWN));
        text.push('…');
    }
    text
}

fn memory() -> Halt {
    Halt {
        why: Stop::Memory,
        message: format!("it used more than {} MiB of memory", limits::MEMORY >> 20),
    }
}

/// Returns the reason for stopping a call whose code does not compile.
#[expect(clippy::needless_pass_by_value, reason = "what a call of `map_err` gives")]
pub(crate) fn not_compiled(problem: Problem) -> Halt {
    if problem.is_memory() {
        return memory();
    }
    Halt { why: Stop::Load, message: problem.to_string() }
}

/// Returns the error message of an engine error, with its location if it is known.
pub(crate) fn explain(ctx: &Ctx<'_>, err: &Error) -> String {
    if !matches!(err, Error::Exception) {
        return err.to_string();
    }
    let thrown = ctx.catch();
    let Some(exception) = thrown.as_exception() else {
        return if thrown.is_null() { memory().message } else { format!("{thrown:?}") };
    };
    let name: String = exception.get("name").unwrap_or_default();
    let message = exception.message().unwrap_or_default();
    let at = exception.stack().unwrap_or_default();
    let at = at.lines().next().unwrap_or_default().trim();
    if at.is_empty() { format!("{name}: {message}") } else { format!("{name}: {message} ({at})") }
}
