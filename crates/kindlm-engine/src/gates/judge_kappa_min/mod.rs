//! `judgeKappaMin`: the minimum agreement of the judges with people.

use std::collections::BTreeMap;
use std::fmt;

use kindlm_assertions::{JudgeBlock, answered_by, judged_by};
use kindlm_types::{AssertionResult, CaseResult, GateOutcome, GateResult, Problem, ecma};
use serde_json::{Map, Value, json};

use super::compare::{at_least, nothing_to_measure};
use super::{Gate, Measurement, Meta, Options, Registration, Threshold};
use crate::aggregate::TOLERANCE;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "judgeKappaMin",
        summary: "The lowest calibrated agreement of every judge with people, as Cohen's kappa.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: Some(Options { are_recorded: false, schema: options_schema, build: with_options }),
    build: |threshold| judge_kappa_min(KappaDemand::new(threshold), Calibrated::default()),
};

/// The required agreement of the judges with people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KappaDemand {
    /// The minimum of Cohen's kappa, from 0 to 1. The lower end of the 95% interval of kappa must reach it.
    pub min: f64,
    /// The minimum number of labelled outputs.
    pub min_labels: f64,
    /// The maximum age of a calibration in days; unlimited if absent.
    pub max_age_days: Option<f64>,
}

impl KappaDemand {
    /// Creates a requirement for kappa only, without limits on labels or age.
    pub fn new(min: f64) -> Self {
        Self { min, min_labels: 0.0, max_age_days: None }
    }

    /// Returns the reason why a judge's calibration does not meet the requirement.
    ///
    /// The reason is a sentence fragment about the judge. Returns `None` if the requirement is met.
    pub fn unmet(&self, known: &JudgeKappa) -> Option<String> {
        if let Some((lost, all)) = known.unanswered {
            return Some(format!(
                "it was calibrated on {} of {all} labelled outputs only, because its replies to the others could not \
                 be read: calibrate it again",
                all.saturating_sub(lost)
            ));
        }
        if let Some(alarm) = &known.alarm {
            return Some(alarm.clone());
        }
        let (labels, min) = (known.labels, two(self.min));
        let Some(kappa) = known.kappa else {
            return Some("it has no κ, because people gave every output the same label".to_owned());
        };
        let shown = two(kappa);
        let count = u32::try_from(labels.count).map_or(f64::INFINITY, f64::from);
        if count < self.min_labels {
            let least = ecma::number(self.min_labels);
            return Some(format!(
                "it was calibrated on {count} labels, and `minLabels` is {least}"
            ));
        }
        if let Some(max) = self.max_age_days {
            let limit = ecma::number(max);
            // Allow for clocks that differ by less than a day.
            let Some(age) = known.age_days.filter(|it| *it > -1.0) else {
                return Some(format!(
                    "no time in the past is recorded for its calibration, and `maxAgeDays` is {limit}"
                ));
            };
            if age > max {
                let age = ecma::number(age.floor());
                return Some(format!(
                    "it was calibrated {age} days ago, and `maxAgeDays` is {limit}"
                ));
            }
        }
        if labels.may_be_chance() {
            return Some(format!(
                "its κ of {shown} may be chance ({labels}): label more outputs, 100 or so"
            ));
        }
        if kappa + TOLERANCE < self.min {
            return Some(format!("it agrees with people with a κ of {shown} only ({labels})"));
        }
        let is_low = labels.low().is_none_or(|low| low + TOLERANCE < self.min);
        is_low
            .then(|| format!("its κ of {shown} may be below {min} ({labels}): label more outputs"))
    }
}

/// Returns the JSON Schema of the gate's options.
fn options_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "min": {
                "type": "number", "minimum": 0, "maximum": 1,
                "description": "The least Cohen's kappa; the lower end of its 95% interval must reach it.",
            },
            "minLabels": {
                "type": "integer", "minimum": 0,
                "description": "The least number of labelled outputs for each criterion.",
            },
            "maxAgeDays": {
                "type": "number", "exclusiveMinimum": 0,
                "description": "The greatest age of a calibration, in days.",
            },
        },
        "required": ["min"],
        "additionalProperties": false,
    })
}

