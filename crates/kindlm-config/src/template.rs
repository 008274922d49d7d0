//! Texts with `{{ variables }}`: prompts, turns and command lines.
//!
//! The language is the same as in `kindlm-template`. A text that only inserts variables is split into its parts once,
//! and not rendered for each test. Braces of other languages, such as `{{#each}}` or `{{.Name}}`, stay unchanged, so
//! prompts may contain JSON or Mustache. `{{env.NAME}}` is an environment variable. Inserted values are not rendered as
//! templates.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use kindlm_engine::Digest;
use kindlm_source::{Source, Span};
use kindlm_template::{Fault, Missing, Variables, each_template, environment, printed};
use kindlm_types::ecma;
use serde_json::{Map, Value};

use crate::shell::{self, Context};

/// A part of a plain template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Plain text, as a range of the template.
    Text(Range<usize>),
    /// A placeholder: its range including the braces, and its name.
    Placeholder(Range<usize>, String),
}

/// A parsed template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    text: String,
    parts: Vec<Part>,
    /// Text that looks like a placeholder.
    lookalikes: Vec<Lookalike>,
    /// Jinja tags such as `{% if x %}` in a plain template, where they are only text.
    tags: Vec<Range<usize>>,
    /// The Jinja data; `None` for a plain template.
    jinja: Option<Jinja>,
}

/// Text that looks like a placeholder.
#[derive(Clone, Debug)]
struct Lookalike {
    range: Range<usize>,
    /// The range of the name that is probably meant.
    name: Range<usize>,
    /// True if the text is an expression, such as `{{ name | upper }}`.
    is_expression: bool,
}

/// A placeholder, or text that looks like a placeholder, at the start of a text.
struct Placeholder {
    end: usize,
    name: Range<usize>,
    is_expression: bool,
}

/// The data of a Jinja template, or of JSON that contains Jinja templates.
#[derive(Clone, Debug)]
struct Jinja {
    /// Environment variables that the template uses only as `{{ env.NAME }}`, with their places.
    ///
    /// An unset variable of this list is an error. Variables in other expressions are left out, because these
    /// expressions may handle an unset variable.
    plain_env: Vec<(String, Range<usize>)>,
    /// The parsed JSON, if the template is JSON.
    json: Option<Value>,
    dialect: Dialect,
}

/// A text after its variables were filled in, and the variables without a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The text. Placeholders without a value are unchanged.
    pub text: String,
    /// The variables without a value, without duplicates, in the order of the text.
    pub missing: Vec<String>,
    /// The environment variables without a value, as names without `env.`.
    ///
    /// The list has no duplicates and is in the order of the text.
    pub unset: Vec<String>,
}

/// Fills in the variables of a text.
///
/// Text values are inserted unchanged, and other values as JSON. `env` returns the value of an environment variable.
/// Only placeholders such as `{{ name }}` are filled in; Jinja expressions and tags stay unchanged.
///
/// ```
/// use serde_json::json;
///
/// let vars = json!({"name": "Ada", "order": {"id": 7}});
/// let filled = kindlm_config::fill(
///     "{{name}}: {{ order }} {{ order.id }} {{nmae}}",
///     vars.as_object().unwrap(),
///     &|_| None,
/// );
/// assert_eq!(filled.text, r#"Ada: {"id":7} 7 {{nmae}}"#);
/// assert_eq!(filled.missing, ["nmae"]);
/// ```
pub fn fill(
    template: &str,
    vars: &Map<String, Value>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Filled {
    Template::parse_plain(template).fill(vars, env)
}

/// A template whose environment variables are filled in. Only the variables of a test are left to fill in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// A plain template, as texts and variables.
    Plain(Box<[Slot]>),
    /// A Jinja template, with the environment variables that it uses.
    Jinja(Arc<str>, Arc<Map<String, Value>>, Dialect),
    /// JSON whose texts are Jinja templates, with their environment variables.
    Json(Arc<Value>, Arc<Map<String, Value>>),
}

/// The dialect of a Jinja template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Texts are printed unchanged, and other values as JSON. A variable without a value is an error.
    Kindlm,
    /// Values are printed as in JavaScript, but objects become JSON, and `null` becomes an empty text. A variable
    /// without a value is empty.
    Promptfoo,
}

