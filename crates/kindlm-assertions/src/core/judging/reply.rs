//! The parser of judge replies: JSON objects at any place, and the score in them.

use std::ops::Range;

use kindlm_types::{Score, duplicate_key, ecma};
use serde_json::{Map, Value};

use super::Flaw;

/// The highest number of braces that are tried as the start of an object.
const TRIES: usize = 1_000;

/// The tolerance of a score's range, because floating-point numbers are rounded.
const ROUNDING: f64 = 1e-6;

/// The score of a judge with its reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scored {
    /// The score from 0 to 1.
    pub(crate) score: Score,
    /// The reason in the judge's words; empty if the judge gave no reason.
    pub(crate) reasoning: String,
}

/// Returns the outermost JSON objects in a text: bare, in code fences, in arrays or in prose.
///
/// Fails if an object follows an incomplete object, or for too many braces. The later object must not count as the
/// answer. It may be a part of the incomplete object, such as a quotation in the reason. Also fails for an object with
/// a duplicate key, because such an object contradicts itself.
pub(crate) fn objects(text: &str) -> Result<Vec<Map<String, Value>>, Flaw> {
    let found = find(text)?;
    for (place, _) in &found {
        if let Some(key) = duplicate_key(&text[place.clone()]) {
            return Err(Flaw::Contradiction(format!("it gives `{key}` twice in one object")));
        }
    }
    Ok(found.into_iter().map(|(_, object)| object).collect())
}

/// An object with its byte range in the text.
pub(super) type Placed = (Range<usize>, Map<String, Value>);

/// Returns the value under a key of a reply's objects; `None` if no object has the key.
///
/// Fails if several objects have different values under the key ([`Flaw::Contradiction`]).
pub(crate) fn only<'o>(
    objects: &'o [Map<String, Value>],
    key: &str,
) -> Result<Option<&'o Value>, Flaw> {
    let mut values = objects.iter().filter_map(|it| it.get(key));
    let first = values.next();
    if values.any(|it| Some(it) != first) {
        return Err(Flaw::Contradiction(format!("it gives several different `{key}`")));
    }
    Ok(first)
}

/// Returns the outermost JSON objects in a text with their byte ranges, in order.
///
/// Duplicate keys are allowed; the last value counts. Fails if an object follows an incomplete object, or for too
/// many braces.
pub(super) fn find(text: &str) -> Result<Vec<Placed>, String> {
    let mut found = Vec::new();
    let mut is_torn = false;
    let mut at = 0;
    for tried in 0.. {
        let Some(brace) = text[at..].find('{') else { break };
        if tried == TRIES {
            return Err("it holds too many braces".to_owned());
        }
        at += brace;
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        if let Some(Ok(Value::Object(object))) = values.next() {
            let end = at + values.byte_offset();
            if is_torn {
                return Err("it holds a JSON object that is not whole".to_owned());
            }
            found.push((at..end, object));
            at = end;
        } else {
            at += 1;
            is_torn |= begins_object(&text[at..]);
        }
    }
    Ok(found)
}

/// Returns true if the text after a brace starts with a key: a quoted text, or a word with a colon.
fn begins_object(text: &str) -> bool {
    let text = text.trim_start();
    let word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-' | '$');
    let rest = text.trim_start_matches(word);
    text.starts_with(['"', '\'']) || (rest.len() < text.len() && rest.trim_start().starts_with(':'))
}

/// Returns the score from 0 to 1 under `key` of a reply, with the reason.
///
/// Fails if the reply has no such score, or if it contradicts itself; see [`read_in_range`].
pub(crate) fn read_score(reply: &str, key: &str) -> Result<Scored, Flaw> {
    let (score, reasoning) = read_in_range(reply, key, 1.0)?;
    let score = Score::clamped(score).ok_or_else(|| format!("`{key}` is not a number"))?;
    Ok(Scored { score, reasoning })
}

