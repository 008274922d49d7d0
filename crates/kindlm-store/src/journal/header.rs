//! The first line of a journal: the run that it is of, and all that its executions depend on.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The `schemaVersion` of the journals that are written.
pub const VERSION: u32 = 2;

/// The first line of a journal.
///
/// It holds digests, not the contents. They show whether a resumed run is still the same run
/// ([`compare`](Header::compare)), and nothing about the contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header<'a> {
    /// The version of the journal's form.
    pub schema_version: u32,
    /// The run's id.
    pub run: Cow<'a, str>,
    /// The version of KindLM that began the run.
    pub version: Cow<'a, str>,
    /// When the run was begun, RFC 3339 in UTC.
    pub started_at: Cow<'a, str>,
    /// The suite's name.
    pub suite: Cow<'a, str>,
    /// The name of the config file, without its folder: several suites may share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Cow<'a, str>>,
    /// The digest of the config file, where there is one. That it changed is worth a remark, no more: what
    /// matters of it has digests of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_digest: Option<Cow<'a, str>>,
    /// Whatever else decides how an execution ends, by a name for people: `strict`, `baseline`, `judge model`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<Cow<'a, str>, Digest>,
    /// The arguments that chose what is run and how, as `kindlm test` takes them; they are to be given again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Cow<'a, str>>,
    /// The models by their id in the suite: provider, name, parameters.
    #[serde(default)]
    pub models: BTreeMap<Cow<'a, str>, Digest>,
    /// Test cases × models, in the order of the plan.
    #[serde(default)]
    pub cases: Vec<PlannedCase<'a>>,
}

/// One test case on one model: the number of repeats, and all that the results depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCase<'a> {
    /// The test case's name.
    pub case: Cow<'a, str>,
    /// The model's id in the suite; `command` for command tests.
    pub model: Cow<'a, str>,
    /// The number of times that it is executed.
    pub repeats: u32,
    /// The prompt that is sent or the command that is run: messages and conversation with `maxTurns`, or the command
    /// line.
    pub prompt: Digest,
    /// The tools, with their simulated answers.
    pub tools: Digest,
    /// The variables.
    pub vars: Digest,
    /// The expectations, at the end and of each turn. A digest of the whole case will do: where the other parts are
    /// the same, it shows that the checks are not.
    pub checks: Digest,
}

impl<'a> Header<'a> {
    /// A header without models, cases and settings.
    pub fn new(
        run: impl Into<Cow<'a, str>>,
        version: impl Into<Cow<'a, str>>,
        started_at: impl Into<Cow<'a, str>>,
        suite: impl Into<Cow<'a, str>>,
    ) -> Self {
        Self {
            schema_version: VERSION,
            run: run.into(),
            version: version.into(),
            started_at: started_at.into(),
            suite: suite.into(),
            config: None,
            suite_digest: None,
            settings: BTreeMap::new(),
            arguments: Vec::new(),
            models: BTreeMap::new(),
            cases: Vec::new(),
        }
    }
}

impl<'a> PlannedCase<'a> {
    /// A case with nothing in it: no prompt, no tools, no variables, no checks.
    pub fn new(
        case: impl Into<Cow<'a, str>>,
        model: impl Into<Cow<'a, str>>,
        repeats: u32,
    ) -> Self {
        let nothing = Digest::of("");
        Self {
            case: case.into(),
            model: model.into(),
            repeats,
            prompt: nothing,
            tools: nothing,
            vars: nothing,
            checks: nothing,
        }
    }
}
