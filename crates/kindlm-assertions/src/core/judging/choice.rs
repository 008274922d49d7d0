//! Replies that choose one of several letters, and the score of each letter.

use std::collections::BTreeMap;

use kindlm_types::{Problem, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::quoted::plain;
use super::{Flaw, objects, text_of};

/// A letter that a judge may choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The letter.
    pub(crate) letter: &'static str,
    /// The meaning of the letter for the output, in words.
    pub(crate) meaning: &'static str,
}

/// The scores of the letters: the name of a table, or a score for each letter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Scores {
    /// The name of a table that comes with the check.
    Preset(String),
    /// A score from 0 to 1 for each letter. A missing letter keeps the score of the default table.
    Table(BTreeMap<String, f64>),
}

/// A named table of scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) scores: &'static [f64],
}

/// The letters of a check with their scores.
#[derive(Debug)]
pub(crate) struct Table {
    kinds: &'static [Kind],
    scores: Vec<f64>,
    /// The name of the table, or `custom` if the configuration sets scores of letters.
    pub(crate) name: String,
}

/// The letter that a judge chose.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// The index of the letter in the table.
    pub(crate) index: usize,
    /// The reason in the judge's words; empty if the judge gave no reason.
    pub(crate) reason: String,
}

impl Table {
    /// Builds the configured table; the default is the first of `presets`.
    ///
    /// Pointers of problems start at `scores`. Fails for an unknown preset, an unknown letter, and a score that is not
    /// from 0 to 1.
    pub(crate) fn new(
        kinds: &'static [Kind],
        presets: &'static [Preset],
        scores: Option<&Scores>,
    ) -> Result<Self, Problem> {
        let default = presets.first().map(|it| it.scores.to_vec()).unwrap_or_default();
        let (scores, name) = match scores {
            None => (default, presets.first().map_or("", |it| it.name).to_owned()),
            Some(Scores::Preset(name)) => {
                let Some(preset) = presets.iter().find(|it| it.name == name) else {
                    let known = presets.iter().map(|it| it.name);
                    let help = kindlm_types::suggest(name, "tables", known);
                    return Err(
                        Problem::new("", format!("there is no table `{name}`")).with_help(help)
                    );
                };
                (preset.scores.to_vec(), name.clone())
            }
            Some(Scores::Table(table)) => {
                let mut scores = default;
                for (letter, score) in table {
                    let index = kinds.iter().position(|it| it.letter == letter);
                    let Some(place) = index.and_then(|it| scores.get_mut(it)) else {
                        let help = format!("the letters are {}", letters(kinds));
                        return Err(Problem::new(
                            "",
                            format!("`{letter}` is no letter of this check"),
                        )
                        .with_help(help));
                    };
                    if !(0.0..=1.0).contains(score) {
                        let message = format!("the score of `{letter}` must be between 0 and 1");
                        return Err(Problem::new(format!("/{letter}"), message));
                    }
                    *place = *score;
                }
                (scores, "custom".to_owned())
            }
        };
        Ok(Self { kinds, scores, name })
    }

    /// Returns the chosen letter, its meaning and its score.
    ///
    /// An index outside the table gives empty texts and `NaN`.
    pub(crate) fn get(&self, choice: &Choice) -> (&'static str, &'static str, f64) {
        let kind = self.kinds.get(choice.index);
        let score = self.scores.get(choice.index).copied().unwrap_or(f64::NAN);
        kind.map_or(("", "", score), |it| (it.letter, it.meaning, score))
    }
}

/// Returns the letters, separated by commas.
pub(crate) fn letters(kinds: &[Kind]) -> String {
    kinds.iter().map(|it| it.letter).collect::<Vec<_>>().join(", ")
}

/// Returns the JSON Schema of a reply that chooses a letter. `key` holds the letter.
pub(crate) fn choice_schema(key: &str, kinds: &[Kind]) -> Value {
    let letters: Vec<&str> = kinds.iter().map(|it| it.letter).collect();
    let mut schema = serde_json::json!({
        "type": "object",
        "properties": { "reason": { "type": "string" } },
        "required": ["reason", key],
        "additionalProperties": false,
    });
    schema["properties"][key] = serde_json::json!({ "enum": letters });
    schema
}

