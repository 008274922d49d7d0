//! The shape of a part of the configuration, and the violations of the shape.

use std::fmt;

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{Draft, ValidationError, Validator};
use kindlm_types::{Definitions, Problem, ProblemKind, nearest, pointer, schema_of};
use schemars::JsonSchema;
use serde_json::Value;

use crate::branch::{self, Choice};
use crate::walk;
use crate::{finish, order, words};

/// The maximum number of levels of nested alternatives and references that are examined.
const DEPTH: usize = 16;

/// A compiled schema for a part of the configuration.
///
/// [`problems`](Self::problems) finds all problems at once, in the order of the document:
///
/// - unknown and missing keys,
/// - wrong types,
/// - values that are not allowed or out of range.
///
/// ```
/// use kindlm_schema::Shape;
/// use serde_json::json;
///
/// #[derive(schemars::JsonSchema)]
/// #[serde(deny_unknown_fields, rename_all = "camelCase")]
/// struct Latency {
///     /// Longest time that passes, in milliseconds.
///     max_ms: f64,
/// }
///
/// let problems = Shape::from_type::<Latency>().problems(&json!({"maxMS": 5}));
/// assert_eq!(problems[0].message, "`maxMs` is required");
/// assert_eq!(problems[1].message, "unknown key `maxMS`");
/// assert_eq!(problems[1].help.as_deref(), Some("did you mean `maxMs`?"));
/// ```
pub struct Shape {
    schema: Value,
    compiled: Result<Validator, String>,
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shape").finish_non_exhaustive()
    }
}

impl Shape {
    /// Creates the shape of a type that serde deserializes.
    pub fn from_type<T: JsonSchema>() -> Self {
        Self::generate(schema_of::<T>)
    }

    /// Creates a shape from a function that makes a schema.
    pub fn generate(make: impl FnOnce(&mut Definitions) -> Value) -> Self {
        let mut definitions = Definitions::default();
        let schema = make(&mut definitions);
        Self::new(finish(schema, definitions))
    }

    /// Creates a shape from a JSON Schema of draft 2020-12, without changes.
    pub fn new(schema: Value) -> Self {
        let compiled = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .offline()
            .build(&schema)
            .map_err(|err| format!("at `{}`: {err}", err.instance_path()));
        Self { schema, compiled }
    }

    /// Returns the schema, for editors.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns all problems of a value, in the order of their places in the value.
    ///
    /// The result is empty if the value has this shape. If the schema itself is invalid, the result is one problem.
    pub fn problems(&self, value: &Value) -> Vec<Problem> {
        let validator = match &self.compiled {
            Ok(validator) if validator.is_valid(value) => return Vec::new(),
            Ok(validator) => validator,
            Err(message) => {
                let message = format!("the built-in schema for this cannot be used: {message}");
                return vec![
                    Problem::new("", message)
                        .with_help("this is a bug in KindLM; please report it"),
                ];
            }
        };
        let mut problems = Vec::new();
        let errors: Vec<_> = validator.iter_errors(value).collect();
        self.collect_all(&errors, DEPTH, &mut problems);
        order::sort(value, &mut problems, |it| &it.pointer);
        problems.dedup();
        problems
    }

    fn collect_all(
        &self,
        errors: &[ValidationError<'_>],
        depth: usize,
        problems: &mut Vec<Problem>,
    ) {
        for error in errors {
            if !is_implied(error, errors) {
                self.collect(error, depth, problems);
            }
        }
    }

    fn collect(&self, error: &ValidationError<'_>, depth: usize, problems: &mut Vec<Problem>) {
        let pointer = error.instance_path().as_str();
        match error.kind() {
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                let known = self.known_keys(error);
                problems.extend(unexpected.iter().map(|key| {
                    let known = known.iter().map(String::as_str);
                    Problem::unknown_key(format!("{pointer}/{}", pointer::segment(key)), key, known)
                }));
            }
            Kind::Required { property } => {
                problems.push(self.missing(error, property.as_str().unwrap_or_default()));
            }
            Kind::PropertyNames { error: inner } => {
                let key = inner.instance().as_str().unwrap_or_default();
                let message = format!("key `{key}`: {}", words::describe(inner));
                problems
                    .push(Problem::key(format!("{pointer}/{}", pointer::segment(key)), message));
            }
            Kind::Enum { options } => {
                let options = options.as_array().map_or(&[][..], Vec::as_slice);
                problems.push(self.none_of(error, pointer, error.instance(), options));
            }
            _ => match branch::branches(error) {
                Some(branches) if depth > 0 => self.choose(error, branches, depth, problems),
                _ => problems.push(self.described(error, words::describe(error))),
            },
        }
    }