fn with_options(options: &Map<String, Value>) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut number = |key: &str, threshold: Threshold| {
        let read = options.get(key).map(|it| threshold.parse_value(it));
        let wrong = |expected| Problem::new(format!("/{key}"), format!("must be {expected}"));
        read.and_then(|it| it.map_err(|expected| problems.push(wrong(expected))).ok())
    };
    let min = number("min", Threshold::Rate);
    let labels = number("minLabels", Threshold::Count);
    let max_age_days = number("maxAgeDays", Threshold::Amount);
    let known = ["min", "minLabels", "maxAgeDays"];
    for key in options.keys().filter(|it| !known.contains(&it.as_str())) {
        let problem = Problem::key(format!("/{key}"), format!("there is no option `{key}`"));
        problems.push(problem.with_help(kindlm_types::suggest(key, "options", known)));
    }
    if min.is_none() && !options.contains_key("min") {
        problems.push(Problem::new("", "`min` is required: the least κ, such as 0.6"));
    }
    match (min, problems.is_empty()) {
        (Some(min), true) => {
            let min_labels = labels.unwrap_or(0.0);
            let demand = KappaDemand { min, min_labels, max_age_days };
            Ok(vec![judge_kappa_min(demand, Calibrated::default())])
        }
        _ => Err(problems),
    }
}

/// The agreement of a judge with people.
///
/// The agreement concerns one criterion of a kind of check, or all its criteria together.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JudgeKappa {
    /// The assertion's id, such as `judge`.
    pub check: String,
    /// The calibrated judge with its options; models are written `provider:model`.
    pub judge: JudgeBlock,
    /// The digests of the judge's prompts.
    pub prompts: Vec<String>,
    /// The digest of the criterion; `None` for all criteria together, or for a check without criteria.
    pub criterion: Option<String>,
    /// The vendors' names of the models that answered, sorted.
    ///
    /// Empty if the requested models answered.
    pub answered: Vec<String>,
    /// The age of the calibration in days, if it is known.
    pub age_days: Option<f64>,
    /// Cohen's kappa, from -1 to 1; `None` if it is undefined because people gave all outputs the same label.
    pub kappa: Option<f64>,
    /// The number of labelled outputs, and the interval of kappa.
    pub labels: Labels,
    /// The number of labelled outputs without a readable reply, and the number of all outputs.
    ///
    /// `None` if all outputs have a reply. Without all replies, kappa is not valid.
    pub unanswered: Option<(u64, u64)>,
    /// The message of a watch that found a change of the judge since the calibration; `None` without such a watch.
    ///
    /// A watch asks the judge again about outputs of its calibration (`kindlm calibrate --watch`).
    pub alarm: Option<String>,
}

impl JudgeKappa {
    /// Creates the agreement of a judge for all criteria of a check together, with an undefined kappa.
    pub fn new(check: impl Into<String>, judge: JudgeBlock, labels: Labels) -> Self {
        Self {
            check: check.into(),
            judge,
            prompts: Vec::new(),
            criterion: None,
            answered: Vec::new(),
            age_days: None,
            kappa: None,
            labels,
            unanswered: None,
            alarm: None,
        }
    }
}

/// The number of labelled outputs from which a kappa was computed, and the interval of this kappa.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Labels {
    /// The number of outputs that people have labelled.
    pub count: u64,
    /// The 95% interval of kappa; `None` if the judge or the people gave all outputs the same answer.
    pub interval: Option<(f64, f64)>,
}

impl Labels {
    /// Creates the number of labelled outputs, with the 95% interval of their kappa.
    pub const fn new(count: u64, interval: Option<(f64, f64)>) -> Self {
        Self { count, interval }
    }

    /// Returns the lower end of the interval; `None` without an interval.
    pub fn low(&self) -> Option<f64> {
        self.interval.map(|(low, _)| low)
    }

