//! Integration tests of scripts and checks that need requests or programs.
//!
//! They cover promptfoo's results, the permissions of scripts, and the clean-up of workers.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod deterministic;
mod javascript;
mod orphans;
mod permissions;
mod workers;
