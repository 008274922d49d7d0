//! Descriptions of violations, for users who did not write the schema.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError};
use kindlm_types::ecma;
use serde_json::Value;

/// The maximum length of a quoted value, in characters. Longer values are shortened.
const PREVIEW: usize = 60;

/// The maximum number of listed values in an error message.
const LISTED: usize = 12;

/// The maximum number of list items that are searched for duplicates.
pub(crate) const SEARCHED: usize = 500;

/// Describes a violation, as a lower-case fragment.
pub(crate) fn describe(error: &ValidationError<'_>) -> String {
    let found = error.instance().as_ref();
    match error.kind() {
        Kind::Type { kind } => {
            format!("expected {}, found {}", types_of(kind), found_type(kind, found))
        }
        Kind::Enum { options } => {
            expected_one_of(options.as_array().map_or(&[], Vec::as_slice), found)
        }
        Kind::Constant { expected_value } => {
            format!("expected {}, found {}", quote(expected_value), quote(found))
        }
        Kind::Required { property } => format!("{} is required", quote(property)),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let noun = if unexpected.len() == 1 { "property" } else { "properties" };
            format!("unknown {noun} {}", list(unexpected.iter().map(|it| format!("`{it}`"))))
        }
        Kind::PropertyNames { error } => {
            format!("key {}: {}", quote(error.instance()), describe(error))
        }
        Kind::Pattern { pattern } => {
            format!("must match the pattern `{pattern}`, found {}", quote(found))
        }
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "could not be checked against a pattern: the search takes too many steps".to_owned()
        }
        Kind::Format { format } => format!("must be a valid {format}, found {}", quote(found)),
        Kind::Not { .. } => "matches the schema in `not`, which must not match".to_owned(),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        Kind::UniqueItems => unique(found),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            format!("matches none of the {} allowed forms", context.len())
        }
        Kind::OneOfMultipleValid { .. } => "matches more than one of the allowed forms".to_owned(),
        other => limit(other, found).unwrap_or_else(|| error.to_string()),
    }
}

/// Returns help with the correction of a value that is almost valid.
///
/// Returns `None` if no correction is known.
pub(crate) fn fix(error: &ValidationError<'_>) -> Option<String> {
    match error.kind() {
        Kind::Type { kind } => fix_of_type(&types(kind), error),
        Kind::Maximum { limit } if limit.as_f64() == Some(1.0) => {
            let percent = error.instance().as_f64().filter(|it| (10.0..=100.0).contains(it))?;
            let share = percent / 100.0;
            Some(format!("it is a share from 0 to 1: write `{}`", ecma::number(share)))
        }
        _ => None,
    }
}

/// Returns help with the correction of a value that has a wrong type.
///
/// Returns `None` if no correction is known. `types` are the allowed types.
pub(crate) fn fix_of_type(types: &[JsonType], error: &ValidationError<'_>) -> Option<String> {
    let found = error.instance();
    let wants = |it: JsonType| types.contains(&it);
    match &**found {
        Value::String(text) if wants(JsonType::Number) || wants(JsonType::Integer) => {
            let number = number_in(text, error.instance_path().as_str())?;
            Some(format!("write it as a number: `{}`", ecma::number(number)))
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_)
            if wants(JsonType::Array) && !wants(JsonType::String) =>
        {
            let item = yaml(found).filter(|it| it.chars().count() <= PREVIEW);
            Some(match item {
                Some(item) => format!("write it as a list: `[{item}]`"),
                None => "write it as a list: a `- ` before it".to_owned(),
            })
        }
        value @ (Value::Number(_) | Value::Bool(_)) if wants(JsonType::String) => {
            Some(format!("put it in quotes: `\"{value}\"`"))
        }
        Value::String(text) if wants(JsonType::Boolean) => {
            let word = match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => "true",
                "false" | "no" | "off" => "false",
                _ => return None,
            };
            Some(format!("write `{word}` without quotes"))
        }
        _ => None,
    }
}

/// Parses the number that a text probably means, or returns `None`.
///
/// The text can be a number or a percentage. If the key ends in `Ms`, it can also be a duration, which is converted to
/// milliseconds.
fn number_in(text: &str, pointer: &str) -> Option<f64> {
    let text = text.trim();
    let times = |unit: &str, factor: f64| {
        let number: f64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        Some(number * factor)
    };
    let is_time = pointer.ends_with("Ms");
    let time = || times("ms", 1.0).or_else(|| times("s", 1_000.0)).or_else(|| times("m", 60_000.0));
    let number = text.parse().ok().or_else(|| times("%", 0.01));
    number.or_else(|| time().filter(|_| is_time)).filter(|it: &f64| it.is_finite())
}

/// Formats a scalar as an item of a YAML list. A text that YAML would read as another value gets quotes.
fn yaml(value: &Value) -> Option<String> {
    let Value::String(text) = value else { return Some(ecma::stringify(value)) };
    let is_plain = text.starts_with(char::is_alphabetic)
        && text.chars().all(|c| c.is_alphanumeric() || " ._-/".contains(c))
        && !text.ends_with(' ');
    let is_text = !["false", "null", "true"].contains(&text.to_ascii_lowercase().as_str());
    Some(if is_plain && is_text { text.clone() } else { serde_json::to_string(text).ok()? })
}

