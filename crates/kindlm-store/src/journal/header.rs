//! The first line of a journal: the identity of the run, and digests of the data that its executions depend on.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The `schemaVersion` of new journals.
pub const VERSION: u32 = 2;

/// The first line of a journal.
///
/// The header holds digests of the data, not the data. [`compare`](Header::compare) uses the digests to check that a
/// resumed run is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Header<'a> {
    /// The version of the journal's format.
    pub schema_version: u32,
    /// The run's id.
    pub run: Cow<'a, str>,
    /// The version of KindLM that started the run.
    pub version: Cow<'a, str>,
    /// The start of the run, in RFC 3339 and UTC.
    pub started_at: Cow<'a, str>,
    /// The suite's name.
    pub suite: Cow<'a, str>,
    /// The file name of the config file, without its folder. Several suites may share one folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Cow<'a, str>>,
    /// The digest of the config file; `None` without a config file.
    ///
    /// A different digest does not prevent resuming, because each relevant part has its own digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_digest: Option<Cow<'a, str>>,
    /// The digests of other data that affects results, such as the baseline or the judge settings.
    ///
    /// The keys are readable names for error messages.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<Cow<'a, str>, Digest>,
    /// The arguments of `kindlm test` that affect results. The command that resumes the run applies them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Cow<'a, str>>,
    /// The digests of the models, by id. Each covers the name, the parameters, and the provider with its settings.
    #[serde(default)]
    pub models: BTreeMap<Cow<'a, str>, Digest>,
    /// The planned cases, one for each test case and model, in the order of the plan.
    #[serde(default)]
    pub cases: Vec<PlannedCase<'a>>,
}

/// One test case on one model, with digests of the data behind its results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCase<'a> {
    /// The test case's name.
    pub case: Cow<'a, str>,
    /// The model's id in the suite; `command` or `transcript` for tests that run on no model.
    pub model: Cow<'a, str>,
    /// The number of planned repeats.
    pub repeats: u32,
    /// The digest of the prompt, command line or transcript. It also covers the user messages of turns, and `maxTurns`.
    pub prompt: Digest,
    /// The digest of the tools and their simulated results.
    pub tools: Digest,
    /// The digest of the variables.
    pub vars: Digest,
    /// The digest of the expectations for the output and for each turn.
    ///
    /// The digest may cover the whole case. If only this digest differs, the checks changed.
    pub checks: Digest,
}

impl<'a> Header<'a> {
    /// Creates a header without models, cases, settings, arguments and config file.
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
    /// Creates a case with digests of an empty text.
    pub fn new(
        case: impl Into<Cow<'a, str>>,
        model: impl Into<Cow<'a, str>>,
        repeats: u32,
    ) -> Self {
        let nothing = Digest::from_content("");
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