/// Returns the score from 0 to `max` under `key` of a reply, with the reason.
///
/// Objects without the key are ignored. Several different scores are a contradiction, because one of them may be a
/// quotation of the judged text. Scores under the key in another letter case count for this rule too. `pass: true` with
/// the lowest score and `pass: false` with the highest score are contradictions too.
///
/// Fails if the objects cannot be read, if no object has the key, or if the score is not a number in this range. Also
/// fails for a contradiction.
pub(crate) fn read_in_range(reply: &str, key: &str, max: f64) -> Result<(f64, String), Flaw> {
    let objects = objects(reply)?;
    if objects.is_empty() {
        return Err("it holds no JSON object".into());
    }
    let mut given = objects.iter().filter_map(|it| Some((it.get(key)?, it)));
    let Some((value, object)) = given.next() else {
        return Err(format!("`{key}` is missing").into());
    };
    let is_other = |it: &Value| match (number(it), number(value)) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_ne(),
        _ => it != value,
    };
    let is_other_case = |(name, it): (&String, &Value)| {
        name != key && name.eq_ignore_ascii_case(key) && is_other(it)
    };
    if given.any(|(it, _)| is_other(it)) || objects.iter().any(|it| it.iter().any(is_other_case)) {
        return Err(Flaw::Contradiction(format!("it gives several different values of `{key}`")));
    }
    let reason = object.get("reason").or_else(|| object.get("reasoning"));
    let score = in_range(value, key, max)?;
    // A judge may add a verdict, although it was asked for a score only. A pass with the lowest score and a failure
    // with the highest score are contradictions.
    let opposite = if score <= 0.0 { Some(true) } else { Some(false).filter(|_| score >= max) };
    if let Some(pass) =
        object.get("pass").and_then(Value::as_bool).filter(|it| Some(*it) == opposite)
    {
        let score = ecma::number(score);
        return Err(Flaw::Contradiction(format!("`pass` is {pass}, and `{key}` is {score}")));
    }
    Ok((score, text_of(reason)))
}

/// Returns a score from 0 to `max`. A number out of range is an error, because the judge used another scale.
pub(super) fn in_range(value: &Value, key: &str, max: f64) -> Result<f64, String> {
    let shown = || ecma::stringify(value);
    let score = number(value).ok_or_else(|| format!("`{key}` is {}, not a number", shown()))?;
    if !(-ROUNDING..=max + ROUNDING).contains(&score) {
        let max = ecma::number(max);
        return Err(format!("`{key}` is {}, which is not between 0 and {max}", shown()));
    }
    Ok(score.clamp(0.0, max))
}

/// Returns a finite number, or parses a text that is a number; `None` for other values.
fn number(value: &Value) -> Option<f64> {
    let number: f64 = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    // `+ 0.0` turns a negative zero into zero.
    number.is_finite().then_some(number + 0.0)
}

/// Returns a line without its list marker and without blanks around it.
pub(crate) fn unmarked(line: &str) -> &str {
    let line = line.trim();
    let digits = line.trim_start_matches(|it: char| it.is_ascii_digit());
    if digits.len() < line.len()
        && let Some(rest) = digits.strip_prefix(['.', ')'])
    {
        return rest.trim_start();
    }
    ["- ", "* ", "• "].iter().find_map(|it| line.strip_prefix(it)).unwrap_or(line).trim_start()
}

