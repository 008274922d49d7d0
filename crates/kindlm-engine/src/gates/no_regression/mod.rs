//! `noRegression`: the pass rate did not fall against the baseline.

use kindlm_types::{
    CaseChangeKind, CaseResult, Comparison, ComparisonVerdict, GateOutcome, GateResult, Problem,
    ecma, pointer,
};
use serde_json::{Map, Value, json};

use super::{
    Gate, Measurement, Meta, Options, Registration, Threshold, missing_evidence,
    nothing_to_measure, percent,
};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "noRegression",
        summary: "The pass rate did not fall beyond chance against the baseline.",
        since: "0.1.0",
        threshold: Threshold::Switch,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: Some(Options { are_recorded: false, schema: options_schema, build: with_options }),
    build: |_| Box::new(NoRegression { demand: RegressionDemand::default() }),
};

/// The accepted rate of false alarms, which the result shows as its threshold.
const ALPHA: f64 = 0.05;

/// The reason for a missing comparison of a run without a baseline.
pub const NOT_COMPARED: &str =
    "the run was not compared with a baseline; `kindlm baseline set` creates one";

/// The maximum number of cases that a message names.
const NAMED: usize = 3;

/// The options of the gate `noRegression`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RegressionDemand {
    /// The non-inferiority margin: the largest tolerated fall of the pass rate, above 0 and at most 1.
    ///
    /// With a margin, the gate is also violated if there is too little data. With `None`, the gate then holds.
    pub margin: Option<f64>,
}

fn options_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "margin": {
                "type": "number", "exclusiveMinimum": 0, "maximum": 1,
                "description": "The largest fall of the pass rate that the run must exclude, as a share: 0.03 is 3 percentage points.",
            },
        },
        "required": ["margin"],
        "additionalProperties": false,
    })
}

fn with_options(options: &Map<String, Value>) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>> {
    let mut problems = Vec::new();
    for key in options.keys().filter(|key| *key != "margin") {
        let message = format!("there is no option `{key}`; the option is `margin`");
        problems.push(Problem::key(format!("/{}", pointer::segment(key)), message));
    }
    let margin = options.get("margin").and_then(Value::as_f64);
    let margin = margin.filter(|it| *it > 0.0 && *it <= 1.0);
    if margin.is_none() {
        let message = "must be a share above 0 and at most 1, such as 0.03 for 3 percentage points";
        problems.push(Problem::new("/margin", message));
    }
    if problems.is_empty() {
        Ok(vec![Box::new(NoRegression { demand: RegressionDemand { margin } })])
    } else {
        Err(problems)
    }
}

#[derive(Clone, Debug)]
struct NoRegression {
    demand: RegressionDemand,
}

impl Gate for NoRegression {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn no_regression(&self) -> Option<RegressionDemand> {
        Some(self.demand)
    }
}

impl Measurement for NoRegression {
    fn observe(&mut self, _case: &CaseResult) {}

    fn finish(&self) -> GateResult {
        no_regression(self.demand, Err(NOT_COMPARED))
    }
}

/// Decides the gate by the comparison of the run with its baseline.
///
/// The engine has no baseline with pass rates, so the caller of a run replaces the gate's result by this result.
/// The error of `comparison` is the reason why there is no comparison. The gate then has nothing to measure, but with a
/// margin it is violated, because a margin demands evidence. The message names the cases of the baseline that the run
/// does not have.
pub fn no_regression(
    demand: RegressionDemand,
    comparison: Result<&Comparison, &str>,
) -> GateResult {
    let id = REGISTRATION.meta.id;
    let nothing = |why: &str| {
        nothing_to_measure(id, ALPHA, format!("No regression: nothing to measure: {why}"))
    };
    let needs_data = demand.margin.is_some();
    let comparison = match comparison {
        Ok(comparison) => comparison,
        Err(why) if needs_data => {
            return missing_evidence(id, ALPHA, format!("No regression: {why}"));
        }
        Err(why) => return nothing(why),
    };
    let (is_violated, verdict) = match &comparison.verdict {
        ComparisonVerdict::Regression => (true, "regression".to_owned()),
        ComparisonVerdict::Improved => (false, "improved".to_owned()),
        ComparisonVerdict::NoRegressionBeyond { margin } => {
            (false, format!("no regression beyond {} pp", points(*margin)))
        }
        ComparisonVerdict::NotEnoughData { .. } => {
            let margin = demand.margin.map(|it| format!(" to exclude a fall by {} pp", points(it)));
            (needs_data, format!("not enough data{}", margin.unwrap_or_default()))
        }
        ComparisonVerdict::NotComparable { reason } if needs_data => {
            (true, format!("not comparable: {reason}"))
        }
        ComparisonVerdict::NotComparable { reason } => return nothing(reason),
    };
    let rates = comparison
        .pass_rate
        .map(|it| format!("{} → {}: ", percent(it.before.rate), percent(it.after.rate)));
    let outcome = if is_violated { GateOutcome::Violated } else { GateOutcome::Held };
    let message =
        format!("No regression: {}{verdict}{}", rates.unwrap_or_default(), gone(comparison));
    GateResult::new(id, outcome, comparison.alpha, message)
        .with_actual(comparison.pass_rate.map(|it| it.p_value))
}

