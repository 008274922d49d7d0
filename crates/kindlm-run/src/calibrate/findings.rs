//! The statistics of the labels and the judge's answers.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_stats::{
    BestThreshold, Confidence, Confusion, Interval, Undefined, Weights, best_threshold,
    kappa_interval_of_sets, weighted_kappa,
};
use kindlm_store::{Calibration, CriterionCounts, OwnNoise};

use super::{JudgeOutcome, Obstacle, Sample};

/// The number of labels below which the report warns of unreliable numbers.
pub(super) const FEW: u64 = 100;

/// The confidence level of the intervals.
pub(super) const CONFIDENCE: Confidence = Confidence::P95;

/// The verdicts of people and of a judge about the same outputs.
#[derive(Debug)]
pub(super) struct Findings {
    /// All samples, with and without a label. A set of rules has several samples of one output.
    pub(super) samples: Vec<Sample>,
    /// The confusion matrix of people's labels and the judge's verdicts.
    pub(super) confusion: Confusion,
    /// The number of labels for which the judge gave no verdict.
    pub(super) errored: u64,
    /// The 95% confidence interval of kappa. All verdicts about one output form one cluster.
    pub(super) interval: Result<Interval, Undefined>,
    /// True if an output has several labelled verdicts.
    pub(super) has_sets: bool,
    /// The judge's disagreement with itself; `None` if the judge was asked only once.
    pub(super) own_noise: Option<OwnNoise>,
    /// The confusion matrix of each criterion or rule; empty if there is only one criterion or rule.
    pub(super) groups: Vec<(String, Confusion)>,
    /// The score threshold with the highest kappa; `None` if no score of the judge is strictly between 0 and 1.
    pub(super) best: Option<Result<BestThreshold, Undefined>>,
    /// The kappa between labels and scores, with linear weights.
    ///
    /// The field is `None` if every label of a scored output is 0 or 1.
    pub(super) weighted: Option<Result<f64, Undefined>>,
    /// The lowest label, from 0 to 1, that counts as a pass.
    label_threshold: f64,
}

/// The counts of the labelled outputs, or of the outputs without a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputCounts {
    /// The number of outputs that lack at least one verdict.
    pub(super) errored: usize,
    /// The number of all outputs, with and without verdicts.
    pub(super) all: usize,
    /// The predicate of a sentence about the outputs that lack a verdict, such as `were not judged`.
    pub(super) verb: &'static str,
}

impl Findings {
    /// Computes all statistics; a label of `label_threshold` or more is a pass.
    pub(super) fn from_samples(samples: Vec<Sample>, label_threshold: f64) -> Self {
        let mut findings = Self {
            samples: Vec::new(),
            confusion: Confusion::default(),
            errored: 0,
            interval: Err(Undefined::Empty),
            has_sets: false,
            own_noise: None,
            groups: Vec::new(),
            best: None,
            weighted: None,
            label_threshold,
        };
        let (mut scored, mut pairs) = (Vec::new(), Vec::new());
        let mut outputs: BTreeMap<usize, Confusion> = BTreeMap::new();
        for sample in &samples {
            let Some(human) = sample.human else { continue };
            let passed = human >= label_threshold;
            match &sample.judge {
                JudgeOutcome::Errored { .. } => findings.errored += 1,
                JudgeOutcome::Decided { pass, score, .. } => {
                    findings.confusion.add(passed, *pass);
                    findings.group(&sample.about).add(passed, *pass);
                    outputs.entry(sample.case).or_default().add(passed, *pass);
                    if let Some(score) = score {
                        scored.push((*score, passed));
                        pairs.push((human, *score));
                    }
                }
            }
        }
        if findings.groups.len() < 2 {
            findings.groups.clear();
        }
        findings.has_sets = outputs.values().any(|it| it.total() > 1);
        findings.interval = if findings.has_sets {
            kappa_interval_of_sets(&outputs.into_values().collect::<Vec<_>>(), CONFIDENCE)
        } else {
            findings.confusion.kappa_interval(CONFIDENCE)
        };
        let between = |it: f64| it > 0.0 && it < 1.0;
        findings.best = scored.iter().any(|it| between(it.0)).then(|| best_threshold(&scored));
        findings.weighted =
            pairs.iter().any(|it| between(it.0)).then(|| weighted_kappa(&pairs, Weights::Linear));
        findings.samples = samples;
        findings
    }

    fn group(&mut self, about: &str) -> &mut Confusion {
        let at = self.groups.iter().position(|(it, _)| it == about).unwrap_or_else(|| {
            self.groups.push((about.to_owned(), Confusion::default()));
            self.groups.len() - 1
        });
        &mut self.groups[at].1
    }

    /// Returns the number of labels, with or without a verdict of the judge.
    pub(super) fn labelled(&self) -> u64 {
        self.confusion.total() + self.errored
    }

    /// Counts the outputs with labels if `with_labels` is true, else the outputs without labels.
    ///
    /// A set of rules has several samples of one output, and the output counts once.
    pub(super) fn outputs(&self, with_labels: bool) -> OutputCounts {
        let mut outputs: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for sample in self.samples.iter().filter(|it| it.human.is_some() == with_labels) {
            let (errored, all) = outputs.entry(sample.case).or_default();
            *errored += usize::from(matches!(sample.judge, JudgeOutcome::Errored { .. }));
            *all += 1;
        }
        let errored = || outputs.values().filter(|(errored, _)| *errored > 0);
        let is_partial = errored().any(|(errored, all)| errored < all);
        OutputCounts {
            errored: errored().count(),
            all: outputs.len(),
            verb: if is_partial { "were not judged completely" } else { "were not judged" },
        }
    }