impl Dialect {
    fn variables(self, vars: &Map<String, Value>, env: &Map<String, Value>) -> Variables {
        let variables = Variables::new(vars, env);
        match self {
            Self::Kindlm => variables.printing_json(),
            Self::Promptfoo => variables,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Text(Box<str>),
    /// A variable, and its quoting if it is part of a command line.
    Variable(Box<str>, Option<Context>),
}

/// An error while filling in a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormError {
    #[error("the variable `{0}` has no value")]
    Missing(Box<str>),
    #[error(transparent)]
    Nul(#[from] shell::NulError),
    #[error("{0}")]
    Jinja(String),
}

impl Form {
    /// Returns the number of bytes of the template, without its variables.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Plain(slots) => {
                let text = |it: &Slot| if let Slot::Text(text) = it { text.len() } else { 0 };
                slots.iter().map(text).sum()
            }
            Self::Jinja(template, ..) => template.len(),
            Self::Json(json, _) => json.to_string().len(),
        }
    }

    /// Fills in the variables of a test, and returns the text.
    ///
    /// Returns an error if a variable has no value, cannot be quoted, or makes rendering fail.
    pub(crate) fn fill(&self, vars: &Map<String, Value>) -> Result<String, FormError> {
        let slots = match self {
            Self::Plain(slots) => slots,
            Self::Jinja(template, env, dialect) => {
                let variables = dialect.variables(vars, env);
                return variables.render(template).map_err(FormError::Jinja);
            }
            Self::Json(json, env) => {
                let variables = Variables::new(vars, env);
                let filled = filled(json, &variables).map_err(FormError::Jinja)?;
                return Ok(ecma::stringify_indented(&filled, 2));
            }
        };
        let mut text = String::new();
        for slot in slots {
            match slot {
                Slot::Text(part) => text.push_str(part),
                Slot::Variable(name, context) => {
                    let value = value_of(name, vars).map(printed);
                    let value = value.ok_or_else(|| FormError::Missing(name.clone()))?;
                    match context {
                        Some(context) => text.push_str(&shell::quote(&value, *context)?),
                        None => text.push_str(&value),
                    }
                }
            }
        }
        Ok(text)
    }

    /// Returns the variables without a value in a Jinja template, or in JSON whose texts are templates.
    ///
    /// The result is empty for a plain template. Returns an error if the template cannot be rendered.
    pub(crate) fn missing(&self, vars: &Map<String, Value>) -> Result<Vec<Missing>, Unrendered> {
        let found = |variables: &Variables, text: &str| {
            let absent = |why| Unrendered { why, absent: variables.absent(text) };
            variables.missing(text).map_err(absent)
        };
        let mut missing = Vec::new();
        match self {
            Self::Plain(_) => {}
            Self::Jinja(template, env, dialect) => {
                missing = found(&dialect.variables(vars, env), template)?;
            }
            Self::Json(json, env) => {
                let variables = Variables::new(vars, env);
                let mut first = Ok(());
                each_template(json, "", &mut |_, text| match found(&variables, text) {
                    Ok(it) => missing.extend(it),
                    Err(err) if first.is_ok() => first = Err(err),
                    Err(_) => {}
                });
                first?;
            }
        }
        // The caller reports unset environment variables, by the names in `plain_env`.
        missing.retain(|it| vars.contains_key("env") || !it.name.starts_with("env."));
        Ok(missing)
    }

    /// Adds the content of the form to a digest.
    pub(crate) fn digest(&self, digest: Digest) -> Digest {
        let with_env = |digest: Digest, env: &Map<String, Value>| {
            env.iter().fold(digest, |digest, (name, it)| digest.text(name).value(it))
        };
        let slots = match self {
            Self::Plain(slots) => slots,
            Self::Jinja(template, env, _) => {
                return with_env(digest.text("jinja").text(template), env);
            }
            Self::Json(json, env) => return with_env(digest.text("json").value(json), env),
        };
        slots.iter().fold(digest.number(slots.len() as u64), |digest, slot| match slot {
            Slot::Text(text) => digest.number(0).text(text),
            Slot::Variable(name, _) => digest.number(1).text(name),
        })
    }
}

/// An error while rendering a Jinja template.
pub(crate) struct Unrendered {
    pub(crate) why: String,
    /// The variables that the template needs and the test does not have.
    pub(crate) absent: Vec<String>,
}

/// The result of looking up a placeholder.
pub(crate) enum Looked {
    Value(String),
    Missing,
    Unset(String),
}

