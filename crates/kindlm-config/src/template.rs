//! Texts with `{{variables}}`.
//!
//! A placeholder is `{{name}}` with letters, digits, `_` and `.`, but no spaces. All other text stays unchanged, so
//! prompts may contain JSON, Mustache or Jinja. `{{env.NAME}}` is an environment variable. Placeholders inside of
//! values are not replaced.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use kindlm_engine::Digest;
use kindlm_source::{Source, Span};
use kindlm_template::{Fault, Missing, Variables, each_template, environment};
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
    /// Text that looks like a placeholder: its range, and the range of the name that is probably meant.
    lookalikes: Vec<(Range<usize>, Range<usize>)>,
    /// Jinja tags such as `{% if x %}` in a plain template, where they are only text.
    tags: Vec<Range<usize>>,
    /// The Jinja data; `None` for a plain template.
    jinja: Option<Jinja>,
}

/// The data of a template with Jinja, or of JSON whose texts are Jinja.
#[derive(Clone, Debug)]
struct Jinja {
    /// Environment variables that the template only inserts, with their places.
    ///
    /// If one is unset, that is an error. Variables in other expressions are left out, because these may handle an
    /// unset one.
    plain_env: Vec<(String, Range<usize>)>,
    /// The parsed JSON, if the template is JSON.
    json: Option<Value>,
}

/// A text after its variables were filled in, and the variables without a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The text. Placeholders without a value are unchanged.
    pub text: String,
    /// The variables without a value, without duplicates, in the order of the text.
    pub missing: Vec<String>,
    /// The environment variables without a value, as names without `env.`. They have no duplicates and the order of the
    /// text.
    pub unset: Vec<String>,
}

