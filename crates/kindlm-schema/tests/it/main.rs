//! What schemas accept, what they refuse, and in which words.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod schema;
mod shape;