    /// Returns true if the agreement may be chance.
    ///
    /// The agreement may be chance without an interval, or if the interval reaches down to 0. A judge that always gives
    /// the same answer has no interval.
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

/// The calibrations of the judges of a run.
#[derive(Clone, Debug, Default)]
pub struct Calibrated {
    /// The models as `provider:model`, by their ids in the suite.
    pub models: BTreeMap<String, String>,
    /// The known calibrations of judges.
    pub known: Vec<JudgeKappa>,
}

/// Creates the gate with the known calibrations.
///
/// A judge without a calibration violates the gate.
pub fn judge_kappa_min(demand: KappaDemand, calibrated: Calibrated) -> Box<dyn Gate> {
    Box::new(JudgeKappaMin { demand, calibrated, judged: Vec::new() })
}

/// A kind of check, with its criterion and its judge.
#[derive(Clone, Debug, PartialEq)]
struct JudgedCriterion {
    check: String,
    judge: JudgeBlock,
    /// The digest of the judge's prompt, if the result has it.
    prompt: Option<String>,
    /// The digest of the criterion, if the check has a criterion.
    criterion: Option<String>,
    /// The vendors' names of the models that answered; empty if the requested models answered.
    answered: Vec<String>,
    /// The label of the check, for error messages.
    label: String,
}

#[derive(Clone, Debug)]
struct JudgeKappaMin {
    demand: KappaDemand,
    calibrated: Calibrated,
    judged: Vec<JudgedCriterion>,
}

impl Gate for JudgeKappaMin {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn judge_kappa_min(&self) -> Option<KappaDemand> {
        Some(self.demand.clone())
    }
}

impl JudgeKappaMin {
    fn note(&mut self, results: &[AssertionResult]) {
        for result in results {
            if let Some(judge) = judged_by(result) {
                let judging = result.judging.as_deref();
                let judged = JudgedCriterion {
                    check: result.assertion.clone(),
                    judge,
                    prompt: judging.and_then(|it| it.prompt_digest.clone()),
                    criterion: judging.and_then(|it| it.criterion.clone()),
                    answered: answered_by(result).into_iter().map(str::to_owned).collect(),
                    label: result.label.clone(),
                };
                let is_same = |it: &JudgedCriterion| {
                    JudgedCriterion { label: judged.label.clone(), ..it.clone() } == judged
                };
                if !self.judged.iter().any(is_same) {
                    self.judged.push(judged);
                }
            }
            self.note(result.parts());
        }
    }

    /// Returns the calibration of the judge in `judged`, with equal options, prompt, criterion and models.
    ///
    /// Without such a calibration, the error is a sentence fragment about the judge.
    fn known(&self, judged: &JudgedCriterion) -> Result<&JudgeKappa, String> {
        let models = &self.calibrated.models;
        let full = |id: &str| models.get(id).cloned().unwrap_or_else(|| id.to_owned());
        let judge = judged.judge.renamed(full).settled();
        let is_judge = |it: &&JudgeKappa| {
            it.check == judged.check
                && it.judge == judge
                && judged.prompt.as_ref().is_none_or(|prompt| it.prompts.contains(prompt))
        };
        let known: Vec<&JudgeKappa> = self.calibrated.known.iter().filter(is_judge).collect();
        if known.is_empty() {
            return Err(format!("was never calibrated for `{}`", judged.check));
        }
        let mut same = known.iter().filter(|it| it.criterion == judged.criterion).peekable();
        if same.peek().is_none() {
            return Err(format!(
                "was calibrated for `{}` with other criteria than `{}`",
                judged.check, judged.label
            ));
        }
        let is_same_model = |it: &&&JudgeKappa| {
            judged.answered.is_empty() == it.answered.is_empty()
                && judged.answered.iter().all(|name| it.answered.contains(name))
        };
        same.find(is_same_model).copied().ok_or_else(|| {
            let now = match judged.answered.as_slice() {
                [] => "the requested model".to_owned(),
                names => format!("`{}`", names.join("`, `")),
            };
            format!("was calibrated for `{}` when another model answered than {now}", judged.check)
        })
    }

    fn violated(&self, why: &str) -> GateResult {
        let min = self.demand.min;
        let message = format!("Judge κ: {why} (min: {})", two(min));
        GateResult::new(REGISTRATION.meta.id, GateOutcome::Violated, min, message)
    }
}

impl Measurement for JudgeKappaMin {
    fn observe(&mut self, case: &CaseResult) {
        for execution in &case.executions {
            self.note(&execution.results);
        }
    }

