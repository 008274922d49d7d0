//! `judgeKappaMin`: how far the judges agree with people.

use std::collections::BTreeMap;
use std::fmt;

use kindlm_assertions::{JudgeBlock, judged_by};
use kindlm_types::{AssertionResult, CaseResult, GateOutcome, GateResult, ecma};
use serde_json::Value;

use super::compare::{at_least, nothing_to_measure};
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "judgeKappaMin",
        summary: "The least agreement with people, as Cohen's kappa, that every judge of the run was calibrated with.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    build: |threshold| judge_kappa_min(threshold, Calibrated::default()),
};

/// How far a judge agrees with people about one kind of check.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgeKappa {
    /// The assertion's id, such as `judge`.
    pub check: String,
    /// Who was calibrated, and how it judged; models are called `provider:model`.
    pub judge: JudgeBlock,
    /// Digests of what it was told.
    pub prompts: Vec<String>,
    /// Cohen's kappa, from -1 to 1; `None` if it does not exist, as people gave every output the same answer.
    pub kappa: Option<f64>,
    /// On how many labelled outputs kappa stands, and how far it may be off.
    pub labels: Labels,
    /// How many labelled outputs it gave no readable answer for, and of how many; `None` if it answered all. What it would
    /// have said about them is not in kappa, so that kappa counts for nothing.
    pub unanswered: Option<(u64, u64)>,
}

/// What a kappa stands on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Labels {
    /// How many outputs people have labelled.
    pub count: u64,
    /// The 95% interval of kappa; `None` if the judge or people always said the same.
    pub interval: Option<(f64, f64)>,
}

impl Labels {
    /// Whether a judge that has nothing in common with people could have agreed with them as much. One that always says the
    /// same has nothing in common with them.
    pub fn may_be_chance(&self) -> bool {
        self.interval.is_none_or(|(low, _)| low <= 0.0)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} labels", self.count)?;
        match self.interval {
            Some((low, high)) => write!(f, ", 95% interval {} to {}", two(low), two(high)),
            None => Ok(()),
        }
    }
}

/// All that is known about the judges of a run.
#[derive(Clone, Debug, Default)]
pub struct Calibrated {
    /// The models by their ids in the suite, as `provider:model`.
    pub models: BTreeMap<String, String>,
    /// How far judges agree with people.
    pub known: Vec<JudgeKappa>,
}

/// The gate, with all that is known about the judges. Without that every judge counts as never calibrated.
pub fn judge_kappa_min(threshold: f64, calibrated: Calibrated) -> Box<dyn Gate> {
    Box::new(JudgeKappaMin { threshold, calibrated, asked: Vec::new() })
}

/// A kind of check that somebody judged.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    check: String,
    judge: JudgeBlock,
    /// The digest of what the judge was told, if the result says it.
    prompt: Option<String>,
}

#[derive(Clone, Debug)]
struct JudgeKappaMin {
    threshold: f64,
    calibrated: Calibrated,
    asked: Vec<Asked>,
}

impl Gate for JudgeKappaMin {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn judge_kappa_min(&self) -> Option<f64> {
        Some(self.threshold)
    }
}

impl JudgeKappaMin {
    fn note(&mut self, results: &[AssertionResult]) {
        for result in results {
            if let Some(judge) = judged_by(result) {
                let prompt = result.metadata.get("promptDigest").and_then(Value::as_str);
                let is_known = self.asked.iter().any(|it| {
                    it.check == result.assertion
                        && it.prompt.as_deref() == prompt
                        && it.judge == judge
                });
                if !is_known {
                    let (check, prompt) = (result.assertion.clone(), prompt.map(str::to_owned));
                    self.asked.push(Asked { check, judge, prompt });
                }
            }
            self.note(result.parts());
        }
    }

    /// What is known about a judge: the one who was asked in the same way, with the same instructions.
    fn known(&self, asked: &Asked) -> Option<&JudgeKappa> {
        let models = &self.calibrated.models;
        let full = |id: &str| models.get(id).cloned().unwrap_or_else(|| id.to_owned());
        let judge = asked.judge.renamed(full).settled();
        self.calibrated.known.iter().find(|it| {
            it.check == asked.check
                && it.judge == judge
                && asked.prompt.as_ref().is_none_or(|prompt| it.prompts.contains(prompt))
        })
    }

