//! Tests of workspaces on a real disk, with real commands.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod copies;
mod isolated;
mod scoring;
mod support;
