//! Writes an imported suite without repetition: parts that occur several times are written once.

mod comments;
mod datasets;
mod judges;
mod matrix;
mod original;
mod short;
mod yaml;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

pub(in crate::load) use comments::Comments;
pub(in crate::load) use datasets::with_datasets;
pub(in crate::load) use judges::with_default_judge;
pub(in crate::load) use matrix::with_matrix;
pub(in crate::load) use original::Original;
pub(in crate::load) use short::{with_short_models, with_short_prompts};
pub(in crate::load) use yaml::{equal, to_yaml};

/// Removes `models` from tests that run on all models, and joins tests that only differ in their prompt.
pub(super) fn compacted(mut root: Value) -> Value {
    let models = root.get("models").and_then(Value::as_array).into_iter().flatten();
    let models: Value = models.map(|it| it["id"].clone()).collect();
    let Some(tests) = root.get_mut("tests").and_then(Value::as_array_mut) else { return root };
    for test in tests.iter_mut().filter_map(Value::as_object_mut) {
        if test.get("models") == Some(&models) {
            test.shift_remove("models");
        }
    }
    *tests = merged_prompts(std::mem::take(tests));
    root
}

/// Joins consecutive tests that only differ in their prompt.
fn merged_prompts(tests: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::with_capacity(tests.len());
    for test in tests {
        match merged.last_mut().and_then(|last| with_prompt_of(last, &test)) {
            Some(both) => {
                merged.pop();
                merged.push(both);
            }
            None => merged.push(test),
        }
    }
    merged
}

/// The gates that every suite has, with the default threshold 0.
const USUAL_GATES: [&str; 3] = ["schemaFailuresMax", "piiFailuresMax", "keywordFailuresMax"];

/// The keys for the subject of a test.
const SUBJECTS: [&str; 2] = ["prompts", "prompt"];

/// Moves the entries that all tests have in common to `defaults.test`.
pub(super) fn with_default_test(mut root: Value) -> Value {
    let Some(tests) = root.get_mut("tests").and_then(Value::as_array_mut) else { return root };
    let mut own: Vec<&mut Map<String, Value>> =
        tests.iter_mut().filter_map(Value::as_object_mut).collect();
    if own.len() < 2 || own.iter().any(|it| !it.contains_key("expect")) {
        return root;
    }
    let mut default = Map::new();
    move_usual(&SUBJECTS, &mut own, &mut default);
    move_usual(&["models"], &mut own, &mut default);
    let keys: Vec<String> = own.first().map(|it| it.keys().cloned().collect()).unwrap_or_default();
    let is_own = |it: &String| matches!(it.as_str(), "name" | "vars" | "expect" | "models");
    for key in keys.into_iter().filter(|it| !is_own(it) && !SUBJECTS.contains(&it.as_str())) {
        move_common(&key, &mut own, &mut default);
    }
    move_vars(&mut own, &mut default);
    move_expect(&mut own, &mut default);
    if let Some(document) = root.as_object_mut() {
        insert_default_test(document, default);
    }
    root
}

/// Adds the default test to a suite. The block `defaults` stands before `tests`.
fn insert_default_test(document: &mut Map<String, Value>, default: Map<String, Value>) {
    if default.is_empty() {
        return;
    }
    let defaults = document.shift_remove("defaults");
    let mut defaults = defaults.and_then(|it| it.as_object().cloned()).unwrap_or_default();
    defaults.insert("test".to_owned(), default.into());
    let at = document.keys().position(|it| it == "tests").unwrap_or(document.len());
    document.shift_insert(at, "defaults".to_owned(), defaults.into());
}

/// Removes the gates of [`USUAL_GATES`] whose threshold is 0.
pub(in crate::load) fn without_usual_gates(mut root: Value) -> Value {
    if let Some(gates) = root.get_mut("gates").and_then(Value::as_object_mut) {
        gates
            .retain(|gate, it| !(USUAL_GATES.contains(&gate.as_str()) && it.as_f64() == Some(0.0)));
    }
    root
}