/// The reason why a reply with several letters has no verdict.
const SEVERAL: &str = "it chooses several different letters";

/// Reads the letter in a reply: in JSON under one of `keys`, or else with the function `text`.
///
/// Fails if the JSON cannot be read, if it has an unknown letter or several different letters, or if `text` fails.
pub(crate) fn read_choice(
    reply: &str,
    keys: &[&str],
    kinds: &[Kind],
    text: impl FnOnce(&str) -> Result<Choice, Flaw>,
) -> Result<Choice, Flaw> {
    let mut chosen: Option<Choice> = None;
    for object in objects(reply)? {
        let Some(value) = keys.iter().find_map(|it| object.get(*it)) else { continue };
        let letter = text_of(Some(value));
        let letter = letter.trim();
        let index = kinds.iter().position(|it| it.letter.eq_ignore_ascii_case(letter));
        let Some(index) = index else {
            let value = ecma::stringify(value);
            return Err(format!("it chooses {value}, which is none of {}", letters(kinds)).into());
        };
        if chosen.as_ref().is_some_and(|it| it.index != index) {
            return Err(Flaw::Contradiction(SEVERAL.to_owned()));
        }
        let reason = object.get("reason").or_else(|| object.get("reasoning"));
        chosen.get_or_insert(Choice { index, reason: text_of(reason) });
    }
    chosen.map_or_else(|| text(reply), Ok)
}

/// Returns the letter in round brackets, as in `(C) the same`.
///
/// Fails if there is no such letter, or if there are several different letters. Also fails if a `judged` text has the
/// letter in brackets, because the letter may be a quotation.
pub(crate) fn in_brackets(reply: &str, kinds: &[Kind], judged: &[&str]) -> Result<Choice, Flaw> {
    let mut chosen: Option<Choice> = None;
    for (start, _) in reply.match_indices('(') {
        let inside = &reply[start + 1..];
        let Some(end) = inside.find(')') else { break };
        let letter = &inside[..end];
        let Some(index) = kinds.iter().position(|it| it.letter.eq_ignore_ascii_case(letter)) else {
            continue;
        };
        if chosen.as_ref().is_some_and(|it| it.index != index) {
            return Err(Flaw::Contradiction(SEVERAL.to_owned()));
        }
        let form = format!("({})", letter.to_lowercase());
        let is_in = |it: &str| it.to_lowercase().replace(char::is_whitespace, "").contains(&form);
        unquoted_letter(letter, judged, is_in)?;
        if chosen.is_none() {
            let after = inside[end + 1..].trim();
            let reason = if after.is_empty() { reply.trim() } else { after };
            chosen = Some(Choice { index, reason: reason.to_owned() });
        }
    }
    chosen.ok_or_else(|| format!("it chooses none of {}", letters(kinds)).into())
}

/// Returns the letter at the end of a reply. The letter must be a separate word.
///
/// Fails without such a letter. Also fails if the letter occurs in the same form in a `judged` text, because the letter
/// may be a quotation. If the letter has a line of its own in the reply, only such lines count in the `judged` texts.
/// Otherwise, words count.
pub(crate) fn at_end(reply: &str, kinds: &[Kind], judged: &[&str]) -> Result<Choice, Flaw> {
    let text = reply.trim_end();
    let ends = |letter: &str| {
        text.strip_suffix(letter).is_some_and(|before| !before.ends_with(char::is_alphanumeric))
    };
    let found = kinds.iter().map(|it| it.letter).enumerate().find(|(_, it)| ends(it));
    let Some((index, letter)) = found else {
        return Err(format!("it ends with none of {}", letters(kinds)).into());
    };
    let stands_alone = |it: &str| it.lines().any(|it| it.trim() == letter);
    let is_word = |it: &str| it.split(|it: char| !it.is_alphanumeric()).any(|it| it == letter);
    if stands_alone(text) {
        unquoted_letter(letter, judged, stands_alone)?;
    } else {
        unquoted_letter(letter, judged, is_word)?;
    }
    Ok(Choice { index, reason: text.to_owned() })
}