/// Fills in the variables of a text.
///
/// Text values are inserted unchanged, and other values as JSON. `env` returns the value of an environment variable.
///
/// ```
/// use serde_json::json;
///
/// let vars = json!({"name": "Ada", "order": {"id": 7}});
/// let filled = kindlm_config::fill(
///     "{{name}}: {{order}} {{ name }} {{nmae}}",
///     vars.as_object().unwrap(),
///     &|_| None,
/// );
/// assert_eq!(filled.text, r#"Ada: {"id":7} {{ name }} {{nmae}}"#);
/// assert_eq!(filled.missing, ["nmae"]);
/// ```
pub fn fill(
    template: &str,
    vars: &Map<String, Value>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Filled {
    Template::read(template).fill(vars, env)
}

/// A template whose environment variables are filled in. It waits for the variables of a test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// A plain template, as texts and variables.
    Plain(Box<[Slot]>),
    /// A Jinja template, with the environment variables that it uses.
    Jinja(Arc<str>, Arc<Map<String, Value>>),
    /// JSON whose texts are Jinja templates, with their environment variables.
    Json(Arc<Value>, Arc<Map<String, Value>>),
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
    /// Fills in the variables.
    pub(crate) fn fill(&self, vars: &Map<String, Value>) -> Result<String, FormError> {
        let slots = match self {
            Self::Plain(slots) => slots,
            Self::Jinja(template, env) => {
                return Variables::new(vars, env).render(template).map_err(FormError::Jinja);
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
                    let value = vars.get(&**name).map(written);
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

    /// Returns the variables of a Jinja template without a value. A plain template has none.
    pub(crate) fn missing(&self, vars: &Map<String, Value>) -> Result<Vec<Missing>, Unrendered> {
        let found = |variables: &Variables, text: &str| {
            let absent = |why| Unrendered { why, absent: variables.absent(text) };
            variables.missing(text).map_err(absent)
        };
        let mut missing = Vec::new();
        match self {
            Self::Plain(_) => {}
            Self::Jinja(template, env) => missing = found(&Variables::new(vars, env), template)?,
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
        // `plain_env` is used to report unset environment variables by their own names.
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
            Self::Jinja(template, env) => {
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
    /// Parses a plain template. It accepts any text, because everything but placeholders is plain text.
    pub(crate) fn read(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut lookalikes = Vec::new();
        let mut done = 0;
        let mut from = 0;
        while let Some(found) = text.get(from..).and_then(|it| it.find("{{")) {
            let open = from + found;
            let rest = &text[open + 2..];
            let name = rest
                .bytes()
                .take_while(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'.'))
                .count();
            if name > 0 && rest[name..].starts_with("}}") {
                let end = open + 2 + name + 2;
                if done < open {
                    parts.push(Part::Text(done..open));
                }
                parts.push(Part::Placeholder(open..end, rest[..name].to_owned()));
                done = end;
                from = end;
            } else if let Some((length, name)) = lookalike(&text[open..]) {
                lookalikes.push((open..open + length, open + name.start..open + name.end));
                from = open + length;
            } else {
                // The second brace may be the first one of a placeholder, as in `{{{a}}}`.
                from = open + 1;
            }
        }
        if done < text.len() {
            parts.push(Part::Text(done..text.len()));
        }
        Self { text: text.to_owned(), parts, lookalikes, tags: tags(text), jinja: None }
    }

    /// Parses a Jinja template. The error describes the first syntax problem.
    pub(crate) fn jinja(text: &str) -> Result<Self, Fault> {
        let mut jinja = Jinja { plain_env: Vec::new(), json: None };
        jinja.add(text, text)?;
        Ok(Self::of(text, jinja))
    }

    /// Parses JSON whose texts are Jinja templates. The error describes the first syntax problem.
    pub(crate) fn json(text: &str) -> Result<Self, Fault> {
        let json: Value = serde_json::from_str(text).map_err(|err| Fault {
            message: format!("it is not JSON: {err}"),
            help: Some("`template: jinja` is for texts that are not JSON".to_owned()),
            range: None,
            line: None,
        })?;
        let mut jinja = Jinja { plain_env: Vec::new(), json: None };
        jinja.add_all(&json, text)?;
        jinja.json = Some(json);
        Ok(Self::of(text, jinja))
    }

    fn of(text: &str, jinja: Jinja) -> Self {
        let (parts, lookalikes, tags) = (Vec::new(), Vec::new(), Vec::new());
        Self { text: text.to_owned(), parts, lookalikes, tags, jinja: Some(jinja) }
    }

    /// Returns environment variables that a Jinja template only inserts, with places.
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

    /// Returns texts that look like a placeholder, with the name probably meant.
    pub(crate) fn lookalikes(&self) -> impl Iterator<Item = (&Range<usize>, &str)> {
        self.lookalikes.iter().map(|(range, name)| (range, &self.text[name.clone()]))
    }

    /// Returns the Jinja tags of a plain template.
    pub(crate) fn tags(&self) -> &[Range<usize>] {
        &self.tags
    }

    /// Returns the text of the template.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Fills in the environment variables. Placeholders of unset ones stay unchanged.
    ///
    /// For a command line, `contexts` has the quoting around each placeholder.
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
                None => Form::Jinja(self.text.as_str().into(), values),
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

    /// Fills in all variables, including those of the environment.
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
    /// Adds a Jinja template, which is the whole text or a part of it.
    fn add(&mut self, template: &str, text: &str) -> Result<(), Fault> {
        // The position of the part in the text. JSON escapes can make it differ from the text.
        let start = text.find(template);
        let read = kindlm_template::read(template).map_err(|fault| Fault {
            range: fault.range.clone().zip(start).map(|(it, at)| it.start + at..it.end + at),
            ..fault
        })?;
        for (name, it) in read.alone {
            if !read.entangled.iter().any(|(it, _)| *it == name) {
                // Without a known position, the range is empty and the whole text is marked.
                let range = start.map_or(0..0, |at| it.start + at..it.end + at);
                self.plain_env.push((name, range));
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

/// Renders all texts of a JSON value.
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

/// Returns the place of a part of a text in its file. `None` if YAML escapes make it differ from the file.
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

/// Finds text that looks like a placeholder at the start. Returns its length and the range of the probable name.
///
/// Other template languages allow spaces, filters, dashes and expressions. Other beginnings (`{{#each}}`, `{{.Name}}`,
/// JSON) can only belong to those languages.
fn lookalike(text: &str) -> Option<(usize, Range<usize>)> {
    let line = text.get(2..)?.split('\n').next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let Some(end) = line.find("}}") else {
        let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
        return (end > 0).then_some((end + 2, 2..end + 2));
    };
    let content = line[..end].split('|').next()?;
    let name = content.trim_matches(|c: char| c == '-' || c == '~' || c.is_whitespace());
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let is_expression = || kindlm_template::read(&text[..end + 4]).is_ok();
    let start = 2 + content.find(name)?;
    let width = name.find(|c| !is_name(c)).unwrap_or(name.len());
    (width == name.len() || is_expression()).then_some((end + 4, start..start + width))
}

/// The most characters of a tag. A longer text is not a tag.
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

/// Returns the value of a placeholder. `env.` always means an environment variable, never one of the test.
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
    match vars.get(name) {
        Some(value) => Looked::Value(written(value).into_owned()),
        None => Looked::Missing,
    }
}

/// Formats a value for insertion into a text.
fn written(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(ecma::stringify(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_looks_like_a_placeholder() {
        for (text, expected) in [
            ("{{a}} {{a.b}}", &[][..]),
            ("{{ m }}", &[("{{ m }}", "m")]),
            ("x {{my-var}} {{a}}", &[("{{my-var}}", "my-var")]),
            ("{{m|upper}}", &[("{{m|upper}}", "m")]),
            ("{{- m -}}", &[("{{- m -}}", "m")]),
            ("{{m", &[("{{m", "m")]),
            ("{{m} {{a}}", &[]),
            ("{{m}\n{{a}}", &[("{{m", "m")]),
            ("{{m[0]}} {{ m[0].a }}", &[("{{m[0]}}", "m"), ("{{ m[0].a }}", "m")]),
            ("{{#each a}} {{/each}} {{.Name}} {{\"a\": 1}} {{}} {{ }} {{a b}}", &[]),
        ] {
            let template = Template::read(text);
            let found: Vec<(&str, &str)> =
                template.lookalikes().map(|(range, name)| (&text[range.clone()], name)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn finds_the_tags_of_jinja() {
        for (text, expected) in [
            ("{% if a %}x{% endif %}", &["{% if a %}", "{% endif %}"][..]),
            ("{%- for a in b -%}", &["{%- for a in b -%}"]),
            ("100 {% of it %} {% comment", &[]),
        ] {
            let template = Template::read(text);
            let found: Vec<&str> = template.tags().iter().map(|it| &text[it.clone()]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