/// Moves the most frequent value of these keys to the default test, if each test has one of the keys.
fn move_usual(
    keys: &[&'static str],
    tests: &mut [&mut Map<String, Value>],
    default: &mut Map<String, Value>,
) {
    let mut counts: HashMap<(&str, String), usize> = HashMap::new();
    for test in tests.iter() {
        let Some((key, value)) = entry_of(keys, test) else { return };
        *counts.entry((key, value.to_string())).or_default() += 1;
    }
    // If several values are equally frequent, take the first in the file, so that the result is always the same.
    let most = counts.values().copied().max().unwrap_or_default();
    let frequent = tests.iter().find_map(|test| {
        let (key, value) = entry_of(keys, test)?;
        let count = counts.get(&(key, value.to_string()))?;
        (*count == most && most > 1).then(|| (key.to_owned(), value.clone()))
    });
    let Some((key, value)) = frequent else { return };
    for test in tests.iter_mut().filter(|it| it.get(&key) == Some(&value)) {
        test.shift_remove(&key);
    }
    default.insert(key, value);
}

/// Returns the entry of a test for the first of these keys that the test has; `None` without these keys.
fn entry_of<'t>(keys: &[&'t str], test: &'t Map<String, Value>) -> Option<(&'t str, &'t Value)> {
    keys.iter().find_map(|key| Some((*key, test.get(*key)?)))
}

/// Moves an entry to the default test, if all tests have this key with the same value.
fn move_common(key: &str, tests: &mut [&mut Map<String, Value>], default: &mut Map<String, Value>) {
    let Some(value) = tests.first().and_then(|it| it.get(key)).cloned() else { return };
    if tests.iter().all(|it| it.get(key) == Some(&value)) {
        for test in tests.iter_mut() {
            test.shift_remove(key);
        }
        default.insert(key.to_owned(), value);
    }
}

/// Moves the leading variables that all tests have in common, with the same values, to the default test.
fn move_vars(tests: &mut [&mut Map<String, Value>], default: &mut Map<String, Value>) {
    let mut common = Map::new();
    while let Some((name, value)) = first_var(tests.first()) {
        if !tests.iter().all(|it| first_var(Some(it)) == Some((name.clone(), value.clone()))) {
            break;
        }
        for test in tests.iter_mut() {
            if let Some(vars) = test.get_mut("vars").and_then(Value::as_object_mut) {
                vars.shift_remove(&name);
            }
        }
        common.insert(name, value);
    }
    if !common.is_empty() {
        for test in tests.iter_mut() {
            if test.get("vars").and_then(Value::as_object).is_some_and(Map::is_empty) {
                test.shift_remove("vars");
            }
        }
        default.insert("vars".to_owned(), common.into());
    }
}

fn first_var(test: Option<&&mut Map<String, Value>>) -> Option<(String, Value)> {
    let (name, value) = test?.get("vars")?.as_object()?.iter().next()?;
    Some((name.clone(), value.clone()))
}

/// Moves the leading checks that all tests have in common to the default test.
fn move_expect(tests: &mut [&mut Map<String, Value>], default: &mut Map<String, Value>) {
    move_common("expect", tests, default);
    let lists = |test: &&mut Map<String, Value>| {
        let expect = test.get("expect")?.as_object().filter(|it| it.len() == 1)?;
        expect.get("assert")?.as_array().cloned()
    };
    let all: Option<Vec<Vec<Value>>> = tests.iter().map(lists).collect();
    let Some(all) = all else { return };
    let first = all.first().map_or(&[][..], Vec::as_slice);
    let shared = |it: &Vec<Value>| first.iter().zip(it).take_while(|(a, b)| a == b).count();
    let count = all.iter().map(shared).min().unwrap_or_default();
    // If a test has an empty list of checks, the default test gets an empty list too. Then the test needs no `expect`.
    if count == 0 && !all.iter().any(Vec::is_empty) {
        return;
    }
    default.insert("expect".to_owned(), json!({"assert": first[..count]}));
    for (test, checks) in tests.iter_mut().zip(&all) {
        if checks.len() == count {
            test.shift_remove("expect");
        } else {
            test.insert("expect".to_owned(), json!({"assert": checks[count..]}));
        }
    }
}

