//! Compiles source text to bytecode, in an engine that never runs scripts.
//!
//! Bytecode depends on the source alone: no call can change how the code of another call is compiled. The bytecode of
//! each call is loaded into the initial state of the engine, and runs there.
//!
//! Inline code and CommonJS files are function bodies. [`Compiler::function`] ensures that the code cannot end the
//! function around it.
#![expect(
    unsafe_code,
    reason = "the binding has no functions for the bytecode of scripts; what is loaded here was written here"
)]

use std::ffi::CString;
use std::fmt;
use std::mem::MaybeUninit;
use std::rc::Rc;

use rquickjs::context::intrinsic;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::{Declared, WriteOptions};
use rquickjs::{Context, Ctx, Error, Exception, Function, Module, Runtime, Value, qjs};

use crate::limits;

/// The bytecode of compiled source.
pub(crate) type Bytecode = Rc<[u8]>;

/// A compile error.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// The class name of the error.
    name: String,
    message: String,
    /// The location as `at` with file, line and column; empty if the location is unknown.
    at: String,
}

impl Problem {
    /// Takes the pending exception of the engine, and converts the error.
    fn caught(ctx: &Ctx<'_>, err: &Error) -> Self {
        let internal =
            |message: String| Self { name: "InternalError".to_owned(), message, at: String::new() };
        if !matches!(err, Error::Exception) {
            return internal(err.to_string());
        }
        let thrown = ctx.catch();
        let Some(exception) = thrown.as_exception() else {
            // If no memory is left for an error object, the engine throws `null`.
            return internal("out of memory".to_owned());
        };
        let stack = exception.stack().unwrap_or_default();
        Self {
            name: exception.get("name").unwrap_or_default(),
            message: exception.message().unwrap_or_default(),
            at: stack.lines().next().unwrap_or_default().trim().to_owned(),
        }
    }

    /// Throws the error as an exception in the engine of the importing script.
    pub(crate) fn throw(&self, ctx: &Ctx<'_>) -> Error {
        let err = match self.name.as_str() {
            "SyntaxError" => Exception::throw_syntax(ctx, &self.message),
            "RangeError" => Exception::throw_range(ctx, &self.message),
            _ => Exception::throw_internal(ctx, &self.message),
        };
        let thrown = ctx.catch();
        if let Some(exception) = thrown.as_exception()
            && !self.at.is_empty()
        {
            let frames = exception.stack().unwrap_or_default();
            // If the location cannot be set, the error is still useful without it.
            let _ = exception.set("stack", format!("    {}\n{frames}", self.at));
        }
        if thrown.is_null() { err } else { ctx.throw(thrown) }
    }

    /// Returns true if the engine ran out of memory.
    pub(crate) fn is_memory(&self) -> bool {
        self.name == "InternalError" && self.message.starts_with("out of memory")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)?;
        if self.at.is_empty() { Ok(()) } else { write!(f, " ({})", self.at) }
    }
}

/// The parts of the function around a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// The text before `function`: `async ` or empty.
    pub(crate) prefix: &'a str,
    /// The names of the parameters, comma-separated.
    pub(crate) params: &'a str,
    /// The file name in stack traces.
    pub(crate) file: &'a str,
}

/// An engine that only compiles.
pub(crate) struct Compiler {
    runtime: Runtime,
    /// The context for functions. Each module gets its own context, because a context keeps its modules.
    context: Context,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").finish_non_exhaustive()
    }
}

