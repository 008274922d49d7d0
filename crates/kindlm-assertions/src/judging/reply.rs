//! Reading what judges reply: JSON objects wherever they stand, and the score in them.

use std::ops::Range;

use kindlm_types::{Score, ecma, twice};
use serde_json::{Map, Value};

/// How many braces of a reply are tried as the beginning of an object.
const TRIES: usize = 1_000;

/// A judge's score with its reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scored {
    /// Clamped to 0..=1.
    pub(crate) score: Score,
    /// What the judge said, where that is out of range.
    pub(crate) clamped_from: Option<f64>,
    /// In the judge's words; empty if it gave none.
    pub(crate) reasoning: String,
}

/// The outermost JSON objects in a text, in order: bare, in code fences, in arrays or amid prose.
///
/// Not if it cannot be told which are the outermost: an object after one that is not whole may be a part of it, such as a
/// quotation in the reason that it gives, and must not be taken for the answer. Nor if one gives a key twice: which of the
/// two it means nobody knows. The error says so, as a fragment.
pub(crate) fn objects(text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let found = find(text)?;
    for (place, _) in &found {
        if let Some(key) = twice(&text[place.clone()]) {
            return Err(format!("it gives `{key}` twice in one object"));
        }
    }
    Ok(found.into_iter().map(|(_, object)| object).collect())
}

/// An object, and where it stands.
type Placed = (Range<usize>, Map<String, Value>);

/// The one value that the objects of a reply have under a key; none if they have none. The error says, as a fragment, that
/// they differ: one of them may be a quotation of the text that was judged.
pub(crate) fn only<'o>(
    objects: &'o [Map<String, Value>],
    key: &str,
) -> Result<Option<&'o Value>, String> {
    let mut values = objects.iter().filter_map(|it| it.get(key));
    let first = values.next();
    if values.any(|it| Some(it) != first) {
        return Err(format!("it gives several different `{key}`"));
    }
    Ok(first)
}

