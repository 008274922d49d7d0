//! Comparison with promptfoo's results for checks that need requests or programs; permissions of scripts; and the
//! clean-up of workers.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod deterministic;
mod javascript;
mod orphans;
mod permissions;
mod workers;
