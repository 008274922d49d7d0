//! A sandbox for JavaScript.
//!
//! Scripts run in [worker] processes with QuickJS, under limits on time, memory and stack. Scripts have no access to
//! files, network or environment, unless their permissions allow it. On Linux, the system calls of a worker are
//! restricted, too. [`ScriptHost`] starts workers, sends them calls, and kills workers that do not answer.

mod frame;
mod host;
pub mod limits;
pub mod worker;

pub use host::{
    Fetch, FetchRequest, FetchResponse, HostOptions, Interpreters, ReadEnv, ScriptHost,
};
