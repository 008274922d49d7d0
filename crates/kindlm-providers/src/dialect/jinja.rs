//! Jinja templates in requests: in the address, headers, query, body, message and hosted tools.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{LazyLock, OnceLock};

use kindlm_template::{Fault, Variables, each_template, environment, is_template, read_names};
use kindlm_types::{Problem, Prompt, ecma};
use serde_json::{Map, Value};

use kindlm_transport::{SIGNATURE, SIGNATURE_TIMESTAMP};

use super::placeholder;
use crate::EnvMark;

/// The environment variables and the problems of a request's templates.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) variables: BTreeSet<String>,
    pub(crate) problems: Vec<Problem>,
}

impl Reading {
    /// Parses a text at a pointer. If it is a template, adds its variables and problems.
    pub(crate) fn text(&mut self, pointer: &str, text: &str) {
        if !is_template(text) {
            return;
        }
        match read_names(text) {
            Ok(read) => {
                for (name, _) in read.entangled {
                    let message = format!(
                        "`env.{name}` is part of a larger expression, but its value is inserted only when the \
                         request is sent"
                    );
                    let help = format!("write it alone: `{{{{ env.{name} }}}}`");
                    self.problems.push(Problem::new(pointer, message).with_help(help));
                }
                self.variables.extend(environment(text).map(str::to_owned));
            }
            Err(fault) => self.problems.push(problem(pointer, &fault)),
        }
    }

    /// Parses all templates in a value, and adds their variables and problems.
    pub(crate) fn value(&mut self, pointer: &str, value: &Value) {
        each_template(value, pointer, &mut |at, text| self.text(at, text));
    }
}

/// Adds the test variables that templates require, each with its pointer.
pub(crate) fn named_vars(pointer: &str, value: &Value, found: &mut Vec<(String, String)>) {
    each_template(value, pointer, &mut |at, text| {
        let Ok(read) = read_names(text) else { return };
        let names = read.needed.into_iter().filter(|it| !placeholder::OWN.contains(&it.as_str()));
        found.extend(names.map(|it| (at.to_owned(), it)));
    });
}

fn problem(pointer: &str, fault: &Fault) -> Problem {
    let line = fault.line.map(|it| format!(" (line {it} of the text)")).unwrap_or_default();
    let problem =
        Problem::new(pointer, format!("the template cannot be read: {}{line}", fault.message));
    match &fault.help {
        Some(help) => problem.with_help(help.as_str()),
        None => problem,
    }
}

/// A renderer of the templates of one request.
pub(crate) struct Filler {
    vars: Map<String, Value>,
    env: Map<String, Value>,
    variables: Variables,
    /// The variables with texts escaped for JSON; created on first use.
    escaped: OnceLock<Variables>,
    pub(crate) marks: Vec<EnvMark>,
}

impl Filler {
    /// Creates a renderer for a prompt. Its variables are the built-in placeholders, the test variables, and marks for
    /// the environment variables in `names`. With `signs`, there are also marks for the signature and its time.
    pub(crate) fn new(prompt: &Prompt, names: &BTreeSet<String>, signs: bool) -> Self {
        let mut vars: Map<String, Value> = placeholder::OWN
            .iter()
            .map(|&it| (it.to_owned(), placeholder::value(it, prompt)))
            .collect();
        for name in ["messages_json", "tools_json"] {
            let text = vars.get(name).map(ecma::stringify).unwrap_or_default();
            vars.insert(name.to_owned(), text.into());
        }
        let own = prompt.vars.iter().filter(|(name, _)| *name != "prompt");
        vars.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        let mut marks: Vec<EnvMark> = names.iter().map(|it| mark(it)).collect();
        let env: Map<String, Value> =
            marks.iter().map(|it| (it.variable.clone(), it.mark.as_str().into())).collect();
        for (name, variable) in SIGNED.iter().filter(|_| signs) {
            let mark = mark(variable);
            vars.insert((*name).to_owned(), mark.mark.as_str().into());
            marks.push(mark);
        }
        let variables = Variables::new(&vars, &env);
        Self { vars, env, variables, escaped: OnceLock::new(), marks }
    }

    /// Renders a text. A text without templates stays unchanged. Fails if the template cannot be rendered.
    pub(crate) fn text(&self, text: &str) -> Result<String, String> {
        if is_template(text) { self.variables.render(text) } else { Ok(text.to_owned()) }
    }

    /// Renders a text and parses the result as JSON; `None` if the result is not JSON. If values break the JSON around
    /// them, the text is rendered again with escaped values.
    pub(crate) fn json_of(&self, text: &str) -> Result<Option<Value>, String> {
        if let Ok(written) = serde_json::from_str::<Value>(text) {
            return self.json(&written).map(Some);
        }
        if let Ok(value) = serde_json::from_str(&self.text(text)?) {
            return Ok(Some(value));
        }
        let escaped = self.escaped.get_or_init(|| {
            let escape = |value: &Value| match value {
                Value::String(text) => {
                    let quoted = Value::from(text.as_str()).to_string();
                    quoted[1..quoted.len() - 1].into()
                }
                other => other.clone(),
            };
            let vars = self.vars.iter().map(|(name, it)| (name.clone(), escape(it)));
            Variables::new(&vars.collect(), &self.env)
        });
        Ok(serde_json::from_str(&escaped.render(text)?).ok())
    }

    /// Renders all texts in a value. A text that renders to a JSON object or list becomes that value.
    pub(crate) fn json(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => {
                let text = self.text(text)?;
                let parsed = text.trim_start().starts_with(['{', '[']);
                let parsed = parsed.then(|| serde_json::from_str::<Value>(&text).ok()).flatten();
                parsed.unwrap_or(Value::String(text))
            }
            Value::Array(items) => {
                items.iter().map(|it| self.json(it)).collect::<Result<Vec<_>, _>>()?.into()
            }
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, it)| Ok((key.clone(), self.json(it)?)));
                Value::Object(entries.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }
}

/// The template variables of a signed request, each with the variable of its [`EnvMark`].
pub(crate) const SIGNED: [(&str, &str); 2] =
    [("signature", SIGNATURE), ("signatureTimestamp", SIGNATURE_TIMESTAMP)];

/// A random number that makes marks unpredictable. A value could contain a guessable mark. The secret would then be
/// inserted into that value, and sent to the wrong place.
static NONCE: LazyLock<u128> = LazyLock::new(|| {
    // The standard library seeds its hashers randomly.
    let random = || u128::from(RandomState::new().build_hasher().finish());
    (random() << 64) | random()
});

/// Returns a unique text that stands for an environment variable in the request.
fn mark(variable: &str) -> EnvMark {
    let mark = format!("{{{{env.{variable}:{:032x}}}}}", *NONCE);
    EnvMark::new(mark, variable)
}

/// Appends a query to an address. Marks of environment variables stay unencoded.
pub(crate) fn with_query(url: &str, query: &[(String, String)], marks: &[EnvMark]) -> String {
    let mut whole = url.to_owned();
    for (name, value) in query {
        whole.push(if whole.contains('?') { '&' } else { '?' });
        whole.push_str(&ecma::encode_uri_component(name));
        whole.push('=');
        let encoded = marks.iter().fold(ecma::encode_uri_component(value), |text, it| {
            text.replace(&ecma::encode_uri_component(&it.mark), &it.mark)
        });
        whole.push_str(&encoded);
    }
    whole
}
