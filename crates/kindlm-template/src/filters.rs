//! Filters and tests of nunjucks that the engine lacks or implements differently.

use kindlm_types::ecma;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, Error, State, Value as Jinja};

use crate::bounded;
use crate::rendering::made;
use crate::text::{not_too_long, text};

/// The names of the added filters.
pub(crate) const ADDED: [&str; 9] = [
    "center",
    "dump",
    "forceescape",
    "load",
    "nl2br",
    "striptags",
    "truncate",
    "urlencode",
    "wordcount",
];

/// The added filters that themselves count the size of their results.
///
/// `map` collects the results of all items before its own result is counted, so large results must count earlier.
const COUNTED: [&str; 3] = ["center", "dump", "truncate"];

/// Returns true if the filter itself counts the size of its results. The results must not be counted again.
pub(crate) fn counts(name: &str) -> bool {
    COUNTED.contains(&name) || bounded::counts(name)
}

/// The names of the Jinja tests (as in `{% if x is null %}`) that this crate adds.
pub(crate) const ADDED_TESTS: [&str; 3] = ["falsy", "null", "truthy"];

pub(crate) fn add_to(engine: &mut Environment<'static>) {
    engine.add_filter("dump", |state: &mut State<'_, '_>, value: Jinja, indent: Option<usize>| {
        let value = serde_json::to_value(&value).unwrap_or_default();
        made(state, ecma::stringify_indented(&value, indent.unwrap_or(0)).into())
    });
    // promptfoo adds this filter to nunjucks.
    engine.add_filter("load", |value: Jinja| {
        serde_json::from_str::<serde_json::Value>(&text(&value))
            .map(|it| Jinja::from(Serde(it)))
            .map_err(|err| {
                let message = format!("`load` got a text that is not JSON: {err}");
                Error::new(minijinja::ErrorKind::InvalidOperation, message)
            })
    });
    engine.add_filter("wordcount", |value: Jinja| {
        text(&value)
            .split(|it: char| !it.is_alphanumeric() && it != '_')
            .filter(|it| !it.is_empty())
            .count()
    });
    engine.add_filter(
        "truncate",
        |state: &mut State<'_, '_>,
         value: Jinja,
         length: Option<usize>,
         cuts: Option<bool>,
         end: Option<String>| {
            let (length, cuts) = (length.unwrap_or(255), cuts.unwrap_or(false));
            made(state, truncate(&text(&value), length, cuts, end.as_deref()).into())
        },
    );
    engine.add_filter("center", |state: &mut State<'_, '_>, value: Jinja, width: Option<usize>| {
        let value = text(&value);
        let spaces = width.unwrap_or(80).saturating_sub(value.chars().count());
        not_too_long(spaces)?;
        let (before, behind) = (" ".repeat(spaces / 2), " ".repeat(spaces - spaces / 2));
        made(state, format!("{before}{value}{behind}").into())
    });
    engine.add_filter("striptags", |value: Jinja| striptags(&text(&value)));
    engine.add_filter("nl2br", |value: Jinja| text(&value).replace('\n', "<br />\n"));
    engine.add_filter("forceescape", |value: Jinja| {
        let escapes =
            [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
        escapes.iter().fold(text(&value), |text, (from, to)| text.replace(from, to))
    });
    engine.add_filter("urlencode", |value: Jinja| ecma::encode_uri_component(&text(&value)));
    engine.add_test("divisibleby", divisible_by);
    engine.add_test("truthy", |value: Jinja| value.is_true());
    engine.add_test("falsy", |value: Jinja| !value.is_true());
    engine.add_test("null", |value: Jinja| value.is_none());
}

/// Returns true if a number is divisible by another number, and false for the divisor zero.
///
/// The engine's own test panics for this divisor.
fn divisible_by(value: Jinja, by: Jinja) -> bool {
    if let (Ok(value), Ok(by)) = (i128::try_from(value.clone()), i128::try_from(by.clone())) {
        // `checked_rem` only overflows for a divisor of -1, which divides every number.
        return by != 0 && value.checked_rem(by).unwrap_or(0) == 0;
    }
    let number = |it| f64::try_from(it).ok();
    number(value).zip(number(by)).is_some_and(|(value, by)| value % by == 0.0)
}

/// Returns the `length` as in JavaScript: the UTF-16 units of a text, or the items of a list.
///
/// Returns undefined for other values.
pub(crate) fn length(value: &Jinja) -> Jinja {
    match value.kind() {
        ValueKind::String => Jinja::from(value.as_str().unwrap_or_default().encode_utf16().count()),
        ValueKind::Seq | ValueKind::Iterable => value.len().map(Jinja::from).unwrap_or_default(),
        _ => Jinja::UNDEFINED,
    }
}

/// Cuts a text that has more than `length` characters, and appends `end` or `...`.
///
/// Unless `cuts` is true, the cut is at the last space, so that the last word is complete.
fn truncate(value: &str, length: usize, cuts: bool, end: Option<&str>) -> String {
    let Some((at, _)) = value.char_indices().nth(length) else { return value.to_owned() };
    let kept = &value[..at];
    let kept = match kept.rfind(' ') {
        // If a space follows, the last word is complete, so it stays.
        Some(space) if !cuts && !value[at..].starts_with(' ') => &kept[..space],
        _ => kept,
    };
    format!("{kept}{}", end.unwrap_or("..."))
}

/// Removes HTML tags from a text, and replaces white space by single spaces.
fn striptags(html: &str) -> String {
    let mut plain = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        plain.push_str(before);
        let begins = tag.starts_with(|it: char| it.is_ascii_alphabetic() || it == '/' || it == '!');
        match tag.split_once('>') {
            Some((_, behind)) if begins => rest = behind,
            _ => {
                plain.push('<');
                rest = tag;
            }
        }
    }
    plain.push_str(rest);
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}
