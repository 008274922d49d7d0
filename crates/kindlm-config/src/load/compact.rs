//! Writes an imported suite without repetition: parts that occur several times are written once.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

/// The length of the JSON of a value from which a repeated value becomes an alias.
const LONG: usize = 48;

/// Marks of anchors and aliases in the text, before they get their form in YAML. They need no quotes in YAML.
const ANCHOR: &str = "qanchorq";
const ITEM: &str = "qitemq";
const ALIAS: &str = "qaliasq";

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
    if [ANCHOR, ITEM, ALIAS].iter().any(|it| json.contains(it)) {
        return serde_yaml::to_string(root);
    }
    let mut aliases = Aliases::default();
    aliases.count(root);
    let marked = aliases.marked(root);
    let used: BTreeSet<usize> = aliases.used.clone();
    let text = serde_yaml::to_string(&marked)?;
    Ok(text.lines().map(|line| with_marks(line, &used) + "\n").collect())
}

#[derive(Default)]
struct Aliases {
    /// How often each long value occurs, by its JSON.
    counts: HashMap<String, usize>,
    /// The numbers of the values with an anchor, by their JSON.
    anchors: HashMap<String, usize>,
    /// The anchors with an alias.
    used: BTreeSet<usize>,
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

    /// Returns the alias of a value, or the number of the anchor that the value should get.
    fn alias(&mut self, value: &Value) -> Result<Value, Option<usize>> {
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

    fn anchor(&mut self, value: &Value, number: usize) {
        self.anchors.extend(long(value).map(|it| (it, number)));
    }

    /// Returns a value with marks in its keys.
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

/// Returns the JSON of a long value.
fn long(value: &Value) -> Option<String> {
    let json = match value {
        Value::String(text) if text.len() < LONG => return None,
        Value::String(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        _ => return None,
    };
    (json.len() >= LONG).then_some(json)
}

/// True if a key needs no quotes in YAML, with or without a mark.
fn is_plain(key: &str) -> bool {
    const WORDS: [&str; 10] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes", "~"];
    let mut chars = key.chars();
    chars.next().is_some_and(|it| it.is_ascii_alphabetic())
        && chars.all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-'))
        && !WORDS.contains(&key.to_ascii_lowercase().as_str())
}

/// Returns a line with anchors and aliases in place of their marks.
fn with_marks(line: &str, used: &BTreeSet<usize>) -> String {
    let name = |number: &str| match number.parse() {
        Ok(number) if used.contains(&number) => format!(" &part{number}"),
        _ => String::new(),
    };
    let mut line = line.to_owned();
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
