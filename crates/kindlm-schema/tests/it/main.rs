//! Tests of schemas and shapes: accepted and rejected values, and error messages.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod schema;
mod shape;
