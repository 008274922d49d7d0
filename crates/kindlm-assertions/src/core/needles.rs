//! The shared parts of the six checks that search for texts in the output.

use std::borrow::Cow;

use kindlm_types::{AssertionResult, CheckedText, Problem, ProblemKind, ResultEvidence, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value};

use crate::core::grade::{Grade, text};
use crate::core::result_evidence::{MOST, absent, found, occurrences, occurrences_in_any_case};
use crate::{Assertion, EntryOptions, Evidence, StaysValid, Traits};

/// One text to search for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum One {
    /// The text itself.
    Text(String),
    /// A number, which is searched for as JavaScript writes it.
    Number(Number),
}

/// Several texts to search for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Several {
    /// A list with one text per item.
    List(Vec<Value>),
    /// A comma-separated list. A text that contains a comma must be in double quotes.
    Separated(String),
}

/// The rule for several texts: one, any or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    One,
    Any,
    All,
}

/// A check that searches for texts in the output.
#[derive(Debug)]
pub(crate) struct Needles {
    id: &'static str,
    label: String,
    texts: Vec<String>,
    wanted: Wanted,
    ignore_case: bool,
    negate: bool,
}

impl Needles {
    /// Builds a check for a single text. An empty text is a problem.
    pub(crate) fn one(
        id: &'static str,
        value: One,
        ignore_case: bool,
        own: EntryOptions,
    ) -> Result<Self, Vec<Problem>> {
        let needle = match value {
            One::Text(text) => text,
            One::Number(number) => ecma::stringify(&Value::Number(number)),
        };
        if needle.is_empty() {
            return Err(vec![nothing_to_look_for("/value", "the text to look for is empty")]);
        }
        let label = own.label(&format!("Contains: {}", quoted(&needle)));
        Ok(Self {
            id,
            label,
            texts: vec![needle],
            wanted: Wanted::One,
            ignore_case,
            negate: own.negate,
        })
    }

    /// Builds a check for several texts, of which one must occur. An empty comma-separated list and a quote that is not
    /// closed are problems.
    pub(crate) fn any(
        id: &'static str,
        value: Several,
        ignore_case: bool,
        own: EntryOptions,
    ) -> Result<Self, Vec<Problem>> {
        let (texts, label) = (several(value)?, own.label("Contains any"));
        Ok(Self { id, label, texts, wanted: Wanted::Any, ignore_case, negate: own.negate })
    }

    /// Builds a check for several texts, all of which must occur. An empty comma-separated list and a quote that is not
    /// closed are problems.
    pub(crate) fn all(
        id: &'static str,
        value: Several,
        ignore_case: bool,
        own: EntryOptions,
    ) -> Result<Self, Vec<Problem>> {
        let (texts, label) = (several(value)?, own.label("Contains all"));
        Ok(Self { id, label, texts, wanted: Wanted::All, ignore_case, negate: own.negate })
    }

    fn fold<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.ignore_case { Cow::Owned(text.to_lowercase()) } else { Cow::Borrowed(text) }
    }

    fn grade(&self, output: &str) -> Grade {
        let output = self.fold(output);
        let missing: Vec<&str> = self
            .texts
            .iter()
            .filter(|it| !output.contains(self.fold(it).as_ref()))
            .map(String::as_str)
            .collect();
        let held = match self.wanted {
            Wanted::One | Wanted::All => missing.is_empty(),
            Wanted::Any => missing.len() < self.texts.len(),
        };
        let not = if self.negate { "not " } else { "" };
        let all = || self.texts.join(", ");
        Grade::from_pass(held != self.negate, || match self.wanted {
            Wanted::One => format!("Expected output to {not}contain \"{}\"", all()),
            Wanted::Any => format!("Expected output to {not}contain one of \"{}\"", all()),
            Wanted::All => {
                let missing = missing.join(", ");
                format!("Expected output to {not}contain all of [{}]. Missing: [{missing}]", all())
            }
        })
    }
}

impl Needles {
    /// Returns the places of the texts if the texts must not occur. Otherwise, returns the texts that do not occur.
    fn failure(&self, output: &str) -> ResultEvidence {
        let places = |text: &String| {
            let ranges = if self.ignore_case {
                occurrences_in_any_case(output, text)
            } else {
                occurrences(output, text).take(MOST).collect()
            };
            ranges.into_iter().map(|it| (it, text.clone())).collect::<Vec<_>>()
        };
        if self.negate {
            return found(CheckedText::Output, output, self.texts.iter().flat_map(places));
        }
        let folded = self.fold(output);
        let texts = self.texts.iter().filter(|it| !folded.contains(self.fold(it).as_ref()));
        absent(texts.cloned())
    }
}