    fn choose(
        &self,
        error: &ValidationError<'_>,
        branches: &[Vec<ValidationError<'static>>],
        depth: usize,
        problems: &mut Vec<Problem>,
    ) {
        match branch::choose(error, branches) {
            Choice::Options { pointer, found, options } => {
                problems.push(self.none_of(error, &pointer, found, &options));
            }
            Choice::Types(types) => {
                let found = words::found_name(error.instance());
                let message =
                    format!("expected {}, found {found}", words::type_names(types.clone()));
                let fix = words::fix_of_type(&types, error);
                let problem = self.described(error, message);
                problems.push(match fix {
                    Some(fix) => problem.with_help(fix),
                    None => problem,
                });
            }
            Choice::Errors([]) => {
                problems.push(self.described(error, words::describe(error)));
            }
            Choice::Errors(errors) => self.collect_all(errors, depth - 1, problems),
        }
    }

    fn described(&self, error: &ValidationError<'_>, message: String) -> Problem {
        let mut problem = Problem::new(error.instance_path().as_str(), message);
        problem.help = words::fix(error)
            .or_else(|| self.object_help(error))
            .or_else(|| self.description(&steps(error)));
        problem
    }

    /// Returns help with the required keys if a scalar is written in place of an object.
    ///
    /// The required keys help more than the description of the object. Returns `None` for other errors, and if no key
    /// is required.
    fn object_help(&self, error: &ValidationError<'_>) -> Option<String> {
        let Kind::Type { kind } = error.kind() else { return None };
        let is_scalar = !error.instance().is_object() && !error.instance().is_array();
        if !is_scalar || words::types(kind) != [jsonschema::JsonType::Object] {
            return None;
        }
        let mut path = steps(error);
        path.pop();
        let schema = walk::at(&self.schema, &path)?;
        let schema = walk::target(&self.schema, schema).unwrap_or(schema);
        let required = schema.get("required").or_else(|| schema.pointer("/then/required"));
        let required = required.and_then(Value::as_array)?;
        let keys: Vec<String> =
            required.iter().filter_map(Value::as_str).map(|it| format!("{it}: …")).collect();
        let whole = format!("write it as an object: `{{ {} }}`", keys.join(", "));
        (!keys.is_empty() && !path.is_empty()).then_some(whole)
    }

    fn none_of(
        &self,
        error: &ValidationError<'_>,
        pointer: &str,
        found: &Value,
        options: &[Value],
    ) -> Problem {
        let mut problem = Problem::new(pointer, words::expected_one_of(options, found));
        let near =
            found.as_str().and_then(|it| nearest(it, options.iter().filter_map(Value::as_str)));
        problem.help = match near {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None => self.description(&steps(error)),
        };
        problem
    }

    fn missing(&self, error: &ValidationError<'_>, key: &str) -> Problem {
        let pointer = error.instance_path().as_str();
        let place = readable(pointer).map(|it| format!(" in `{it}`")).unwrap_or_default();
        let kind = ProblemKind::MissingKey { key: key.to_owned() };
        let mut problem =
            Problem::new(pointer, format!("`{key}` is required{place}")).with_kind(kind);
        let mut object = steps(error);
        object.pop();
        let description = |object: &[String]| {
            let mut path = object.to_vec();
            path.extend(["properties".to_owned(), key.to_owned(), String::new()]);
            self.description(&path)
        };
        let description = description(&object).or_else(|| match object.as_slice() {
            // `then` lists conditionally required keys. The schema around `then` describes them.
            [outer @ .., last] if last == "then" => description(outer),
            _ => None,
        });
        problem.help = description.map(|it| format!("`{key}`: {it}"));
        problem
    }

    /// Returns the known keys of the object in which an unknown key was found.
    fn known_keys(&self, error: &ValidationError<'_>) -> Vec<String> {
        let mut path = steps(error);
        path.pop();
        let mut known = Vec::new();
        if let Some(schema) = walk::at(&self.schema, &path) {
            self.gather(schema, DEPTH, &mut known);
        }
        known
    }

    fn gather(&self, schema: &Value, depth: usize, known: &mut Vec<String>) {
        if depth == 0 {
            return;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for key in properties.into_iter().flat_map(|it| it.keys()) {
            if !known.contains(key) {
                known.push(key.clone());
            }
        }
        if let Some(target) = walk::target(&self.schema, schema) {
            self.gather(target, depth - 1, known);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for part in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                self.gather(part, depth - 1, known);
            }
        }
    }

    /// Returns the first paragraph of the description for a violated keyword.
    ///
    /// `path` is the evaluation path to the keyword. A description next to `$ref`, `anyOf`, `oneOf` or `allOf` is about
    /// the config key. A description in the referenced schema or in an alternative is about the type in general. So the
    /// outermost description is used. Returns `None` without a description.
    fn description(&self, path: &[String]) -> Option<String> {
        let mut path = &path[..path.len().checked_sub(1)?];
        let mut found = None;
        loop {
            let text = walk::at(&self.schema, path).and_then(|it| it.get("description")?.as_str());
            found = text.or(found);
            path = match path {
                [outer @ .., last] if last == "$ref" => outer,
                [outer @ .., keyword, _]
                    if ["anyOf", "oneOf", "allOf"].contains(&keyword.as_str()) =>
                {
                    outer
                }
                [_, ..] if found.is_none() => return self.behind_reference(path),
                _ => break,
            };
        }
        found.map(first_paragraph)
    }

    /// Returns the first paragraph of the description behind a `$ref` at this path.
    ///
    /// Returns `None` without a `$ref` or without a description.
    fn behind_reference(&self, path: &[String]) -> Option<String> {
        let target = walk::target(&self.schema, walk::at(&self.schema, path)?)?;
        target.get("description")?.as_str().map(first_paragraph)
    }
}

/// Returns true if a type error is redundant, because the same value is also reported as not allowed.
fn is_implied(error: &ValidationError<'_>, errors: &[ValidationError<'_>]) -> bool {
    matches!(error.kind(), Kind::Type { .. })
        && errors.iter().any(|it| {
            matches!(it.kind(), Kind::Enum { .. } | Kind::Constant { .. })
                && it.instance_path() == error.instance_path()
        })
}

/// Returns the parts of an error's path through the schema, including references.
fn steps(error: &ValidationError<'_>) -> Vec<String> {
    error.evaluation_path().as_str().split('/').skip(1).map(pointer::key).collect()
}

/// Returns the first paragraph of a doc comment, on one line without a full stop.
fn first_paragraph(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    line.strip_suffix('.').map(str::to_owned).unwrap_or(line)
}

/// Converts a pointer to a readable path: `/tests/0/vars` becomes `tests[0].vars`.
///
/// Returns `None` for the empty pointer.
fn readable(pointer: &str) -> Option<String> {
    let mut text = String::new();
    for part in pointer.split('/').skip(1) {
        if part.bytes().all(|it| it.is_ascii_digit()) && !part.is_empty() {
            text.extend(["[", part, "]"]);
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&pointer::key(part));
        }
    }
    (!text.is_empty()).then_some(text)
}
