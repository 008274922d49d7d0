//! The judge panel: one model or a jury of several models. Each model is asked once or several times.
//!
//! A check returns its questions as if there were a single judge. The panel repeats the questions for every juror and
//! sample. For each sample, the panel evaluates the check on the answers of this sample. Then the panel combines the
//! results. So every check that asks a judge can have a jury.

use std::collections::BTreeSet;
use std::sync::Arc;

use kindlm_types::ask::JurorSample;
use kindlm_types::{AssertionResult, Problem, Question, Score};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::block::{Agg, JudgeBlock, Jury, VARIED, more_than_half};
use super::votes::{Ballot, VoteRule, combine};
use crate::{Assertion, Evidence, Setup, Traits, VerdictRule};

/// Returns the judges of a result and their options; `None` if no model judged, or if the stored options are invalid.
///
/// The block is in [normal form](JudgeBlock::settled), with the model ids of the run.
pub fn judged_by(result: &AssertionResult) -> Option<JudgeBlock> {
    let judging = result.judging.as_ref()?;
    if let Some(settings) = &judging.settings {
        return JudgeBlock::deserialize(settings).ok();
    }
    Some(JudgeBlock { model: Some(judging.model.clone()?), ..JudgeBlock::default() })
}

/// Returns the names of the models that judged a result, as the providers reported them.
///
/// Names that equal the requested names are left out.
pub fn answered_by(result: &AssertionResult) -> Vec<&str> {
    let Some(judging) = result.judging.as_deref() else { return Vec::new() };
    let votes = judging.panel.iter().flat_map(|it| &it.votes);
    let votes = votes.filter_map(|it| it.answered_model.as_deref());
    let names: BTreeSet<&str> = judging.answered.as_deref().into_iter().chain(votes).collect();
    names.into_iter().collect()
}

/// Returns the fingerprints of the models that judged a result, as the providers reported them.
pub fn fingerprints_of(result: &AssertionResult) -> Vec<&str> {
    let Some(judging) = result.judging.as_deref() else { return Vec::new() };
    let votes = judging.panel.iter().flat_map(|it| &it.votes);
    let votes = votes.filter_map(|it| it.system_fingerprint.as_deref());
    let names: BTreeSet<&str> = judging.fingerprint.as_deref().into_iter().chain(votes).collect();
    names.into_iter().collect()
}

/// The judges of a check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Panel {
    /// The model of each juror; `None` for the suite's judge.
    jurors: Vec<Option<String>>,
    /// The number of samples per juror.
    samples: u32,
    /// The temperature; `None` if it is not configured.
    temperature: Option<f64>,
    agg: Agg,
    jury: Jury,
    quorum: Option<u32>,
    /// The block that the panel was built from, in [normal form](JudgeBlock::settled).
    judging: JudgeBlock,
}

impl Panel {
    /// Builds the panel of a block, or returns all problems of the block.
    pub(crate) fn new(block: &JudgeBlock, setup: &Setup<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = block.problems();
        let named = block.model.iter().map(|it| ("/model".to_owned(), it));
        let models = block.models.iter().flatten().enumerate();
        let named = named.chain(models.map(|(index, it)| (format!("/models/{index}"), it)));
        problems.extend(named.filter_map(|(at, id)| setup.check_model(&at, id)));
        if !problems.is_empty() {
            return Err(problems);
        }
        let jurors = match (&block.models, &block.model) {
            (Some(models), _) => models.iter().cloned().map(Some).collect(),
            (None, model) => vec![model.clone()],
        };
        Ok(Self {
            jurors,
            samples: block.samples.unwrap_or(1).max(1),
            temperature: block.temperature,
            agg: block.agg.unwrap_or_default(),
            jury: block.jury.unwrap_or_default(),
            quorum: block.quorum,
            judging: block.settled(),
        })
    }

    /// Wraps an assertion so that the judges of this panel answer the assertion's questions.
    ///
    /// The assertion is returned unchanged if the suite's judge is asked once at the default temperature.
    pub(crate) fn judging(self, assertion: Arc<dyn Assertion>) -> Arc<dyn Assertion> {
        if self.jurors == [None] && self.samples == 1 && self.temperature.is_none() {
            return assertion;
        }
        let verdict_rule = assertion.traits().verdict_rule;
        Arc::new(Paneled { panel: self, assertion, verdict_rule })
    }