    /// Returns the reason for each missing verdict, for samples with and without a label.
    pub(super) fn obstacles(&self) -> impl Iterator<Item = Obstacle> {
        self.samples.iter().filter_map(|it| match &it.judge {
            JudgeOutcome::Errored { why, .. } => Some(*why),
            JudgeOutcome::Decided { .. } => None,
        })
    }

    /// Returns two numbers of unlabelled samples: the samples that the judge passed, and the samples that it judged.
    pub(super) fn unlabelled(&self) -> (u64, u64) {
        let mut counts = (0, 0);
        for sample in self.samples.iter().filter(|it| it.human.is_none()) {
            if let JudgeOutcome::Decided { pass, .. } = &sample.judge {
                counts.0 += u64::from(*pass);
                counts.1 += 1;
            }
        }
        counts
    }

    /// Returns the samples about which people and the judge disagree, in file order.
    ///
    /// The flag is true if people passed the sample.
    pub(super) fn disagreements(&self) -> impl Iterator<Item = (&Sample, bool)> {
        self.samples.iter().filter_map(|sample| {
            let passed = sample.human? >= self.label_threshold;
            match &sample.judge {
                JudgeOutcome::Decided { pass, .. } if *pass != passed => Some((sample, passed)),
                _ => None,
            }
        })
    }

    /// Returns the confusion matrix of each criterion that has a digest.
    fn criteria(&self, calibrated_at: &str) -> Vec<CriterionCounts> {
        let mut counts: BTreeMap<&str, (&str, Confusion)> = BTreeMap::new();
        for sample in &self.samples {
            let (Some(human), Some(digest)) = (sample.human, &sample.criterion) else { continue };
            if let JudgeOutcome::Decided { pass, .. } = &sample.judge {
                let known = counts.entry(digest).or_insert((&sample.about, Confusion::default()));
                known.1.add(human >= self.label_threshold, *pass);
            }
        }
        let counts = counts.into_iter().map(|(digest, (name, confusion))| CriterionCounts {
            name: name.to_owned(),
            digest: digest.to_owned(),
            calibrated_at: calibrated_at.to_owned(),
            counts: confusion.into(),
        });
        counts.collect()
    }

    /// Returns `template` with the statistics of these findings, for the store.
    pub(super) fn calibration(&self, template: Calibration) -> Calibration {
        let kappa = self.confusion.kappa(CONFIDENCE).ok();
        let judged = || self.samples.iter().filter(|it| it.human.is_some());
        // A later watch raises an alarm if a model answers that is not in this list. So the list also has the models
        // of the second answers.
        let mut answered: BTreeSet<String> = template.answered.iter().cloned().collect();
        answered.extend(judged().flat_map(|it| it.answered.iter().cloned()));
        let fingerprints: BTreeSet<&String> = judged().flat_map(|it| &it.fingerprints).collect();
        Calibration {
            counts: self.confusion.into(),
            criteria: self.criteria(&template.calibrated_at),
            answered: answered.into_iter().collect(),
            fingerprints: fingerprints.into_iter().cloned().collect(),
            // Only calibrations without errors are stored, so the stored number is always 0.
            errored: self.errored,
            base_rate: self.confusion.base_rate().map_or(0.0, kindlm_stats::Tally::rate),
            agreement: self.confusion.agreement().map_or(0.0, kindlm_stats::Tally::rate),
            kappa: kappa.map(|it| it.value),
            own_noise: self.own_noise,
            ..template
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(case: usize, human: Option<f64>, is_judged: bool) -> Sample {
        let judge = if is_judged {
            JudgeOutcome::Decided { pass: true, score: None, reasoning: None }
        } else {
            JudgeOutcome::Errored { message: "no".to_owned(), why: Obstacle::Unreadable }
        };
        Sample {
            line: 1,
            about: "rule".to_owned(),
            human,
            judge,
            output: "text".to_owned(),
            case,
            criterion: None,
            answered: Vec::new(),
            fingerprints: Vec::new(),
        }
    }

    #[test]
    fn an_output_with_several_rules_counts_once() {
        let whole = "were not judged";
        let partly = "were not judged completely";
        let yes = Some(1.0);
        for (samples, with_labels, errored, all, verb) in [
            (vec![(0, yes, false), (0, yes, false), (1, yes, true)], true, 1, 2, whole),
            (vec![(0, yes, false), (0, yes, true), (1, yes, true)], true, 1, 2, partly),
            (vec![(0, yes, false), (0, None, false), (0, None, false)], false, 1, 1, whole),
            (vec![(0, yes, true)], true, 0, 1, whole),
        ] {
            let samples = samples.into_iter().map(|(case, human, is)| sample(case, human, is));
            let findings = Findings::from_samples(samples.collect(), 0.5);
            assert_eq!(findings.outputs(with_labels), OutputCounts { errored, all, verb });
        }
    }
}
