//! A minimum for a measured rate or average, or for the lower end of its interval.

use kindlm_stats::{Clusters, Confidence};
use kindlm_types::{
    AssertionResult, CaseResult, GateResult, Mean, MeasuredRate, Problem, RateCount, interval_text,
};
use serde_json::{Map, Value, json};

use super::compare::{at_least, missing_evidence, nothing_to_measure, percent};
use super::unjudged::Unjudged;
use super::{Gate, LowBound, Measurement, Threshold};

/// The suffix in the id of a gate that compares the lower end of the interval with its minimum.
pub(super) const LOW: &str = ".low";

/// The static parts of a gate with a minimum rate or average.
#[derive(Debug)]
pub(super) struct Floor {
    /// The id of the registration, which is the key under `gates`.
    pub(super) id: &'static str,
    /// The name of the rate or average, which starts the message.
    pub(super) name: &'static str,
    /// The function that adds the scores of a case.
    pub(super) add: fn(&CaseResult, &mut Scores),
    /// The result if there are no scores.
    pub(super) without: Without,
}

/// The result of a gate without scores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Without {
    /// A run without any case has the rate 0. If no check applied to its cases, there is nothing to measure.
    Cases,
    /// The gate is violated, because nothing was checked.
    Shares,
    /// There is nothing to measure if no check of the kind applied. Otherwise the gate is violated.
    Checks {
        /// The kind of the checks, for the message.
        kind: &'static str,
        /// Returns true for results of the kind.
        is_one: fn(&AssertionResult) -> bool,
    },
}

/// The scores that a gate has measured: counts of passes, or scores that are averaged.
#[derive(Clone, Debug, Default)]
pub(super) struct Scores {
    /// True if no two cases belong to the same cluster.
    pub(super) is_independent: bool,
    counts: RateCount,
    average: Mean,
    clusters: Clusters,
}

impl Scores {
    /// Adds the numbers of passed and judged items of one case.
    pub(super) fn add_counts(&mut self, case: &CaseResult, passed: u64, judged: u64) {
        self.counts.count += passed;
        self.counts.total += judged;
        #[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
        self.add(case, passed as f64, judged);
    }

    /// Adds the scores of one case, from 0 to 1, to the average.
    pub(super) fn add_scores(&mut self, case: &CaseResult, scores: impl Iterator<Item = f64>) {
        let (mut sum, mut size) = (0.0, 0);
        for score in scores {
            self.average.add(score);
            sum += score;
            size += 1;
        }
        self.add(case, sum, size);
    }

    fn add(&mut self, case: &CaseResult, sum: f64, size: u64) {
        let cluster = (!self.is_independent).then(|| case.cluster_name());
        // Scores are from 0 to 1, so there is no error.
        let _ = self.clusters.add(cluster, sum, size);
    }

    /// Compares the mean, or the lower end of its interval, with a minimum; `None` without scores.
    ///
    /// `name` is the start of the message.
    pub(super) fn compare(&self, id: &str, name: &str, min: Minimum) -> Option<GateResult> {
        let total = self.clusters.total();
        let interval = total.interval(Confidence::P95).ok()?;
        let RateCount { count, total: judged } = self.counts;
        let (mean, shown) = if let Some(rate) = self.counts.rate() {
            let shown = MeasuredRate { count, total: judged, interval: Some(interval) };
            (rate, shown.to_string())
        } else {
            let (mean, interval) = (self.average.value()?, interval_text(interval));
            (mean, format!("{} (n = {}; {interval})", percent(mean), total.scores()))
        };
        let clusters = match total.clusters() {
            all if !min.is_low || all == total.scores() => String::new(),
            1 => "; 1 cluster".to_owned(),
            all => format!("; {all} clusters"),
        };
        let actual = if min.is_low { interval.low } else { mean };
        let message = format!("{name}: {shown} ({}{clusters})", min.text());
        Some(at_least(id, actual, min.value, message))
    }
}

/// A gate with a minimum.
#[derive(Clone, Debug)]
struct AtLeast {
    floor: &'static Floor,
    min: Minimum,
    /// The number of cases that were run, including cases without scores.
    cases: u64,
    scores: Scores,
    unjudged: Unjudged,
}

/// A minimum for a rate, or for the lower end of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Minimum {
    /// The minimum, from 0 to 1.
    pub(super) value: f64,
    /// True if the lower end of the interval must reach the minimum; false if the rate itself must reach it.
    pub(super) is_low: bool,
}

impl Minimum {
    /// Formats the minimum as `min: 90.0%`.
    pub(super) fn text(self) -> String {
        let of = if self.is_low { " of the lower end" } else { "" };
        format!("min{of}: {}", percent(self.value))
    }

