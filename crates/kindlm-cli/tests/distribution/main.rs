//! The ways to get and run KindLM: the GitHub action, the GitLab component, and the npm packages.
//!
//! The tests pack the binary into an archive like a release archive. Downloads are files, and the APIs of GitHub and
//! GitLab are servers on 127.0.0.1.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod action;
mod component;
mod packages;
mod release;
