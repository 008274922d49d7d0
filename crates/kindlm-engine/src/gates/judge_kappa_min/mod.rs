//! `judgeKappaMin`: how far the judges agree with people.

use std::collections::BTreeSet;

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
    build: |threshold| judge_kappa_min(threshold, Vec::new()),
};

/// How far a judge agrees with people about one kind of check.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgeKappa {
    /// The assertion's id, such as `judge`.
    pub check: String,
    /// The judge's model id in the suite.
    pub model: String,
    /// Cohen's kappa, from -1 to 1; `None` if it does not exist, as people gave every output the same answer.
    pub kappa: Option<f64>,
}

/// The gate, with all that is known about the judges. Without that every judge counts as never calibrated.
pub fn judge_kappa_min(threshold: f64, calibrated: Vec<JudgeKappa>) -> Box<dyn Gate> {
    Box::new(JudgeKappaMin { threshold, calibrated, asked: BTreeSet::new() })
}

#[derive(Clone, Debug)]
struct JudgeKappaMin {
    threshold: f64,
    calibrated: Vec<JudgeKappa>,
    /// Kinds of checks, and who judged them.
    asked: BTreeSet<(String, String)>,
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
            if let Some(model) = result.metadata.get("judgeModel").and_then(Value::as_str) {
                let known =
                    |(check, it): &(String, String)| *check == result.assertion && it == model;
                if !self.asked.iter().any(known) {
                    self.asked.insert((result.assertion.clone(), model.to_owned()));
                }
            }
            self.note(result.parts());
        }
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
        let mut lowest: Option<(f64, &str, &str)> = None;
        for (check, model) in &self.asked {
            let known = self.calibrated.iter().find(|it| it.check == *check && it.model == *model);
            let kappa = match known.map(|it| it.kappa) {
                None => return self.broken(&format!("{model} was never calibrated for `{check}`")),
                Some(None) => {
                    return self.broken(&format!("{model} has no κ for `{check}`"));
                }
                Some(Some(kappa)) => kappa,
            };
            if lowest.is_none_or(|(known, ..)| kappa < known) {
                lowest = Some((kappa, check, model));
            }
        }
        let Some((kappa, check, model)) = lowest else {
            let message = format!("Judge κ: nothing to measure (min: {min})");
            return nothing_to_measure(id, self.threshold, message);
        };
        let message = format!("Judge κ: {} ({model} for `{check}`, min: {min})", two(kappa));
        at_least(id, kappa, self.threshold, message)
    }
}

fn two(number: f64) -> String {
    ecma::to_fixed(number, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{Execution, ExecutionResult, Outcome, Usage};

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
            model: model.to_owned(),
            kappa,
        };
        let calibrated = vec![
            known("judge", "good", Some(0.8)),
            known("judge", "poor", Some(0.3)),
            known("prompt-assertion", "good", Some(0.6)),
            known("judge", "none", None),
        ];
        for (judged, outcome, message) in [
            (&[][..], GateOutcome::NothingToMeasure, "Judge κ: nothing to measure (min: 0.60)"),
            (
                &[("judge", "good")],
                GateOutcome::Held,
                "Judge κ: 0.80 (good for `judge`, min: 0.60)",
            ),
            (
                &[("judge", "good"), ("prompt-assertion", "good")],
                GateOutcome::Held,
                "Judge κ: 0.60 (good for `prompt-assertion`, min: 0.60)",
            ),
            (
                &[("judge", "good"), ("judge", "poor")],
                GateOutcome::Broken,
                "Judge κ: 0.30 (poor for `judge`, min: 0.60)",
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
        ] {
            let result = judge_kappa_min(0.6, calibrated.clone()).evaluate(&[case(judged)]);
            assert_eq!((result.outcome, result.message.as_str()), (outcome, message));
        }
    }
}
