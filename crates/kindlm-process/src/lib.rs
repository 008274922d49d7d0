//! Runs programs with limits, and ends every process that they started.
//!
//! [`capture`] runs a command line to its end. A [`Pipe`] is a program with line-based input and output. Each program
//! runs in its own [process group](Group). A [`Guard`] ends the groups if KindLM is killed. On Linux, [`end_marked`]
//! finds and ends processes that have left their group, by a variable in their environment.

mod capture;
mod group;
mod guard;
mod leftovers;
mod pipe;

pub use capture::{
    Failure, MAX_OUTPUT, Ran, Variables, capture, capture_with, last_line, not_started, prepare,
    prepared,
};
pub use group::{GRACE, Group, MARK};
pub use guard::Guard;
pub use leftovers::end_marked;
pub use pipe::{Ended, Fault, Pipe, Tail};
