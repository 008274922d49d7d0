//! Tests of the server: the real binary over TCP, and the database on SQLite and PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod alerts;
mod backup;
mod baselines;
mod batch;
mod budgets;
mod cases;
mod evaluate;
mod evaluate_events;
mod faults;
mod inline;
mod monitor;
mod pages;
mod postgres;
mod runs;
mod samples;
mod server;
mod sets;
mod store;
mod tokens;
mod traces;