/// Describes a violation of a limit on a number, a size, or the items of a list. Returns `None` for other violations.
fn limit(kind: &Kind, found: &Value) -> Option<String> {
    let value = ecma::stringify(found);
    Some(match kind {
        Kind::Minimum { limit } => {
            format!("must be at least {}, found {value}", ecma::stringify(limit))
        }
        Kind::Maximum { limit } => {
            format!("must be at most {}, found {value}", ecma::stringify(limit))
        }
        Kind::ExclusiveMinimum { limit } => {
            format!("must be greater than {}, found {value}", ecma::stringify(limit))
        }
        Kind::ExclusiveMaximum { limit } => {
            format!("must be less than {}, found {value}", ecma::stringify(limit))
        }
        Kind::MultipleOf { multiple_of } => {
            format!("must be a multiple of {}, found {value}", ecma::number(*multiple_of))
        }
        Kind::MinLength { limit: 1 }
        | Kind::MinItems { limit: 1 }
        | Kind::MinProperties { limit: 1 } => "must not be empty".to_owned(),
        Kind::MinLength { limit } => sized("at least", *limit, "character", found),
        Kind::MaxLength { limit } => sized("at most", *limit, "character", found),
        Kind::MinItems { limit } => sized("at least", *limit, "item", found),
        Kind::MaxItems { limit } => sized("at most", *limit, "item", found),
        Kind::AdditionalItems { limit } => sized("at most", *limit as u64, "item", found),
        Kind::UnevaluatedItems { .. } => "has more items than allowed".to_owned(),
        Kind::MinProperties { limit } => sized("at least", *limit, "key", found),
        Kind::MaxProperties { limit } => sized("at most", *limit, "key", found),
        Kind::Contains => "has no item of the required form".to_owned(),
        _ => return None,
    })
}

fn sized(bound: &str, limit: u64, noun: &str, found: &Value) -> String {
    let size = match found {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    let plural = if limit == 1 { "" } else { "s" };
    format!("must have {bound} {limit} {noun}{plural}, has {size}")
}

/// Returns the text `expected one of …, found …`.
pub(crate) fn expected_one_of(options: &[Value], found: &Value) -> String {
    match options {
        [only] => format!("expected {}, found {}", quote(only), quote(found)),
        _ => format!("expected one of {}, found {}", list(options.iter().map(quote)), quote(found)),
    }
}

/// Returns the names of the types with articles: `a string or a list`.
pub(crate) fn type_names(types: impl IntoIterator<Item = JsonType>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in types.into_iter().map(type_name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.as_slice() {
        [] => "nothing".to_owned(),
        [only] => (*only).to_owned(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

/// Returns the types that a `type` keyword allows.
pub(crate) fn types(kind: &TypeKind) -> Vec<JsonType> {
    match kind {
        TypeKind::Single(single) => vec![*single],
        TypeKind::Multiple(set) => set.iter().collect(),
    }
}

fn types_of(kind: &TypeKind) -> String {
    type_names(types(kind))
}

fn type_name(json: JsonType) -> &'static str {
    match json {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "a list",
        JsonType::Object => "an object",
    }
}

/// Returns the type of a value.
///
/// For a number where an integer was expected, returns the number in backticks instead.
fn found_type(kind: &TypeKind, found: &Value) -> String {
    if found.is_number() && types(kind).contains(&JsonType::Integer) {
        return quote(found);
    }
    found_name(found).to_owned()
}

/// Returns the type of a value, with an article.
pub(crate) fn found_name(found: &Value) -> &'static str {
    type_name(match found {
        Value::Null => JsonType::Null,
        Value::Bool(_) => JsonType::Boolean,
        Value::Number(_) => JsonType::Number,
        Value::String(_) => JsonType::String,
        Value::Array(_) => JsonType::Array,
        Value::Object(_) => JsonType::Object,
    })
}

/// Returns a value in backticks, shortened to 60 characters.
///
/// A text has no quotes, but an empty text is `""`. Other values are JSON.
pub(crate) fn quote(value: &Value) -> String {
    let text = match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        other => ecma::text(other),
    };
    match text.char_indices().nth(PREVIEW) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let total = items.len();
    let mut shown: Vec<String> = items.take(LISTED).collect();
    if total > LISTED {
        shown.push(format!("… ({} more)", total - LISTED));
    }
    shown.join(", ")
}

/// Describes the first pair of equal items among the first 500 items of a list.
fn unique(found: &Value) -> String {
    let items = found.as_array().map_or(&[][..], Vec::as_slice);
    let items = &items[..items.len().min(SEARCHED)];
    for (second, item) in items.iter().enumerate() {
        if let Some(first) = items[..second].iter().position(|it| it == item) {
            return format!("items {first} and {second} are equal: {}", quote(item));
        }
    }
    "must not have equal items".to_owned()
}
