//! Whole promptfoo configs, run by the binary.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agents;
mod callbacks;
mod custom;
mod differential;
mod eval_level;
mod graded;
mod hooks;
mod http;
mod imported;
mod live;
mod programs;
mod projects;
mod ran;
mod verdicts;
mod websocket;
mod workbook;
