//! The Rust functions of the prelude and the built-in modules.

use std::rc::Rc;

use rquickjs::{Array, ArrayBuffer, Ctx, Error, Exception, Function, Object};

use super::shared::{Shared, throw};
use super::state::Unit;
use super::{builtins, compile, modules, pure};
use crate::frame::{Ask, Look, Refusal};

/// Creates the object `native`, which holds the Rust functions.
pub(crate) fn object<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    basics(ctx, shared, &native)?;
    files(ctx, shared, &native)?;
    powers(ctx, shared, &native)?;
    pure::add(ctx, &native)?;
    native.set("engine", "0.16")?;
    native.set("platform", platform())?;
    native.set("arch", if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" })?;
    Ok(native)
}

fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    }
}

fn basics<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, native: &Object<'js>) -> rquickjs::Result<()> {
    let state = || Rc::clone(&shared.state);
    let it = state();
    native.set("log", Function::new(ctx.clone(), move |line: String| it.log(&line))?)?;
    let it = state();
    native.set("now", Function::new(ctx.clone(), move || it.now())?)?;
    let it = state();
    native.set("random", Function::new(ctx.clone(), move || it.random())?)?;
    let it = state();
    native.set("root", Function::new(ctx.clone(), move || it.modules.borrow().root.clone())?)?;
    let it = state();
    let may = move |what: String| {
        let call = it.call.borrow();
        if what == "net" { call.net } else { call.read }
    };
    native.set("may", Function::new(ctx.clone(), may)?)?;
    let it = state();
    let exit = move |ctx: Ctx<'js>, code: f64| -> rquickjs::Result<()> {
        #[expect(clippy::cast_possible_truncation, reason = "exit codes are small")]
        let code = code as i32;
        it.call.borrow_mut().exited.get_or_insert(code);
        // If the script catches this exception, the engine stops the call at the next check, or at the end of the call.
        Err(Exception::throw_message(&ctx, "process.exit"))
    };
    native.set("exit", Function::new(ctx.clone(), exit)?)?;
    Ok(())
}

fn files<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, native: &Object<'js>) -> rquickjs::Result<()> {
    let it = Rc::clone(shared);
    let builtin = move |ctx: Ctx<'js>, name: String| -> rquickjs::Result<Option<Function<'js>>> {
        let Some(name) = builtins::find(&name) else { return Ok(None) };
        let bytecode = it.builtin(name).map_err(|problem| problem.throw(&ctx))?;
        compile::function(&ctx, &bytecode).map(Some)
    };
    native.set("builtin", Function::new(ctx.clone(), builtin)?)?;
    let it = Rc::clone(shared);
    let resolve = move |ctx: Ctx<'js>, from: String, specifier: String| {
        modules::resolve(&it.state, &from, &specifier).map_err(|refusal| throw(&ctx, &refusal))
    };
    native.set("resolve", Function::new(ctx.clone(), resolve)?)?;
    let it = Rc::clone(shared);
    let format = move |ctx: Ctx<'js>, path: String| -> rquickjs::Result<&'static str> {
        Ok(match modules::unit(&ctx, &it, &path)? {
            Unit::Json => "json",
            Unit::Commonjs(_) => "commonjs",
            Unit::Module(_) => "module",
        })
    };
    native.set("format", Function::new(ctx.clone(), format)?)?;
    let it = Rc::clone(shared);
    let compile = move |ctx: Ctx<'js>, path: String| match modules::unit(&ctx, &it, &path)? {
        Unit::Commonjs(bytecode) => compile::function(&ctx, &bytecode),
        Unit::Json | Unit::Module(_) => Err(Error::new_loading(&path)),
    };
    native.set("compile", Function::new(ctx.clone(), compile)?)?;
    let it = Rc::clone(shared);
    let source = move |path: String| -> rquickjs::Result<String> {
        Ok(it.state.source(&path)?.text.to_string())
    };
    native.set("source", Function::new(ctx.clone(), source)?)?;
    let import = |ctx: Ctx<'js>, path: String| rquickjs::Module::import(&ctx, path);
    native.set("import", Function::new(ctx.clone(), import)?)?;
    let import_now = |ctx: Ctx<'js>, path: String| modules::import_now(&ctx, &path);
    native.set("importNow", Function::new(ctx.clone(), import_now)?)?;
    Ok(())
}

/// Adds the functions that send questions to the host.
fn powers<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>, native: &Object<'js>) -> rquickjs::Result<()> {
    let it = Rc::clone(&shared.state);
    let look = move |ctx: Ctx<'js>, op: String, path: String| -> rquickjs::Result<Array<'js>> {
        let op = match op.as_str() {
            "read" => Look::Read,
            "list" => Look::List,
            _ => Look::Stat,
        };
        if !it.call.borrow().read {
            let message = format!(
                "reading '{path}' is not permitted: a script sees no files unless `scripts.read` names their folder"
            );
            return Err(throw(&ctx, &Refusal::new("EACCES", message)));
        }
        let (facts, content) =
            it.ask_and_wait(Ask::Look { op, path }).map_err(|refusal| throw(&ctx, &refusal))?;
        let found = Array::new(ctx.clone())?;
        found.set(0, ctx.json_parse(facts.to_string())?)?;
        found.set(1, ArrayBuffer::new_copy(ctx, &content)?)?;
        Ok(found)
    };
    native.set("look", Function::new(ctx.clone(), look)?)?;
    let it = Rc::clone(&shared.state);
    let fetch = move |ctx: Ctx<'js>,
                      url: String,
                      method: String,
                      headers: Vec<Vec<String>>,
                      body: ArrayBuffer<'js>|
          -> rquickjs::Result<f64> {
        let pairs = headers.into_iter().filter_map(|pair| <[String; 2]>::try_from(pair).ok());
        let headers = pairs.map(|[name, value]| (name, value)).collect();
        let body = pure::bytes_of(&body);
        let id = it.ask(Ask::Fetch { url, method, headers }, &body).map_err(|err| {
            let message = format!("the script host has stopped: {err}");
            throw(&ctx, &Refusal::new("EPIPE", message))
        })?;
        it.call.borrow_mut().pending += 1;
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let id = id as f64;
        Ok(id)
    };
    native.set("fetch", Function::new(ctx.clone(), fetch)?)?;
    Ok(())
}
