//! Runs a program, talks to it, limits it, and ends everything that it has started.
//!
//! [`capture`] runs a command line to its end. A [`Pipe`] is a program that is spoken with line by line. Either is a
//! [process group](Group) of its own; a [`Guard`] ends the groups when this process is killed.

mod capture;
mod group;
mod guard;
mod pipe;

pub use capture::{
    Failure, MAX_OUTPUT, Ran, Variables, capture, capture_with, last_line, not_started, prepared,
};
pub use group::{GRACE, Group};
#[cfg(unix)]
pub use guard::Entry;
pub use guard::Guard;
pub use pipe::{Ended, Fault, Pipe, Tail};
