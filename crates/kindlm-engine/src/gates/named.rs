//! Gates with a threshold for each name, such as `assertions: { cite_sources: 0.95 }`.

use kindlm_types::{CaseResult, GateResult, Problem};
use serde_json::{Map, Value, json};

use super::compare::missing_evidence;
use super::config::{pointer, with_share};
use super::floor::{self, LOW, Minimum, Scores};
use super::unjudged::errored_results;
use super::{Gate, LowBound, Measurement, Threshold};

/// The part of a suite that a gate names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// An assertion by its id, a rule of `prompt-assertion` by its id, or a check by its label.
    Assertion(&'a str),
    /// A named score.
    Metric(&'a str),
    /// A tag of test cases.
    Tag(&'a str),
}

/// The static parts of a gate with a minimum rate for each name.
#[derive(Debug)]
pub(super) struct PerName {
    /// The id of the registration, which is the key under `gates`.
    pub(super) id: &'static str,
    /// The start of the message, before the name.
    pub(super) noun: &'static str,
    /// The message if nothing was measured.
    pub(super) missing: &'static str,
    /// The function that returns the named part of the suite.
    pub(super) subject: for<'a> fn(&'a str) -> Subject<'a>,
    /// The function that counts a case's results for this name.
    pub(super) count: fn(&CaseResult, &str) -> Counts,
}

/// The results of one case for a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// The number of results that passed.
    pub(super) passed: u64,
    /// The number of results over which the rate is computed.
    pub(super) judged: u64,
    /// The number of results without a verdict, which are not part of `judged`.
    pub(super) errored: u64,
}

/// A gate with the minimum rate of one name.
#[derive(Clone, Debug)]
struct NamedRate {
    of: &'static PerName,
    name: String,
    min: Minimum,
    errored: u64,
    scores: Scores,
}

/// Creates the gates of an object with a minimum rate for each name.
pub(super) fn build(
    of: &'static PerName,
    object: &Map<String, Value>,
) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>> {
    each(object, |name, value| {
        let min = minimum(name, value)?;
        let (name, scores) = (name.to_owned(), Scores::default());
        Ok(Box::new(NamedRate { of, name, min, errored: 0, scores }))
    })
}

/// Creates a gate for each name of an object. All problems are returned.
pub(super) fn each(
    object: &Map<String, Value>,
    mut gate: impl FnMut(&str, &Value) -> Result<Box<dyn Gate>, Vec<Problem>>,
) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>> {
    let (mut gates, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in object {
        match gate(name, value) {
            Ok(gate) => gates.push(gate),
            Err(wrong) => problems.extend(wrong.into_iter().map(|it| it.under(&pointer(name)))),
        }
    }
    if object.is_empty() {
        let help = "write a name with its threshold, such as `{ name: 0.9 }`, or remove the key";
        problems.push(Problem::new("", "names nothing, so it has no effect").with_help(help));
    }
    if problems.is_empty() { Ok(gates) } else { Err(problems) }
}

/// Reads a minimum: a share, or an object with `value` and `bound`.
fn minimum(name: &str, value: &Value) -> Result<Minimum, Vec<Problem>> {
    if let Value::Object(object) = value {
        return floor::parse_minimum(object);
    }
    let read = Threshold::Rate.parse_value(value);
    read.map(|value| Minimum { value, is_low: false }).map_err(|expected| {
        let message = format!("`{name}` must be {expected}, but is {value}");
        vec![with_share(Problem::new("", message), value)]
    })
}

/// Returns the JSON Schema of an object with a minimum rate for each name.
pub(super) fn schema() -> Value {
    let share = json!({ "type": "number", "minimum": 0, "maximum": 1 });
    json!({
        "type": "object",
        "additionalProperties": { "anyOf": [share, floor::schema()] },
        "minProperties": 1,
    })
}

/// Returns a gate that names nothing and is always violated, for [`Registration::build`](super::Registration::build).
pub(super) fn nameless(id: &'static str, threshold: f64) -> Box<dyn Gate> {
    Box::new(Nameless { id, threshold })
}

/// A gate that names nothing and is always violated.
#[derive(Clone, Copy, Debug)]
struct Nameless {
    id: &'static str,
    threshold: f64,
}

impl Gate for Nameless {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(*self)
    }
}

impl Measurement for Nameless {
    fn observe(&mut self, _case: &CaseResult) {}

    fn finish(&self) -> GateResult {
        let message = format!("`{}` needs the name of what it measures", self.id);
        missing_evidence(self.id, self.threshold, message)
    }
}

/// Returns the id of the result for a name.
pub(super) fn result_id(id: &str, name: &str) -> String {
    format!("{id}[{name}]")
}

/// Returns the key under `gates` with which the id of a result begins.
///
/// `assertions[tone].low` has the key `assertions`.
pub fn kind_of_result(gate: &str) -> &str {
    parts_of_id(gate).0
}

/// Splits the id of a result into the key under `gates`, the name, and true for the lower end of an interval.
pub(super) fn parts_of_id(gate: &str) -> (&str, Option<&str>, bool) {
    let plain = gate.strip_suffix(LOW);
    let (whole, is_low) = (plain.unwrap_or(gate), plain.is_some());
    let named = whole.strip_suffix(']').and_then(|it| it.split_once('['));
    named.map_or((whole, None, is_low), |(id, name)| (id, Some(name), is_low))
}

impl Gate for NamedRate {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn subject(&self) -> Option<Subject<'_>> {
        Some((self.of.subject)(&self.name))
    }

    fn low_bound(&self) -> Option<LowBound<'_>> {
        self.min.is_low.then_some(LowBound { gate: self.of.id, min: self.min.value })
    }
}

impl Measurement for NamedRate {
    fn observe(&mut self, case: &CaseResult) {
        let counts = (self.of.count)(case, &self.name);
        self.errored += counts.errored;
        self.scores.add_counts(case, counts.passed, counts.judged);
    }

    fn cases_are_independent(&mut self) {
        self.scores.is_independent = true;
    }

    fn finish(&self) -> GateResult {
        let PerName { id, noun, missing, .. } = *self.of;
        let errored = errored_results(self.errored);
        let id = self.min.result_id(result_id(id, &self.name));
        let name = format!("{noun} `{}`", self.name);
        if let Some(mut result) = self.scores.compare(&id, &name, self.min) {
            result.message += &errored;
            return result;
        }
        let message = format!("{name}: {missing} ({}){errored}", self.min.text());
        missing_evidence(&id, self.min.value, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_names_are_split() {
        for (gate, expected) in [
            ("passRateMin", ("passRateMin", None, false)),
            ("passRateMin.low", ("passRateMin", None, true)),
            ("tags[a]", ("tags", Some("a"), false)),
            ("tags[a].low", ("tags", Some("a"), true)),
            ("tags[a.low]", ("tags", Some("a.low"), false)),
            ("tags[a]]", ("tags", Some("a]"), false)),
            ("tags[[a].low].low", ("tags", Some("[a].low"), true)),
        ] {
            assert_eq!(parts_of_id(gate), expected, "{gate}");
        }
        assert_eq!(kind_of_result(&result_id("tags", "a].low")), "tags");
    }
}