impl Compiler {
    pub(crate) fn new() -> rquickjs::Result<Self> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(limits::MEMORY);
        runtime.set_max_stack_size(limits::STACK);
        runtime.set_loader(Stub, Stub);
        let context = context(&runtime)?;
        Ok(Self { runtime, context })
    }

    /// Compiles the body of a function. The bytecode returns the function.
    ///
    /// The text `}, evil(), function(){` would end the function around it. To detect this, the body is compiled two
    /// more times. Each time, a `let` declaration of an unguessable name follows the body. A declaration of a
    /// parameter's name must fail, and a declaration of any other name must succeed. Both results occur only in the
    /// function's own block, so the body ends where the text ends.
    pub(crate) fn function(&self, head: Head<'_>, body: &str) -> Result<Bytecode, Problem> {
        let Head { prefix, params, file } = head;
        let bytecode = self.script(&format!("({prefix}function({params}){{{body}\n}})"), file)?;
        let (param, other) = (unguessable()?, unguessable()?);
        let comma = if params.is_empty() { "" } else { "," };
        let declares = |name: &str| {
            let text =
                format!("({prefix}function({params}{comma}{param}){{{body}\nlet {name}\n}})");
            self.script(&text, file).is_ok()
        };
        if !declares(&other) || declares(&param) {
            return Err(Problem {
                name: "SyntaxError".to_owned(),
                message: "unexpected '}': the code ends before its text does".to_owned(),
                at: format!("at {file}"),
            });
        }
        Ok(bytecode)
    }

    /// Compiles code that is not a module, without running it. Fails for invalid code.
    pub(crate) fn script(&self, text: &str, file: &str) -> Result<Bytecode, Problem> {
        self.context.with(|ctx| {
            let compiled =
                compile_script(&ctx, text, file).map_err(|err| Problem::caught(&ctx, &err))?;
            write(&ctx, &compiled).map_err(|err| Problem::caught(&ctx, &err))
        })
    }

    /// Compiles an ES module, without resolving its imports. Fails for invalid code.
    pub(crate) fn module(&self, text: &str, path: &str) -> Result<Bytecode, Problem> {
        let broken = |err: Error| Problem {
            name: "InternalError".to_owned(),
            message: err.to_string(),
            at: String::new(),
        };
        context(&self.runtime).map_err(broken)?.with(|ctx| {
            let written = Module::declare(ctx.clone(), path, text)
                .and_then(|module| module.write(WriteOptions::default()));
            written.map(Bytecode::from).map_err(|err| Problem::caught(&ctx, &err))
        })
    }
}

/// Creates a context with the features that the parser needs.
fn context(runtime: &Runtime) -> rquickjs::Result<Context> {
    Context::custom::<(intrinsic::Eval, intrinsic::RegExpCompiler)>(runtime)
}

/// Returns an unguessable name with 128 random bits. Fails if the system provides no random numbers.
fn unguessable() -> Result<String, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|err| Problem {
        name: "InternalError".to_owned(),
        message: format!("random numbers: {err}"),
        at: String::new(),
    })?;
    Ok(format!("k{:032x}", u128::from_le_bytes(bytes)))
}

/// The loader that replaces every import by an empty module.
struct Stub;

impl Resolver for Stub {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        _base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        Ok(name.to_owned())
    }
}

impl Loader for Stub {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        Module::declare(ctx.clone(), name, "")
    }
}

/// Compiles sloppy-mode code without running it. Node uses sloppy mode for everything except ES modules.
fn compile_script<'js>(ctx: &Ctx<'js>, text: &str, file: &str) -> rquickjs::Result<Value<'js>> {
    let source = CString::new(text)?;
    let name = CString::new(file)?;
    let flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    #[expect(clippy::cast_possible_wrap, reason = "flags are small")]
    let flags = flags as i32;
    // SAFETY: both texts end with NUL and outlive the call; the returned value is owned.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let length = text.len().try_into().map_err(|_| Error::Unknown)?;
        let value = qjs::JS_Eval(raw, source.as_ptr(), length, name.as_ptr(), flags);
        owned(ctx, value)
    }
}

/// Returns the bytecode of compiled code. Fails if the engine cannot write it.
fn write(ctx: &Ctx<'_>, compiled: &Value<'_>) -> rquickjs::Result<Bytecode> {
    let mut length = MaybeUninit::uninit();
    // SAFETY: the value is a compiled script of this context; the buffer is copied before it is freed.
    unsafe {
        let raw = ctx.as_raw().as_ptr();
        let flags = WriteOptions::default().to_flag();
        let buffer = qjs::JS_WriteObject(raw, length.as_mut_ptr(), compiled.as_raw(), flags);
        if buffer.is_null() {
            return Err(Error::Exception);
        }
        let length = length.assume_init().try_into().map_err(|_| Error::Unknown)?;
        let bytecode = std::slice::from_raw_parts(buffer, length).into();
        qjs::js_free(raw, buffer.cast());
        Ok(bytecode)
    }
}

/// Runs the bytecode of [`Compiler::function`], and returns the created function.
pub(crate) fn function<'js>(ctx: &Ctx<'js>, bytecode: &[u8]) -> rquickjs::Result<Function<'js>> {
    #[expect(clippy::cast_possible_wrap, reason = "flags are small")]
    let flags = qjs::JS_READ_OBJ_BYTECODE as i32;
    // SAFETY: the same engine wrote the bytecode in this process, and it is unchanged. `JS_EvalFunction` takes
    // ownership of its argument.
    let value = unsafe {
        let raw = ctx.as_raw().as_ptr();
        let length = bytecode.len().try_into().map_err(|_| Error::Unknown)?;
        let script = qjs::JS_ReadObject(raw, bytecode.as_ptr(), length, flags);
        if qjs::JS_IsException(script) {
            return Err(Error::Exception);
        }
        owned(ctx, qjs::JS_EvalFunction(raw, script))?
    };
    Function::from_value(value)
}

