//! The integration tests of the assertions and of their documentation.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod conformance;
mod conformance_guardrails;
mod conformance_promptfoo;
mod cut;
mod docs;
mod evidence;
mod expect;
mod injection;
mod missing_evidence;
mod properties;
mod quoting;
mod registry;
mod support;
mod texts;
