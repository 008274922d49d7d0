//! Tools for the tests and benchmarks of KindLM.
//!
//! - a mock model API with faults;
//! - a runner for the examples in the documentation;
//! - a sample report;
//! - the commands of another tool, for benchmarks;
//! - the detection of programs that tests need.

pub mod examples;
pub mod mock;
pub mod peer;
mod programs;
mod sample;

pub use mock::{MockReply, MockRequest, MockServer};
pub use programs::{can_sandbox, installed, not_run};
pub use sample::{green_report, sample_comparison, sample_report};
