//! The arguments of the tool call, built from a prompt.

use kindlm_types::{Problem, Prompt, Role};
use serde_json::{Map, Value, json};

use super::{Config, pointer};
use crate::dialect::prompt::{content_of, message_json};

/// The placeholder names.
const PLACEHOLDERS: [&str; 5] = ["input", "system", "model", "messages", "params"];

/// Returns the arguments of the tool call. They are the template with the prompt filled in; without a template, the
/// messages, the model and the parameters.
///
/// A text that is a single placeholder becomes the placeholder's value. In a longer text, a value that is not a text is
/// inserted as JSON text.
pub fn arguments(config: &Config, prompt: &Prompt) -> Map<String, Value> {
    let values = values(prompt);
    match &config.arguments {
        Some(template) => {
            template.iter().map(|(name, value)| (name.clone(), fill(value, &values))).collect()
        }
        None => ["messages", "model", "params"]
            .into_iter()
            .map(|name| (name.to_owned(), values.get(name).cloned().unwrap_or_default()))
            .collect(),
    }
}

fn values(prompt: &Prompt) -> Map<String, Value> {
    let input = prompt.messages.iter().rfind(|it| it.role == Role::User);
    let system: Vec<&str> = prompt
        .messages
        .iter()
        .filter(|it| it.role == Role::System)
        .map(|it| it.content.as_str())
        .collect();
    let mut values = Map::new();
    values.insert("input".into(), input.map_or_else(|| "".into(), content_of));
    values.insert("system".into(), system.join("\n\n").into());
    values.insert("model".into(), prompt.model.as_str().into());
    values.insert("messages".into(), prompt.messages.iter().map(message_json).collect());
    values.insert("params".into(), json!(prompt.params));
    values
}

fn fill(template: &Value, values: &Map<String, Value>) -> Value {
    match template {
        Value::String(text) => fill_text(text, values),
        Value::Array(items) => items.iter().map(|it| fill(it, values)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(k, v)| (k.clone(), fill(v, values))).collect())
        }
        other => other.clone(),
    }
}

fn fill_text(text: &str, values: &Map<String, Value>) -> Value {
    if let [Piece::Placeholder(name)] = pieces(text)[..] {
        return values.get(name).cloned().unwrap_or_default();
    }
    let filled: String = pieces(text)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Placeholder(name) => match values.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            },
        })
        .collect();
    Value::String(filled)
}

/// Returns a problem for each unknown placeholder of a template.
pub(super) fn check(template: &Map<String, Value>) -> Vec<Problem> {
    template
        .iter()
        .flat_map(|(name, value)| {
            let at = pointer("", name);
            unknown(value).into_iter().map(move |it| {
                Problem::new(at.clone(), format!("unknown placeholder `{{{{{it}}}}}`"))
                    .with_help(kindlm_types::suggest(&it, "placeholders", PLACEHOLDERS))
            })
        })
        .collect()
}

fn unknown(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => pieces(text)
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Placeholder(name) if !PLACEHOLDERS.contains(&name) => Some(name.to_owned()),
                _ => None,
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(unknown).collect(),
        Value::Object(members) => members.values().flat_map(unknown).collect(),
        _ => Vec::new(),
    }
}

/// A part of a template text.
enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    while let Some((before, rest)) = text.split_once("{{") {
        let Some((name, after)) = rest.split_once("}}") else { break };
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Placeholder(name.trim()));
        text = after;
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}
