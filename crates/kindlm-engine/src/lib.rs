//! Plans, executes, aggregates and gates a suite of tests.
#![deny(clippy::disallowed_methods)]

pub mod gates;
mod suite;

pub use suite::{
    Compliance, ConversationTurn, Defaults, Model, SimulatedResponse, SimulatedTool, Subject,
    Suite, TestCase,
};