    /// Adds the judges and their options to a result.
    ///
    /// Without these options, a verdict of three samples would look like a verdict of a single sample.
    fn add_judging(&self, result: &mut AssertionResult) {
        let mut judging = self.judging.clone();
        if judging.models.is_none() {
            let known = result.judging.as_deref();
            let of_votes = || known?.panel.as_ref()?.votes.first()?.judge.clone();
            let model = known.and_then(|it| it.model.clone()).or_else(of_votes);
            judging.model = model.or(judging.model);
        }
        // Serialization of these plain options does not fail. The fallback would only leave the options out of the
        // result.
        let told = serde_json::to_value(&judging).unwrap_or_default();
        let told = told.as_object().into_iter().flatten().filter(|(_, it)| !it.is_null());
        let told: Map<String, Value> = told.map(|(key, it)| (key.clone(), it.clone())).collect();
        // If the model is the only option, `Judging::model` already names it.
        if told.keys().any(|key| key != "model") {
            result.judging_mut().settings = Some(told);
        }
    }

    fn juror_samples(&self) -> impl Iterator<Item = JurorSample> + '_ {
        // At the default temperature 0, the samples would be equal and could not show any disagreement.
        let temperature = self.temperature.or((self.samples > 1).then_some(VARIED));
        self.jurors.iter().flat_map(move |model| {
            (0..self.samples).map(move |sample| JurorSample {
                model: model.clone(),
                sample,
                samples: self.samples,
                temperature,
            })
        })
    }

    /// Returns the rule that combines the samples of one juror.
    fn by_juror(&self) -> Ballot {
        let how = match self.agg {
            Agg::Median => VoteRule::Median,
            Agg::Majority => VoteRule::Majority,
            Agg::Mean => VoteRule::Mean,
        };
        let own = self.quorum.filter(|_| self.jurors.len() == 1);
        Ballot {
            how,
            quorum: own.map_or(more_than_half(self.samples as usize), |it| it as usize),
            who: "samples",
        }
    }

    /// Returns the rule that combines the jurors.
    fn by_jury(&self) -> Ballot {
        let all = self.jurors.len();
        let (how, quorum) = match self.jury {
            Jury::Majority => (VoteRule::Majority, more_than_half(all)),
            Jury::Median => (VoteRule::Median, more_than_half(all)),
            Jury::Unanimous => (VoteRule::All, all),
            Jury::Veto => (VoteRule::All, more_than_half(all)),
        };
        Ballot { how, quorum: self.quorum.map_or(quorum, |it| it as usize), who: "jurors" }
    }
}

/// An assertion that a panel judges.
#[derive(Debug)]
struct Paneled {
    panel: Panel,
    assertion: Arc<dyn Assertion>,
    /// The rule of `assertion` for the combined score of the votes; `None` if the score alone never decides.
    verdict_rule: Option<VerdictRule>,
}

impl Assertion for Paneled {
    fn traits(&self) -> Traits {
        self.assertion.traits()
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let mut questions = Vec::new();
        for juror in self.panel.juror_samples() {
            let answers = evidence.answers.for_juror(&juror);
            let asked = self.assertion.questions(&Evidence { answers: &answers, ..*evidence });
            questions.extend(asked.into_iter().map(|it| juror.put(it)));
        }
        questions
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let mut votes_by_juror = Vec::new();
        let mut juror_samples = self.panel.juror_samples();
        for _ in &self.panel.jurors {
            let samples = juror_samples.by_ref().take(self.panel.samples as usize).map(|juror| {
                let answers = evidence.answers.for_juror(&juror);
                let results = self.assertion.evaluate(&Evidence { answers: &answers, ..*evidence });
                (juror, results)
            });
            votes_by_juror.push(samples.collect::<Vec<_>>());
        }
        let decide = |score: Score| self.verdict_rule.as_ref().and_then(|it| it.verdict(score));
        let mut results =
            combine(votes_by_juror, &self.panel.by_juror(), &self.panel.by_jury(), &decide);
        for result in &mut results {
            self.panel.add_judging(result);
        }
        results
    }
}
