//! The store on a real disk, in folders that are made for it.
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
