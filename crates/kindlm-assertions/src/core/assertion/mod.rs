//! What an assertion is, and how it is registered.

use std::fmt;
use std::sync::Arc;

use kindlm_types::workspace::Gather;
use kindlm_types::{AssertionResult, Class, Problem, Question, Score, Severity, Verdict};
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::core::codes::Code;
use crate::core::judging::Instructions;
use crate::core::own::Own;

mod check;
mod evidence;
mod registry;
mod setup;

pub use check::{Check, Options};
pub use evidence::{Candidate, Contest, Evidence};
pub(crate) use registry::Known;
pub use registry::{DuplicateAssertion, Group, Registry};
pub use setup::{ReadYaml, Setup};

/// A check of one execution.
pub trait Assertion: fmt::Debug + Send + Sync {
    /// What must still be found out before [`evaluate`](Assertion::evaluate) can run.
    ///
    /// Called again after each round of answers, until it asks nothing that has not been asked before; so a
    /// second question may depend on the first answer (asking a judge once more after an unreadable reply).
    fn questions(&self, _evidence: &Evidence<'_>) -> Vec<Question> {
        Vec::new()
    }

    /// Judges the evidence. Pure: the same evidence always gives the same results.
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult>;

    /// What its result is called, where that is known before there is one.
    fn label(&self) -> Option<&str> {
        None
    }

    /// The least score that it wants, where its verdict hangs on a score and it was told a threshold or has one.
    fn wants(&self) -> Option<f64> {
        None
    }

    /// True if its `threshold` is another measure than a score from 0 to 1: dollars, a distance, what a script gives. So it
    /// is where promptfoo takes any number.
    fn measures(&self) -> bool {
        false
    }

    /// What of its configuration decides nothing, by pointers from it.
    fn idle(&self) -> Vec<Problem> {
        Vec::new()
    }

    /// True if it looks at the output, so that `on` may put another value in its place. One that looks at what
    /// happened would go on looking at that.
    fn sees_output(&self) -> bool {
        true
    }

    /// True if it can say nothing where nobody has told the output. One that looks at everything else as well decides
    /// for itself.
    fn needs_output(&self) -> bool {
        self.sees_output()
    }

    /// True if a result stays valid when a part of the answer could not be read. A match does; an absence does not.
    fn stands(&self, _result: &AssertionResult) -> bool {
        false
    }

    /// The same where only the end of the answer is missing, because it was cut.
    fn stands_when_cut(&self, result: &AssertionResult, _output: &str) -> bool {
        self.stands(result)
    }

    /// True if it looks at the answers of all turns of a conversation, and not at the last one alone.
    fn sees_turns(&self) -> bool {
        false
    }

    /// What must be found out in the workspace when the agent has finished, and kept as evidence.
    ///
    /// Unlike a question it depends on nothing but the configuration, because the workspace is gone when the checks
    /// are made.
    fn gathers(&self) -> Vec<Gather> {
        Vec::new()
    }

    /// True if it looks at a workspace, so that it can say nothing about a test without one.
    fn needs_workspace(&self) -> bool {
        !self.gathers().is_empty()
    }

    /// True if what it was configured with may hold a secret once variables are filled in, so that no result shows it.
    fn hides_its_value(&self) -> bool {
        false
    }

    /// What a score comes to, if the verdict hangs on the score alone. Asked where several replies of judges are
    /// taken together, with what their scores come to.
    fn decide(&self, _score: Score) -> Option<Verdict> {
        None
    }

    /// True if a result of it is a tie: neither this verdict nor its opposite.
    fn is_tie(&self, _result: &AssertionResult) -> bool {
        false
    }

    /// What its judges are told; `None` if it asks no judge.
    ///
    /// Unlike a question it depends on nothing but the configuration, so it is known before anything has happened.
    fn instructions(&self) -> Option<Instructions<'_>> {
        None
    }

    /// The checks that it is made of, if it is made of some.
    fn parts(&self) -> &[Check] {
        &[]
    }

    /// True if something in it has a weight in a mean of scores.
    fn weighs(&self) -> bool {
        true
    }

    /// True if it compares the output with others: it is evaluated when all of them are there, and finds them in
    /// [`Evidence::contest`].
    fn compares(&self) -> bool {
        false
    }
}

/// Where an assertion has a place of its own in an `expect` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectPath {
    /// JSON pointer inside `expect`, such as `/guardrails/keywords`.
    pub pointer: &'static str,
    /// True if the place holds a list, each item of which is one check.
    pub list: bool,
}

/// What is known about an assertion without running it.
#[derive(Debug)]
pub struct Meta {
    /// The id: `type` in results and in the list form.
    pub id: &'static str,
    /// Its own place under `expect`; without one it is reached by the list form only.
    pub path: Option<ExpectPath>,
    /// What it checks: one sentence.
    pub summary: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// Whether a rule or a model judges.
    pub class: Class,
    /// The effect of a failure where an entry of the list form does not say: a gate must hold, a soft score is watched.
    pub severity: Severity,
    /// The failure codes it gives.
    pub codes: &'static [Code],
    /// The page, whose examples are tests.
    pub docs: &'static str,
}

/// One entry of the registry.
#[derive(Debug)]
pub struct Registration {
    /// What is known without running it.
    pub meta: Meta,
    /// JSON Schema of its configuration.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Makes a check out of its configuration, which has passed `schema`; reports every problem.
    pub build: Build,
}

/// How a check is made out of its configuration.
#[derive(Clone, Copy, Debug)]
pub enum Build {
    /// `not-` and `threshold` are applied to what the assertion finds, as [`Check`](crate::Check) says.
    Plain(fn(&Value, &Setup<'_>) -> Built),
    /// The assertion has its own meaning of `not-` and `threshold`, and is told them. Templates in its `value` are
    /// rendered before, and a `value` of `file://` and the path of a text or JSON file is its content.
    Own(fn(&Value, Own, &Setup<'_>) -> Built),
    /// The same, but `value` may also name a script, which the assertion is told as it is written.
    Script(fn(&Value, Own, &Setup<'_>) -> Built),
    /// As `Plain`, for an assertion that asks judges: who they are, and how often they are asked, is read before and
    /// applied around it. `model` remains part of its configuration.
    Judged(fn(&Value, &Setup<'_>) -> Built),
    /// As `Own`, for an assertion that asks judges: who they are, and how often they are asked, is read before and
    /// applied around it.
    Graded(fn(&Value, Own, &Setup<'_>) -> Built),
    /// The assertion is made of the checks that are listed under its `assert`.
    Set(fn(&Value, Vec<Check>, Own, &Setup<'_>) -> Built),
}

impl Build {
    /// True if the assertion asks judges.
    pub fn asks_judges(&self) -> bool {
        match self {
            Self::Judged(_) | Self::Graded(_) => true,
            Self::Plain(_) | Self::Own(_) | Self::Script(_) | Self::Set(_) => false,
        }
    }
}

/// A check made out of configuration, or every problem with it, by pointers from the configuration.
pub type Built = Result<Arc<dyn Assertion>, Vec<Problem>>;
