//! Texts with `{{variables}}`.
//!
//! A placeholder is `{{name}}` with letters, digits, `_` and `.`, and no spaces; everything else stays as it
//! is, so prompts may contain JSON, Mustache or Jinja. `{{env.NAME}}` is an environment variable. Values are
//! put in once: what they contain is not read again.

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

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text as it is: a range of the template.
    Text(Range<usize>),
    /// A placeholder: the range with its braces, and its name.
    Placeholder(Range<usize>, String),
}

/// A template, read once.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    text: String,
    parts: Vec<Part>,
    /// What looks like a placeholder and is text: its range, and the range of the name that is probably meant.
    lookalikes: Vec<(Range<usize>, Range<usize>)>,
    /// Tags of Jinja, such as `{% if x %}`, that are text here.
    tags: Vec<Range<usize>>,
    /// If it is Jinja, or JSON with texts that are.
    jinja: Option<Jinja>,
}

/// What is known about a Jinja template.
#[derive(Clone, Debug)]
struct Jinja {
    /// Environment variables that it puts in as they are, with where that is said. What is done with others may be made
    /// for those that are not set.
    plain_env: Vec<(String, Range<usize>)>,
    /// The JSON whose texts are templates, if it is some.
    json: Option<Value>,
}

/// A text with its variables filled in, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The text. What has no value is left as it was written.
    pub text: String,
    /// Variables without a value, in the order of the text, each once.
    pub missing: Vec<String>,
    /// Environment variables (without `env.`) without a value, in the order of the text, each once.
    pub unset: Vec<String>,
}

/// Fills in the variables of a text.
///
/// A text is put in as it is, any other value as JSON. Environment variables are asked for by name.
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

/// A template whose environment variables are put in, waiting for those of a test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// Text with places for variables.
    Plain(Box<[Slot]>),
    /// A Jinja template, with the environment variables that it reads.
    Jinja(Arc<str>, Arc<Map<String, Value>>),
    /// JSON with texts that are such templates.
    Json(Arc<Value>, Arc<Map<String, Value>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Text(Box<str>),
    /// A variable, and how its value is quoted if it becomes part of a command line.
    Variable(Box<str>, Option<Context>),
}

/// Why a form cannot be filled in.
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

    /// What a Jinja template uses and has no value; nothing of any other. Where it cannot be rendered, why.
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
        // What of the environment is not set is told by its own name.
        missing.retain(|it| vars.contains_key("env") || !it.name.starts_with("env."));
        Ok(missing)
    }

    /// Adds what tells this form from others.
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

/// Why a template cannot be rendered.
pub(crate) struct Unrendered {
    pub(crate) why: String,
    /// The variables that it needs and that are not there.
    pub(crate) absent: Vec<String>,
}

/// What stands for a placeholder.
pub(crate) enum Looked {
    Value(String),
    Missing,
    Unset(String),
}

impl Template {
    /// Reads a template. Never fails: what is not a placeholder is text.
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
                // The second brace may be the first of a placeholder: `{{{a}}}`.
                from = open + 1;
            }
        }
        if done < text.len() {
            parts.push(Part::Text(done..text.len()));
        }
        Self { text: text.to_owned(), parts, lookalikes, tags: tags(text), jinja: None }
    }

    /// Reads a Jinja template; the error says what is wrong with it.
    pub(crate) fn jinja(text: &str) -> Result<Self, Fault> {
        let mut jinja = Jinja { plain_env: Vec::new(), json: None };
        jinja.add(text, text)?;
        Ok(Self::of(text, jinja))
    }

    /// Reads JSON whose texts are Jinja templates; the error says what is wrong with it.
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

    /// The environment variables that a Jinja template puts in as they are, with where that is said.
    pub(crate) fn plain_env(&self) -> impl Iterator<Item = (&str, &Range<usize>)> {
        let all = self.jinja.iter().flat_map(|it| &it.plain_env);
        all.map(|(name, range)| (name.as_str(), range))
    }

    /// The names of all placeholders with where they are.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (&Range<usize>, &str)> {
        self.parts.iter().filter_map(|it| match it {
            Part::Placeholder(range, name) => Some((range, name.as_str())),
            Part::Text(_) => None,
        })
    }

    /// What looks like a placeholder and is text, with the names that are probably meant.
    pub(crate) fn lookalikes(&self) -> impl Iterator<Item = (&Range<usize>, &str)> {
        self.lookalikes.iter().map(|(range, name)| (range, &self.text[name.clone()]))
    }

    /// Tags of Jinja that are text.
    pub(crate) fn tags(&self) -> &[Range<usize>] {
        &self.tags
    }

    /// The text as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The template with its environment variables put in. What has no value there stays as it was written.
    ///
    /// `contexts` has what surrounds each placeholder, if the text is a command line.
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

    /// Fills in the variables.
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
    /// Takes in a template that is a text, or a part of one.
    fn add(&mut self, template: &str, text: &str) -> Result<(), Fault> {
        // Where the part stands in the text, if it stands there as it is.
        let start = text.find(template);
        let read = kindlm_template::read(template).map_err(|fault| Fault {
            range: fault.range.clone().zip(start).map(|(it, at)| it.start + at..it.end + at),
            ..fault
        })?;
        for (name, it) in read.alone {
            if !read.entangled.iter().any(|(it, _)| *it == name) {
                // Where the part does not stand in the text as it is, the whole text has to do.
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

/// A value with all its texts rendered.
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

/// Where a part of a text is in its file, if it stands there as it is.
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

/// What looks like a placeholder at the beginning of a text: its length, and where the name is that is probably
/// meant.
///
/// Spaces, filters, dashes and expressions are what other template languages allow; what begins otherwise (`{{#each}}`,
/// `{{.Name}}`, JSON) belongs to them alone.
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

/// How many characters a tag has at most; what is longer is text.
const LONGEST_TAG: usize = 500;

/// The tags of Jinja in a text.
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

/// The value of a placeholder. `env.` never means a variable of the test.
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

/// A value as it is put into a text.
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
