//! The engine: QuickJS in memory that can be rolled back, and what is kept compiled in it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::{Context, Ctx, Function, Module, Object, Persistent, Runtime, Value};

use super::arena::{Arena, Snapshot};
use super::drive::{self, Halt};
use super::state::{Compiled, Source, State};
use super::{builtins, modules, native};
use crate::frame::{Call, Ending, Stop, What};
use crate::limits;

/// Address space of the engine's memory: twice the limit, as free blocks are not merged.
const ARENA: usize = 2 * limits::MEMORY;
/// What may be kept compiled, in bytes: all of it is copied after each call.
const KEPT: usize = 768 << 10;
/// From this much memory on, a worker is replaced after the call, so that it is given back.
const BLOATED: usize = 48 << 20;

/// Functions of the prelude.
#[derive(Debug)]
pub(crate) struct Hooks(HashMap<&'static str, Persistent<Function<'static>>>);

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

impl Hooks {
    pub(crate) fn get<'js>(
        &self,
        ctx: &Ctx<'js>,
        name: &'static str,
    ) -> rquickjs::Result<Function<'js>> {
        match self.0.get(name) {
            Some(hook) => hook.clone().restore(ctx),
            None => Err(rquickjs::Error::Unknown),
        }
    }
}

/// What all Rust code behind the engine shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Rc<State>,
    pub(crate) arena: Arena,
    pub(crate) hooks: RefCell<Option<Rc<Hooks>>>,
    /// Functions that are part of the snapshot.
    pub(crate) compiled: RefCell<HashMap<Compiled, Persistent<Function<'static>>>>,
    /// No script has run since the rollback, and none may.
    pub(crate) pristine: std::cell::Cell<bool>,
}

impl Shared {
    pub(crate) fn hook<'js>(
        &self,
        ctx: &Ctx<'js>,
        name: &'static str,
    ) -> rquickjs::Result<Function<'js>> {
        let hooks = self.hooks.borrow().clone();
        hooks.ok_or(rquickjs::Error::Unknown)?.get(ctx, name)
    }
}

/// A JavaScript engine that forgets.
pub(crate) struct Engine {
    shared: Rc<Shared>,
    arena: Arena,
    /// Never dropped: freeing what a rollback has restored would free twice. The process ends with it.
    context: ManuallyDrop<Context>,
    /// The state without anything compiled.
    base: Snapshot,
    /// The state with everything that is kept compiled.
    ready: Snapshot,
}