/// Returns a value as text. Falsy values of JavaScript give an empty text.
pub(crate) fn text_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if number.as_f64() == Some(0.0) => String::new(),
        Some(value) => ecma::stringify(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scored(score: f64, reasoning: &str) -> Scored {
        Scored { score: Score::new(score).unwrap(), reasoning: reasoning.to_owned() }
    }

    #[test]
    fn finds_the_score_wherever_it_stands() {
        for (reply, score, reasoning) in [
            (r#"{"score":0.9,"reasoning":"x"}"#, 0.9, "x"),
            ("```JSON\n{\"score\":0.9,\"reasoning\":\"x\"}\n```", 0.9, "x"),
            ("~~~json\n{\"score\":0.9}\n~~~", 0.9, ""),
            ("```\n```\n{\"score\":1}", 1.0, ""),
            (r#"{"score":0.9,"reasoning":"use ```code``` here"}"#, 0.9, "use ```code``` here"),
            (r#"Braces {like this} and {"a":1}: {"score":0.5,"reasoning":"x"} {end}"#, 0.5, "x"),
            (r#"{"score":" 0.75 ","reasoning":5}"#, 0.75, "5"),
            (r#"[{"score":1.0000001,"reasoning":null}]"#, 1.0, ""),
            (r#"{"score":-1e-7,"reasoning":{"a":1}}"#, 0.0, r#"{"a":1}"#),
            (r#"{"score":-0.0,"reasoning":0}"#, 0.0, ""),
            (r#"{"score":0.5} as I said: {"score":0.50}"#, 0.5, ""),
            (r#"{"score":1} as I said: {"score":1.0}"#, 1.0, ""),
            ("\u{feff}{\"score\":5e-1,\"reasoning\":\"příliš 🐎\"}", 0.5, "příliš 🐎"),
            (r#"{"score":1,"reasoning":"it wants {\"score\":0}"}"#, 1.0, r#"it wants {"score":0}"#),
        ] {
            assert_eq!(read_score(reply, "score"), Ok(scored(score, reasoning)), "{reply}");
        }
    }

    #[test]
    fn a_reply_without_a_score_is_unreadable() {
        for (reply, why) in [
            ("", "it holds no JSON object"),
            ("0.9", "it holds no JSON object"),
            ("{'score':0.9}", "it holds no JSON object"),
            (r#"{"score":.9}"#, "it holds no JSON object"),
            ("{\"score\":0.9,\"reasoning\":\"a\nb\"}", "it holds no JSON object"),
            (r#"{"score":1e400}"#, "it holds no JSON object"),
            (r#"{"a":{"score":1}}"#, "`score` is missing"),
            (r#"{"score":null}"#, "`score` is null, not a number"),
            (r#"{"score":true}"#, "`score` is true, not a number"),
            (r#"{"score":"high"}"#, "`score` is \"high\", not a number"),
            (r#"{"score":"NaN"}"#, "`score` is \"NaN\", not a number"),
            (r#"{"score":""}"#, "`score` is \"\", not a number"),
            (r#"{"score":3}"#, "`score` is 3, which is not between 0 and 1"),
            (r#"{"score":"95"}"#, "`score` is \"95\", which is not between 0 and 1"),
            (r#"{"score":-0.01}"#, "`score` is -0.01, which is not between 0 and 1"),
            (r#"{"score":1.00001}"#, "`score` is 1.00001, which is not between 0 and 1"),
            (
                r#"{"score":0,"reasoning":"it says {"score":1}"}"#,
                "it holds a JSON object that is not whole",
            ),
            (
                r#"{score: 0, reasoning: 'it says {"score":1}'}"#,
                "it holds a JSON object that is not whole",
            ),
        ] {
            assert_eq!(read_score(reply, "score"), Err(why.into()), "{reply}");
        }
    }

    #[test]
    fn a_reply_with_two_scores_contradicts_itself() {
        let several = "it gives several different values of `score`";
        for (reply, why) in [
            (r#"They say {"score":1} but {"score":0}"#, several),
            (r#"{"score":null} {"score":0}"#, several),
            (r#"{"score":3} {"score":0}"#, several),
            (r#"{"score":0,"score":1}"#, "it gives `score` twice in one object"),
            (r#"{"score":0.9,"Score":0.1}"#, several),
            (r#"{"pass":false,"score":1}"#, "`pass` is false, and `score` is 1"),
            (r#"{"pass":true,"score":0}"#, "`pass` is true, and `score` is 0"),
        ] {
            let flaw = Flaw::Contradiction(why.to_owned());
            assert_eq!(read_score(reply, "score"), Err(flaw), "{reply}");
        }
    }

    #[test]
    fn hostile_replies_take_no_time() {
        // A quotation with too many braces must not hide the answer after it.
        let hiding = format!("{{\"score\":1}}{}{{\"score\":0}}", "{".repeat(TRIES));
        assert_eq!(read_score(&hiding, "score"), Err("it holds too many braces".into()));
        for reply in ["{".repeat(1_000_000), "{\"a\":".repeat(200_000), "{\"a\":\"".repeat(100_000)]
        {
            assert!(read_score(&reply, "score").is_err());
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics_and_scores_are_in_range(
            reply in r#"[{}\[\]":,score0-9.eE+\\ é🐎-]{0,64}"#,
        ) {
            if let Ok(scored) = read_score(&reply, "score") {
                prop_assert!((0.0..=1.0).contains(&scored.score.get()));
            }
        }

        #[test]
        fn prose_around_an_object_changes_nothing(
            before in "[^{}]{0,40}", after in "[^{}]{0,40}", score in 0.0..=1.0f64, reasoning in ".{0,40}",
        ) {
            let object = serde_json::json!({"score": score, "reasoning": reasoning});
            let reply = format!("{before}{object}{after}");
            prop_assert_eq!(read_score(&reply, "score"), Ok(scored(score, &reasoning)));
        }
    }
}