    fn broken(&self, why: &str) -> GateResult {
        GateResult {
            gate: REGISTRATION.meta.id.to_owned(),
            outcome: GateOutcome::Broken,
            actual: None,
            threshold: self.threshold,
            message: format!("Judge κ: {why} (min: {})", two(self.threshold)),
        }
    }
}

impl Measurement for JudgeKappaMin {
    fn observe(&mut self, case: &CaseResult) {
        for execution in &case.executions {
            self.note(&execution.results);
        }
    }

    fn finish(&self) -> GateResult {
        let id = REGISTRATION.meta.id;
        let min = two(self.threshold);
        let mut lowest: Option<(f64, String)> = None;
        for asked in &self.asked {
            let (check, who) = (&asked.check, asked.judge.in_words());
            let Some(known) = self.known(asked) else {
                return self.broken(&format!("{who} was never calibrated for `{check}`"));
            };
            if let Some((lost, all)) = known.unanswered {
                let answered = all.saturating_sub(lost);
                return self.broken(&format!(
                    "{who} was calibrated for `{check}` on {answered} of {all} labelled outputs only"
                ));
            }
            let Some(kappa) = known.kappa else {
                return self.broken(&format!("{who} has no κ for `{check}`"));
            };
            let (labels, shown) = (known.labels, two(kappa));
            if labels.may_be_chance() {
                return self.broken(&format!(
                    "{who} has a κ of {shown} for `{check}` that may be chance ({labels})"
                ));
            }
            if lowest.as_ref().is_none_or(|(known, _)| kappa < *known) {
                lowest =
                    Some((kappa, format!("{shown} ({who} for `{check}`, {labels}, min: {min})")));
            }
        }
        let Some((kappa, message)) = lowest else {
            let message = format!("Judge κ: nothing to measure (min: {min})");
            return nothing_to_measure(id, self.threshold, message);
        };
        at_least(id, kappa, self.threshold, format!("Judge κ: {message}"))
    }
}

