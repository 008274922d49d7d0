//! The short forms of models, providers and prompts.

use std::collections::{BTreeSet, HashMap};

use kindlm_providers::{Providers, shorthand};
use serde_json::{Map, Value, json};

use super::original::Original;

/// True if the suite needs no entry for a provider, because it uses the provider's default configuration.
pub(super) fn has_usual_provider(root: &Value, name: &str, known: &Providers) -> bool {
    let reference = format!("{name}:model");
    let usual = shorthand(known, &reference).and_then(|(it, _)| it.default_config());
    usual.is_some_and(|usual| root["providers"].get(name).is_none_or(|it| *it == usual))
}

/// Writes models in their short forms, and removes providers that need no entry.
///
/// The most frequent parameters become `defaults.params`, if at least two models have them.
pub(in crate::load) fn with_short_models(mut root: Value, known: &Providers) -> Value {
    let Some(models) = root.get("models").and_then(Value::as_array).cloned() else { return root };
    let default = usual_params(&models);
    let mut explicit: BTreeSet<String> = BTreeSet::new();
    let short: Vec<Value> =
        models.iter().map(|it| short_model(it, default.as_ref(), &mut explicit)).collect();
    let providers = root.get("providers").and_then(Value::as_object).cloned().unwrap_or_default();
    let needed: Map<String, Value> = providers
        .into_iter()
        .filter(|(name, _)| explicit.contains(name) || !has_usual_provider(&root, name, known))
        .collect();
    let Some(document) = root.as_object_mut() else { return root };
    document.insert("models".to_owned(), short.into());
    if needed.is_empty() {
        document.shift_remove("providers");
    } else {
        document.insert("providers".to_owned(), needed.into());
    }
    if let Some(params) = default {
        insert_default(document, "params", params);
    }
    root
}

/// Returns the most frequent parameters; `None` unless at least two models have the same parameters.
fn usual_params(models: &[Value]) -> Option<Value> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for params in models.iter().filter_map(|it| it.get("params")) {
        *counts.entry(params.to_string()).or_default() += 1;
    }
    let most = counts.values().copied().max().filter(|it| *it > 1)?;
    models
        .iter()
        .filter_map(|it| it.get("params"))
        .find(|it| counts.get(&it.to_string()) == Some(&most))
        .cloned()
}

/// Returns the short form of a model. Adds the provider to `explicit` if it cannot be part of the form
/// `provider:model`.
fn short_model(model: &Value, default: Option<&Value>, explicit: &mut BTreeSet<String>) -> Value {
    let Some(entry) = model.as_object() else { return model.clone() };
    let at = |key: &str| entry.get(key).and_then(Value::as_str);
    let (Some(id), Some(provider), Some(name)) = (at("id"), at("provider"), at("model")) else {
        return model.clone();
    };
    let mut rest = entry.clone();
    if default.is_some() {
        match rest.get("params") {
            Some(params) if Some(params) == default => _ = rest.shift_remove("params"),
            Some(_) => {}
            None => _ = rest.insert("params".to_owned(), json!({})),
        }
    }
    // The name of a provider such as `openai (2)` would be hard to read before a colon.
    if provider.contains([' ', ':']) {
        explicit.insert(provider.to_owned());
        return rest.into();
    }
    let reference = format!("{provider}:{name}");
    let is_usual = id == reference;
    for key in ["provider", "id"].into_iter().filter(|it| *it != "id" || is_usual) {
        rest.shift_remove(key);
    }
    rest.insert("model".to_owned(), reference.clone().into());
    if is_usual && rest.len() == 1 { reference.into() } else { rest.into() }
}

/// Writes prompts as texts or file names, and makes their most frequent template language the default.
pub(in crate::load) fn with_short_prompts(mut root: Value, original: &Original<'_>) -> Value {
    let Some(prompts) = root.get("prompts").and_then(Value::as_object).cloned() else {
        return root;
    };
    // KindLM reads a short prompt that begins with `file://` as a file. So keep the long forms.
    let is_file =
        |it: &Value| it["user"].as_str().is_some_and(|it| it.trim().starts_with("file://"));
    if prompts.values().any(is_file) {
        return root;
    }
    let language = most_frequent(prompts.values().filter_map(|it| it["template"].as_str()));
    let one = |(name, prompt): (String, Value)| {
        let Value::Object(mut entry) = prompt else { return (name, prompt) };
        let has_default = entry.get("template").and_then(Value::as_str) == language.as_deref();
        if has_default {
            entry.shift_remove("template");
        }
        let file = original.prompt_file(&name, &entry);
        let is_alone = entry.len() == 1;
        let short = match (file, entry.get("user")) {
            (Some(file), _) if is_alone => file.into(),
            (Some(file), Some(_)) => {
                entry.insert("user".to_owned(), file.into());
                entry.into()
            }
            (None, Some(Value::String(text))) if is_alone => text.as_str().into(),
            _ => entry.into(),
        };
        (name, short)
    };
    let short: Map<String, Value> = prompts.into_iter().map(one).collect();
    let Some(document) = root.as_object_mut() else { return root };
    document.insert("prompts".to_owned(), short.into());
    if let Some(language) = language {
        insert_default(document, "template", language.into());
    }
    root
}

fn most_frequent<'t>(texts: impl Iterator<Item = &'t str>) -> Option<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for text in texts {
        match counts.iter_mut().find(|(it, _)| *it == text) {
            Some((_, count)) => *count += 1,
            None => counts.push((text, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts.iter().find(|(_, count)| *count == most).map(|(text, _)| (*text).to_owned())
}

/// Adds an entry to `defaults`, which stands before the tests.
fn insert_default(document: &mut Map<String, Value>, key: &str, value: Value) {
    if let Some(defaults) = document.get_mut("defaults").and_then(Value::as_object_mut) {
        defaults.shift_insert(0, key.to_owned(), value);
        return;
    }
    let at = document.keys().position(|it| it == "tests").unwrap_or(document.len());
    document.shift_insert(at, "defaults".to_owned(), json!({key: value}));
}
