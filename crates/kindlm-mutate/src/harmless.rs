//! Harmless operators: their mutants are as good as the original. A check that fails on such a mutant is too strict.
//!
//! The operators on texts change only prose with at least two sentences, because a label or a single value may have to
//! be exact.

use kindlm_types::Execution;
use kindlm_wire::mutation::MutatedEvidence;

use crate::Original;
use crate::choice::Choice;
use crate::edit::with_output;
use crate::operator::Operator;
use crate::prose::{numbers, prose, replaced, sentences};

pub(crate) static HARMLESS: [Operator; 5] = [
    Operator::harmless(
        MutatedEvidence::Text,
        "spaces",
        "doubles a space between two sentences",
        "the check depends on white space: require single facts, or use `regex` with `\\s+`",
        spaces,
    ),
    Operator::harmless(
        MutatedEvidence::Text,
        "greeting",
        "changes or adds a greeting",
        "the check depends on the greeting: require single facts, not the whole answer",
        greeting,
    ),
    Operator::harmless(
        MutatedEvidence::Text,
        "sentence-order",
        "swaps two sentences without numbers",
        "the check depends on the order of sentences: require each fact on its own",
        sentence_order,
    ),
    Operator::harmless(
        MutatedEvidence::Text,
        "markdown",
        "makes a number bold",
        "the check depends on markdown: require the number itself, or remove the markup with `transform`",
        markdown,
    ),
    Operator::harmless(
        MutatedEvidence::Json,
        "json-layout",
        "writes the JSON with other white space",
        "the check depends on the layout of the JSON: use a schema (`output`), or `on` with a path",
        json_layout,
    ),
];

/// Returns the prose of the answer and its sentences, if there are at least two.
fn text_of<'a>(original: &Original<'a>) -> Option<(&'a str, Vec<std::ops::Range<usize>>)> {
    let text = prose(original.execution)?;
    let all = sentences(text);
    (all.len() > 1).then_some((text, all))
}

fn spaces(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let (text, all) = text_of(original)?;
    let ends: Vec<usize> = all.iter().take(all.len() - 1).map(|it| it.end).collect();
    let at = *choice.pick(&ends)?;
    Some(with_output(original.execution, &replaced(text, &(at..at), " "), None))
}

fn greeting(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    let (text, _) = text_of(original)?;
    let start = text.len() - text.trim_start().len();
    let known = [("Hello", "Hi"), ("Hi", "Hello"), ("Hey", "Hello"), ("Dear", "Hello")];
    let is_word = |word: &str| {
        let rest = text.get(start..)?.strip_prefix(word)?;
        (!rest.starts_with(char::is_alphanumeric)).then_some(start..start + word.len())
    };
    let found = known.iter().find_map(|(word, other)| Some((is_word(word)?, other)));
    let text = match found {
        Some((place, other)) => replaced(text, &place, other),
        None => replaced(text, &(start..start), "Hello! "),
    };
    Some(with_output(original.execution, &text, None))
}

fn sentence_order(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let (text, all) = text_of(original)?;
    // The first sentence is often a greeting, which stays in its place.
    let is_free = |it: &std::ops::Range<usize>| {
        text.get(it.clone()).is_some_and(|it| !it.contains(|c: char| c.is_numeric()))
    };
    let pairs: Vec<_> = all.iter().skip(1).zip(all.iter().skip(2)).collect();
    let pairs: Vec<_> = pairs.into_iter().filter(|(a, b)| is_free(a) && is_free(b)).collect();
    let (a, b) = *choice.pick(&pairs)?;
    let parts = (text.get(a.clone())?, text.get(a.end..b.start)?, text.get(b.clone())?);
    let swapped = format!("{}{}{}", parts.2, parts.1, parts.0);
    Some(with_output(original.execution, &replaced(text, &(a.start..b.end), &swapped), None))
}

fn markdown(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    let (text, _) = text_of(original)?;
    // In most texts, the longest number is an identifier. An identifier has no unit or currency that the markup would
    // separate from the number.
    let number = numbers(text).into_iter().rev().max_by_key(ExactSizeIterator::len)?;
    let is_marked = text.get(..number.start)?.ends_with(['*', '_', '`']);
    let bold = format!("**{}**", text.get(number.clone())?);
    (!is_marked).then(|| with_output(original.execution, &replaced(text, &number, &bold), None))
}

fn json_layout(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    let execution = original.execution;
    let value: serde_json::Value = serde_json::from_str(&execution.output).ok()?;
    if !value.is_object() && !value.is_array() {
        return None;
    }
    let compact = value.to_string();
    let output = if execution.output == compact { format!("{value:#}") } else { compact };
    Some(with_output(execution, &output, execution.output_json.clone()))
}