impl Template {
    /// Parses a text with variables.
    ///
    /// A text with expressions, tags or comments is a Jinja template. Returns an error if this template is invalid. Any
    /// other text is split into parts.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let plain = Self::parse_plain(text);
        let has_comment = || text.split_once("{#").is_some_and(|(_, rest)| rest.contains("#}"));
        let is_plain = plain.tags.is_empty()
            && !plain.lookalikes.iter().any(|it| it.is_expression)
            && !has_comment();
        if is_plain {
            return Ok(plain);
        }
        let mut template = Self::jinja(text)?;
        if let Some(jinja) = &mut template.jinja {
            jinja.dialect = Dialect::Kindlm;
        }
        Ok(template)
    }

    /// Parses a plain template. Every text is valid, because everything except placeholders is plain text.
    pub(crate) fn parse_plain(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut lookalikes = Vec::new();
        let mut done = 0;
        let mut from = 0;
        while let Some(found) = text.get(from..).and_then(|it| it.find("{{")) {
            let open = from + found;
            if let Some(placeholder) = placeholder(&text[open..]) {
                let end = open + placeholder.end;
                if done < open {
                    parts.push(Part::Text(done..open));
                }
                let name = text[open..][placeholder.name].to_owned();
                parts.push(Part::Placeholder(open..end, name));
                done = end;
                from = end;
            } else if let Some(found) = lookalike(&text[open..]) {
                from = open + found.end;
                lookalikes.push(Lookalike {
                    range: open..from,
                    name: open + found.name.start..open + found.name.end,
                    is_expression: found.is_expression,
                });
            } else {
                // The second brace may be the first brace of a placeholder, as in `{{{a}}}`.
                from = open + 1;
            }
        }
        if done < text.len() {
            parts.push(Part::Text(done..text.len()));
        }
        Self { text: text.to_owned(), parts, lookalikes, tags: tags(text), jinja: None }
    }

    /// Parses a Jinja template, in promptfoo's dialect. The error describes the first problem.
    pub(crate) fn jinja(text: &str) -> Result<Self, Fault> {
        let mut jinja = Jinja { plain_env: Vec::new(), json: None, dialect: Dialect::Promptfoo };
        jinja.add(text, text)?;
        Ok(Self::from_jinja(text, jinja))
    }

    /// Parses JSON whose texts are Jinja templates. The error describes the first problem.
    pub(crate) fn json(text: &str) -> Result<Self, Fault> {
        let json: Value = serde_json::from_str(text).map_err(|err| {
            let mut fault = Fault::new(format!("it is not JSON: {err}"));
            fault.help = Some("`template: jinja` is for texts that are not JSON".to_owned());
            fault
        })?;
        let mut jinja = Jinja { plain_env: Vec::new(), json: None, dialect: Dialect::Promptfoo };
        jinja.add_all(&json, text)?;
        jinja.json = Some(json);
        Ok(Self::from_jinja(text, jinja))
    }

    /// Returns the same template, in which a variable without a value is an error.
    pub(crate) fn strict(mut self) -> Self {
        if let Some(jinja) = &mut self.jinja {
            jinja.dialect = Dialect::Kindlm;
        }
        self
    }

    /// Returns true for a plain template without placeholders. Its text depends on no variable.
    pub(crate) fn is_fixed(&self) -> bool {
        self.jinja.is_none() && !self.parts.iter().any(|it| matches!(it, Part::Placeholder(..)))
    }

    fn from_jinja(text: &str, jinja: Jinja) -> Self {
        let (parts, lookalikes, tags) = (Vec::new(), Vec::new(), Vec::new());
        Self { text: text.to_owned(), parts, lookalikes, tags, jinja: Some(jinja) }
    }

    /// Returns the environment variables that a Jinja template uses only as `{{ env.NAME }}`, each with its place.
    ///
    /// It is an error if one of these variables is not set.
    pub(crate) fn plain_env(&self) -> impl Iterator<Item = (&str, &Range<usize>)> {
        let all = self.jinja.iter().flat_map(|it| &it.plain_env);
        all.map(|(name, range)| (name.as_str(), range))
    }

    /// Returns the ranges and names of all placeholders.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (&Range<usize>, &str)> {
        self.parts.iter().filter_map(|it| match it {
            Part::Placeholder(range, name) => Some((range, name.as_str())),
            Part::Text(_) => None,
        })
    }

    /// Returns true if a variable without a value is an error.
    pub(crate) fn is_strict(&self) -> bool {
        self.jinja.as_ref().is_none_or(|it| it.dialect == Dialect::Kindlm)
    }

    /// Returns the texts that look like a placeholder, each with its probable name.
    pub(crate) fn lookalikes(&self) -> impl Iterator<Item = (&Range<usize>, &str)> {
        self.lookalikes.iter().map(|it| (&it.range, &self.text[it.name.clone()]))
    }

    /// Returns the text of the template.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Fills in the environment variables. Placeholders of unset variables stay unchanged.
    ///
    /// For a command line, `contexts` has the quoting around each placeholder. Returns an error if a value cannot be
    /// quoted.
    pub(crate) fn form(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
        contexts: Option<&[Context]>,
    ) -> Result<Form, FormError> {
        if let Some(jinja) = &self.jinja {
            let names = environment(&self.text);
            let values = names.map(|name| (name.to_owned(), env(name).into()));
            let values = Arc::new(values.collect());
            return Ok(match &jinja.json {
                Some(json) => Form::Json(Arc::new(json.clone()), values),
                None => Form::Jinja(self.text.as_str().into(), values, jinja.dialect),
            });
        }
        let mut index = 0;
        let slot = |part: &Part| {
            let (range, name) = match part {
                Part::Text(range) => return Ok(Slot::Text(self.text[range.clone()].into())),
                Part::Placeholder(range, name) => (range, name.as_str()),
            };
            let context = contexts.map(|it| it.get(index).copied().unwrap_or(Context::Bare));
            index += 1;
            let Some(variable) = name.strip_prefix("env.") else {
                return Ok(Slot::Variable(name.into(), context));
            };
            Ok(Slot::Text(match (env(variable), context) {
                (Some(value), Some(context)) => shell::quote(&value, context)?.into(),
                (Some(value), None) => value.into(),
                (None, _) => self.text[range.clone()].into(),
            }))
        };
        self.parts.iter().map(slot).collect::<Result<_, _>>().map(Form::Plain)
    }

    /// Fills in the variables of a test and the environment variables of a plain template.
    fn fill(&self, vars: &Map<String, Value>, env: &dyn Fn(&str) -> Option<String>) -> Filled {
        let mut filled = Filled::default();
        let mut seen = BTreeSet::new();
        for part in &self.parts {
            let (range, name) = match part {
                Part::Text(range) => {
                    filled.text.push_str(&self.text[range.clone()]);
                    continue;
                }
                Part::Placeholder(range, name) => (range, name),
            };
            match look_up(name, vars, env) {
                Looked::Value(value) => filled.text.push_str(&value),
                Looked::Missing => {
                    filled.text.push_str(&self.text[range.clone()]);
                    if seen.insert(name) {
                        filled.missing.push(name.clone());
                    }
                }
                Looked::Unset(variable) => {
                    filled.text.push_str(&self.text[range.clone()]);
                    if seen.insert(name) {
                        filled.unset.push(variable);
                    }
                }
            }
        }
        filled
    }
}

