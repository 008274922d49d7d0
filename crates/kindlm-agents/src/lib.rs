//! Reads what agents and programs report, and runs them.
//!
//! [`protocol`] is what commands write to stdout. [`agent`] has an adapter for each agent: Claude Code, Codex, and agents
//! that speak KindLM's protocol. [`transcript`] reads conversations that were recorded elsewhere. All of them give the same
//! evidence: events, tool calls, usage, and what is complete.

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
