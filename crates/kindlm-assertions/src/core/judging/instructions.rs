//! The instructions for the judges of a check, and the evidence for the verdict.

use std::borrow::Cow;

use kindlm_types::Problem;
use serde_json::{Map, Value};

use super::{GradingPrompt, digest};

/// The instructions for the judges of a check, and further evidence for the verdict.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    digests: Vec<String>,
    /// The system prompt that never varies; `None` if the instructions come from `prompts`.
    system: Option<&'static str>,
    prompts: Vec<GradingPrompt>,
    criteria: Vec<Criterion>,
    beyond: Option<&'static str>,
}

/// A criterion that a check judges by. Calibrations against human verdicts are stored per criterion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Criterion {
    /// The criterion in a few words, or the id of the rule.
    pub name: String,
    /// The digest of the criterion's text.
    pub digest: String,
}

impl Instructions {
    /// Creates instructions from a system prompt that never varies.
    pub(crate) fn fixed(system: &'static str) -> Self {
        Self { digests: vec![digest(&[system])], system: Some(system), ..Self::default() }
    }

    /// Creates instructions from the prompts of a check, in the order of their use.
    pub(crate) fn from_prompts<'p>(prompts: impl IntoIterator<Item = &'p GradingPrompt>) -> Self {
        let prompts: Vec<GradingPrompt> = prompts.into_iter().cloned().collect();
        let digests = prompts.iter().map(|it| it.digest().to_owned()).collect();
        Self { digests, prompts, ..Self::default() }
    }

    /// Adds the criteria of a check, each with its name and digest.
    ///
    /// A check without criteria judges all outputs by the same instructions.
    pub(crate) fn by(self, criteria: impl IntoIterator<Item = (String, String)>) -> Self {
        let criteria = criteria.into_iter().map(|(name, digest)| Criterion { name, digest });
        Self { criteria: criteria.collect(), ..self }
    }

    /// Adds a description of the further evidence that the verdict depends on.
    ///
    /// The output, the input and the variables of the test do not count as further evidence.
    pub(crate) fn beyond(self, what: &'static str) -> Self {
        Self { beyond: Some(what), ..self }
    }

    /// Returns the digests of the prompts. Verdicts by prompts with different digests are not comparable.
    pub fn digests(&self) -> &[String] {
        &self.digests
    }

    /// Returns the texts of the prompts, in the order of the digests.
    pub fn texts(&self) -> Vec<Cow<'static, str>> {
        let fixed = self.system.map(Cow::Borrowed);
        fixed.into_iter().chain(self.prompts.iter().map(GradingPrompt::text)).collect()
    }

    /// Returns the criteria. The list is empty if all checks of this kind judge by the same instructions.
    pub fn criteria(&self) -> &[Criterion] {
        &self.criteria
    }

    /// Returns a description of the further evidence that the verdict depends on; `None` without further evidence.
    ///
    /// The output, the input and the variables of the test do not count as further evidence. With further evidence, the
    /// verdict of a person who sees only these three is not comparable with the judge's verdict.
    pub fn further_evidence(&self) -> Option<&'static str> {
        self.beyond
    }

    /// Returns a problem for each user prompt that does not show the judged text.
    ///
    /// Such a prompt may be intended, so the problem is only a hint. Pointers start at the check.
    pub fn blind(&self) -> Vec<Problem> {
        self.prompts.iter().filter_map(GradingPrompt::blind).collect()
    }

    /// Returns a problem for each message of a user prompt that needs an undefined name.
    ///
    /// `vars` has the variables of the test. Pointers of the problems start at the check.
    pub(crate) fn unknown(&self, vars: &Map<String, Value>) -> Vec<Problem> {
        self.prompts.iter().flat_map(|it| it.unknown(vars)).collect()
    }
}
