//! The state that all Rust functions of the engine share.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rquickjs::{Ctx, Error, Exception, Function, Persistent};

use super::arena::Arena;
use super::compile::{Bytecode, Compiler};
use super::state::State;
use crate::frame::Refusal;

/// The functions of the prelude that Rust calls, by name.
#[derive(Debug)]
pub(crate) struct Hooks(pub(super) HashMap<&'static str, Persistent<Function<'static>>>);

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

/// The state that all Rust functions of the engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Rc<State>,
    pub(crate) arena: Arena,
    pub(crate) hooks: RefCell<Option<Rc<Hooks>>>,
    pub(crate) compiler: Compiler,
    pub(super) compiled: RefCell<HashMap<Kept, Bytecode>>,
}

/// The key of a cache entry for code that is not a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kept {
    /// A built-in module.
    Builtin(&'static str),
    /// A function body: its parameters, and its code.
    Body(String, Box<str>),
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

/// Throws an error with the refusal's message. The property `code` has the refusal's code, as for errors of Node.js.
pub(crate) fn throw(ctx: &Ctx<'_>, refusal: &Refusal) -> Error {
    let thrown = Exception::from_message(ctx.clone(), &refusal.message).and_then(|exception| {
        exception.set("code", refusal.code.as_str())?;
        Ok(exception)
    });
    match thrown {
        Ok(exception) => exception.throw(),
        Err(err) => err,
    }
}
