//! A sandbox for JavaScript.
//!
//! Scripts run in [worker] processes with QuickJS, under limits on time, memory and stack. Scripts have no access to
//! files, network or environment, unless their permissions allow it. On Linux with x86-64 or AArch64, the system calls
//! of a worker are restricted, too. Scripts of Node.js, Python and Ruby run outside of the sandbox. [`ScriptHost`]
//! starts workers, sends them calls, and kills workers that do not answer.
//!
//! Without the feature `javascript`, only scripts of Node.js, Python and Ruby run. All other scripts are errors.

mod frame;
mod host;
pub mod limits;
#[cfg(not(feature = "javascript"))]
mod missing;
mod typescript;
#[cfg(feature = "javascript")]
pub mod worker;

pub use host::{
    Fetch, FetchRequest, FetchResponse, HostOptions, Interpreters, ReadEnv, ScriptHost,
};
#[cfg(not(feature = "javascript"))]
pub use missing::worker;
