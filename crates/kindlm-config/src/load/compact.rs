//! Writes an imported suite without repetition: parts that occur several times are written once.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

/// The minimum length of a value's JSON, in bytes, from which a repeated value becomes an alias.
const LONG: usize = 48;

/// The length of the name of a prompt from which the name becomes an anchor.
const SHORTEST_NAME: usize = 16;

/// Marks of anchors and aliases in the text, before they get their form in YAML. They need no quotes in YAML.
const ANCHOR: &str = "qanchorq";
const ITEM: &str = "qitemq";
const ALIAS: &str = "qaliasq";
const KEY: &str = "qkeyq";

/// The length of the longest key of YAML that needs no `?` before it.
const LONGEST_KEY: usize = 1_000;

/// Removes what a suite does not need: the models of tests that run on all models, and copies of tests that only
/// differ in their prompt.
pub(super) fn compacted(mut root: Value) -> Value {
    let models = root.get("models").and_then(Value::as_array).into_iter().flatten();
    let models: Value = models.map(|it| it["id"].clone()).collect();
    let Some(tests) = root.get_mut("tests").and_then(Value::as_array_mut) else { return root };
    for test in tests.iter_mut().filter_map(Value::as_object_mut) {
        if test.get("models") == Some(&models) {
            test.shift_remove("models");
        }
    }
    let mut merged: Vec<Value> = Vec::with_capacity(tests.len());
    for test in std::mem::take(tests) {
        match merged.last_mut().and_then(|last| with_prompt_of(last, &test)) {
            Some(both) => {
                merged.pop();
                merged.push(both);
            }
            None => merged.push(test),
        }
    }
    *tests = merged;
    root
}

/// The gates that have these thresholds without being written.
const USUAL_GATES: [&str; 3] = ["schemaFailuresMax", "piiFailuresMax", "keywordFailuresMax"];

/// The keys for the subject of a test.
const SUBJECTS: [&str; 2] = ["prompts", "prompt"];

/// Moves the entries that all tests have in common to `defaults.test`, and removes gates with the usual thresholds.
pub(super) fn with_default_test(mut root: Value) -> Value {
    if let Some(gates) = root.get_mut("gates").and_then(Value::as_object_mut) {
        gates
            .retain(|gate, it| !(USUAL_GATES.contains(&gate.as_str()) && it.as_f64() == Some(0.0)));
    }
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
    if default.is_empty() {
        return root;
    }
    let Value::Object(entries) = root else { return root };
    let mut shared = Map::new();
    let mut written = entries.get("defaults").and_then(Value::as_object).cloned();
    written.get_or_insert_default().insert("test".to_owned(), default.into());
    // The default test stands before the tests.
    for (key, value) in entries {
        if key == "tests" {
            shared.extend(written.take().map(|it| ("defaults".to_owned(), it.into())));
        }
        if key != "defaults" {
            shared.insert(key, value);
        }
    }
    shared.into()
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
    // Of several values, the first in the file counts, so that the result is always the same.
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

/// Returns the entry of a test with the first of these keys that it has.
fn entry_of<'t>(keys: &[&'t str], test: &'t Map<String, Value>) -> Option<(&'t str, &'t Value)> {
    keys.iter().find_map(|key| Some((*key, test.get(*key)?)))
}

/// Moves an entry to the default test, if all tests have the same.
fn move_common(key: &str, tests: &mut [&mut Map<String, Value>], default: &mut Map<String, Value>) {
    let Some(value) = tests.first().and_then(|it| it.get(key)).cloned() else { return };
    if tests.iter().all(|it| it.get(key) == Some(&value)) {
        for test in tests.iter_mut() {
            test.shift_remove(key);
        }
        default.insert(key.to_owned(), value);
    }
}

/// Moves the first variables of all tests to the default test, as far as all tests have the same.
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

