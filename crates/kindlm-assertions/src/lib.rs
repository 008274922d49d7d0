//! Checks of what a model or an agent said and did.
//!
//! Each assertion is a folder of its own; [`REGISTRY`] lists them. An assertion is a pure function of
//! [`Evidence`]: no I/O, no `async`. One that needs a model *asks* ([`Assertion::questions`]); whoever runs
//! the checks answers and then calls [`Assertion::evaluate`].
#![deny(clippy::disallowed_methods)]

mod check;
pub mod pattern;
mod registry;

pub use check::{Check, Options};
pub use registry::{Assertion, Code, Evidence, ExpectPath, Meta, Registration, Setup};

// Every assertion is one folder, one `mod` line and one line in the slice below.

/// Every assertion, in the order in which an `expect` block evaluates them.
pub static REGISTRY: &[&Registration] = &[];

/// The assertion with this id.
pub fn find(id: &str) -> Option<&'static Registration> {
    REGISTRY.iter().copied().find(|it| it.meta.id == id)
}