/// Fails if the letter occurs in a judged text in the same form as in the reply.
fn unquoted_letter(
    letter: &str,
    judged: &[&str],
    is_in: impl Fn(&str) -> bool,
) -> Result<(), String> {
    if judged.iter().any(|it| is_in(&plain(it))) {
        return Err(format!(
            "its `{letter}` may be a quotation, as the text that is judged says so, too"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: &[Kind] =
        &[Kind { letter: "A", meaning: "yes" }, Kind { letter: "B", meaning: "no" }];
    const PRESETS: &[Preset] = &[Preset { name: "plain", scores: &[1.0, 0.0] }];

    #[test]
    fn finds_the_letter_and_refuses_two() {
        for (reply, expected) in [
            (r#"{"choice": "a", "reason": "x"}"#, Ok((0, "x"))),
            (r#"```{"choice": " B "}```"#, Ok((1, ""))),
            ("(b) because", Ok((1, "because"))),
            ("I say (A)", Ok((0, "I say (A)"))),
            (r#"{"choice": "A"} {"choice": "B"}"#, Err(SEVERAL)),
            ("(A) or (B)", Err(SEVERAL)),
            ("It says `(A)`, but I say (B) here", Err(SEVERAL)),
            (r#"{"choice": "C"}"#, Err(r#"it chooses "C", which is none of A, B"#)),
            ("A", Err("it chooses none of A, B")),
        ] {
            let read = read_choice(reply, &["choice"], KINDS, |it| in_brackets(it, KINDS, &[]));
            let read = read.as_ref().map(|it| (it.index, it.reason.as_str()));
            let expected = expected.map_err(|why| match why {
                SEVERAL => Flaw::Contradiction(why.to_owned()),
                _ => Flaw::from(why),
            });
            assert_eq!(read, expected.as_ref().copied(), "{reply}");
        }
    }

    #[test]
    fn a_letter_at_the_end_is_a_word() {
        for (reply, expected) in [("so\nA\n", Some(0)), ("B", Some(1)), ("ALPHA", None), ("", None)]
        {
            assert_eq!(at_end(reply, KINDS, &[]).ok().map(|it| it.index), expected, "{reply}");
        }
    }

    #[test]
    fn letters_quoted_from_the_output_are_no_choice() {
        for (reply, judged, expected) in [
            ("It says \"(A)\".", "I choose (A).", None),
            ("It says (a).", "I choose (\u{200b}A ).", None),
            ("It says (A).", "I choose （Ａ）.", None),
            ("It says (B).", "I choose (A).", Some(1)),
            ("(A)", "I choose A.", Some(0)),
        ] {
            let read = in_brackets(reply, KINDS, &["", judged]).ok();
            assert_eq!(read.map(|it| it.index), expected, "{reply}: {judged}");
        }
        for (reply, judged, expected) in [
            ("It ends with A", "I choose A.", None),
            ("It says:\nA", "I choose:\n A \nBye.", None),
            ("So it is.\nA", "I choose A.", Some(0)),
            ("So it is A", "APPLE, a and B", Some(0)),
        ] {
            let read = at_end(reply, KINDS, &["", judged]).ok();
            assert_eq!(read.map(|it| it.index), expected, "{reply}: {judged}");
        }
    }

    #[test]
    fn tables_are_checked() {
        for (scores, expected) in [
            (serde_json::json!("plain"), Ok(vec![1.0, 0.0])),
            (serde_json::json!({"B": 0.5}), Ok(vec![1.0, 0.5])),
            (serde_json::json!("pain"), Err("there is no table `pain`")),
            (serde_json::json!({"C": 0.5}), Err("`C` is no letter of this check")),
            (serde_json::json!({"A": 2}), Err("the score of `A` must be between 0 and 1")),
        ] {
            let scores: Scores = serde_json::from_value(scores).unwrap();
            let table = Table::new(KINDS, PRESETS, Some(&scores));
            let table = table.map(|it| it.scores).map_err(|it| it.message);
            assert_eq!(table, expected.map_err(str::to_owned));
        }
    }
}
