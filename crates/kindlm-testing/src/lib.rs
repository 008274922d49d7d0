//! For tests and benches of KindLM only: a model's API that misbehaves on demand, the runner of the
//! documentation's examples, and a report that has one of everything.

pub mod examples;
pub mod mock;
pub mod peer;
mod programs;
mod sample;

pub use mock::{MockReply, MockRequest, MockServer};
pub use programs::{can_sandbox, installed, not_run};
pub use sample::{green_report, sample_report};
