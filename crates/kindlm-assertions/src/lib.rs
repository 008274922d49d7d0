//! Assertions about the output and the actions of a model or an agent.
//!
//! Each assertion is a separate folder in one of nine groups; [`REGISTRY`] lists them. An assertion is a pure function
//! of [`Evidence`]: no I/O, no `async`. An assertion that needs a model returns questions
//! ([`Assertion::questions`]). The program that runs the checks answers the questions and then calls
//! [`Assertion::evaluate`].
//!
//! ```
//! use kindlm_assertions::{Evidence, Setup, compile};
//! use kindlm_types::{Answers, Execution, NoFiles, ToolCall};
//! use serde_json::json;
//!
//! let expect = json!({
//!     "toolCalls": [{ "tool": "lookup_order", "argsMatch": { "order_id": "12345" } }],
//!     "assert": [{ "type": "not-schema", "contains": ["I cannot"] }],
//! });
//! let (checks, problems) = compile(&expect, &Setup::new(&NoFiles, None));
//! assert!(problems.is_empty());
//!
//! let call = ToolCall {
//!     name: "lookup_order".to_owned(),
//!     arguments: json!({ "order_id": 12345 }),
//!     ..ToolCall::default()
//! };
//! let execution = Execution {
//!     output: "It is on its way.".to_owned(),
//!     tool_calls: vec![call],
//!     ..Execution::default()
//! };
//! let evidence = Evidence { execution: &execution, answers: &Answers::default(), baseline: None, comparison: None };
//! let results: Vec<_> = checks.iter().flat_map(|check| check.evaluate(&evidence)).collect();
//! let failed: Vec<_> = results.iter().filter_map(|it| it.verdict.message()).collect();
//! assert_eq!(failed, ["Argument mismatches: order_id: expected \"12345\", got 12345"]);
//! ```
#![deny(clippy::disallowed_methods)]

mod agent;
mod core;
mod format;
mod judge;
mod limits;
mod safety;
mod script;
mod shared;
mod similarity;
mod text;
mod workspace;

use std::sync::{Arc, LazyLock};

use kindlm_types::Files;

pub use core::assertion::{
    Assertion, BeginningRule, Build, Built, Candidate, Check, DuplicateAssertion, Evidence,
    ExpectPath, Group, LooksAt, Meta, Options, OutputComparison, PassEvidence, ReadYaml,
    Registration, Registry, Series, Setup, StaysValid, Traits, VerdictRule,
};
pub use core::check::{CheckOutcome, check_outcomes};
pub use core::codes::{self, Code};
pub use core::comparison::first_questions;
pub use core::entry_options::EntryOptions;
pub use core::expect::{compile, compile_with, expect_schema};
pub use core::judging::{
    Agg, Criterion, Instructions, JudgeBlock, Jury, answered_by, fingerprints_of, judged_by,
};
pub use core::on::Selector;
pub use core::output::output_of_model;
pub use core::scripting::{ScriptSettings, ScriptsBlock, Transform, View};
pub use safety::Redactor;
pub use shared::{pattern, template};

/// The assertions of this crate by group.
///
/// An `expect` block evaluates the assertions in this order. To add an assertion, create its folder. Then add a `mod`
/// line and an entry in `REGISTRY` to the `mod.rs` of its group.
pub static REGISTRY: &[Group] = &[
    Group {
        name: "agent",
        summary: "The actions of an agent: tool calls, events, sub-agents, spans",
        assertions: agent::REGISTRY,
    },
    Group {
        name: "format",
        summary: "The form of the output: JSON, XML, HTML, SQL",
        assertions: format::REGISTRY,
    },
    Group {
        name: "safety",
        summary: "Personal data, denied words, refusals, guardrails",
        assertions: safety::REGISTRY,
    },
    Group {
        name: "judge",
        summary: "The verdict of a model that reads the output",
        assertions: judge::REGISTRY,
    },
    Group {
        name: "similarity",
        summary: "The distance between the output and another text",
        assertions: similarity::REGISTRY,
    },
    Group {
        name: "limits",
        summary: "Time, tokens, turns and money",
        assertions: limits::REGISTRY,
    },
    Group { name: "text", summary: "The words of the output", assertions: text::REGISTRY },
    Group {
        name: "script",
        summary: "Your own rules: scripts, services, sets of checks",
        assertions: script::REGISTRY,
    },
    Group {
        name: "workspace",
        summary: "The files of an agent's workspace, and commands that run in it",
        assertions: workspace::REGISTRY,
    },
];

/// The default registry. All suites of the process share its compiled schemas.
static BUILT_IN: LazyLock<Arc<Registry>> = LazyLock::new(|| Arc::new(Registry::built_in()));

/// Returns all assertions of this crate, in the order of [`REGISTRY`].
pub fn assertions() -> impl Iterator<Item = &'static Registration> + Clone {
    REGISTRY.iter().flat_map(|it| it.assertions).copied()
}

/// Returns the assertion of this crate with this id; `None` if the id is unknown.
pub fn find(id: &str) -> Option<&'static Registration> {
    assertions().find(|it| it.meta.id == id)
}

/// Returns the registry of the assertions of this crate.
///
/// Every call returns the same registry, so that its schemas are compiled once.
pub fn built_in() -> Arc<Registry> {
    Arc::clone(&BUILT_IN)
}

impl Registry {
    /// Creates a registry with the assertions of this crate.
    pub fn built_in() -> Self {
        // `with` fails only for a duplicate id or place. A test checks that there is no duplicate, so the empty
        // fallback is never used.
        Self::default().with(assertions()).unwrap_or_default()
    }
}

impl<'a> Setup<'a> {
    /// Creates a setup with the assertions of this crate and these files.
    ///
    /// `models` is `None` if references to models are not checked.
    pub fn new(files: &'a dyn Files, models: Option<&'a [String]>) -> Self {
        Self::from_registry(built_in(), files, models)
    }
}