/// Names the cases of the baseline that the run does not have; empty if the run has all cases of the baseline.
fn gone(comparison: &Comparison) -> String {
    let gone = comparison.cases.iter().filter(|it| it.kind == CaseChangeKind::Gone);
    let mut names: Vec<String> =
        gone.map(|it| format!("`{}` on `{}`", it.case, it.model)).collect();
    let (count, more) = (names.len(), names.len().saturating_sub(NAMED));
    if count == 0 {
        return String::new();
    }
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let cases = if count == 1 { "case is" } else { "cases are" };
    format!("; {count} {cases} only in the baseline: {}", names.join(", "))
}

/// Formats a share in percentage points, with at most one decimal.
fn points(share: f64) -> String {
    ecma::number((share * 1_000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use kindlm_types::{CaseChange, ComparedRun, PassRate, RateChange};

    use super::*;

    fn comparison(verdict: ComparisonVerdict, is_measured: bool) -> Comparison {
        let rate = |rate| PassRate { rate, passed: 1, judged: 1 };
        let (before, after) = (ComparedRun::default(), ComparedRun::default());
        Comparison {
            pass_rate: is_measured.then(|| RateChange {
                before: rate(0.82),
                after: rate(0.745),
                p_value: 0.2,
                ..RateChange::default()
            }),
            ..Comparison::new(before, after, verdict, 0.05)
        }
    }

    #[test]
    fn only_a_regression_or_missing_evidence_for_a_margin_violates() {
        use ComparisonVerdict as V;
        let (plain, margin) =
            (RegressionDemand::default(), RegressionDemand { margin: Some(0.03) });
        let unlike = || V::NotComparable { reason: "no case is in both runs".to_owned() };
        let nothing = "No regression: nothing to measure: ";
        for (demand, verdict, outcome, message) in [
            (
                plain,
                V::Regression,
                GateOutcome::Violated,
                "No regression: 82.0% → 74.5%: regression",
            ),
            (plain, V::Improved, GateOutcome::Held, "No regression: 82.0% → 74.5%: improved"),
            (
                plain,
                V::NoRegressionBeyond { margin: 0.05 },
                GateOutcome::Held,
                "No regression: 82.0% → 74.5%: no regression beyond 5 pp",
            ),
            (
                plain,
                V::NotEnoughData { detectable: None },
                GateOutcome::Held,
                "No regression: 82.0% → 74.5%: not enough data",
            ),
            (
                margin,
                V::NotEnoughData { detectable: None },
                GateOutcome::Violated,
                "No regression: 82.0% → 74.5%: not enough data to exclude a fall by 3 pp",
            ),
            (
                plain,
                unlike(),
                GateOutcome::NothingToMeasure,
                &format!("{nothing}no case is in both runs"),
            ),
            (
                margin,
                unlike(),
                GateOutcome::Violated,
                "No regression: not comparable: no case is in both runs",
            ),
        ] {
            let is_measured = !matches!(verdict, V::NotComparable { .. });
            let result = no_regression(demand, Ok(&comparison(verdict, is_measured)));
            assert_eq!((result.outcome, result.message.as_str()), (outcome, message));
        }
        assert_eq!(no_regression(margin, Err(NOT_COMPARED)).outcome, GateOutcome::Violated);
        let plain = RegressionDemand { margin: None };
        assert_eq!(no_regression(plain, Err(NOT_COMPARED)).outcome, GateOutcome::NothingToMeasure);
        let other = no_regression(plain, Err("the baseline is of another suite"));
        assert_eq!(other.message, format!("{nothing}the baseline is of another suite"));
    }

    #[test]
    fn cases_that_only_the_baseline_has_are_named() {
        let mut comparison = comparison(ComparisonVerdict::Improved, false);
        for (count, message) in [
            (1, "No regression: improved; 1 case is only in the baseline: `0` on `m`"),
            (
                5,
                "No regression: improved; 5 cases are only in the baseline: `0` on `m`, `1` on `m`, `2` on `m`, 2 more",
            ),
        ] {
            let case = |name: i32| CaseChange::new(name.to_string(), "m", CaseChangeKind::Gone);
            comparison.cases = (0..count).map(case).collect();
            assert_eq!(
                no_regression(RegressionDemand::default(), Ok(&comparison)).message,
                message
            );
        }
    }

    #[test]
    fn options_need_a_margin() {
        for (options, count) in [
            (json!({"margin": 0.03}), 0),
            (json!({}), 1),
            (json!({"margin": 0}), 1),
            (json!({"margin": 3}), 1),
            (json!({"margin": 0.1, "alpha": 1}), 1),
        ] {
            let found = with_options(options.as_object().unwrap());
            assert_eq!(found.err().map_or(0, |it| it.len()), count, "{options}");
        }
    }
}