/// Moves the first checks of all tests to the default test, as far as all tests have the same.
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
    if count == 0 {
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

/// Returns a test with the prompts of both tests. Returns `None` if they differ in more than their prompt.
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

/// Returns the name of a test without its prompt, its prompts, and its other entries.
///
/// Returns `None` if the name does not end with the prompt.
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

/// Writes a document as YAML. A long value that occurs several times gets an anchor, and then aliases.
///
/// # Errors
///
/// Fails if the value cannot be written.
pub(super) fn to_yaml(root: &Value) -> Result<String, serde_yaml::Error> {
    let json = root.to_string();
    if [ANCHOR, ITEM, ALIAS, KEY].iter().any(|it| json.contains(it)) {
        return serde_yaml::to_string(root);
    }
    let mut aliases = Aliases::default();
    aliases.count(root);
    let marked = aliases.marked_root(root);
    let text = serde_yaml::to_string(&marked)?;
    Ok(text.lines().map(|line| with_marks(line, &aliases) + "\n").collect())
}

#[derive(Default)]
struct Aliases {
    /// The number of occurrences of each long value, by its JSON.
    counts: HashMap<String, usize>,
    /// The numbers of the values with an anchor, by their JSON.
    anchors: HashMap<String, usize>,
    /// The numbers of the anchors to which an alias refers.
    used: BTreeSet<usize>,
    /// The names of prompts that get an anchor, by its number.
    names: HashMap<usize, String>,
}

impl Aliases {
    fn count(&mut self, value: &Value) {
        if let Some(json) = long(value) {
            let count = self.counts.entry(json).or_default();
            *count += 1;
            // The parts of a repeated value were counted with its first copy.
            if *count > 1 {
                return;
            }
        }
        match value {
            Value::Array(items) => items.iter().for_each(|it| self.count(it)),
            Value::Object(entries) => entries.values().for_each(|it| self.count(it)),
            _ => {}
        }
    }

    /// Returns the mark for an alias if the value has an anchor already.
    ///
    /// Fails with the number of a new anchor for a repeated value, and with `None` for any other value.
    fn alias(&mut self, value: &Value) -> Result<Value, Option<usize>> {
        if let Value::String(text) = value
            && let Some(number) = self.anchors.get(&Value::from(text.as_str()).to_string())
        {
            self.used.insert(*number);
            return Ok(format!("{ALIAS}{number}q").into());
        }
        let repeated = long(value).filter(|it| self.counts.get(it).is_some_and(|it| *it > 1));
        let Some(json) = repeated else { return Err(None) };
        match self.anchors.get(&json) {
            Some(number) => {
                self.used.insert(*number);
                Ok(format!("{ALIAS}{number}q").into())
            }
            None => Err(Some(self.anchors.len() + 1)),
        }
    }

    /// Returns the document with marks in its keys. A prompt that is named after its text has the text only once.
    fn marked_root(&mut self, root: &Value) -> Value {
        let Value::Object(entries) = root else { return self.marked(root) };
        let mut marked = Map::new();
        for (key, value) in entries {
            let prompts = value.as_object().filter(|_| key == "prompts");
            let Some(prompts) = prompts else {
                let (key, value) = self.marked_entry(key, value);
                marked.insert(key, value);
                continue;
            };
            let mut named = Map::new();
            for (name, prompt) in prompts {
                let is_named = name.len() >= SHORTEST_NAME && prompt["user"] == name.as_str();
                let key = if is_named {
                    let number = self.anchors.len() + 1;
                    self.anchors.insert(Value::from(name.as_str()).to_string(), number);
                    self.names.insert(number, name.clone());
                    format!("{KEY}{number}q")
                } else {
                    name.clone()
                };
                let prompt = self.marked(prompt);
                named.insert(key, prompt);
            }
            marked.insert(key.clone(), named.into());
        }
        marked.into()
    }

    fn anchor(&mut self, value: &Value, number: usize) {
        self.anchors.extend(long(value).map(|it| (it, number)));
    }

    /// Returns a value with marks for anchors in its keys, and with marks for aliases in place of repeated values.
    fn marked(&mut self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|it| self.marked_item(it)).collect(),
            Value::Object(entries) => {
                let marked = entries.iter().map(|(key, value)| self.marked_entry(key, value));
                Value::Object(marked.collect())
            }
            other => other.clone(),
        }
    }

    fn marked_entry(&mut self, key: &str, value: &Value) -> (String, Value) {
        match self.alias(value) {
            Ok(alias) => (key.to_owned(), alias),
            Err(Some(number)) if is_plain(key) => {
                self.anchor(value, number);
                (format!("{key}{ANCHOR}{number}q"), self.marked(value))
            }
            Err(_) => (key.to_owned(), self.marked(value)),
        }
    }

    fn marked_item(&mut self, item: &Value) -> Value {
        let number = match self.alias(item) {
            Ok(alias) => return alias,
            Err(number) => number,
        };
        let first = item.as_object().and_then(|it| it.keys().next()).filter(|it| is_plain(it));
        let (Some(number), Some(first)) = (number, first.cloned()) else {
            return self.marked(item);
        };
        self.anchor(item, number);
        let Value::Object(entries) = self.marked(item) else { return item.clone() };
        let mark = |(key, value): (String, Value)| {
            let is_first = key == first || key.starts_with(&format!("{first}{ANCHOR}"));
            (if is_first { format!("{ITEM}{number}q{key}") } else { key }, value)
        };
        Value::Object(entries.into_iter().map(mark).collect())
    }
}

