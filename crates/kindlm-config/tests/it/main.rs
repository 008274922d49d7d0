//! Tests of the config reader: suites of valid files, and errors of invalid files.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod conformance;
mod counted;
mod datasets;
mod gallery;
mod hostile;
mod memory;
mod mistakes;
mod parts;
mod promptfoo;
mod promptfoo_keys;
mod resolve;
mod schema;
mod several;
mod short;
