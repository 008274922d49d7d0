//! Patterns for values: partial objects, whole lists, regular expressions for texts, and scripts.

use kindlm_types::{Mismatch, Problem, Question, ecma, pointer};
use serde_json::{Map, Value};

use super::{Undecided, literal};
use crate::core::grade::text;
use crate::core::result_evidence::mismatch;
use crate::core::scripting::Predicate;
use crate::shared::compare::equal;
use crate::shared::pattern::{Pattern, PatternError};
use crate::{Evidence, Setup};

const REGEX: &str = "$regex";
const SCRIPT: &str = "$script";

/// A pattern for a value.
///
/// Objects may have more keys than the pattern. Lists must have the same length. `{$regex: …}` is a regular expression
/// for the value at the same place. If that value is not a string, its JSON is searched. `{$script: …}` is a script
/// that returns `true` or `false` for the value at the same place.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Equal(Value),
    Matching(Pattern),
    Satisfying(Predicate),
    Object(Vec<(String, Wanted)>),
    List(Vec<Wanted>),
}

impl Wanted {
    /// Compiles the pattern that is written at a place of the configuration.
    ///
    /// Fails for an invalid expression or script, a misplaced `$regex` or `$script`, and a text that is written as a
    /// regular expression.
    pub(crate) fn new(written: &Value, at: &str, setup: &Setup<'_>) -> Result<Self, Vec<Problem>> {
        match written {
            Value::Object(map) if map.contains_key(REGEX) => {
                let pattern = alone(map, REGEX, "^[0-9]+$", at)?;
                let problem = |err: PatternError| vec![err.problem(format!("{at}/{REGEX}"))];
                Pattern::compile(pattern).map(Self::Matching).map_err(problem)
            }
            Value::Object(map) if map.contains_key(SCRIPT) => {
                let script = alone(map, SCRIPT, "value > 3", at)?;
                let settings = setup.scripts.clone();
                Predicate::new(script, "value", settings, setup)
                    .map(Self::Satisfying)
                    .map_err(|problem| vec![problem.under(&format!("{at}/{SCRIPT}"))])
            }
            Value::Object(map) => {
                let wanted = map.iter().map(|(key, value)| {
                    let key_at = format!("{at}/{}", pointer::segment(key));
                    Ok((key.clone(), Self::new(value, &key_at, setup)?))
                });
                Ok(Self::Object(wanted.collect::<Result<_, Vec<Problem>>>()?))
            }
            Value::Array(items) => {
                let wanted = items.iter().enumerate();
                let wanted =
                    wanted.map(|(index, it)| Self::new(it, &format!("{at}/{index}"), setup));
                Ok(Self::List(wanted.collect::<Result<_, _>>()?))
            }
            Value::String(text) if let Some(problem) = literal::refused(text, at, true) => {
                Err(vec![problem])
            }
            value => Ok(Self::Equal(value.clone())),
        }
    }

    /// Returns the first difference between the value and the pattern; `None` if the value matches.
    ///
    /// Fails if the comparison is undecided, because a pattern takes too long or a script gives no verdict.
    pub(crate) fn difference(
        &self,
        actual: &Value,
        evidence: &Evidence<'_>,
    ) -> Result<Option<String>, Undecided> {
        self.differs("", Some(actual), evidence)
    }

    /// Returns all differences between the value and the pattern, by their JSON pointers.
    ///
    /// A part is left out if its comparison is undecided.
    pub(crate) fn mismatches(&self, actual: &Value, evidence: &Evidence<'_>) -> Vec<Mismatch> {
        let mut found = Vec::new();
        self.collect_mismatches(String::new(), Some(actual), evidence, &mut found);
        found
    }

    fn collect_mismatches(
        &self,
        at: String,
        actual: Option<&Value>,
        evidence: &Evidence<'_>,
        found: &mut Vec<Mismatch>,
    ) {
        match (self, actual) {
            (Self::Object(wanted), Some(Value::Object(map))) => {
                for (key, wanted) in wanted {
                    let at = format!("{at}/{}", pointer::segment(key));
                    wanted.collect_mismatches(at, map.get(key), evidence, found);
                }
            }
            (Self::List(wanted), Some(Value::Array(items))) if wanted.len() == items.len() => {
                for (index, (wanted, item)) in wanted.iter().zip(items).enumerate() {
                    wanted.collect_mismatches(format!("{at}/{index}"), Some(item), evidence, found);
                }
            }
            _ => {
                if let Ok(Some(_)) = self.differs("", actual, evidence) {
                    found.push(mismatch(at, self.describe(), actual));
                }
            }
        }
    }