    /// Returns the id of a result: the id of the gate, followed by [`LOW`] for the lower end of an interval.
    pub(super) fn result_id(self, gate: String) -> String {
        if self.is_low { gate + LOW } else { gate }
    }
}

/// Creates the gate that compares the rate itself with this minimum.
pub(super) fn plain(floor: &'static Floor, value: f64) -> Box<dyn Gate> {
    gate(floor, Minimum { value, is_low: false })
}

/// Creates the gate of an options object with `value` and `bound`.
pub(super) fn build(
    floor: &'static Floor,
    object: &Map<String, Value>,
) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>> {
    Ok(vec![gate(floor, parse_minimum(object)?)])
}

fn gate(floor: &'static Floor, min: Minimum) -> Box<dyn Gate> {
    let (scores, unjudged) = (Scores::default(), Unjudged::default());
    Box::new(AtLeast { floor, min, cases: 0, scores, unjudged })
}

/// Reads an options object with `value` and `bound`.
pub(super) fn parse_minimum(object: &Map<String, Value>) -> Result<Minimum, Vec<Problem>> {
    let mut problems = Vec::new();
    for key in object.keys().filter(|it| !matches!(it.as_str(), "value" | "bound")) {
        let message = format!("unknown key `{key}`");
        let problem = Problem::key(format!("/{}", kindlm_types::pointer::segment(key)), message);
        problems.push(problem.with_help("the keys are `value` and `bound`"));
    }
    let value = match object.get("value").map(|it| (it, Threshold::Rate.parse_value(it))) {
        Some((_, Ok(value))) => Some(value),
        Some((written, Err(expected))) => {
            let message = format!("`value` must be {expected}, but is {written}");
            problems.push(Problem::new("/value".to_owned(), message));
            None
        }
        None => {
            problems.push(Problem::new(String::new(), "`value` is missing".to_owned()));
            None
        }
    };
    let is_low = match object.get("bound").map(|it| (it, it.as_str())) {
        None | Some((_, Some("mean"))) => false,
        Some((_, Some("low"))) => true,
        Some((written, _)) => {
            let message = format!("`bound` must be `mean` or `low`, but is {written}");
            problems.push(Problem::new("/bound".to_owned(), message));
            false
        }
    };
    match value.filter(|_| problems.is_empty()) {
        None => Err(problems),
        Some(value) => Ok(Minimum { value, is_low }),
    }
}

/// Returns the JSON Schema of the options object.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "value": {
                "type": "number", "minimum": 0, "maximum": 1,
                "description": "The minimum.",
            },
            "bound": {
                "enum": ["mean", "low"],
                "description": "`mean` compares the rate itself, and `low` the lower end of its 95% interval. Default: `mean`.",
            },
        },
        "required": ["value"],
        "additionalProperties": false,
    })
}

impl Gate for AtLeast {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn low_bound(&self) -> Option<LowBound<'_>> {
        self.min.is_low.then_some(LowBound { gate: self.floor.id, min: self.min.value })
    }
}

impl Measurement for AtLeast {
    fn observe(&mut self, case: &CaseResult) {
        self.cases += 1;
        (self.floor.add)(case, &mut self.scores);
        if let Without::Checks { is_one, .. } = self.floor.without {
            self.unjudged.add(case, is_one);
        }
    }

    fn cases_are_independent(&mut self) {
        self.scores.is_independent = true;
    }

    fn finish(&self) -> GateResult {
        let (name, min) = (self.floor.name, self.min);
        let id = min.result_id(self.floor.id.to_owned());
        if let Some(mut result) = self.scores.compare(&id, name, min) {
            result.message += &self.unjudged.text();
            return result;
        }
        let limit = min.text();
        match self.floor.without {
            // A run without cases must not pass, so its rate is 0.
            Without::Cases if self.cases == 0 => {
                let shown = if min.is_low { "no cases" } else { "0.0%" };
                at_least(&id, 0.0, min.value, format!("{name}: {shown} ({limit})"))
            }
            Without::Cases => {
                let message = format!("{name}: nothing to measure, no check applied ({limit})");
                nothing_to_measure(&id, min.value, message)
            }
            Without::Shares => {
                let message =
                    format!("{name}: nothing was checked, so the gate cannot hold ({limit})");
                missing_evidence(&id, min.value, message)
            }
            Without::Checks { kind, .. } => {
                self.unjudged.result(&id, min.value, &format!("{name}: "), kind, &limit)
            }
        }
    }
}