/// The objects of a text as [`objects`] has them, each with its place; of a key that one gives twice, the last counts.
pub(super) fn find(text: &str) -> Result<Vec<Placed>, String> {
    let mut found = Vec::new();
    let mut is_torn = false;
    let mut at = behind_thoughts(text)?;
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

/// Where a reply begins whose model writes down what it thinks first: what it tries out there is no answer.
fn behind_thoughts(text: &str) -> Result<usize, String> {
    let Some(thoughts) = text.trim_start().strip_prefix("<think>") else { return Ok(0) };
    match thoughts.find("</think>") {
        Some(end) => Ok(text.len() - thoughts.len() + end),
        None => Err("it ends within its `<think>`".to_owned()),
    }
}

/// Whether what follows a brace is a key rather than prose: quoted, or a word with a colon.
fn begins_object(text: &str) -> bool {
    let text = text.trim_start();
    let word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-' | '$');
    let rest = text.trim_start_matches(word);
    text.starts_with(['"', '\'']) || (rest.len() < text.len() && rest.trim_start().starts_with(':'))
}

/// The score that a reply gives under `key`, clamped to 0..=1.
///
/// Objects without a readable score are passed over. A reply with several different scores has none: one of
/// them may be a quotation of the text that was judged. Of a score that one object gives twice the last counts, as the
/// original has it. The error says what is wrong, as a fragment.
pub(crate) fn read_score(text: &str, key: &str) -> Result<Scored, String> {
    let objects = find(text)?;
    let Some((_, first)) = objects.first() else {
        return Err("it holds no JSON object".to_owned());
    };
    let mut scored =
        objects.iter().map(|(_, it)| it).filter_map(|it| Some((number(it.get(key)?)?, it)));
    let Some((score, object)) = scored.next() else {
        return Err(match first.get(key) {
            Some(value) => format!("`{key}` is {}, not a number", ecma::stringify(value)),
            None => format!("`{key}` is missing"),
        });
    };
    if scored.any(|(other, _)| other != score) {
        return Err(format!("it gives several different values of `{key}`"));
    }
    let said = object.get(key).and_then(written);
    let clamped_from = said.filter(|it| !(0.0..=1.0).contains(it));
    Ok(Scored { score, clamped_from, reasoning: text_of(object.get("reasoning")) })
}

/// The score from 0 to `max` that a reply gives under `key`, with the reason.
///
/// Unlike [`read_score`], a score out of range is no score. The error says what is wrong, as a fragment.
pub(crate) fn read_in_range(reply: &str, key: &str, max: f64) -> Result<(f64, String), String> {
    let objects = objects(reply)?;
    if objects.is_empty() {
        return Err("it holds no JSON object".to_owned());
    }
    let mut found: Option<(f64, String)> = None;
    for object in objects.iter().filter(|it| it.contains_key(key)) {
        let value = object.get(key).unwrap_or(&Value::Null);
        let shown = || ecma::stringify(value);
        let score = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let score = score.ok_or_else(|| format!("`{key}` is {}, not a number", shown()))?;
        if !(0.0..=max).contains(&score) {
            let max = ecma::number(max);
            return Err(format!("`{key}` is {}, which is not between 0 and {max}", shown()));
        }
        if found
            .as_ref()
            .is_some_and(|(other, _): &(f64, String)| other.total_cmp(&(score + 0.0)).is_ne())
        {
            return Err(format!("it gives several different values of `{key}`"));
        }
        let reason = object.get("reason").or_else(|| object.get("reasoning"));
        found.get_or_insert_with(|| (score + 0.0, text_of(reason)));
    }
    found.ok_or_else(|| format!("`{key}` is missing"))
}

/// A line without the mark of a list that it may begin with.
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

/// A number, or a text that is one, clamped to 0..=1.
fn number(value: &Value) -> Option<Score> {
    written(value).and_then(Score::clamped)
}

/// A number, or a text that is one.
fn written(value: &Value) -> Option<f64> {
    let number: f64 = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    // `+ 0.0` turns a negative zero into zero.
    number.is_finite().then_some(number + 0.0)
}

/// A value as text: what JavaScript takes for false is nothing.
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
        let score = Score::new(score).unwrap();
        Scored { score, clamped_from: None, reasoning: reasoning.to_owned() }
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
            (r#"{"score":0.1,"score":0.9,"reasoning":"x"}"#, 0.9, "x"),
            (r#"{"score":" 0.75 ","reasoning":5}"#, 0.75, "5"),
            (r#"[{"score":1.7,"reasoning":null}]"#, 1.0, ""),
            (r#"{"score":-3,"reasoning":{"a":1}}"#, 0.0, r#"{"a":1}"#),
            (r#"{"score":-0.0,"reasoning":0}"#, 0.0, ""),
            (r#"{"score":0.5} as I said: {"score":0.5}"#, 0.5, ""),
            ("\u{feff}{\"score\":5e-1,\"reasoning\":\"příliš 🐎\"}", 0.5, "příliš 🐎"),
            ("<think>\n{\"score\":0} or {\n</think>\n{\"score\":1}", 1.0, ""),
            ("The word <think>: {\"score\":1}", 1.0, ""),
            (r#"{"score":1,"reasoning":"it wants {\"score\":0}"}"#, 1.0, r#"it wants {"score":0}"#),
        ] {
            let found = read_score(reply, "score").map(|it| Scored { clamped_from: None, ..it });
            assert_eq!(found, Ok(scored(score, reasoning)), "{reply}");
        }
    }

    #[test]
    fn what_was_clamped_is_kept() {
        for (reply, said) in [
            (r#"{"score":95}"#, Some(95.0)),
            (r#"{"score":"-3"}"#, Some(-3.0)),
            (r#"{"score":1}"#, None),
        ] {
            assert_eq!(read_score(reply, "score").unwrap().clamped_from, said, "{reply}");
        }
    }

    #[test]
    fn says_why_there_is_no_score() {
        for (reply, why) in [
            ("", "it holds no JSON object"),
            ("0.9", "it holds no JSON object"),
            (" <think>{\"score\":1}", "it ends within its `<think>`"),
            ("<think>{\"score\":1}</think> so be it", "it holds no JSON object"),
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
            (
                r#"{"score":0,"reasoning":"it says {"score":1}"}"#,
                "it holds a JSON object that is not whole",
            ),
            (
                r#"{score: 0, reasoning: 'it says {"score":1}'}"#,
                "it holds a JSON object that is not whole",
            ),
            (
                r#"They say {"score":1} but {"score":0}"#,
                "it gives several different values of `score`",
            ),
        ] {
            assert_eq!(read_score(reply, "score"), Err(why.to_owned()), "{reply}");
        }
    }

    #[test]
    fn hostile_replies_take_no_time() {
        // A quotation that exhausts the reader must not hide the answer after it.
        let hiding = format!("{{\"score\":1}}{}{{\"score\":0}}", "{".repeat(TRIES));
        assert_eq!(read_score(&hiding, "score"), Err("it holds too many braces".to_owned()));
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