    /// Returns true if the pattern is an object.
    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Adds the questions whose answers [`difference`](Self::difference) needs.
    pub(crate) fn questions(
        &self,
        actual: &Value,
        evidence: &Evidence<'_>,
        questions: &mut Vec<Question>,
    ) {
        match (self, actual) {
            (Self::Satisfying(script), actual) => questions.push(script.question(actual, evidence)),
            (Self::Object(wanted), Value::Object(map)) => {
                for (wanted, value) in
                    wanted.iter().filter_map(|(key, it)| Some((it, map.get(key)?)))
                {
                    wanted.questions(value, evidence, questions);
                }
            }
            (Self::List(wanted), Value::Array(items)) if wanted.len() == items.len() => {
                for (wanted, item) in wanted.iter().zip(items) {
                    wanted.questions(item, evidence, questions);
                }
            }
            _ => {}
        }
    }

    fn differs(
        &self,
        at: &str,
        actual: Option<&Value>,
        evidence: &Evidence<'_>,
    ) -> Result<Option<String>, Undecided> {
        let Some(actual) = actual else {
            return Ok(Some(format!("{}: expected {}, found nothing", place(at), self.describe())));
        };
        let differs = match (self, actual) {
            (Self::Object(wanted), Value::Object(map)) => {
                for (key, wanted) in wanted {
                    let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                    if let Some(difference) = wanted.differs(&at, map.get(key), evidence)? {
                        return Ok(Some(difference));
                    }
                }
                return Ok(None);
            }
            (Self::List(wanted), Value::Array(items)) if wanted.len() == items.len() => {
                for (index, (wanted, item)) in wanted.iter().zip(items).enumerate() {
                    let at = format!("{at}[{index}]");
                    if let Some(difference) = wanted.differs(&at, Some(item), evidence)? {
                        return Ok(Some(difference));
                    }
                }
                return Ok(None);
            }
            (Self::Equal(wanted), actual) => !equal(wanted, actual),
            (Self::Matching(pattern), actual) => !pattern.is_match(&text(actual))?,
            (Self::Satisfying(script), actual) => !script.holds(actual, evidence)?,
            (Self::Object(_) | Self::List(_), _) => true,
        };
        let found = shortened(&ecma::stringify(actual));
        Ok(differs.then(|| format!("{}: expected {}, found {found}", place(at), self.describe())))
    }

    /// Describes the pattern for a report.
    fn describe(&self) -> String {
        match self {
            Self::Equal(value) => shortened(&ecma::stringify(value)),
            Self::Matching(pattern) => format!("a match of /{}/", pattern.as_str()),
            Self::Satisfying(script) => format!("a value that satisfies `{}`", script.shown()),
            Self::Object(_) => "an object".to_owned(),
            Self::List(items) => format!("a list of {}", items.len()),
        }
    }
}

/// Returns the text under a key that must be the only key of its object.
///
/// Fails if the value is not a text, if the text is blank, or if the object has other keys.
fn alone<'w>(
    map: &'w Map<String, Value>,
    key: &str,
    example: &str,
    at: &str,
) -> Result<&'w str, Vec<Problem>> {
    match (map.get(key), map.len()) {
        (Some(Value::String(text)), 1) if !text.trim().is_empty() => Ok(text),
        _ => {
            let message = format!("`{key}` is a text, and stands alone");
            let help = format!("write `{{ {key}: \"{example}\" }}`");
            Err(vec![Problem::new(at, message).with_help(help)])
        }
    }
}

fn place(at: &str) -> &str {
    if at.is_empty() { "the value" } else { at }
}

