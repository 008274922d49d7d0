//! Selects the alternative of `anyOf` or `oneOf` that was probably meant.

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use crate::words;

/// The errors of each branch of an `anyOf` or `oneOf`.
type Branches = [Vec<ValidationError<'static>>];

/// The diagnosis of a value that matches none of several alternatives.
pub(crate) enum Choice<'a> {
    /// A value that differs from all allowed values.
    Options {
        /// The JSON pointer to the value in the instance.
        pointer: String,
        /// The value.
        found: &'a Value,
        /// The allowed values.
        options: Vec<Value>,
    },
    /// The types that the alternatives allow. The value has another type.
    Types(Vec<JsonType>),
    /// The errors of the alternative that was most likely meant.
    Errors(&'a [ValidationError<'static>]),
}

/// Returns the errors of each alternative.
///
/// Returns `None` if the error is not about alternatives.
pub(crate) fn branches<'a>(error: &'a ValidationError<'_>) -> Option<&'a Branches> {
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => Some(context),
        _ => None,
    }
}

/// Selects the alternative that was probably meant.
///
/// The criteria, in this order, are the allowed values, the type, a distinguishing key, and the fewest errors.
pub(crate) fn choose<'a>(error: &'a ValidationError<'_>, branches: &'a Branches) -> Choice<'a> {
    let path = error.instance_path().as_str();
    let found = error.instance().as_ref();
    if !found.is_object() && !found.is_array() {
        let options = options_at(branches, path);
        if !options.is_empty() {
            return Choice::Options { pointer: path.to_owned(), found, options };
        }
    }
    let fitting: Vec<_> = branches.iter().filter(|it| wrong_type(it, path).is_none()).collect();
    if fitting.is_empty() {
        let types = branches.iter().filter_map(|it| wrong_type(it, path)).flatten().collect();
        return Choice::Types(types);
    }
    let meant: Vec<_> = fitting.iter().copied().filter(|it| tag(it, path).is_none()).collect();
    if meant.is_empty()
        && let Some(pointer) = fitting.first().and_then(|it| tag(it, path))
        && fitting.iter().all(|it| tag(it, path).as_ref() == Some(&pointer))
    {
        let key = pointer.rsplit('/').next().map(kindlm_types::pointer::key).unwrap_or_default();
        let options = options_at(branches, &pointer);
        return Choice::Options { pointer, found: found.get(&key).unwrap_or(found), options };
    }
    let candidates = if meant.is_empty() { &fitting } else { &meant };
    Choice::Errors(candidates.iter().min_by_key(|it| it.len()).map_or(&[], |it| it.as_slice()))
}

/// Describes a value that matches none of several alternatives. Returns `None` for other errors.
pub(crate) fn describe(error: &ValidationError<'_>) -> Option<String> {
    let path = error.instance_path().as_str();
    let below = |pointer: &str| match pointer.strip_prefix(path).unwrap_or_default() {
        "" => String::new(),
        below => format!("`{below}` "),
    };
    Some(match choose(error, branches(error)?) {
        Choice::Types(types) => {
            let found = words::found_name(error.instance());
            format!("expected {}, found {found}", words::type_names(types))
        }
        Choice::Options { pointer, found, options } => {
            format!("{}{}", below(&pointer), words::expected_one_of(&options, found))
        }
        Choice::Errors(_) => {
            let closest = closest(error)?;
            let what = describe(closest).unwrap_or_else(|| words::describe(closest));
            let place = below(closest.instance_path().as_str());
            format!("{} (closest: {place}{what})", words::describe(error))
        }
    })
}

/// Returns the first error of the alternative that was probably meant.
///
/// Follows nested alternatives to the innermost one. Returns `None` if no alternative was selected.
fn closest<'a>(error: &'a ValidationError<'_>) -> Option<&'a ValidationError<'static>> {
    match choose(error, branches(error)?) {
        Choice::Errors([first, ..]) => Some(closest(first).unwrap_or(first)),
        _ => None,
    }
}

/// Returns the types that a branch allows, if the value has none of these types.
fn wrong_type(branch: &[ValidationError<'static>], path: &str) -> Option<Vec<JsonType>> {
    branch.iter().find_map(|error| match error.kind() {
        Kind::Type { kind } if error.instance_path().as_str() == path => Some(words::types(kind)),
        _ => None,
    })
}

/// Returns the pointer of a direct member that violates a constant: `const`, or `enum` with one value.
///
/// Returns `None` without such a violation.
fn tag(branch: &[ValidationError<'static>], path: &str) -> Option<String> {
    branch.iter().find_map(|error| {
        let pointer = error.instance_path().as_str();
        let below = pointer.strip_prefix(path)?.strip_prefix('/')?;
        let constant = match error.kind() {
            Kind::Constant { .. } => true,
            Kind::Enum { options } => options.as_array().is_some_and(|it| it.len() == 1),
            _ => false,
        };
        (constant && !below.contains('/')).then(|| pointer.to_owned())
    })
}

/// Returns all values that any branch allows at this pointer.
fn options_at(branches: &Branches, path: &str) -> Vec<Value> {
    let mut options = Vec::new();
    for error in branches.iter().flatten().filter(|it| it.instance_path().as_str() == path) {
        match error.kind() {
            Kind::Constant { expected_value } => options.push(expected_value.as_ref().clone()),
            Kind::Enum { options: listed } => {
                options.extend(listed.as_array().into_iter().flatten().cloned());
            }
            _ => {
                if let Some(inner) = self::branches(error) {
                    options.extend(options_at(inner, path));
                }
            }
        }
    }
    options
}
