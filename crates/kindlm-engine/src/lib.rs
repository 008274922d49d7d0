//! Plans, executes, aggregates and gates a suite of tests for AI agents.
//!
//! A [`Suite`] is loaded from `kindlm.yaml` (by `kindlm-config`) or built in code, as below.
//!
//! - [`plan`] selects the executions;
//! - [`execute`] carries them out through [`Ports`](kindlm_types::Ports), and evaluates the checks;
//! - [`report()`] combines the results, and evaluates the [`gates`];
//! - [`run`] does all three;
//! - [`judge()`] evaluates checks on a recorded execution.
//!
//! This crate does no I/O, reads no clock and no environment, and prints nothing.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use kindlm_assertions::{Assertion, Check, Evidence, Meta, Traits};
//! use kindlm_engine::{CaseBody, Model, RunOptions, Suite, TestCase, gates};
//! use kindlm_types::{AttemptBudget, BoxFuture, Embedding, Models, Ports};
//! use kindlm_types::{
//!     AssertionResult, Class, ExitStatus, FailureCode, Limits, Params, Prompt, ProviderError,
//!     ProviderErrorKind, Reply,
//! };
//!
//! // A custom check: it inspects the evidence, and returns results.
//! #[derive(Debug)]
//! struct Polite;
//!
//! static POLITE: Meta = Meta {
//!     id: "polite",
//!     path: None,
//!     summary: "The output says please.",
//!     since: "0.1.0",
//!     class: Class::Deterministic,
//!     severity: kindlm_types::Severity::Gate,
//!     codes: &[],
//!     docs: "",
//! };
//!
//! impl Assertion for Polite {
//!     fn traits(&self) -> Traits {
//!         Traits::OF_OUTPUT
//!     }
//!
//!     fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
//!         vec![if evidence.execution.output.contains("please") {
//!             AssertionResult::pass("polite", "Polite")
//!         } else {
//!             AssertionResult::fail("polite", "Polite", FailureCode::new("RUDE"), "no `please`")
//!         }]
//!     }
//! }
//!
//! // A model that always gives the same answer. `kindlm-providers` has models behind HTTP.
//! struct Canned;
//!
//! impl Models for Canned {
//!     fn complete<'a>(
//!         &'a self,
//!         _provider: &'a str,
//!         _prompt: &'a Prompt,
//!         _timeout: Duration,
//!         _budget: &'a dyn AttemptBudget,
//!     ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
//!         Box::pin(async { Ok(Reply::text("Could you tell me your order number, please?")) })
//!     }
//!
//!     fn embed<'a>(
//!         &'a self,
//!         provider: &'a str,
//!         _model: &'a str,
//!         _text: &'a str,
//!         _timeout: Duration,
//!     ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
//!         let err = ProviderError::new(ProviderErrorKind::Unsupported, provider, "no embeddings");
//!         Box::pin(async { Err(err) })
//!     }
//!
//!     fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
//!         false
//!     }
//!
//!     fn limits_calls(&self) -> bool {
//!         false
//!     }
//! }
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
//! # runtime.block_on(async {
//! let mut body = CaseBody::prompt("Where is my parcel?");
//! body.checks = [Check::new(&POLITE, Arc::new(Polite))].into();
//! let case = TestCase::new("asks for the order", body).on(&["support"]);
//! let suite = Suite {
//!     models: vec![Model::new("support", "canned", "any")],
//!     cases: vec![case],
//!     gates: gates::defaults(),
//!     ..Suite::default()
//! };
//! let report = kindlm_engine::run(&suite, &RunOptions::default(), Ports::new(&Canned)).await.unwrap();
//! assert_eq!(report.totals().passed, 1);
//! assert_eq!(report.exit_status(), ExitStatus::Success);
//! # });
//! ```
#![deny(clippy::disallowed_methods)]

mod aggregate;
mod baseline;
mod budget;
mod calls;
mod case;
mod check_places;
mod checks;
mod control;
pub mod derived;
mod digest;
mod execute;
pub mod gates;
mod hook;
mod judge;
mod merge;
mod options;
mod plan;
mod record;
mod report;
mod shard;
mod specification;
mod streamed;
mod suite;
mod until;

pub use aggregate::{AggregateError, aggregate};
pub use baseline::Baseline;
pub use budget::LONGEST_ANSWER;
pub use case::{
    BodyError, BodySource, COMMAND, CaseBody, CaseKind, Comparison, ConversationTurn, HISTORY,
    SimulatedAnswer, SimulatedResponse, SimulatedTool, Subject, TRANSCRIPT, TestCase,
};
pub use check_places::CheckPlaces;
pub use control::{Control, RunProgress};
pub use digest::{Digest, Fingerprint};
pub use execute::{Executed, Observed, Run, budget_usd, execute, execute_streamed, reserve_usd};
pub use hook::{Hook, HookEvent};
pub use judge::{Halt, Judgement, Judges, ObserveResults, judge, judge_observed};
pub use merge::{MergeError, Merged, merge, merge_streamed};
pub use options::{Filter, Pattern, PatternError, RunOptions, Targets};
pub use plan::{Part, Plan, PlanError, Unit, plan};
pub use record::{ReadRecord, Record, RecordError};
pub use report::{evaluate_gates, measure_gates, report, report_streamed, run};
pub use shard::{Durations, Shard, ShardError, shard};
pub use streamed::{Recorded, Streamed};
pub use suite::{Compliance, Defaults, IgnoredMutants, JudgedCheck, Model, Suite, judge_of};
pub use until::Until;

/// Returns the output of a program: its text, or else its structured output as JSON.
///
/// Without the JSON, checks of texts would see an empty output.
fn output_text(text: String, value: Option<&serde_json::Value>) -> String {
    match value {
        Some(value) if text.is_empty() => kindlm_types::ecma::text(value),
        _ => text,
    }
}

/// Returns the output of a model: the text of the reply, or the refusal if the text is empty.
fn answer_text(reply: &kindlm_types::Reply) -> &str {
    if reply.text.is_empty() { reply.refusal.as_deref().unwrap_or_default() } else { &reply.text }
}
