//! The definition of an assertion, and its registration.

use std::fmt;
use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Definitions, Problem, Question, Severity};
use serde_json::Value;

use crate::core::codes::Code;
use crate::core::entry_options::EntryOptions;

mod check;
mod evidence;
mod registry;
mod setup;

pub use check::{
    BeginningRule, Check, LooksAt, Options, PassEvidence, Series, StaysValid, Traits, VerdictRule,
};
pub use evidence::{Candidate, Evidence, OutputComparison};
pub(crate) use registry::RegisteredAssertion;
pub use registry::{DuplicateAssertion, Group, Registry};
pub use setup::{ReadYaml, Setup};

/// A configured check that can judge an execution.
pub trait Assertion: fmt::Debug + Send + Sync {
    /// Returns the traits: the judged part of the evidence, the label, and more.
    ///
    /// The traits depend only on the configuration.
    fn traits(&self) -> Traits;

    /// Returns the questions whose answers [`evaluate`](Assertion::evaluate) needs.
    ///
    /// The runner calls this function again after each round of answers, until it returns no new question. So a second
    /// question may depend on the first answer, for example to ask a judge again after an unreadable reply.
    ///
    /// The default returns no question. This default cannot make a check pass, because a question that was not asked
    /// has no answer.
    fn questions(&self, _evidence: &Evidence<'_>) -> Vec<Question> {
        Vec::new()
    }

    /// Judges the evidence. The same evidence always gives the same results.
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult>;
}

/// The place of an assertion in an `expect` block, besides the `assert` list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpectPath {
    /// The JSON pointer inside `expect`, such as `/guardrails/keywords`.
    pub pointer: &'static str,
    /// True if the place holds a list, in which each item is one check.
    pub list: bool,
}

impl ExpectPath {
    /// Creates a place from its JSON pointer inside `expect`.
    pub const fn new(pointer: &'static str, list: bool) -> Self {
        Self { pointer, list }
    }
}

/// The static facts about an assertion.
///
/// There is no `Default` and no constructor: an entry states all of these facts in a literal. A further fact changes
/// every entry, also those of other crates.
#[derive(Debug)]
pub struct Meta {
    /// The id: the `type` in results and in `assert` lists.
    pub id: &'static str,
    /// The place under `expect`; `None` if the assertion can only be used in `assert` lists.
    pub path: Option<ExpectPath>,
    /// The purpose of the check, in one sentence.
    pub summary: &'static str,
    /// The KindLM version that introduced the assertion.
    pub since: &'static str,
    /// The kind of judgement: by a rule or by a model.
    pub class: Class,
    /// The default effect of a failure. A gate must hold; a soft score is only reported.
    ///
    /// An entry of an `assert` list can set another severity.
    pub severity: Severity,
    /// The failure codes that the assertion can give.
    pub codes: &'static [Code],
    /// The text of the reference page, in Markdown. The examples of the page run as tests.
    pub docs: &'static str,
}

/// One entry of the registry.
#[derive(Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The static facts about the assertion.
    pub meta: Meta,
    /// Generates the JSON Schema of the assertion's configuration.
    pub schema: fn(&mut Definitions) -> Value,
    /// Builds a check from configuration that has passed `schema`.
    ///
    /// The error holds all problems of the configuration.
    pub build: Build,
}

impl Registration {
    /// Creates an entry.
    ///
    /// In a `static`, a `meta` with failure codes must be a separate `const`.
    pub const fn new(meta: Meta, schema: fn(&mut Definitions) -> Value, build: Build) -> Self {
        Self { meta, schema, build }
    }
}

/// The function that builds a check from its configuration.
#[derive(Clone, Copy, Debug)]
pub enum Build {
    /// An assertion that leaves `not-` and `threshold` to [`Check`](crate::Check).
    Plain(fn(&Value, &Setup<'_>) -> Built),
    /// An assertion that applies `not-` and `threshold` itself, in its own way.
    ///
    /// Templates in its `value` are rendered first. A `value` such as `file://data.json` is replaced by the content of
    /// the text, JSON or YAML file.
    EntryOptions(fn(&Value, EntryOptions, &Setup<'_>) -> Built),
    /// Like `EntryOptions`, but `value` may also name a script.
    ///
    /// The assertion receives the name of a script as written.
    Script(fn(&Value, EntryOptions, &Setup<'_>) -> Built),
    /// Like `Plain`, for an assertion that asks judges.
    ///
    /// The options about judges are removed from the configuration before the build, except `model`. The built
    /// assertion is wrapped, so that all judges are asked.
    Judged(fn(&Value, &Setup<'_>) -> Built),
    /// Like `EntryOptions`, for an assertion that asks judges.
    ///
    /// The options about judges are removed from the configuration before the build. The built assertion is wrapped, so
    /// that all judges are asked.
    Graded(fn(&Value, EntryOptions, &Setup<'_>) -> Built),
    /// An assertion that consists of the checks under its `assert` key.
    Set(fn(&Value, Vec<Check>, EntryOptions, &Setup<'_>) -> Built),
}

impl Build {
    /// Returns true if the assertion asks judges.
    pub fn asks_judges(&self) -> bool {
        match self {
            Self::Judged(_) | Self::Graded(_) => true,
            Self::Plain(_) | Self::EntryOptions(_) | Self::Script(_) | Self::Set(_) => false,
        }
    }
}

/// The built assertion, or all problems of its configuration.
///
/// The JSON pointers of the problems start at the configuration.
pub type Built = Result<Arc<dyn Assertion>, Vec<Problem>>;
