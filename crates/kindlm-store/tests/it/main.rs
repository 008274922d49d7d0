//! Tests of the store on a real disk, in temporary folders.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod arbitrary;
mod baselines;
mod calibrations;
mod differences;
mod folder;
mod journal;
mod killed;
mod responses;
mod runs;
mod saved;
