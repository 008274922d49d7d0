//! Resolves and loads modules: files that the host reads, and built-in modules.

use std::rc::Rc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Array, Ctx, Exception, Module, Object, Value};

use super::shared::{Shared, throw};
use super::state::{State, Unit};
use super::{builtins, compile};
use crate::frame::Refusal;

/// Returns the absolute path of a file, or the name of a built-in module. The name has the prefix `node:`. Fails for
/// any other module.
pub(crate) fn resolve(state: &State, from: &str, specifier: &str) -> Result<String, Refusal> {
    let refuse = |message: String| Refusal::new("MODULE_NOT_FOUND", message);
    if let Some(name) = builtins::public(specifier) {
        return Ok(format!("node:{name}"));
    }
    let specifier = specifier.strip_prefix("file://").unwrap_or(specifier);
    if specifier.starts_with("./")
        || specifier.starts_with("../")
        || specifier.starts_with('/')
        || matches!(specifier, "." | "..")
        || is_drive(specifier)
    {
        return state.load(from, specifier);
    }
    let kind = if specifier.starts_with("node:") || NODE.contains(&specifier) {
        "is a module of Node.js that the sandbox does not have"
    } else {
        "is not a file of the suite: the sandbox does not load npm packages"
    };
    Err(refuse(format!(
        "Cannot find module '{specifier}': it {kind}. Built in are {}; with `scripts.runtime: node`, Node.js \
         runs the script, without a sandbox",
        builtins::names()
    )))
}

fn is_drive(specifier: &str) -> bool {
    matches!(specifier.as_bytes(), [drive, b':', b'/' | b'\\', ..] if drive.is_ascii_alphabetic())
}

/// Modules of Node.js that the sandbox does not have. Their names only serve for error messages.
const NODE: [&str; 20] = [
    "async_hooks",
    "child_process",
    "cluster",
    "dgram",
    "dns",
    "events",
    "http",
    "http2",
    "https",
    "inspector",
    "module",
    "net",
    "os",
    "readline",
    "repl",
    "stream",
    "tls",
    "vm",
    "worker_threads",
    "zlib",
];

/// Compiles a loaded file. Throws an exception if the file does not compile.
pub(crate) fn unit(ctx: &Ctx<'_>, shared: &Shared, path: &str) -> rquickjs::Result<Unit> {
    let source = shared.state.source(path)?;
    source.unit(&shared.compiler).map_err(|problem| problem.throw(ctx))
}

/// Returns the namespace of an ES module for `require`. Fails if the module throws, or has to wait for a timer or a
/// request.
pub(crate) fn import_now<'js>(ctx: &Ctx<'js>, path: &str) -> rquickjs::Result<Value<'js>> {
    let promise = Module::import(ctx, path)?;
    loop {
        if let Some(namespace) = promise.result() {
            return namespace;
        }
        if !ctx.execute_pending_job() {
            let message = format!(
                "require() of the ES module {path} is not possible, because it has a top-level `await`: load it with \
                 `await import(…)`"
            );
            return Err(Exception::throw_message(ctx, &message));
        }
    }
}

/// Sets the properties of `import.meta`.
fn describe(module: &Module<'_, Declared>, path: &str) -> rquickjs::Result<()> {
    let meta = module.meta()?;
    meta.set("url", format!("file://{path}"))?;
    meta.set("filename", path)?;
    meta.set("dirname", path.rsplit_once('/').map_or("", |(folder, _)| folder))
}

/// The loader of modules for `import`.
#[derive(Clone)]
pub(crate) struct Files(pub(crate) Rc<Shared>);

impl Resolver for Files {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        let shared = Rc::clone(&self.0);
        let from = if base.starts_with('/') || is_drive(base) { base } else { "" };
        resolve(&shared.state, from, name).map_err(|refusal| throw(ctx, &refusal))
    }
}

impl Loader for Files {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        let shared = Rc::clone(&self.0);
        if !name.starts_with("node:")
            && let Unit::Module(bytecode) = unit(ctx, &shared, name)?
        {
            let module = compile::module(ctx, &bytecode)?;
            describe(&module, name)?;
            return Ok(module);
        }
        foreign(ctx, &shared, name)
    }
}

/// Returns an ES module for a built-in, CommonJS or JSON module. The whole value is the default export. Each property
/// that `exportsOf` lists is a named export.
fn foreign<'js>(
    ctx: &Ctx<'js>,
    shared: &Shared,
    name: &str,
) -> rquickjs::Result<Module<'js, Declared>> {
    let found: Array<'js> = shared.hook(ctx, "exportsOf")?.call((name,))?;
    let (exports, names) = (found.get::<Value<'js>>(0)?, found.get::<Vec<String>>(1)?);
    let mut text = "const it=import.meta.exports;export default it;".to_owned();
    for (number, name) in names.iter().enumerate() {
        let name_text = format!("{name:?}");
        text.extend(["const e", &number.to_string(), "=it[", &name_text, "];export{e"]);
        text.extend([&number.to_string(), " as ", name, "};"]);
    }
    let module = Module::declare(ctx.clone(), name, text)?;
    let meta: Object<'js> = module.meta()?;
    meta.set("exports", exports)?;
    Ok(module)
}