fn two(number: f64) -> String {
    ecma::to_fixed(number, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{Execution, ExecutionResult, Outcome, Usage};
    use serde_json::json;

    fn case(judged: &[(&str, &str)]) -> CaseResult {
        let results = judged
            .iter()
            .map(|(check, model)| {
                AssertionResult::pass(*check, *check).with_metadata("judgeModel", *model)
            })
            .collect();
        CaseResult {
            case: "a".to_owned(),
            model: "m".to_owned(),
            tags: Vec::new(),
            digest: None,
            plan_index: None,
            outcome: Outcome::Passed,
            pass_rate: 1.0,
            repeats: 1,
            errored_repeats: 0,
            scores: Vec::new(),
            failure_codes: Vec::new(),
            checks: kindlm_types::CheckCounts::default(),
            latency_avg_ms: None,
            cost: kindlm_types::Cost::default(),
            total_tokens: 0,
            executions: vec![ExecutionResult {
                execution: Execution::default(),
                outcome: Outcome::Passed,
                results,
                error: None,
                judge_cost_usd: None,
                judge_usage: Usage::default(),
            }],
        }
    }

    #[test]
    fn every_judge_that_was_asked_must_agree_with_people() {
        let known = |check: &str, model: &str, kappa: Option<f64>| JudgeKappa {
            check: check.to_owned(),
            judge: JudgeBlock { model: Some(format!("p:{model}")), ..JudgeBlock::default() },
            prompts: vec!["told".to_owned()],
            kappa,
            labels: Labels {
                count: 50,
                interval: kappa
                    .filter(|_| model != "constant")
                    .map(|it| (if model == "lucky" { -0.3 } else { it - 0.2 }, 1.0)),
            },
            unanswered: (model == "lost").then_some((50, 54)),
        };
        let ids = ["good", "poor", "none", "lost", "lucky", "constant"];
        let models = ids.map(|it| (it.to_owned(), format!("p:{it}"))).into();
        let known = vec![
            known("judge", "good", Some(0.8)),
            known("judge", "poor", Some(0.3)),
            known("prompt-assertion", "good", Some(0.6)),
            known("judge", "none", None),
            known("judge", "lost", Some(0.9)),
            known("judge", "lucky", Some(1.0)),
            known("judge", "constant", Some(0.0)),
        ];
        let calibrated = Calibrated { models, known };
        for (judged, outcome, message) in [
            (&[][..], GateOutcome::NothingToMeasure, "Judge κ: nothing to measure (min: 0.60)"),
            (
                &[("judge", "good")],
                GateOutcome::Held,
                "Judge κ: 0.80 (good for `judge`, 50 labels, 95% interval 0.60 to 1.00, min: 0.60)",
            ),
            (
                &[("judge", "good"), ("prompt-assertion", "good")],
                GateOutcome::Held,
                "Judge κ: 0.60 (good for `prompt-assertion`, 50 labels, 95% interval 0.40 to 1.00, min: 0.60)",
            ),
            (
                &[("judge", "good"), ("judge", "poor")],
                GateOutcome::Broken,
                "Judge κ: 0.30 (poor for `judge`, 50 labels, 95% interval 0.10 to 1.00, min: 0.60)",
            ),
            (
                &[("judge", "good"), ("prompt-assertion", "poor")],
                GateOutcome::Broken,
                "Judge κ: poor was never calibrated for `prompt-assertion` (min: 0.60)",
            ),
            (
                &[("judge", "none")],
                GateOutcome::Broken,
                "Judge κ: none has no κ for `judge` (min: 0.60)",
            ),
            (
                &[("judge", "lucky")],
                GateOutcome::Broken,
                "Judge κ: lucky has a κ of 1.00 for `judge` that may be chance (50 labels, 95% interval -0.30 to 1.00) (min: 0.60)",
            ),
            (
                &[("judge", "constant")],
                GateOutcome::Broken,
                "Judge κ: constant has a κ of 0.00 for `judge` that may be chance (50 labels) (min: 0.60)",
            ),
            (
                &[("judge", "lost")],
                GateOutcome::Broken,
                "Judge κ: lost was calibrated for `judge` on 4 of 54 labelled outputs only (min: 0.60)",
            ),
        ] {
            let result = judge_kappa_min(0.6, calibrated.clone()).evaluate(&[case(judged)]);
            assert_eq!((result.outcome, result.message.as_str()), (outcome, message));
        }
    }

    #[test]
    fn a_judge_that_is_asked_in_another_way_is_another_judge() {
        let judging = |value: Value| serde_json::from_value::<JudgeBlock>(value).unwrap().settled();
        let known = |judge: Value, kappa| JudgeKappa {
            check: "judge".to_owned(),
            judge: judging(judge),
            prompts: vec!["told".to_owned()],
            kappa: Some(kappa),
            labels: Labels { count: 50, interval: Some((0.5, 1.0)) },
            unanswered: None,
        };
        let models = ["a", "b", "c"].map(|it| (it.to_owned(), format!("p:{it}"))).into();
        let known = vec![
            known(json!({"model": "p:a"}), 0.9),
            known(json!({"model": "p:a", "samples": 3, "agg": "mean"}), 0.8),
            known(json!({"models": ["p:c", "p:b"], "jury": "veto"}), 0.7),
        ];
        let calibrated = Calibrated { models, known };
        for (judge, prompt, message) in [
            (json!({"model": "a"}), "told", "0.90 (a for `judge`"),
            (json!({"model": "a", "temperature": 0}), "told", "0.90 (a for `judge`"),
            (json!({"model": "a"}), "other", "a was never calibrated"),
            (json!({"model": "a", "temperature": 0.5}), "told", "a (temperature 0.5) was never"),
            (
                json!({"model": "a", "samples": 3, "agg": "mean"}),
                "told",
                "0.80 (a (asked 3 times, mean) for `judge`",
            ),
            (
                json!({"model": "a", "samples": 3}),
                "told",
                "a (asked 3 times, median) was never calibrated",
            ),
            (
                json!({"model": "a", "samples": 5, "agg": "mean"}),
                "told",
                "a (asked 5 times, mean) was never calibrated",
            ),
            (
                json!({"models": ["b", "c"], "jury": "veto"}),
                "told",
                "0.70 (the jury b + c, veto for `judge`",
            ),
            (json!({"models": ["b", "c"]}), "told", "the jury b + c, majority was never"),
        ] {
            let told = serde_json::to_value(judging(judge)).unwrap();
            let mut case = case(&[("judge", "a")]);
            let result = &mut case.executions[0].results[0];
            result.metadata.shift_remove("judgeModel");
            result.metadata.insert("judging".to_owned(), told);
            result.metadata.insert("promptDigest".to_owned(), prompt.into());
            let result = judge_kappa_min(0.6, calibrated.clone()).evaluate(&[case]);
            assert!(result.message.contains(message), "{}", result.message);
        }
    }
}