    fn finish(&self) -> GateResult {
        let (id, least) = (REGISTRATION.meta.id, self.demand.min);
        let min = two(least);
        let mut lowest: Option<(f64, String)> = None;
        for judged in &self.judged {
            let (check, who) = (&judged.check, judged.judge.in_words());
            let known = match self.known(judged) {
                Ok(known) => known,
                Err(why) => return self.violated(&format!("{who} {why}")),
            };
            if let Some(why) = self.demand.unmet(known) {
                return self.violated(&format!("{who} may not judge `{check}`: {why}"));
            }
            let (Some(kappa), Some(low)) = (known.kappa, known.labels.low()) else { continue };
            if lowest.as_ref().is_none_or(|(known, _)| low < *known) {
                let labels = known.labels;
                let shown = two(kappa);
                lowest =
                    Some((low, format!("{shown} ({who} for `{check}`, {labels}, min: {min})")));
            }
        }
        let Some((low, message)) = lowest else {
            let message = format!("Judge κ: nothing to measure (min: {min})");
            return nothing_to_measure(id, least, message);
        };
        at_least(id, low, least, format!("Judge κ: {message}"))
    }
}

fn two(number: f64) -> String {
    ecma::to_fixed(number, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{Execution, ExecutionResult, Outcome};
    use serde_json::json;

    fn case(judged: &[(&str, &str)]) -> CaseResult {
        let results = judged
            .iter()
            .map(|(check, model)| {
                let mut result = AssertionResult::pass(*check, *check);
                result.judging_mut().model = Some((*model).to_owned());
                result
            })
            .collect();
        CaseResult {
            pass_rate: 1.0,
            repeats: 1,
            executions: vec![ExecutionResult {
                outcome: Outcome::Passed,
                judge_cost_usd: None,
                ..ExecutionResult::new(Execution::default(), results)
            }],
            ..CaseResult::new("a", "m", Outcome::Passed)
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn every_judge_that_was_asked_must_agree_with_people() {
        let known = |check: &str, model: &str, kappa: Option<f64>| JudgeKappa {
            check: check.to_owned(),
            judge: JudgeBlock { model: Some(format!("p:{model}")), ..JudgeBlock::default() },
            prompts: vec!["told".to_owned()],
            criterion: None,
            answered: Vec::new(),
            age_days: None,
            kappa,
            labels: Labels {
                count: 50,
                interval: kappa
                    .filter(|_| model != "constant")
                    .map(|it| (if model == "lucky" { -0.3 } else { it - 0.2 }, 1.0)),
            },
            unanswered: (model == "lost").then_some((50, 54)),
            alarm: (model == "changed").then(|| "judge changed: 9 of 50 differ".to_owned()),
        };
        let ids = ["good", "poor", "none", "lost", "lucky", "constant", "changed"];
        let models = ids.map(|it| (it.to_owned(), format!("p:{it}"))).into();
        let known = vec![
            known("judge", "good", Some(0.8)),
            known("judge", "poor", Some(0.3)),
            known("prompt-assertion", "good", Some(0.6)),
            known("judge", "none", None),
            known("judge", "lost", Some(0.9)),
            known("judge", "lucky", Some(1.0)),
            known("judge", "constant", Some(0.0)),
            known("judge", "changed", Some(0.9)),
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
                GateOutcome::Violated,
                "Judge κ: good may not judge `prompt-assertion`: its κ of 0.60 may be below 0.60 (50 labels, 95% interval 0.40 to 1.00): label more outputs (min: 0.60)",
            ),
            (
                &[("judge", "good"), ("judge", "poor")],
                GateOutcome::Violated,
                "Judge κ: poor may not judge `judge`: it agrees with people with a κ of 0.30 only (50 labels, 95% interval 0.10 to 1.00) (min: 0.60)",
            ),
            (
                &[("judge", "good"), ("prompt-assertion", "poor")],
                GateOutcome::Violated,
                "Judge κ: poor was never calibrated for `prompt-assertion` (min: 0.60)",
            ),
            (
                &[("judge", "none")],
                GateOutcome::Violated,
                "Judge κ: none may not judge `judge`: it has no κ, because people gave every output the same label \
                 (min: 0.60)",
            ),
            (
                &[("judge", "lucky")],
                GateOutcome::Violated,
                "Judge κ: lucky may not judge `judge`: its κ of 1.00 may be chance (50 labels, 95% interval -0.30 to 1.00): label more outputs, 100 or so (min: 0.60)",
            ),
            (
                &[("judge", "constant")],
                GateOutcome::Violated,
                "Judge κ: constant may not judge `judge`: its κ of 0.00 may be chance (50 labels): label more outputs, 100 or so (min: 0.60)",
            ),
            (
                &[("judge", "changed")],
                GateOutcome::Violated,
                "Judge κ: changed may not judge `judge`: judge changed: 9 of 50 differ (min: 0.60)",
            ),
            (
                &[("judge", "lost")],
                GateOutcome::Violated,
                "Judge κ: lost may not judge `judge`: it was calibrated on 4 of 54 labelled outputs only, because \
                 its replies to the others could not be read: calibrate it again (min: 0.60)",
            ),
        ] {
            let result = judge_kappa_min(KappaDemand::new(0.6), calibrated.clone())
                .evaluate(&[case(judged)]);
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
            criterion: None,
            answered: Vec::new(),
            age_days: None,
            kappa: Some(kappa),
            labels: Labels { count: 50, interval: Some((0.6, 1.0)) },
            unanswered: None,
            alarm: None,
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
            let judging = result.judging_mut();
            judging.model = None;
            judging.settings = told.as_object().cloned();
            judging.prompt_digest = Some(prompt.to_owned());
            let result =
                judge_kappa_min(KappaDemand::new(0.6), calibrated.clone()).evaluate(&[case]);
            assert!(result.message.contains(message), "{}", result.message);
        }
    }

    #[test]
    fn calibrations_are_per_criterion_and_answering_model() {
        let known = |criterion: &str, answered: &[&str], low| JudgeKappa {
            check: "judge".to_owned(),
            judge: JudgeBlock { model: Some("p:a".to_owned()), ..JudgeBlock::default() },
            prompts: vec!["told".to_owned()],
            criterion: Some(criterion.to_owned()),
            answered: answered.iter().map(|it| (*it).to_owned()).collect(),
            age_days: Some(100.5),
            kappa: Some(0.9),
            labels: Labels { count: 40, interval: Some((low, 1.0)) },
            unanswered: None,
            alarm: None,
        };
        let known = vec![
            known("polite", &[], 0.8),
            known("short", &[], 0.5),
            known("clear", &["gpt-4o-2024-08-06"], 0.7),
            JudgeKappa { age_days: None, ..known("undated", &[], 0.8) },
            JudgeKappa { age_days: Some(-60.0), ..known("later", &[], 0.8) },
        ];
        let models = [("a".to_owned(), "p:a".to_owned())].into();
        let calibrated = Calibrated { models, known };
        let any = KappaDemand::new(0.6);
        let many = KappaDemand { min_labels: 50.0, ..any.clone() };
        let fresh = KappaDemand { max_age_days: Some(90.0), ..any.clone() };
        let old = KappaDemand { max_age_days: Some(101.0), min_labels: 40.0, ..any.clone() };
        for (criterion, answered, demand, message) in [
            (
                "polite",
                None,
                &any,
                "Judge κ: 0.90 (a for `judge`, 40 labels, 95% interval 0.80 to 1.00",
            ),
            ("polite", None, &old, "Judge κ: 0.90 (a for"),
            ("polite", None, &many, "it was calibrated on 40 labels, and `minLabels` is 50"),
            ("polite", None, &fresh, "it was calibrated 100 days ago, and `maxAgeDays` is 90"),
            ("undated", None, &fresh, "no time in the past is recorded for its calibration"),
            ("later", None, &fresh, "no time in the past is recorded for its calibration"),
            ("undated", None, &any, "Judge κ: 0.90 (a for"),
            ("short", None, &any, "its κ of 0.90 may be below 0.60 (40 labels"),
            ("safe", None, &any, "a was calibrated for `judge` with other criteria than `judge`"),
            ("polite", Some("gpt-4o"), &any, "when another model answered than `gpt-4o`"),
            ("clear", Some("gpt-4o-2024-08-06"), &any, "Judge κ: 0.90 (a for"),
            ("clear", Some("gpt-4o-2026-11-01"), &any, "than `gpt-4o-2026-11-01`"),
            ("clear", None, &any, "when another model answered than the requested model"),
        ] {
            let mut case = case(&[("judge", "a")]);
            let judging = case.executions[0].results[0].judging_mut();
            judging.criterion = Some(criterion.to_owned());
            judging.answered = answered.map(str::to_owned);
            let result = judge_kappa_min(demand.clone(), calibrated.clone()).evaluate(&[case]);
            assert!(result.message.contains(message), "{criterion}: {}", result.message);
            let held = message.contains("(a for");
            assert_eq!(result.outcome == GateOutcome::Held, held, "{}", result.message);
        }
    }
}
