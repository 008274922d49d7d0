//! promptfoo's answers, held against ours, where something must be asked or run; what scripts may reach; and that
//! nothing of them is left behind.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod deterministic;
mod javascript;
mod orphans;
mod permissions;
mod workers;