/// Returns the JSON of a text, list or object of at least [`LONG`] bytes; `None` for other values.
fn long(value: &Value) -> Option<String> {
    let json = match value {
        Value::String(text) if text.len() < LONG => return None,
        Value::String(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        _ => return None,
    };
    (json.len() >= LONG).then_some(json)
}

/// Returns true if a key needs no quotes in YAML, with or without a mark.
fn is_plain(key: &str) -> bool {
    const WORDS: [&str; 10] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes", "~"];
    let mut chars = key.chars();
    chars.next().is_some_and(|it| it.is_ascii_alphabetic())
        && chars.all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-'))
        && !WORDS.contains(&key.to_ascii_lowercase().as_str())
}

/// Returns a line with anchors and aliases in place of their marks.
fn with_marks(line: &str, aliases: &Aliases) -> String {
    let name = |number: &str| match number.parse() {
        Ok(number) if aliases.used.contains(&number) => format!(" &part{number}"),
        _ => String::new(),
    };
    let mut line = line.to_owned();
    if let Some((before, rest)) = line.split_once(KEY)
        && let Some((number, rest)) = rest.split_once('q')
        && let Some(text) = number.parse().ok().and_then(|it: usize| aliases.names.get(&it))
    {
        let text = Value::from(text.as_str()).to_string();
        let key = format!("&part{number} {text}");
        line = if text.len() < LONGEST_KEY {
            format!("{before}{key}{rest}")
        } else {
            format!("{before}? {key}\n{before}{rest}")
        };
    }
    if let Some((before, rest)) = line.split_once(ALIAS) {
        line = format!("{before}*part{}", rest.strip_suffix('q').unwrap_or(rest));
    }
    if let Some((key, rest)) = line.split_once(ANCHOR)
        && let Some((number, rest)) = rest.split_once("q:")
    {
        line = format!("{key}:{}{rest}", name(number));
    }
    if let Some((before, rest)) = line.split_once(ITEM)
        && let Some((number, rest)) = rest.split_once('q')
    {
        let name = name(number);
        line = if name.is_empty() {
            format!("{before}{rest}")
        } else {
            let indent = " ".repeat(before.len());
            format!("{}{name}\n{indent}{rest}", before.trim_end())
        };
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_values_become_aliases() {
        let check = json!({"type": "contains", "value": "a text that is long enough for an alias"});
        let root = json!({
            "tests": [
                {"name": "a", "expect": {"assert": [check, {"type": "equals", "value": "x"}]}},
                {"name": "b", "expect": {"assert": [{"type": "equals", "value": "x"}, check]}},
                {"name": "c", "expect": {"assert": [check, {"type": "equals", "value": "x"}]}},
            ],
        });
        let yaml = to_yaml(&root).unwrap();
        assert_eq!(yaml.matches("long enough").count(), 1, "{yaml}");
        assert!(yaml.contains("- *part"), "{yaml}");
        assert!(yaml.contains("expect: *part"), "{yaml}");
        let source = std::sync::Arc::new(kindlm_source::Source::new("a.yaml", yaml.as_str()));
        let read = kindlm_source::read(&source, 0..yaml.len());
        assert_eq!(read.diagnostics.len(), 0, "{yaml}");
        assert_eq!(read.root.unwrap().to_json(), root, "{yaml}");
    }

    #[test]
    fn a_prompt_named_after_its_text_has_the_text_once() {
        let long = "word ".repeat(300);
        for name in ["{{x}}: say 'yes' & \"no\"\nplease", "Convert this to {{y}}", &long] {
            let root = json!({
                "prompts": {name: {"template": "jinja", "user": name}, "b": {"user": "b"}},
                "defaults": {"test": {"prompts": [name, "b"]}},
            });
            let yaml = to_yaml(&root).unwrap();
            let source = std::sync::Arc::new(kindlm_source::Source::new("a.yaml", yaml.as_str()));
            let read = kindlm_source::read(&source, 0..yaml.len());
            assert_eq!(read.diagnostics.len(), 0, "{yaml}");
            assert_eq!(read.root.unwrap().to_json(), root, "{yaml}");
            assert_eq!(yaml.matches("*part1").count(), 2, "{yaml}");
        }
    }

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
