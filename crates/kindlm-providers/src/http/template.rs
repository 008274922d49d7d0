//! Body templates: JSON text with placeholders. No value can break the JSON around its placeholder.

use std::str::FromStr as _;

use kindlm_types::Prompt;
use serde_json::Value;

use crate::dialect::placeholder::{OWN, value};

/// A parsed template: literal texts and placeholders.
#[derive(Clone, Debug)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// A placeholder within the quotes of a JSON text. Its value is inserted escaped.
    Inside(String),
    /// A placeholder in the position of a JSON value. Its value is inserted as JSON.
    Whole(String),
}

impl Template {
    /// Parses a template, or returns the reason why it cannot produce JSON.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.contains("{{env.") {
            return Err("`{{env.NAME}}` is not filled in here: add `template: jinja`".to_owned());
        }
        let template = Self(pieces(text));
        let sample = Prompt {
            model: String::new(),
            messages: Vec::new(),
            params: kindlm_types::Params::default(),
            tools: Vec::new(),
            tool_choice: None,
            response_format: None,
            sample: 0,
            ..Prompt::default()
        };
        template.render(&sample)?;
        Ok(template)
    }

    /// Renders the body of a request. Fails if the result is not JSON.
    pub(super) fn render(&self, prompt: &Prompt) -> Result<Value, String> {
        let text: String = self
            .0
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Whole(name) => value(name, prompt).to_string(),
                Piece::Inside(name) => inside(&value(name, prompt)),
            })
            .collect();
        Value::from_str(&text)
            .map_err(|err| format!("the body template does not produce JSON: {err}"))
    }
}

/// Splits a text at its `{{name}}` placeholders. The pieces record which placeholders are within quotes.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut literal, mut quoted, mut rest) = (String::new(), false, text);
    while let Some(next) = rest.chars().next() {
        if let Some((name, behind)) = placeholder(rest) {
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
            pieces.push(if quoted {
                Piece::Inside(name.to_owned())
            } else {
                Piece::Whole(name.to_owned())
            });
            rest = behind;
            continue;
        }
        // A backslash escapes the next character, so `\"` does not end the quotes.
        let taken = match next {
            '\\' if quoted => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            other => other.len_utf8(),
        };
        quoted ^= next == '"';
        literal.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    pieces.push(Piece::Text(literal));
    pieces
}

/// Returns the name of the placeholder at the beginning of a text, and the rest. Returns `None` without a placeholder.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (name, behind) = text.strip_prefix("{{")?.split_once("}}")?;
    let is_name =
        !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    is_name.then_some((name, behind))
}

/// Returns true if a body has a placeholder for a test variable.
pub(super) fn wants_vars(text: &str) -> bool {
    !named_vars(text).is_empty()
}

/// Returns the test variables in the placeholders of a body.
pub(super) fn named_vars(text: &str) -> Vec<String> {
    let names = pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Text(_) => None,
        Piece::Inside(name) | Piece::Whole(name) => Some(name),
    });
    names.filter(|it| !OWN.contains(&it.as_str())).collect()
}

/// Returns a value as text, escaped for use inside a JSON text. `null` becomes an empty text.
fn inside(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let quoted = Value::String(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{Message, Params, Role};
    use proptest::prelude::*;
    use serde_json::json;

    fn prompt(user: &str) -> Prompt {
        Prompt {
            model: "m-1".to_owned(),
            messages: vec![Message::new(Role::System, "sys"), Message::new(Role::User, user)],
            params: Params { temperature: Some(0.2), ..Params::default() },
            tools: Vec::new(),
            tool_choice: None,
            response_format: None,
            sample: 0,
            ..Prompt::default()
        }
    }

    #[test]
    fn fills_in_values_with_and_without_quotes() {
        for (template, expected) in [
            (r#"{"a":"<{{user}}>"}"#, json!({"a": "<hi>"})),
            (r#"{"a":{{user}}}"#, json!({"a": "hi"})),
            (r#"{"a":{{temperature}},"b":"{{temperature}}"}"#, json!({"a": 0.2, "b": "0.2"})),
            (r#"{"a":{{seed}},"b":"{{seed}}"}"#, json!({"a": null, "b": ""})),
            (r#"{"a":{{nope}},"b":"{{nope}}"}"#, json!({"a": null, "b": ""})),
            (r#"{"a":{"b":{{temperature}}}}"#, json!({"a": {"b": 0.2}})),
            (r#"{"\"{{user}}\"":1}"#, json!({"\"hi\"": 1})),
            (r#"{"a":"{{ user }}"}"#, json!({"a": "{{ user }}"})),
            (r#"{"a":"{{tools_json}}"}"#, json!({"a": "[]"})),
            (r#""{{user}}""#, json!("hi")),
        ] {
            let rendered = Template::parse(template).expect(template).render(&prompt("hi"));
            assert_eq!(rendered, Ok(expected), "{template}");
        }
    }

    #[test]
    fn refuses_a_template_that_makes_no_json() {
        for template in ["{{user", "a={{user}}&b=c", r#"{"a":}"#, "{{{user}}}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }

    proptest! {
        /// Every user text is transmitted unchanged, with and without quotes.
        #[test]
        fn no_text_breaks_the_json(user in ".{0,60}") {
            for template in [r#"{"u":"{{user}}"}"#, r#"{"u":{{user}}}"#] {
                let rendered = Template::parse(template).expect("a template").render(&prompt(&user));
                prop_assert_eq!(rendered, Ok(json!({"u": user.clone()})));
            }
        }

        #[test]
        fn never_panics(template in ".{0,60}") {
            let _ = Template::parse(&template);
        }
    }
}