impl Assertion for Needles {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            no_effect: {
                let empty = self.texts.iter().enumerate().filter(|(_, it)| it.is_empty());
                let mut problems: Vec<Problem> = empty
                    .map(|(at, _)| {
                        nothing_to_look_for(&format!("/value/{at}"), "this text is empty")
                    })
                    .collect();
                if self.texts.is_empty() {
                    problems.push(nothing_to_look_for("/value", EMPTY_LIST));
                }
                problems.into_iter().map(|it| it.with_kind(ProblemKind::NoEffect)).collect()
            },
            // A found text stays valid, whatever the missing part of the output contains. An absence does not.
            stays_valid: if self.negate { StaysValid::Failure } else { StaysValid::Pass },
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let output = &evidence.execution.output;
        let result = self.grade(output).result(self.id, &self.label);
        vec![result.with_failure_evidence(|| [self.failure(output)])]
    }
}

/// The highest number of characters of a text in a label.
const SHOWN: usize = 60;

/// Returns a text in quotes, cut after [`SHOWN`] characters.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("\"{}…\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}

const EMPTY_LIST: &str = "the list of texts to look for is empty";

fn nothing_to_look_for(at: &str, message: &str) -> Problem {
    Problem::new(at, message).with_help(
        "an empty text is in every output: write the text to look for, or remove the check",
    )
}

/// Returns a problem for each empty text in a list.
pub(crate) fn empty_texts(key: &str, texts: &[String]) -> Vec<Problem> {
    let empty = texts.iter().enumerate().filter(|(_, it)| it.is_empty());
    let problem =
        |at| nothing_to_look_for(&format!("/{key}/{at}"), "the text to look for is empty");
    empty.map(|(at, _)| problem(at)).collect()
}

fn several(value: Several) -> Result<Vec<String>, Vec<Problem>> {
    match value {
        Several::List(items) => Ok(items.iter().map(|it| text(it).into_owned()).collect()),
        Several::Separated(list) if list.is_empty() => {
            Err(vec![nothing_to_look_for("/value", EMPTY_LIST)])
        }
        Several::Separated(list) => split(&list).map_err(|message| {
            let help = "write a list, or double every quote that belongs to a text";
            vec![Problem::new("/value", message).with_help(help)]
        }),
    }
}

/// Splits a comma-separated line into trimmed, non-empty fields.
///
/// A field in double quotes can contain commas and spaces. In such a field, `""` and `\"` mean a quote, and `\\` means a
/// backslash. Fails if a quote is not closed.
fn split(list: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut rest = list.trim_start();
    while !rest.is_empty() {
        let (field, after) = if let Some(inside) = rest.strip_prefix('"') {
            quoted_field(inside)?
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            (rest[..end].trim_end().to_owned(), &rest[end..])
        };
        if !field.is_empty() {
            fields.push(field);
        }
        rest = after.strip_prefix(',').unwrap_or(after).trim_start();
    }
    Ok(fields)
}

/// Returns the field after an opening quote, and the remaining list, which starts at the comma.
///
/// Fails if the quote is not closed.
fn quoted_field(inside: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    let mut chars = inside.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|&(_, c)| c);
        match (c, next) {
            ('"', Some('"')) | ('\\', Some('"' | '\\')) => {
                field.extend(next);
                chars.next();
            }
            ('"', _) => {
                let after = &inside[at + 1..];
                let end = after.find(',').unwrap_or(after.len());
                field.push_str(after[..end].trim_end());
                return Ok((field, &after[end..]));
            }
            _ => field.push(c),
        }
    }
    Err("a text in double quotes is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_at_commas_outside_quotes() {
        for (list, expected) in [
            ("a, b", vec!["a", "b"]),
            (",", vec![]),
            (" a ,, b ,", vec!["a", "b"]),
            (r#""a, b", c"#, vec!["a, b", "c"]),
            (r#"" a ""#, vec![" a "]),
            (r#""say ""hi""", "x\"y", "a\\b", "a\n""#, vec!["say \"hi\"", "x\"y", r"a\b", r"a\n"]),
            (r#"5" pipe"#, vec![r#"5" pipe"#]),
            (r#""a" b, c"#, vec!["a b", "c"]),
        ] {
            assert_eq!(split(list).unwrap(), expected, "{list}");
        }
        assert!(split(r#""open"#).is_err());
        assert!(split(r#"a, "open\""#).is_err());
    }

    #[test]
    fn labels_show_the_beginning_of_long_texts() {
        assert_eq!(quoted("short"), "\"short\"");
        assert_eq!(quoted(&"ä".repeat(61)), format!("\"{}…\"", "ä".repeat(60)));
    }
}