/// Declares the module that [`Compiler::module`] compiled, under the same path.
pub(crate) fn module<'js>(
    ctx: &Ctx<'js>,
    bytecode: &[u8],
) -> rquickjs::Result<Module<'js, Declared>> {
    // SAFETY: the same engine wrote the bytecode in this process, and it is unchanged.
    unsafe { Module::load(ctx.clone(), bytecode) }
}

/// Takes ownership of a value of the engine. Fails if the value represents an exception.
///
/// # Safety
///
/// The value must belong to this context, and no other code may free it.
unsafe fn owned<'js>(ctx: &Ctx<'js>, value: qjs::JSValue) -> rquickjs::Result<Value<'js>> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if qjs::JS_IsException(value) {
            return Err(Error::Exception);
        }
        Ok(Value::from_raw(ctx.clone(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: Head<'_> = Head { prefix: "async ", params: "output", file: "script" };

    #[test]
    fn a_body_is_taken() {
        let compiler = Compiler::new().unwrap();
        for code in [
            "",
            "return 1",
            "return output.length // the end",
            "return 1\n<!-- an old comment",
            "'use strict'; return this",
            "var x; function x() {} return x",
            "function f() {} var f",
            "const f = () => {}",
            "for (const a of [1]) { a }",
            "label: { break label }",
            "return `${output}}`",
            "return /[}]/.test('}')",
            "return '}), (function(){'",
            "/* } */ return { a: 1 }",
            "return class { #a = 1; static { } get a() { return this.#a } }",
            "if (output) return 1\nelse return 2",
            "let x = 1\nx",
            "await null; return await 1",
            "return eval('1')",
        ] {
            assert!(compiler.function(BODY, code).is_ok(), "{code}");
        }
    }

    #[test]
    fn text_that_closes_its_function_is_refused() {
        let compiler = Compiler::new().unwrap();
        let ends = [
            "}, (evil()), async function(){",
            "}), (evil()), (async function(){",
            "}); evil(); (async function(){",
            "}); evil(); (function*(){",
            "}); evil(); ({a(){",
            "}, evil(), {a: 1",
            "}, evil(), {",
            "}, evil(), class { m() {}",
            "}, evil(), class { static {",
            "}, evil(), () => {",
            "}, evil(), async (output) => {",
            "}[evil()] = async function(){",
            "}(evil()), function(){",
            "}`${evil()}`, function(){",
            "} + evil(), function(){",
            "} ? evil() : function(){",
            "}, evil(), function(output, k){ let k",
            "}); { evil(); (() => {",
            "}, evil(), eval(`(function(){`), {a(){",
        ];
        for params in ["output", "output,context,process", ""] {
            for prefix in ["async ", ""] {
                for end in ends {
                    for start in ["", "return 1;", "0;\n", "/* */", "'use strict';"] {
                        let code = format!("{start}{end}");
                        let head = Head { prefix, params, file: "script" };
                        let refused = compiler.function(head, &code);
                        assert!(refused.is_err(), "{code}");
                    }
                }
            }
        }
    }

    #[test]
    fn compiled_functions_and_modules_run_elsewhere() {
        let compiler = Compiler::new().unwrap();
        let body = compiler
            .function(Head { prefix: "", ..BODY }, "return /a+/.exec(output)[0] + `b${1 + 1}`")
            .unwrap();
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            for _ in 0..3 {
                let function = function(&ctx, &body).unwrap();
                let text: String = function.call(("xaaay",)).unwrap();
                assert_eq!(text, "aaab2");
            }
        });
        let text = "import other, { a } from './missing.js'; export const b = a ?? other";
        assert!(compiler.module(text, "/m.js").is_ok());
        assert!(compiler.module(text, "/m.js").is_ok(), "a second time");
        let problem = compiler.module("export default (", "/m.js").unwrap_err();
        assert!(problem.to_string().starts_with("SyntaxError: "), "{problem}");
        assert!(problem.to_string().contains("/m.js:1:"), "{problem}");
    }
}
