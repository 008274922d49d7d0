//! What an assertion is, and how it is registered.

use std::fmt;
use std::sync::Arc;

use kindlm_types::{
    AssertionResult, Class, Execution, Problem, Question, Score, Severity, Verdict,
};
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::core::codes::Code;
use crate::core::own::Own;

mod check;
mod evidence;
mod registry;
mod setup;

pub use check::{Check, LooksAt, Options, Traits};
pub use evidence::{Candidate, Contest, Evidence};
pub(crate) use registry::Known;
pub use registry::{DuplicateAssertion, Group, Registry};
pub use setup::{ReadYaml, Setup};

/// A check of one execution.
pub trait Assertion: fmt::Debug + Send + Sync {
    /// The part of the evidence that it judges, its label, and all else that depends on its configuration alone.
    fn traits(&self) -> Traits;

    /// The questions whose answers [`evaluate`](Assertion::evaluate) needs.
    ///
    /// Called again after each round of answers, until it asks nothing that has not been asked before; so a
    /// second question may depend on the first answer (asking a judge once more after an unreadable reply).
    fn questions(&self, _evidence: &Evidence<'_>) -> Vec<Question> {
        Vec::new()
    }

    /// Judges the evidence. Pure: the same evidence always gives the same results.
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult>;

    /// True if a result stays valid when a part of the output is missing: a text that was found is there, and a text that
    /// was not found may be in the missing part. A model that was cut off has lost the end of it.
    fn stays_valid(&self, _result: &AssertionResult, _execution: &Execution) -> bool {
        false
    }

    /// The verdict of a score, if the verdict depends on the score alone. Asked for the joined score of several judges.
    fn decide(&self, _score: Score) -> Option<Verdict> {
        None
    }
}

/// True if the end of an incomplete output is missing and nothing else.
pub(crate) fn only_end_is_missing(execution: &Execution) -> bool {
    execution.unread.is_none() && execution.turns.iter().all(|it| it.unread.is_none())
}

/// The place of an assertion in an `expect` block, if it has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectPath {
    /// JSON pointer inside `expect`, such as `/guardrails/keywords`.
    pub pointer: &'static str,
    /// True if the place holds a list, each item of which is one check.
    pub list: bool,
}

/// The facts about an assertion that are known without running it.
#[derive(Debug)]
pub struct Meta {
    /// The id: `type` in results and in the list form.
    pub id: &'static str,
    /// Its own place under `expect`; without one it is reached by the list form only.
    pub path: Option<ExpectPath>,
    /// The purpose of the check: one sentence.
    pub summary: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// The kind of judgement: by a rule or by a model.
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
    /// The facts that are known without running it.
    pub meta: Meta,
    /// JSON Schema of its configuration.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Makes a check out of its configuration, which has passed `schema`; reports every problem.
    pub build: Build,
}

/// The function that makes a check out of its configuration.
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
