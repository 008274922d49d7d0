//! Tests of the engine through its public interface, with ports in memory.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agents;
mod aggregating;
mod budgets;
mod comparing;
mod conversations;
mod executing;
mod false_greens;
mod gating;
mod histories;
mod in_rust;
mod judging;
mod planning;
mod recording;
mod required;
mod runs;
mod scopes;
mod sets;

mod support;
mod turns;
mod waves;