impl Jinja {
    /// Checks a Jinja template and adds its environment variables.
    ///
    /// The template is the whole text or a part of the text. Fails if the template is invalid.
    fn add(&mut self, template: &str, text: &str) -> Result<(), Fault> {
        // The position of the part in the text; `None` if JSON escape sequences make the part differ from the text.
        let start = text.find(template);
        let read = kindlm_template::read_names(template).map_err(|mut fault| {
            fault.range = fault.range.zip(start).map(|(it, at)| it.start + at..it.end + at);
            fault
        })?;
        for (name, it) in read.alone {
            if !read.entangled.iter().any(|(it, _)| *it == name) {
                // The text of a variable contains no escape sequences, so a search finds its position.
                let alone = || {
                    let variable = template.get(it.clone())?;
                    text.find(variable).map(|at| at..at + variable.len())
                };
                let whole = start.map(|at| it.start + at..it.end + at);
                // Without a known position, the place is the whole text.
                self.plain_env.push((name, whole.or_else(alone).unwrap_or(0..text.len())));
            }
        }
        Ok(())
    }

    fn add_all(&mut self, json: &Value, text: &str) -> Result<(), Fault> {
        match json {
            Value::String(template) => self.add(template, text),
            Value::Array(items) => items.iter().try_for_each(|it| self.add_all(it, text)),
            Value::Object(entries) => entries.values().try_for_each(|it| self.add_all(it, text)),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }
}

/// Renders all texts of a JSON value. Returns an error if a text cannot be rendered.
fn filled(json: &Value, variables: &Variables) -> Result<Value, String> {
    Ok(match json {
        Value::String(text) => Value::String(variables.render(text)?),
        Value::Array(items) => {
            items.iter().map(|it| filled(it, variables)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, it)| Ok((key.clone(), filled(it, variables)?)));
            Value::Object(entries.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// Returns the place of a part of a text in its file.
///
/// Returns `None` if YAML escape sequences make the part differ from the file.
pub(crate) fn place_of(
    text: &str,
    part: &Range<usize>,
    source: &Source,
    span: Span,
) -> Option<Span> {
    let needle = text.get(part.clone())?;
    let before = text[..part.start].matches(needle).count();
    let (at, _) = source.slice(span).match_indices(needle).nth(before)?;
    let start = span.start as usize + at;
    Some(Span::new(start, start + needle.len()))
}

/// Finds a placeholder at the start of a text.
///
/// A placeholder is a name in double braces, with or without spaces around it. Returns `None` for any other start.
fn placeholder(text: &str) -> Option<Placeholder> {
    let inside = text.strip_prefix("{{")?;
    let name = inside.trim_start();
    let start = text.len() - name.len();
    let is_name = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'.');
    let width = name.bytes().take_while(is_name).count();
    let rest = name[width..].trim_start();
    // `{{ .Values.x }}` belongs to another language.
    let is_spaced = name.len() < inside.len();
    let is_foreign =
        is_spaced && !name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    if width == 0 || is_foreign || !rest.starts_with("}}") {
        return None;
    }
    let end = text.len() - rest.len() + 2;
    Some(Placeholder { end, name: start..start + width, is_expression: true })
}

/// Finds text that looks like a placeholder at the start of a text, with the probable name.
///
/// Returns `None` for other starts (`{{#each}}`, `{{.Name}}`, JSON), which only belong to other languages.
fn lookalike(text: &str) -> Option<Placeholder> {
    let line = text.get(2..)?.split('\n').next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let Some(end) = line.find("}}") else {
        let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
        return (end > 0).then_some(Placeholder {
            end: end + 2,
            name: 2..end + 2,
            is_expression: false,
        });
    };
    let content = line[..end].split('|').next()?;
    let name = content.trim_matches(|c: char| c == '-' || c == '~' || c.is_whitespace());
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let start = 2 + content.find(name)?;
    let width = name.find(|c| !is_name(c)).unwrap_or(name.len());
    // In Jinja, `{{my-var}}` is a subtraction, but the user means a name.
    let is_dashed = width == name.len() && name.contains('-');
    // A `|` always starts a filter, even if the name of the filter is wrong.
    let has_filter = line[..end].contains('|');
    let is_expression =
        !is_dashed && (has_filter || kindlm_template::read_names(&text[..end + 4]).is_ok());
    let found = Placeholder { end: end + 4, name: start..start + width, is_expression };
    (width == name.len() || is_expression).then_some(found)
}

/// The maximum number of characters in a tag. A longer text is not a tag.
const LONGEST_TAG: usize = 500;

/// Finds the Jinja tags in a text.
fn tags(text: &str) -> Vec<Range<usize>> {
    const TAGS: [&str; 20] = [
        "block",
        "call",
        "do",
        "elif",
        "else",
        "endblock",
        "endfilter",
        "endfor",
        "endif",
        "endmacro",
        "endraw",
        "endset",
        "extends",
        "filter",
        "for",
        "if",
        "include",
        "macro",
        "raw",
        "set",
    ];
    let tag = |(at, _): (usize, &str)| {
        let inside = text.get(at + 2..)?;
        let longest = inside.char_indices().nth(LONGEST_TAG).map_or(inside.len(), |(at, _)| at);
        let end = inside[..longest].find("%}")?;
        let word = inside[..end].trim_start_matches(['-', '+']).trim_start();
        let width = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
        TAGS.contains(&&word[..width]).then_some(at..at + 2 + end + 2)
    };
    text.match_indices("{%").filter_map(tag).collect()
}

/// Returns the value of a placeholder.
///
/// A name with `env.` is always an environment variable, never a variable of the test.
pub(crate) fn look_up(
    name: &str,
    vars: &Map<String, Value>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Looked {
    if let Some(variable) = name.strip_prefix("env.") {
        return match env(variable) {
            Some(value) => Looked::Value(value),
            None => Looked::Unset(variable.to_owned()),
        };
    }
    match value_of(name, vars) {
        Some(value) => Looked::Value(printed(value).into_owned()),
        None => Looked::Missing,
    }
}

/// Returns the value of the variable with this name, or else the value at this path, such as `order.id`.
///
/// The path starts with the name of a variable. Returns `None` if there is no such value.
pub(crate) fn value_of<'v>(name: &str, vars: &'v Map<String, Value>) -> Option<&'v Value> {
    vars.get(name).or_else(|| {
        let (first, path) = name.split_once('.')?;
        path.split('.').try_fold(vars.get(first)?, |value, key| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            value => value.get(key),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_texts_similar_to_placeholders() {
        for (text, expected) in [
            ("{{a}} {{a.b}} {{ m }} {{\tm\n}} {{ .Values.m }}", &[][..]),
            ("x {{my-var}} {{a}}", &[("{{my-var}}", "my-var")]),
            ("{{m|upper}}", &[("{{m|upper}}", "m")]),
            ("{{- m -}}", &[("{{- m -}}", "m")]),
            ("{{m", &[("{{m", "m")]),
            ("{{m} {{a}}", &[]),
            ("{{m}\n{{a}}", &[("{{m", "m")]),
            ("{{m[0]}} {{ m[0].a }}", &[("{{m[0]}}", "m"), ("{{ m[0].a }}", "m")]),
            ("{{#each a}} {{/each}} {{.Name}} {{\"a\": 1}} {{}} {{ }} {{a b}}", &[]),
        ] {
            let template = Template::parse_plain(text);
            let found: Vec<(&str, &str)> =
                template.lookalikes().map(|(range, name)| (&text[range.clone()], name)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn spaces_around_a_name_do_not_matter() {
        let vars = serde_json::json!({"a": "1", "o": {"k": [2, 3]}, "o.flat": "f", "l": [1, "x"]});
        let vars = vars.as_object().unwrap();
        for (text, expected) in [
            ("{{a}} {{ a }} {{a }} {{\na}}", "1 1 1 1"),
            ("{{o.k}} {{ o.k.1 }} {{o.flat}}", "[2,3] 3 f"),
            ("{{ l }} {{o}}", r#"[1,"x"] {"k":[2,3]}"#),
            ("{{{a}}} {{{{a}}}}", "{1} {{1}}"),
        ] {
            let template = Template::parse(text).unwrap();
            assert!(template.jinja.is_none(), "{text}");
            let form = template.form(&|_| None, None).unwrap();
            assert_eq!(form.fill(vars).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_text_with_expressions_tags_or_comments_is_rendered() {
        let vars = serde_json::json!({"a": "x", "l": [1, 2]});
        let vars = vars.as_object().unwrap();
        for (text, expected) in [
            ("{{ a | upper }}{{a}}", "Xx"),
            ("{% if a %}{{ a }}{% endif %}", "x"),
            ("{# note #}{{ l[0] }} {{ l.length }} {{ l }}", "1 2 [1,2]"),
            ("{{#each l}}{{a}}{{/each}}", "{{#each l}}x{{/each}}"),
        ] {
            let form = Template::parse(text).unwrap().form(&|_| None, None).unwrap();
            assert_eq!(form.fill(vars).unwrap(), expected, "{text}");
        }
        for text in ["{% if a %}", "{{ a | uper }}{% if a %}{% endif %}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn environment_variables_have_their_place() {
        for text in [
            r#"{"a": "{{ env.KEY }}"}"#,
            r#"{"a": "line\nbreak {{ env.KEY }}", "b": 1}"#,
            r#"["caf\u00e9 \"{{env.KEY}}\""]"#,
        ] {
            let template = Template::json(text).unwrap();
            let found: Vec<_> = template.plain_env().collect();
            let [(name, range)] = found[..] else { panic!("{text}: {found:?}") };
            assert_eq!(name, "KEY");
            assert!(text[range.clone()].contains("env.KEY"), "{text}: {range:?}");
            assert!(range.len() < 20, "{text}: {range:?}");
        }
    }

    #[test]
    fn finds_the_tags_of_jinja() {
        for (text, expected) in [
            ("{% if a %}x{% endif %}", &["{% if a %}", "{% endif %}"][..]),
            ("{%- for a in b -%}", &["{%- for a in b -%}"]),
            ("100 {% of it %} {% comment", &[]),
        ] {
            let template = Template::parse_plain(text);
            let found: Vec<&str> = template.tags.iter().map(|it| &text[it.clone()]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
