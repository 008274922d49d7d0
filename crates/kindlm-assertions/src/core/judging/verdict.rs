//! The parser of rulings, which are replies with `pass`, `score` and `reason`.

use kindlm_types::ecma;
use serde_json::{Map, Value, json};

use super::reply::in_range;
use super::{Flaw, Graded, objects, text_of};
use crate::EntryOptions;
use crate::core::check::TOLERANCE;
use crate::core::grade::Grade;

/// The verdict of a judge about a rubric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ruling {
    /// True if the rubric is met; `None` if the reply has a score only.
    pub(crate) pass: Option<bool>,
    /// The score from 0 to 1; `None` if the reply has a verdict only.
    pub(crate) score: Option<f64>,
    /// The reason in the judge's words; `None` if the judge gave no reason.
    pub(crate) reason: Option<String>,
}

impl Ruling {
    /// Returns the grade of the ruling. A score must also reach the check's threshold.
    ///
    /// `words` are the default reasons for a pass and for a failure.
    pub(crate) fn graded(self, own: EntryOptions, words: (&str, &str)) -> Graded {
        // A verdict without a score counts as 1 or 0. A score without a verdict is compared with the threshold only.
        let said = self.pass.unwrap_or(true);
        let score = self.score.unwrap_or(if said { 1.0 } else { 0.0 });
        let below = below(own, score);
        let pass = said && below.is_none();
        // The judge passed the output, so its reason alone does not explain the failure. The message also names the
        // score and the threshold.
        let message = below.as_ref().filter(|_| said && !own.negate).map(|below| {
            let reason = self.reason.as_deref().map(|it| format!(": {it}"));
            format!("{below}{}", reason.unwrap_or_default())
        });
        let reason = self.reason.or(below);
        let reason = reason.unwrap_or_else(|| if pass { words.0 } else { words.1 }.to_owned());
        Graded { message, ..Graded::from(Grade { pass, score, reason }) }
    }
}

/// Returns the failure message if the score does not reach the check's threshold.
fn below(own: EntryOptions, score: f64) -> Option<String> {
    let threshold = own.threshold.filter(|it| score < it - TOLERANCE)?;
    Some(format!("Score {} below threshold {}", ecma::number(score), ecma::number(threshold)))
}

/// Returns a failing grade if the combined score of several rulings is below the threshold; `None` otherwise.
///
/// The check then fails even if most rulings pass.
pub(crate) fn too_low(own: EntryOptions, score: f64) -> Option<Grade> {
    below(own, score).map(|reason| Grade { pass: false, score, reason })
}

/// Returns the JSON Schema of a ruling.
pub(crate) fn ruling_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "reason": { "type": "string" },
            "pass": { "type": "boolean" },
            "score": { "type": "number", "minimum": 0, "maximum": 1 },
        },
        "required": ["reason", "pass", "score"],
        "additionalProperties": false,
    })
}

/// Reads the ruling in a reply. The error describes the reply, such as `it holds no JSON object`.
///
/// Several different rulings are a contradiction, because one of them may be a quotation of the judged text. A score
/// out of range is not valid.
pub(crate) fn read_ruling(reply: &str) -> Result<Ruling, Flaw> {
    let objects = objects(reply)?;
    if objects.is_empty() {
        return Err("it holds no JSON object".into());
    }
    let about = |it: &&Map<String, Value>| it.contains_key("pass") || it.contains_key("score");
    let mut rulings = objects.iter().filter(about).map(ruling);
    let Some(first) = rulings.next() else { return Err("`pass` is missing".into()) };
    let verdict = |it: &Result<Ruling, Flaw>| it.as_ref().ok().map(|it| (it.pass, it.score));
    if rulings.any(|it| verdict(&it) != verdict(&first)) {
        return Err(Flaw::Contradiction("it gives several different verdicts".to_owned()));
    }
    first
}

fn ruling(object: &Map<String, Value>) -> Result<Ruling, Flaw> {
    let pass = match object.get("pass") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(pass)) => Some(*pass),
        Some(value) => {
            let said = value.as_str().and_then(word);
            let shown = || format!("`pass` is {}, neither true nor false", ecma::stringify(value));
            Some(said.ok_or_else(shown)?)
        }
    };
    let score = match object.get("score") {
        None | Some(Value::Null) => None,
        Some(value) => Some(in_range(value, "score", 1.0)?),
    };
    match (pass, score) {
        (None, None) => return Err("`pass` is missing".into()),
        (Some(pass), Some(score)) if score.total_cmp(&f64::from(u8::from(!pass))).is_eq() => {
            let score = ecma::number(score);
            let why = format!("`pass` is {pass}, and `score` is {score}");
            return Err(Flaw::Contradiction(why));
        }
        _ => {}
    }
    let reason = object.get("reason").or_else(|| object.get("reasoning"));
    let reason = Some(text_of(reason)).filter(|it| !it.is_empty());
    Ok(Ruling { pass, score, reason })
}

/// Returns the boolean for a word such as `yes` or `fail`; `None` for other words.
fn word(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "pass" | "y" => Some(true),
        "false" | "no" | "fail" | "n" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_verdicts_and_refuses_other_replies() {
        for (reply, expected) in [
            (r#"{"pass": true, "score": 0.5, "reason": "x"}"#, Ok((Some(true), Some(0.5)))),
            (r#"```json{"pass": "No"}```"#, Ok((Some(false), None))),
            (r#"{"score": "0.25", "pass": null}"#, Ok((None, Some(0.25)))),
            (r#"{"a": 1} {"pass": true}"#, Ok((Some(true), None))),
            (r#"{"pass": true} and again {"pass": true}"#, Ok((Some(true), None))),
            (r#"{"pass": 1}"#, Err("`pass` is 1, neither true nor false")),
            (r#"{"pass": "maybe"}"#, Err("`pass` is \"maybe\", neither true nor false")),
            (r#"{"pass": true, "score": 7}"#, Err("`score` is 7, which is not between 0 and 1")),
            (r#"{"pass": true, "score": "NaN"}"#, Err("`score` is \"NaN\", not a number")),
            (r#"{"pass": true, "score": []}"#, Err("`score` is [], not a number")),
            (r#"{"reason": "x"}"#, Err("`pass` is missing")),
            (r#"{"PASS": true}"#, Err("`pass` is missing")),
            ("pass", Err("it holds no JSON object")),
        ] {
            let read = read_ruling(reply).map(|it| (it.pass, it.score));
            assert_eq!(read, expected.map_err(Flaw::from), "{reply}");
        }
    }

    #[test]
    fn a_ruling_may_contradict_itself() {
        for (reply, why) in [
            (
                r#"They say {"pass": true}, I say {"pass": false}"#,
                "it gives several different verdicts",
            ),
            (r#"{"pass": "maybe"} {"pass": false}"#, "it gives several different verdicts"),
            (r#"{"pass": true, "score": 0}"#, "`pass` is true, and `score` is 0"),
            (r#"{"pass": false, "score": 1}"#, "`pass` is false, and `score` is 1"),
            (r#"{"pass": false, "pass": true}"#, "it gives `pass` twice in one object"),
        ] {
            let flaw = Flaw::Contradiction(why.to_owned());
            assert_eq!(read_ruling(reply), Err(flaw), "{reply}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_scores_are_in_range(reply in r#"[{}\[\]":,pascoretuy0-9.eE+\\ -]{0,64}"#) {
            if let Ok(Ruling { score: Some(score), .. }) = read_ruling(&reply) {
                prop_assert!((0.0..=1.0).contains(&score));
            }
        }
    }
}
