//! Tests prompts and AI agents from Rust.
//!
//! [`check`] evaluates an `expect` block, as in `kindlm.yaml`, on an execution of an agent:
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
//! | task | item |
//! |---|---|
//! | check one answer | [`check`] |
//! | write an assertion, or compile checks once | [`assertions`] |
//! | run cases on your own model or agent, with gates | [`engine`] |
//! | write a report | [`reporters`] |
//! | open, run and resume a suite file | `kindlm::run`, with the feature `run` |
//!
//! A suite that needs AWS, JavaScript, TypeScript, MCP, websockets or Excel files needs the feature of that name, such as
//! `javascript`. The feature `http2` adds HTTP/2.
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
#[non_exhaustive]
pub struct Checked {
    /// The results, in the order of the checks in the block.
    pub results: Vec<AssertionResult>,
}

impl Checked {
    /// Returns the outcome of the execution. The worst result counts.
    ///
    /// Skipped checks count only if all checks were skipped. Checks that need a model are errored, because no model is
    /// called.
    pub fn outcome(&self) -> Outcome {
        Outcome::from_results(&self.results)
    }
}

impl fmt::Display for Checked {
    /// Writes one line for each check that failed or is errored.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for result in self.results.iter().filter(|it| !it.verdict.held()) {
            writeln!(f, "{}: {}", result.label, result.verdict.message().unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The reason why an `expect` block is invalid: all problems, each with its location in the block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct CheckError(pub Vec<String>);

/// Evaluates an `expect` block on an execution. No files are read, and no model is called.
///
/// # Errors
///
/// Fails if the block is invalid, for example because of an unknown check, a missing option or an invalid pattern.
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
