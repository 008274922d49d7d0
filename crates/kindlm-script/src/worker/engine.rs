//! The engine: QuickJS with memory that is rolled back after each call. The rollback restores the state before any
//! script has run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::{Context, Ctx, Function, Object, Persistent, Runtime, Value};

use super::arena::{Arena, Snapshot};
use super::compile::{Bytecode, Compiler, Head, Problem};
use super::drive::{self, Halt};
use super::shared::{Hooks, Kept, Shared};
use super::state::State;
use super::{builtins, modules, native};
use crate::frame::{Call, CallCode, Ending, Stop};
use crate::limits;

/// The address space of the engine, in bytes. It is twice the memory limit, because free blocks are not merged.
const ARENA: usize = 2 * limits::MEMORY;
/// The cache of bytecode is cleared if it exceeds this size, in bytes.
const KEPT: usize = 32 << 20;
/// The memory use, in bytes, above which a worker is replaced after the call. The replacement releases the memory.
const BLOATED: usize = 48 << 20;

const HOOKS: [&str; 12] = [
    "wait",
    "fire",
    "begin",
    "revive",
    "global",
    "numbers",
    "text",
    "describe",
    "entry",
    "exportsOf",
    "settled",
    "load",
];

/// A JavaScript engine that is reset after each call.
pub(crate) struct Engine {
    shared: Rc<Shared>,
    arena: Arena,
    /// The context is never dropped, because a rollback has restored memory that dropping would free again. The memory
    /// is released when the process ends.
    context: ManuallyDrop<Context>,
    /// The initial state of every call, taken before any script has run.
    base: Snapshot,
}

impl Engine {
    pub(crate) fn new(state: Rc<State>) -> Result<Self, String> {
        let broken = |err: rquickjs::Error| format!("the engine does not start: {err}");
        let arena = Arena::new(ARENA).ok_or("not enough address space for the engine")?;
        let runtime = Runtime::new_with_alloc(arena.clone()).map_err(broken)?;
        runtime.set_memory_limit(limits::MEMORY);
        runtime.set_max_stack_size(limits::STACK);
        // The rollback frees all memory of a call, so collecting cycles earlier is rarely useful.
        runtime.set_gc_threshold(limits::MEMORY / 4);
        let watch = Rc::clone(&state);
        runtime.set_interrupt_handler(Some(Box::new(move || watch.must_stop())));
        let shared = Rc::new(Shared {
            state,
            arena: arena.clone(),
            hooks: RefCell::default(),
            compiler: Compiler::new().map_err(broken)?,
            compiled: RefCell::default(),
        });
        let loader = modules::Files(Rc::clone(&shared));
        runtime.set_loader(loader.clone(), loader);
        let context = Context::full(&runtime).map_err(broken)?;
        std::mem::forget(runtime);
        let hooks = context
            .with(|ctx| prelude(&ctx, &shared).map_err(|err| drive::explain(&ctx, &err)))
            .map_err(|err| format!("the prelude does not run: {err}"))?;
        *shared.hooks.borrow_mut() = Some(Rc::new(hooks));
        let base = arena.snapshot();
        Ok(Self { shared, arena, context: ManuallyDrop::new(context), base })
    }

    /// Returns true if the engine uses so much memory that the process should be replaced.
    pub(crate) fn is_bloated(&self) -> bool {
        self.arena.used() > BLOATED
    }

    /// Runs one call, and returns its outcome. [`Engine::reset`] must run before the next call.
    pub(crate) fn call(&mut self, call: &Call, parts: &[Vec<u8>]) -> (Ending, Vec<u8>) {
        self.shared.state.begin(call);
        let shared = &self.shared;
        let (code, args) = match (&call.what, parts.split_first()) {
            (CallCode::Body { params }, Some((code, args))) => match shared.body(params, code) {
                Ok(code) => (Some(code), args),
                Err(halt) => return drive::stop(halt),
            },
            (CallCode::Body { .. }, None) => return drive::stop(internal("a body without code")),
            (CallCode::File { .. }, _) => (None, parts),
        };
        if call.compile_only {
            return drive::compile_only(shared, call);
        }
        self.context.with(|ctx| drive::run(&ctx, shared, call, code.as_deref(), args))
    }