/// Returns a test with the prompts of both tests. Returns `None` if the tests differ in more than their prompts.
fn with_prompt_of(first: &Value, second: &Value) -> Option<Value> {
    let (base, mut prompts, rest) = parts(first)?;
    let (other, more, same) = parts(second)?;
    if base != other || rest != same {
        return None;
    }
    prompts.extend(more);
    let mut test = Map::new();
    for (key, value) in first.as_object()? {
        match key.as_str() {
            "name" => test.insert("name".to_owned(), base.into()),
            "prompt" | "prompts" => test.insert("prompts".to_owned(), prompts.clone().into()),
            _ => test.insert(key.clone(), value.clone()),
        };
    }
    Some(test.into())
}

/// Returns three parts of a test: its name without the prompt at its end, its prompts, and its other entries.
///
/// The name of a test with one prompt must end with ` · ` and the prompt. Otherwise, and without a prompt, returns
/// `None`.
fn parts(test: &Value) -> Option<(&str, Vec<Value>, Map<String, Value>)> {
    let name = test["name"].as_str()?;
    let mut rest = test.as_object()?.clone();
    rest.retain(|key, _| !matches!(key.as_str(), "name" | "prompt" | "prompts"));
    match (&test["prompt"], &test["prompts"]) {
        (Value::String(prompt), _) => {
            let base = name.strip_suffix(prompt.as_str())?.strip_suffix(" · ")?;
            Some((base, vec![prompt.as_str().into()], rest))
        }
        (_, Value::Array(prompts)) => Some((name, prompts.clone(), rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_of_all_tests_become_the_default_test() {
        let check = |name: &str| json!({"type": name});
        let root = json!({
            "prompts": {},
            "defaults": {"repeat": 2},
            "tests": [
                {"name": "a", "prompts": ["p", "q"], "models": ["m"], "vars": {"x": 1, "y": 2}, "threshold": 0.5,
                    "expect": {"assert": [check("c"), check("d")]}},
                {"name": "b", "prompt": "p", "models": ["m"], "vars": {"x": 1, "y": 3}, "threshold": 0.5,
                    "expect": {"assert": [check("c")]}},
                {"name": "c", "prompts": ["p", "q"], "models": ["n"], "vars": {"x": 1}, "threshold": 0.5,
                    "expect": {"assert": [check("c"), check("e")]}},
            ],
            "gates": {"passRateMin": 1.0, "piiFailuresMax": 0.0, "keywordFailuresMax": 1.0},
        });
        let root = without_usual_gates(root);
        let shared = with_default_test(root);
        let expected = json!({
            "prompts": {},
            "defaults": {
                "repeat": 2,
                "test": {
                    "prompts": ["p", "q"],
                    "models": ["m"],
                    "threshold": 0.5,
                    "vars": {"x": 1},
                    "expect": {"assert": [check("c")]},
                },
            },
            "tests": [
                {"name": "a", "vars": {"y": 2}, "expect": {"assert": [check("d")]}},
                {"name": "b", "prompt": "p", "vars": {"y": 3}},
                {"name": "c", "models": ["n"], "expect": {"assert": [check("e")]}},
            ],
            "gates": {"passRateMin": 1.0, "keywordFailuresMax": 1.0},
        });
        assert_eq!(shared.to_string(), expected.to_string());
    }

    #[test]
    fn tests_that_differ_in_their_prompt_are_one() {
        let test = |name: &str, prompt: &str, x: u32| json!({"name": name, "prompt": prompt, "models": ["m"], "vars": {"x": x}});
        let root = json!({
            "models": [{"id": "m"}],
            "tests": [
                test("t · a", "a", 1), test("t · b", "b", 1), test("t · c", "c", 2), test("u", "a", 2),
            ],
        });
        assert_eq!(
            compacted(root)["tests"],
            json!([
                {"name": "t", "prompts": ["a", "b"], "vars": {"x": 1}},
                {"name": "t · c", "prompt": "c", "vars": {"x": 2}},
                {"name": "u", "prompt": "a", "vars": {"x": 2}},
            ])
        );
    }
}
