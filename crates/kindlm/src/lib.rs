//! Tests prompts and AI agents from Rust.
//!
//! [`check`] holds what an agent did and said against an `expect` block, as `kindlm.yaml` has it:
//!
//! ```
//! use kindlm::{Execution, Outcome, ToolCall, check};
//! use serde_json::json;
//!
//! let execution = Execution {
//!     output: "Your money comes back on Monday.".to_owned(),
//!     tool_calls: vec![ToolCall { name: "lookup_order".to_owned(), ..ToolCall::default() }],
//!     ..Execution::default()
//! };
//! let checked = check(&execution, &json!({
//!     "toolCalls": [{ "tool": "lookup_order" }, { "shouldNotCall": true, "tool": "issue_refund" }],
//!     "guardrails": { "pii": { "enabled": true } },
//! }))?;
//! assert_eq!(checked.outcome(), Outcome::Passed, "{checked}");
//! # Ok::<(), kindlm::CheckError>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | check one answer | [`check`] |
//! | write an assertion, or compile checks once | [`assertions`] |
//! | run cases on a model or agent of your own, with gates | [`engine`] |
//! | write a report | [`reporters`] |
//! | open, run and resume a suite file | `kindlm::run`, with the feature `run` |
#![deny(clippy::disallowed_methods)]

use std::fmt;

use serde_json::Value;

pub use kindlm_assertions as assertions;
pub use kindlm_engine as engine;
pub use kindlm_reporters as reporters;
#[cfg(feature = "run")]
pub use kindlm_run as run;
pub use kindlm_types as types;

pub use kindlm_assertions::{Assertion, Check, Evidence, Setup, compile};
pub use kindlm_types::{
    Answers, AssertionResult, Channel, Event, Execution, ExecutionResult, Message, NoFiles,
    Outcome, Report, Role, Severity, ToolCall, Verdict,
};

/// The results of the checks of one execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// One for each check, in the order of the block.
    pub results: Vec<AssertionResult>,
}

impl Checked {
    /// The outcome of the execution: the worst of its results. A check that needs a model is errored, as none is asked.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(&self.results)
    }
}

impl fmt::Display for Checked {
    /// A line for each check that does not hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for result in self.results.iter().filter(|it| !it.verdict.held()) {
            writeln!(f, "{}: {}", result.label, result.verdict.message().unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Why an `expect` block cannot be used: each problem with its place in the block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct CheckError(pub Vec<String>);

/// Holds an execution against an `expect` block. Files that the block names are not read, and no model is asked.
///
/// # Errors
///
/// If the block has a problem: an unknown check, a missing option, a pattern that cannot be read.
pub fn check(execution: &Execution, expect: &Value) -> Result<Checked, CheckError> {
    let (checks, problems) = compile(expect, &Setup::new(&NoFiles, None));
    if !problems.is_empty() {
        let shown = problems.iter().map(|it| {
            let help = it.help.as_ref().map(|it| format!("; {it}")).unwrap_or_default();
            format!("`{}`: {}{help}", it.pointer, it.message)
        });
        return Err(CheckError(shown.collect()));
    }
    let answers = Answers::default();
    let evidence = Evidence::new(execution, &answers);
    Ok(Checked { results: checks.iter().flat_map(|it| it.evaluate(&evidence)).collect() })
}
