//! A minimum for a measured rate, or for the lower end of its interval.

use kindlm_stats::{Clustered, Confidence};
use kindlm_types::{CaseResult, GateResult, Problem};
use serde_json::{Map, Value, json};

use super::compare::{at_least, missing_evidence, nothing_to_measure, percent};
use super::{Gate, Measurement, Threshold};

/// The end of the id of a gate whose minimum applies to the lower end of the interval.
pub(super) const LOW: &str = ".low";

/// The static parts of a gate with a minimum rate.
#[derive(Debug)]
pub(super) struct Floor {
    /// The id of a gate that compares the lower end of the interval.
    pub(super) id: &'static str,
    /// The start of the message.
    pub(super) name: &'static str,
    /// True if a run without any case violates the gate.
    pub(super) needs_cases: bool,
    /// True if a run in which no case has a score violates the gate.
    pub(super) needs_scores: bool,
    /// The function that adds the scores of a case.
    pub(super) add: fn(&CaseResult, &mut Clustered),
}

/// A gate that compares the lower end of the interval with its minimum.
#[derive(Clone, Debug)]
struct LowBound {
    floor: &'static Floor,
    min: f64,
    /// The number of cases that were run, also without scores.
    cases: u64,
    scores: Clustered,
}

/// A minimum with the value that it applies to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Minimum {
    /// The minimum, from 0 to 1.
    pub(super) value: f64,
    /// True if the lower end of the interval must reach the minimum, and not only the rate itself.
    pub(super) is_low: bool,
}

/// Creates the gate of an options object with `value` and `bound`.
///
/// `plain` creates the gate that compares the rate itself.
pub(super) fn build(
    floor: &'static Floor,
    plain: fn(f64) -> Box<dyn Gate>,
    object: &Map<String, Value>,
) -> Result<Box<dyn Gate>, Vec<Problem>> {
    let min = read(object)?;
    Ok(if min.is_low {
        Box::new(LowBound { floor, min: min.value, cases: 0, scores: Clustered::default() })
    } else {
        plain(min.value)
    })
}

/// Reads an options object with `value` and `bound`.
pub(super) fn read(object: &Map<String, Value>) -> Result<Minimum, Vec<Problem>> {
    let mut problems = Vec::new();
    for key in object.keys().filter(|it| !matches!(it.as_str(), "value" | "bound")) {
        let message = format!("unknown key `{key}`");
        let problem = Problem::key(format!("/{}", kindlm_types::pointer::segment(key)), message);
        problems.push(problem.with_help("the keys are `value` and `bound`"));
    }
    let value = match object.get("value").map(|it| (it, Threshold::Rate.read(it))) {
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

/// Adds passed and judged items of one case.
pub(super) fn add(scores: &mut Clustered, passed: u64, judged: u64) {
    // Passes are never more than the judged items, so there is no error.
    #[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
    let _ = scores.add(passed as f64, judged);
}

impl Gate for LowBound {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for LowBound {
    fn observe(&mut self, case: &CaseResult) {
        self.cases += 1;
        (self.floor.add)(case, &mut self.scores);
    }

    fn finish(&self) -> GateResult {
        let Floor { id, name, needs_cases, needs_scores, .. } = *self.floor;
        let min = percent(self.min);
        if needs_cases && self.cases == 0 {
            // A run without cases must not pass, so the lower end is 0.
            let message = format!("{name}: no cases (min of the lower end: {min})");
            return at_least(id, 0.0, self.min, message);
        }
        low_end(id, name, self.min, &self.scores).unwrap_or_else(|| {
            let message = format!("{name}: nothing to measure (min of the lower end: {min})");
            if needs_scores {
                missing_evidence(id, self.min, message)
            } else {
                nothing_to_measure(id, self.min, message)
            }
        })
    }
}

/// Compares the lower end of the interval of the scores with a minimum; `None` without scores.
///
/// `name` is the start of the message.
pub(super) fn low_end(id: &str, name: &str, min: f64, scores: &Clustered) -> Option<GateResult> {
    let mean = scores.mean().ok()?;
    let interval = scores.interval(Confidence::P95).ok()?;
    let (count, clusters) = (scores.scores(), scores.clusters());
    let of = if count == clusters {
        format!("n = {count}")
    } else {
        format!("n = {count} of {clusters} cases")
    };
    let message = format!(
        "{name}: {} ({of}; 95% CI {} to {}) (min of the lower end: {})",
        percent(mean),
        percent(interval.low).trim_end_matches('%'),
        percent(interval.high).trim_end_matches('%'),
        percent(min)
    );
    Some(at_least(id, interval.low, min, message))
}