/// Shortens a text to 120 characters for a line of a report.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 120;
    let shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::script::{ScriptAnswer, ScriptOutcome, ScriptValue};
    use kindlm_types::{Answer, Answers, Execution, NoFiles};
    use serde_json::json;

    fn wanted(written: &Value) -> Result<Wanted, Vec<Problem>> {
        Wanted::new(written, "/input", &Setup::new(&NoFiles, None))
    }

    /// Returns the difference; `None` if the value matches. `says` are the results of the scripts, in order.
    fn difference(written: &Value, actual: &Value, says: &[Value]) -> Option<String> {
        let wanted = wanted(written).unwrap();
        let execution = Execution::default();
        let mut answers = Answers::default();
        let mut questions = Vec::new();
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        wanted.questions(actual, &evidence, &mut questions);
        assert_eq!(questions.len(), says.len(), "{written} of {actual}");
        for (question, said) in questions.iter().zip(says) {
            let outcome = ScriptOutcome::Returned(ScriptValue::from(said.clone()));
            answers.insert(question, Ok(Answer::Script(ScriptAnswer::new(outcome))));
        }
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        wanted.difference(actual, &evidence).unwrap()
    }

    #[test]
    fn objects_match_partially_and_lists_as_a_whole() {
        for (wanted, actual, expected) in [
            (json!({"a": {"b": 1}}), json!({"a": {"b": 1.0, "c": 2}, "d": 3}), None),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), Some("a.b: expected 1, found 2")),
            (json!({"a": 1}), json!({}), Some("a: expected 1, found nothing")),
            (
                json!({"a": [1, {"b": 2}]}),
                json!({"a": [1, {"b": 3}]}),
                Some("a[1].b: expected 2, found 3"),
            ),
            (json!({"a": [1]}), json!({"a": [1, 2]}), Some("a: expected a list of 1, found [1,2]")),
            (json!({"a": {"$regex": "^x"}}), json!({"a": "xyz"}), None),
            // A pattern is matched only against the value of its own key, not against the values of other keys.
            (
                json!({"city": {"$regex": "\"unit\":\"c\""}}),
                json!({"city": "Brooklyn", "unit": "c"}),
                Some("city: expected a match of /\"unit\":\"c\"/, found \"Brooklyn\""),
            ),
            (
                json!({"a": {"$regex": "NOPE"}}),
                json!({"b": "NOPE"}),
                Some("a: expected a match of /NOPE/, found nothing"),
            ),
            (json!({"a": {"$regex": "^\\[1,"}}), json!({"a": [1, 2]}), None),
            (json!({"$regex": "^4"}), json!(42), None),
            (json!({}), json!("text"), Some("the value: expected an object, found \"text\"")),
            (json!(null), json!(null), None),
        ] {
            let found = difference(&wanted, &actual, &[]);
            assert_eq!(found.as_deref(), expected, "{wanted} of {actual}");
        }
    }

    #[test]
    fn scripts_decide_about_the_value_at_their_place() {
        let written = json!({"items": [{"n": {"$script": "value > 1"}}, {}]});
        let actual = json!({"items": [{"n": 2}, {"n": 3}]});
        assert_eq!(difference(&written, &actual, &[json!(true)]), None);
        assert_eq!(
            difference(&written, &actual, &[json!(false)]).as_deref(),
            Some("items[0].n: expected a value that satisfies `value > 1`, found 2")
        );
        // A missing value asks no question and matches no pattern.
        let found = difference(&json!({"a": {"$script": "true"}}), &json!({}), &[]);
        assert_eq!(
            found.as_deref(),
            Some("a: expected a value that satisfies `true`, found nothing")
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_one_is_a_problem_at_its_place() {
        for (wanted, at) in [
            (json!({"a/b": [{"$regex": "("}]}), "/input/a~1b/0/$regex"),
            (json!({"a": {"$regex": 1}}), "/input/a"),
            (json!({"a": {"$regex": "x", "b": 1}}), "/input/a"),
            (json!({"a": {"$script": "x", "b": 1}}), "/input/a"),
            (json!({"$script": ""}), "/input"),
            (json!({"a": {"$script": "file://x.js"}}), "/input/a/$script"),
        ] {
            assert_eq!(self::wanted(&wanted).unwrap_err()[0].pointer, at, "{wanted}");
        }
    }
}
