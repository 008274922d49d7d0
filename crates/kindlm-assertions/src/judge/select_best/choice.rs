//! The parser of a judge's choice among several outputs.

use std::borrow::Cow;

use kindlm_types::ecma;
use serde_json::{Value, json};

use crate::core::judging::{Flaw, objects, text_of};

/// The choice of a judge for one order of the outputs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    /// The index of the chosen output in the list of different outputs. The judge may have seen the list in another
    /// order.
    pub(super) best: usize,
    /// The reason in the judge's words; empty if the judge gave no reason.
    pub(super) reason: String,
}

/// Returns the JSON Schema of a reply about this number of outputs.
pub(super) fn schema(count: usize) -> Value {
    let numbers: Vec<usize> = (0..count).collect();
    json!({
        "type": "object",
        "properties": {
            "reason": { "type": "string" },
            "best": { "type": "integer", "enum": numbers },
        },
        "required": ["reason", "best"],
        "additionalProperties": false,
    })
}

/// Reads the chosen number in a reply about outputs that were shown in this order.
///
/// In JSON, the number is under `best`; in prose, it is the only number. The error describes the reply, such as
/// `it chooses no output`.
pub(super) fn parse_choice(reply: &str, order: &[usize]) -> Result<Choice, Flaw> {
    let mut chosen: Option<(usize, String)> = None;
    let objects = objects(reply)?;
    for object in &objects {
        let Some(value) = object.get("best") else { continue };
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let place = number.and_then(|it| place(it, order.len()));
        let place = place.ok_or_else(|| none_of(&ecma::stringify(value), order.len()))?;
        if chosen.as_ref().is_some_and(|(other, _)| *other != place) {
            let why = "it chooses several different outputs".to_owned();
            return Err(Flaw::Contradiction(why));
        }
        let reason = object.get("reason").or_else(|| object.get("reasoning"));
        chosen.get_or_insert((place, text_of(reason)));
    }
    let (place, reason) = match chosen {
        Some(chosen) => chosen,
        // A reply with JSON objects must have `best`; numbers in its prose are not a choice.
        None if !objects.is_empty() => return Err("`best` is missing".into()),
        None => (in_text(reply, order.len())?, String::new()),
    };
    match order.get(place) {
        Some(best) => Ok(Choice { best: *best, reason }),
        None => Err(none_of(&place.to_string(), order.len()).into()),
    }
}

fn place(number: f64, count: usize) -> Option<usize> {
    (0..count).find(|it| {
        u32::try_from(*it).is_ok_and(|it| f64::from(it).total_cmp(&(number + 0.0)).is_eq())
    })
}

fn none_of(what: &str, count: usize) -> String {
    format!("it chooses {what}, which is none of 0 to {}", count.saturating_sub(1))
}

/// The words that mark a reply as a choice.
///
/// A reply without such a word must end with the number. Otherwise, the number may be a part of another statement, such
/// as an error message.
const CHOOSING: [&str; 12] = [
    "answer", "best", "better", "choice", "choose", "chosen", "number", "output", "prefer",
    "select", "selected", "winner",
];

/// Reads the number in a reply without JSON.
///
/// Fails if the reply is not a choice, if it has several different numbers, or if no output has the number.
fn in_text(reply: &str, count: usize) -> Result<usize, Flaw> {
    let mut chosen: Option<&str> = None;
    let (mut chooses, mut is_last) = (false, false);
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, '-' | '.' | '_');
    let own = without_sentences_in_quotes(reply);
    for word in own.split(|it: char| !is_part(it)) {
        let word = word.trim_end_matches('.');
        if word.is_empty() {
            continue;
        }
        if !word.trim_start_matches('-').starts_with(|it: char| it.is_ascii_digit()) {
            is_last = false;
            chooses |= CHOOSING.iter().any(|it| it.eq_ignore_ascii_case(word));
            continue;
        }
        is_last = true;
        if chosen.is_some_and(|it| it != word) {
            return Err(Flaw::Contradiction("it names several different numbers".to_owned()));
        }
        chosen = Some(word);
    }
    let word = chosen.filter(|_| chooses || is_last).ok_or("it chooses no output")?;
    let number = word.parse::<f64>().ok().and_then(|it| place(it, count));
    number.ok_or_else(|| none_of(word, count).into())
}

/// Replaces sentences in quotation marks by blanks; all other text keeps its position.
///
/// A single word in quotation marks stays, because it is the judge's own.
fn without_sentences_in_quotes(text: &str) -> String {
    let line = |line: &str| {
        let marks = |it| matches!(it, '"' | '\u{201c}' | '\u{201d}' | '`');
        // An odd number of marks cannot be paired, so the quotations are unknown.
        if line.matches(marks).count() % 2 == 1 {
            return line.to_owned();
        }
        let pieces = line.split_inclusive(marks).enumerate();
        let blanked = pieces.map(|(index, it)| {
            let is_sentence = index % 2 == 1 && it.trim().contains(char::is_whitespace);
            if is_sentence { Cow::Owned(" ".repeat(it.len())) } else { Cow::Borrowed(it) }
        });
        blanked.collect::<String>()
    };
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_counts_in_the_order_that_was_shown() {
        for (reply, order, expected) in [
            (r#"{"best": 0, "reason": "x"}"#, [0, 1, 2], Ok((0, "x"))),
            (r#"{"best": 0, "reason": "x"}"#, [2, 1, 0], Ok((2, "x"))),
            (r#"{"best": "1"}"#, [1, 2, 0], Ok((2, ""))),
            ("The best is 2.", [0, 1, 2], Ok((2, ""))),
            ("2", [2, 1, 0], Ok((0, ""))),
            ("Output 1 says \"0 is best\", but it is \"1\"", [0, 1, 2], Ok((1, ""))),
            ("", [0, 1, 2], Err("it chooses no output")),
            ("3", [0, 1, 2], Err("it chooses 3, which is none of 0 to 2")),
            ("-1", [0, 1, 2], Err("it chooses -1, which is none of 0 to 2")),
            ("0.5", [0, 1, 2], Err("it chooses 0.5, which is none of 0 to 2")),
            ("1 is better than 2", [0, 1, 2], Err("it names several different numbers")),
            ("Output 2 is the better one.", [0, 1, 2], Ok((2, ""))),
            ("Error 1: overloaded", [0, 1, 2], Err("it chooses no output")),
            ("There is 1 problem: I cannot decide.", [0, 1, 2], Err("it chooses no output")),
            (r#"{"error_code": 1}"#, [0, 1, 2], Err("`best` is missing")),
            (r#"{"best": 7}"#, [0, 1, 2], Err("it chooses 7, which is none of 0 to 2")),
            (r#"{"best": true}"#, [0, 1, 2], Err("it chooses true, which is none of 0 to 2")),
            (r#"{"best": 0} {"best": 1}"#, [0, 1, 2], Err("it chooses several different outputs")),
        ] {
            let read = parse_choice(reply, &order).map_err(|flaw| flaw.to_string());
            let read = read.as_ref().map(|it| (it.best, it.reason.as_str()));
            assert_eq!(read, expected.map_err(str::to_owned).as_ref().copied(), "{reply}");
        }
    }
}
