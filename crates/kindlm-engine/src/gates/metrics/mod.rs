//! `metrics`: the minimum average of single named scores.

use kindlm_types::{CaseResult, ExactSum, ExecutionResult, GateResult, Problem, ecma};
use serde_json::{Map, Value, json};

use super::named::{self, Subject};
use super::{
    Gate, Measurement, Meta, Options, Registration, Threshold, at_least, missing_evidence,
};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "metrics",
        summary: "The lowest average of single named scores.",
        since: "0.1.0",
        threshold: Threshold::Names,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: Some(Options { are_recorded: true, schema, build }),
    build: |threshold| named::nameless(REGISTRATION.meta.id, threshold),
};

/// A gate with the minimum average of one named score.
#[derive(Clone, Debug)]
struct MetricMin {
    name: String,
    min: f64,
    sum: ExactSum,
    weight: ExactSum,
}

fn schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": { "type": "number" },
        "minProperties": 1,
    })
}

fn build(object: &Map<String, Value>) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>> {
    named::each(object, |name, value| {
        let Some(min) = value.as_f64() else {
            let message = format!("`{name}` must be a number, but is {value}");
            return Err(vec![Problem::new("", message)]);
        };
        let (sum, weight) = (ExactSum::default(), ExactSum::default());
        Ok(Box::new(MetricMin { name: name.to_owned(), min, sum, weight }))
    })
}

impl Gate for MetricMin {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn subject(&self) -> Option<Subject<'_>> {
        Some(Subject::Metric(&self.name))
    }
}

impl Measurement for MetricMin {
    fn observe(&mut self, case: &CaseResult) {
        let scores = case.executions.iter().flat_map(ExecutionResult::named_scores);
        for it in scores.filter(|it| it.name == self.name) {
            self.sum.add(it.score.get() * it.weight);
            self.weight.add(it.weight);
        }
    }

    fn finish(&self) -> GateResult {
        let id = named::result_id(REGISTRATION.meta.id, &self.name);
        let (name, min) = (&self.name, ecma::number(self.min));
        let weight = self.weight.value();
        let average = (weight > 0.0).then(|| self.sum.value() / weight);
        let Some(average) = average.filter(|it| it.is_finite()) else {
            let message = format!(
                "Metric `{name}`: no check gave this score, so the gate cannot hold (min: {min})"
            );
            return missing_evidence(&id, self.min, message);
        };
        let message =
            format!("Metric `{name}`: {} on average (min: {min})", ecma::to_fixed(average, 3));
        at_least(&id, average, self.min, message)
    }
}
