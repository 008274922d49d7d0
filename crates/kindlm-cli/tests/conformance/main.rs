//! promptfoo's answers, held against ours, where something must be asked or run.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod deterministic;
mod javascript;
mod workers;
