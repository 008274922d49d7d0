//! What the judges of a check are told: what makes one judge another, and what its verdict hangs on.

use kindlm_types::Problem;
use serde_json::{Map, Value};

use super::{GradingPrompt, digest};

/// The instructions for the judges of a check, and the further evidence that their verdict depends on.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    digests: Vec<String>,
    prompts: Vec<GradingPrompt>,
    criteria: Vec<Criterion>,
    beyond: Option<&'static str>,
}

/// One of the things that a check has judged: what calibrations are kept for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// The criterion in a few words, or the id of the rule.
    pub name: String,
    /// The digest of its text.
    pub digest: String,
}

impl Instructions {
    /// Instructions that never vary.
    pub(crate) fn fixed(system: &str) -> Self {
        Self { digests: vec![digest(&[system])], ..Self::default() }
    }

    /// The prompts of a check, in the order in which they are used.
    pub(crate) fn of<'p>(prompts: impl IntoIterator<Item = &'p GradingPrompt>) -> Self {
        let prompts: Vec<GradingPrompt> = prompts.into_iter().cloned().collect();
        let digests = prompts.iter().map(|it| it.digest().to_owned()).collect();
        Self { digests, prompts, ..Self::default() }
    }

    /// The same for a check that judges by these criteria, each with its name and its digest. A check without criteria
    /// judges all outputs by the same instructions.
    pub(crate) fn by(self, criteria: impl IntoIterator<Item = (String, String)>) -> Self {
        let criteria = criteria.into_iter().map(|(name, digest)| Criterion { name, digest });
        Self { criteria: criteria.collect(), ..self }
    }

    /// The same for a verdict that hangs on more than an output, its input and the variables of the test: on what.
    pub(crate) fn beyond(self, what: &'static str) -> Self {
        Self { beyond: Some(what), ..self }
    }

    /// Names the prompts: with others it is another judge.
    pub fn digests(&self) -> &[String] {
        &self.digests
    }

    /// The criterion, if checks of this kind have different ones.
    pub fn criteria(&self) -> &[Criterion] {
        &self.criteria
    }

    /// What the verdict hangs on that an output with its input and the variables of the test does not tell, if there is
    /// something: people who look at these cannot be asked whether they agree.
    pub fn hangs_on(&self) -> Option<&'static str> {
        self.beyond
    }

    /// Prompts of the user's own that do not show the judge what it judges. They may be meant, so they are no mistakes;
    /// points from the check.
    pub fn blind(&self) -> Vec<Problem> {
        self.prompts.iter().filter_map(GradingPrompt::blind).collect()
    }

    /// The names in the user's own prompts that are undefined for a test with these variables. Problems point from
    /// the check.
    pub(crate) fn unknown(&self, vars: &Map<String, Value>) -> Vec<Problem> {
        self.prompts.iter().flat_map(|it| it.unknown(vars)).collect()
    }
}