impl Engine {
    pub(crate) fn new(state: Rc<State>) -> Result<Self, String> {
        let broken = |err: rquickjs::Error| format!("the engine does not start: {err}");
        let arena = Arena::new(ARENA).ok_or("not enough address space for the engine")?;
        let runtime = Runtime::new_with_alloc(arena.clone()).map_err(broken)?;
        runtime.set_memory_limit(limits::MEMORY);
        runtime.set_max_stack_size(limits::STACK);
        // All of a call's memory is given back at its end; collecting cycles before is rarely worth it.
        runtime.set_gc_threshold(limits::MEMORY / 4);
        let watch = Rc::clone(&state);
        runtime.set_interrupt_handler(Some(Box::new(move || watch.must_stop())));
        let shared = Rc::new(Shared {
            state,
            arena: arena.clone(),
            hooks: RefCell::default(),
            compiled: RefCell::default(),
            pristine: std::cell::Cell::new(true),
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
        let ready = arena.snapshot();
        Ok(Self { shared, arena, context: ManuallyDrop::new(context), base, ready })
    }

    /// The engine holds so much memory that the process should be replaced.
    pub(crate) fn is_bloated(&self) -> bool {
        self.arena.used() > BLOATED
    }

    /// Serves one call. [`Engine::reset`] must come before the next.
    pub(crate) fn call(&mut self, call: &Call, parts: &[Vec<u8>]) -> (Ending, Vec<u8>) {
        self.shared.state.begin(call);
        let stopped = |why, message| (Ending::Stopped { why, message }, Vec::new());
        let (code, args) = match (&call.what, parts.split_first()) {
            (What::Body { params }, Some((code, args))) => {
                let Ok(code) = str::from_utf8(code) else {
                    return stopped(Stop::Internal, "the code is not UTF-8".to_owned());
                };
                (Some(Compiled::Body(params.clone(), code.into())), args)
            }
            (What::Body { .. }, None) => {
                return stopped(Stop::Internal, "a body without code".to_owned());
            }
            (What::File { .. }, _) => (None, parts),
        };
        if let Some(body) = &code
            && !self.shared.compiled.borrow().contains_key(body)
        {
            if let Err(halt) = self.check_body(body) {
                return drive::stop(halt);
            }
            if let Err(halt) = self.keep(body) {
                return drive::stop(halt);
            }
        }
        self.shared.pristine.set(false);
        let shared = &self.shared;
        self.context.with(|ctx| drive::run(&ctx, shared, call, code.as_ref(), args))
    }

    /// Forgets everything that the last call did, and compiles what it needed, for the next.
    pub(crate) fn reset(&mut self) {
        self.arena.roll_back(&self.ready);
        self.shared.pristine.set(true);
        let wanted = std::mem::take(&mut self.shared.state.modules.borrow_mut().wanted);
        for wanted in wanted {
            if !self.shared.compiled.borrow().contains_key(&wanted) {
                // What cannot be compiled ahead is compiled when it is needed, as in the call before.
                let _ = self.keep(&wanted);
            }
        }
    }

    /// Compiles something into the state that every call begins with.
    fn keep(&mut self, what: &Compiled) -> Result<(), Halt> {
        if self.ready.size() > self.base.size() + KEPT {
            for function in self.shared.compiled.borrow_mut().drain() {
                // It lies in memory that is about to be rolled back.
                std::mem::forget(function);
            }
            self.arena.roll_back(&self.base);
            self.ready = self.arena.snapshot();
        }
        let shared = &self.shared;
        let compiled = self.context.with(|ctx| {
            let compiled =
                compile(&ctx, shared, what).map_err(|err| drive::load_failed(&ctx, &err))?;
            Ok(compiled.map(|function| Persistent::save(&ctx, function)))
        });
        match compiled {
            Ok(Some(function)) => {
                self.shared.compiled.borrow_mut().insert(what.clone(), function);
                self.ready = self.arena.snapshot();
                Ok(())
            }
            Ok(None) => {
                self.ready = self.arena.snapshot();
                Ok(())
            }
            Err(halt) => {
                self.arena.roll_back(&self.ready);
                Err(halt)
            }
        }
    }

    /// Makes sure that the code is the body of *one* function. Code such as `}); …; (function(){` would end the
    /// function that is written around it, and run while it is compiled, before every call. No code can do that
    /// in two different brackets.
    fn check_body(&mut self, body: &Compiled) -> Result<(), Halt> {
        let Compiled::Body(params, code) = body else { return Ok(()) };
        if let Some(param) = params.iter().find(|param| !is_name(param)) {
            let message = format!("`{param}` cannot be the name of a parameter");
            return Err(Halt { why: Stop::Internal, message });
        }
        let params = params.join(",");
        let checked = self.context.with(|ctx| {
            for (open, close) in [("[", "]"), ("(", ")")] {
                let text = format!("{open}async function({params}){{{code}\n}}{close}");
                evaluate(&ctx, &text, BODY).map_err(|err| drive::load_failed(&ctx, &err))?;
            }
            Ok(())
        });
        self.arena.roll_back(&self.ready);
        checked
    }
}

/// The name of inline code in stack traces.
const BODY: &str = "script";

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// Compiles a function; an ES module is declared and gives none.
fn compile<'js>(
    ctx: &Ctx<'js>,
    shared: &Rc<Shared>,
    what: &Compiled,
) -> rquickjs::Result<Option<Function<'js>>> {
    match what {
        Compiled::Body(params, code) => {
            let text = format!("(async function({}){{{code}\n}})", params.join(","));
            function(ctx, &text, BODY).map(Some)
        }
        Compiled::Builtin(name) => builtins::compile(ctx, name).map(Some),
        Compiled::Commonjs(path) => commonjs(ctx, &*known(shared, path)?).map(Some),
        Compiled::Module(path) => {
            let source = known(shared, path)?;
            let module = Module::declare(ctx.clone(), path.as_str(), source.text.as_bytes())?;
            modules::describe(&module, path)?;
            Ok(None)
        }
    }
}

pub(crate) fn known(shared: &Shared, path: &str) -> rquickjs::Result<Rc<Source>> {
    let modules = shared.state.modules.borrow();
    modules.known.get(path).cloned().ok_or_else(|| rquickjs::Error::new_loading(path))
}

/// Compiles a CommonJS file: a function of what Node gives such a file.
pub(crate) fn commonjs<'js>(ctx: &Ctx<'js>, source: &Source) -> rquickjs::Result<Function<'js>> {
    // A line that says which program runs the file is not JavaScript.
    let shebang = if source.text.starts_with("#!") { "//" } else { "" };
    let text = format!(
        "(function(exports,require,module,__filename,__dirname){{{shebang}{}\n}})",
        source.text
    );
    function(ctx, &text, &source.path)
}

/// Evaluates the text of a function.
pub(crate) fn function<'js>(
    ctx: &Ctx<'js>,
    text: &str,
    name: &str,
) -> rquickjs::Result<Function<'js>> {
    Function::from_value(evaluate(ctx, text, name)?)
}

/// Evaluates sloppy code, as Node does for everything that is not an ES module.
pub(crate) fn evaluate<'js>(
    ctx: &Ctx<'js>,
    text: &str,
    name: &str,
) -> rquickjs::Result<Value<'js>> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(text, options)
}

/// Makes the globals.
fn prelude(ctx: &Ctx<'_>, shared: &Rc<Shared>) -> rquickjs::Result<Hooks> {
    let make = function(ctx, include_str!("../js/prelude.js"), "kindlm:prelude")?;
    let native = native::object(ctx, shared)?;
    // Rust functions are never freed, whatever a script deletes: their Rust half would not be rolled back.
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
