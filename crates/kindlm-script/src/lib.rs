//! A sandbox for JavaScript.
//!
//! Scripts run in [worker] processes with QuickJS, under limits on time, memory and stack. They have no files,
//! network or environment; on Linux, the system calls for them are blocked too. [`ScriptHost`] starts workers, sends
//! them calls, and kills those that do not answer.

mod frame;
mod host;
pub mod limits;
pub mod worker;

pub use host::{
    Fetch, FetchRequest, FetchResponse, HostOptions, Interpreters, ReadEnv, ScriptHost,
};
