//! Replaces tests that promptfoo reads from files by references to these files.

use kindlm_promptfoo::{Inputs, translate_tests};
use kindlm_source::{Level, Node, Span};
use serde_json::{Map, Value, json};

use super::merged_prompts;
use super::original::Original;

/// The keys of a test that are merged with the default test entry by entry.
const MERGED: [&str; 3] = ["vars", "metadata", "options"];

/// Consecutive tests from one file, or from the config itself.
struct Group {
    file: Option<(String, Span)>,
    tests: Vec<Value>,
}

/// Replaces the tests that come from dataset files by references to these files.
///
/// The entries that the config adds to these tests become the default test. Returns `None` without such datasets, or if
/// the entries cannot be a default test.
/// the entries cannot be a default test.
pub(in crate::load) fn with_datasets(
    root: &Value,
    original: &Original<'_>,
    inputs: &Inputs<'_>,
) -> Option<Value> {
    let places = original.root.get("tests").map_or(&[][..], Node::items);
    let tests = root.get("tests")?.as_array()?;
    let mut groups: Vec<Group> = Vec::new();
    for (test, place) in tests.iter().zip(places) {
        let file = original.tests_file(place.span).map(|it| (it.to_owned(), place.span));
        match groups.last_mut().filter(|it| it.file == file) {
            Some(group) => group.tests.push(test.clone()),
            None => groups.push(Group { file, tests: vec![test.clone()] }),
        }
    }
    let models: Value =
        root["models"].as_array().into_iter().flatten().map(|it| it["id"].clone()).collect();
    let mut default: Option<Map<String, Value>> = None;
    for group in &mut groups {
        group.tests = merged_prompts(std::mem::take(&mut group.tests));
        let Some((file, span)) = &group.file else { continue };
        let read = translate_tests(original.source, *span, &format!("file://{file}"), inputs);
        let is_broken = read.diagnostics.iter().any(|it| it.level == Level::Error);
        let own = read.root.to_json();
        let own = own.as_array().filter(|it| !is_broken && it.len() == group.tests.len())?;
        for (test, own) in group.tests.iter().zip(own) {
            let rest = difference(test.as_object()?, own.as_object()?)?;
            match &default {
                Some(known) if *known != rest => return None,
                Some(_) => {}
                None => default = Some(rest),
            }
        }
    }
    let mut default = default?;
    let mut items: Vec<Value> = Vec::new();
    for group in groups {
        match group.file {
            Some((file, _)) => {
                items.push(json!({"dataset": format!("file://{file}"), "format": "promptfoo"}));
            }
            None => {
                for test in &group.tests {
                    items.push(without_default(test.as_object()?, &default, &models)?.into());
                }
            }
        }
    }
    if default.get("models") == Some(&models) {
        default.shift_remove("models");
    }
    let mut root = root.clone();
    let document = root.as_object_mut()?;
    document.insert("tests".to_owned(), items.into());
    super::insert_default_test(document, default);
    Some(root)
}

/// Returns the entries that the config adds to a test of a file. Returns `None` if they cannot be a default test.
fn difference(test: &Map<String, Value>, own: &Map<String, Value>) -> Option<Map<String, Value>> {
    if test.get("name") != own.get("name") || !own.keys().all(|it| test.contains_key(it)) {
        return None;
    }
    let mut rest = Map::new();
    for (key, value) in test.iter().filter(|(key, _)| *key != "name") {
        let Some(in_file) = own.get(key) else {
            rest.insert(key.clone(), value.clone());
            continue;
        };
        if MERGED.contains(&key.as_str()) {
            let (all, in_file) = (value.as_object()?, in_file.as_object()?);
            let is_there = |(name, value): (&String, &Value)| all.get(name) == Some(value);
            if !in_file.iter().all(is_there) {
                return None;
            }
            let others = all.iter().filter(|(name, _)| !in_file.contains_key(*name));
            let others: Map<String, Value> =
                others.map(|(name, it)| (name.clone(), it.clone())).collect();
            if !others.is_empty() {
                rest.insert(key.clone(), others.into());
            }
        } else if key == "expect" {
            let (all, in_file) = (value["assert"].as_array()?, in_file["assert"].as_array()?);
            let first = all.strip_suffix(in_file.as_slice())?;
            if !first.is_empty() {
                rest.insert(key.clone(), json!({"assert": first}));
            }
        } else if value != in_file {
            return None;
        }
    }
    Some(rest)
}

/// Returns a test of the config without the entries of the default test. Returns `None` if the test lacks one of these
/// entries.
fn without_default(
    test: &Map<String, Value>,
    default: &Map<String, Value>,
    models: &Value,
) -> Option<Map<String, Value>> {
    let mut rest = test.clone();
    for (key, value) in default {
        let own = match (key.as_str(), rest.get(key)) {
            ("prompt" | "prompts", None) => continue,
            ("models", None) => {
                rest.insert(key.clone(), models.clone());
                continue;
            }
            (_, own) => own?.clone(),
        };
        if MERGED.contains(&key.as_str()) {
            let (own, value) = (own.as_object()?, value.as_object()?);
            if !value.keys().all(|it| own.contains_key(it)) {
                return None;
            }
            let differs = |(name, it): &(&String, &Value)| value.get(*name) != Some(*it);
            let kept: Map<String, Value> =
                own.iter().filter(differs).map(|(name, it)| (name.clone(), it.clone())).collect();
            rest.insert(key.clone(), kept.into());
        } else if key == "expect" {
            let (own, first) = (own["assert"].as_array()?, value["assert"].as_array()?);
            let others = own.strip_prefix(first.as_slice())?;
            rest.insert(key.clone(), json!({"assert": others}));
        } else if own == *value {
            rest.shift_remove(key);
        }
    }
    Some(rest)
}
