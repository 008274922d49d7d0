//! Runs a program, talks to it, limits it, and ends everything that it has started.
//!
//! [`capture`] runs a command line to its end. A [`Pipe`] is a program that is spoken with line by line. Either is a
//! [process group](Group) of its own; a [`Guard`] ends the groups when this process is killed. On Linux a process that has
//! left its group is [found](end_marked) by a variable that it was started with, and ended with the others.

mod capture;
mod group;
mod guard;
mod leftovers;
mod pipe;

pub use capture::{
    Failure, MAX_OUTPUT, Ran, Variables, capture, capture_with, last_line, not_started, prepared,
};
pub use group::{GRACE, Group, MARK};
pub use guard::Guard;
pub use leftovers::end_marked;
pub use pipe::{Ended, Fault, Pipe, Tail};