    /// Restores the engine's memory to its initial state, without the changes of the last call.
    pub(crate) fn reset(&mut self) {
        self.arena.roll_back(&self.base);
    }
}

/// Returns the reason for stopping a call after an invalid request of the host.
fn internal(message: impl Into<String>) -> Halt {
    Halt { why: Stop::Internal, message: message.into() }
}

impl Shared {
    /// Returns the bytecode of inline code, from the cache or newly compiled. Fails if the code is not UTF-8 or does
    /// not compile, or if a parameter is not a name.
    fn body(&self, params: &[String], code: &[u8]) -> Result<Bytecode, Halt> {
        let Ok(code) = str::from_utf8(code) else {
            return Err(internal("the code is not UTF-8"));
        };
        if let Some(param) = params.iter().find(|param| !is_name(param)) {
            return Err(internal(format!("`{param}` cannot be the name of a parameter")));
        }
        let params = params.join(",");
        let head = Head { prefix: "async ", params: &params, file: "script" };
        self.kept(Kept::Body(params.clone(), code.into()), || self.compiler.function(head, code))
            .map_err(drive::not_compiled)
    }

    /// Returns the bytecode of a built-in module, from the cache or newly compiled. The bytecode returns a function
    /// with the parameters `module`, `exports`, `require` and `native`. `native` gives access to the Rust functions.
    ///
    /// Fails if the code of the module does not compile.
    pub(crate) fn builtin(&self, name: &'static str) -> Result<Bytecode, Problem> {
        let head = Head {
            prefix: "",
            params: "module,exports,require,native",
            file: &format!("node:{name}"),
        };
        self.kept(Kept::Builtin(name), || {
            self.compiler.function(head, &format!("'use strict';{}", builtins::source(name)))
        })
    }

    // perf: calls, 43 % less CPU time for a short check (23.6 µs, 41.5 µs)
    fn kept(
        &self,
        what: Kept,
        compile: impl FnOnce() -> Result<Bytecode, Problem>,
    ) -> Result<Bytecode, Problem> {
        if let Some(kept) = self.compiled.borrow().get(&what) {
            return Ok(Rc::clone(kept));
        }
        let bytecode = compile()?;
        let mut compiled = self.compiled.borrow_mut();
        if compiled.values().map(|it| it.len()).sum::<usize>() > KEPT {
            compiled.clear();
        }
        compiled.insert(what, Rc::clone(&bytecode));
        Ok(bytecode)
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// Evaluates the source of an internal function, and returns the function. Fails if the source throws an exception.
fn function<'js>(ctx: &Ctx<'js>, text: &str, name: &str) -> rquickjs::Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(name.to_owned());
    Function::from_value(ctx.eval_with_options::<Value<'js>, _>(text, options)?)
}

/// Creates the globals, and returns the functions that Rust calls.
fn prelude(ctx: &Ctx<'_>, shared: &Rc<Shared>) -> rquickjs::Result<Hooks> {
    let make = function(ctx, include_str!("../js/prelude.js"), "kindlm:prelude")?;
    let native = native::object(ctx, shared)?;
    // Rust functions are never freed, even if a script deletes them, because a rollback would not restore their Rust
    // part.
    for function in native.values::<Value<'_>>() {
        std::mem::forget(Persistent::save(ctx, function?));
    }
    let hooks: Object<'_> = make.call((native,))?;
    let mut map = HashMap::new();
    for name in HOOKS {
        map.insert(name, Persistent::save(ctx, hooks.get::<_, Function<'_>>(name)?));
    }
    Ok(Hooks(map))
}
