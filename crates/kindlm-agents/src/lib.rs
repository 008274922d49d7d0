//! Reads the output of agents and programs, and runs them.
//!
//! [`protocol`] is the protocol of commands on stdout. [`agent`] has an adapter for each agent: Claude Code, Codex, and
//! agents with KindLM's protocol. [`transcript`] reads recorded conversations. All three modules produce the same
//! evidence: events, tool calls, usage, and the kinds of evidence that are complete.

#[cfg(feature = "process")]
pub mod agent;
mod media;
pub mod protocol;
#[cfg(feature = "process")]
mod run;
pub mod transcript;

pub use media::MEDIA;
#[cfg(feature = "process")]
pub use run::{error_of, run, run_guarded};
