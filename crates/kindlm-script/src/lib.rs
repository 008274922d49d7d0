//! JavaScript in a sandbox.
//!
//! Scripts run in [worker] processes: QuickJS with limits on time, memory and stack, without files,
//! network or environment, and on Linux without the system calls for them. [`ScriptHost`] starts workers, gives
//! them work, and kills those that do not answer.

mod frame;
mod host;
pub mod limits;
pub mod worker;

pub use host::{
    Fetch, FetchRequest, FetchResponse, HostOptions, Interpreters, ReadEnv, ScriptHost,
};
