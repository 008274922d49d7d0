//! `defaults.test`: entries for all tests that do not set these entries themselves.

use kindlm_source::{Key, Kind, Node, Piece};
use serde_json::{Map, Value};

use super::sink::Sink;
use crate::schema::SHAPES;

/// The keys for the subject of a test. A test has only one of them.
const SUBJECTS: [&str; 5] = ["prompt", "prompts", "command", "agent", "transcript"];

/// The keys of a test that are merged with the default test entry by entry.
const MERGED: [&str; 3] = ["vars", "metadata", "options"];

/// Returns the default test of a document; `None` without one. The default test is not checked yet.
pub(super) fn find_in(root: &Node) -> Option<&Node> {
    root.get("defaults")?.get("test")
}

/// Reports the errors of the default test. Returns true if there are any.
///
/// Skips a default test that is not a mapping, because the check of the document reports it.
pub(super) fn report(piece: Piece<'_>, default: &Node, sink: &mut Sink) -> bool {
    let Value::Object(mut value) = default.to_json() else { return false };
    // The shape of a test requires these keys, but a default test may omit them.
    value.entry("name").or_insert_with(|| "test".into());
    value.entry("expect").or_insert_with(|| Map::new().into());
    let problems = SHAPES.test.problems(&value.into());
    let is_faulty = !problems.is_empty();
    sink.report(piece, "/defaults/test", problems);
    is_faulty
}

/// Returns a document in which the tests have the entries of the default test. Datasets are unchanged.
pub(super) fn with_default(root: &Node, default: &Node) -> Node {
    let entry = |(key, value): &(Key, Node)| {
        let value = match &value.kind {
            Kind::List(tests) if &*key.name == "tests" => {
                let tests: Vec<Node> = tests.iter().map(|it| merged(it, default)).collect();
                Node { kind: Kind::List(tests.into()), ..value.clone() }
            }
            _ => value.clone(),
        };
        (key.clone(), value)
    };
    let entries: Vec<(Key, Node)> = root.entries().iter().map(entry).collect();
    Node { kind: Kind::Mapping(entries.into()), ..root.clone() }
}

/// Returns a test with the entries of the default test. References to datasets are unchanged.
pub(super) fn merged(test: &Node, default: &Node) -> Node {
    if !matches!(test.kind, Kind::Mapping(_)) || test.get("dataset").is_some() {
        return test.clone();
    }
    let has = |name: &str| test.get(name).is_some();
    let has_subject = SUBJECTS.into_iter().any(has);
    let is_fixed = ["command", "agent", "transcript"].into_iter().any(has);
    let applies = |(key, _): &&(Key, Node)| match &*key.name {
        // Commands, agents and transcripts do not run on models.
        "models" => !is_fixed,
        name => !(has_subject && SUBJECTS.contains(&name)),
    };
    let defaults = default.entries().iter().filter(applies);
    // The test decides whether a variable has a value (`vars`) or a list of values (`matrix`). So remove the other form
    // from the default test.
    let defaults = defaults.filter_map(|(key, value)| match &*key.name {
        "vars" => Some((key.clone(), without(value, test.get("matrix")))),
        "matrix" => {
            let rest = without(value, test.get("vars"));
            let is_overridden = rest.entries().is_empty() && !value.entries().is_empty();
            (!is_overridden).then(|| (key.clone(), rest))
        }
        _ => Some((key.clone(), value.clone())),
    });
    let defaults: Vec<(Key, Node)> = defaults.collect();
    combined(&defaults, test, &|name, default, own| {
        if MERGED.contains(&name) {
            combined(default.entries(), own, &|_, _, own| own.clone())
        } else if name == "expect" {
            combined(default.entries(), own, &|name, default, own| match (&default.kind, &own.kind)
            {
                (Kind::List(first), Kind::List(second)) if name == "assert" => {
                    let both: Vec<Node> = first.iter().chain(second.iter()).cloned().collect();
                    Node { kind: Kind::List(both.into()), ..own.clone() }
                }
                _ => own.clone(),
            })
        } else {
            own.clone()
        }
    })
}

/// Returns a mapping without the keys of another mapping. A value that is not a mapping is returned unchanged.
fn without(mapping: &Node, other: Option<&Node>) -> Node {
    let Some(other) = other.filter(|_| matches!(mapping.kind, Kind::Mapping(_))) else {
        return mapping.clone();
    };
    let is_kept = |(key, _): &&(Key, Node)| other.get(&key.name).is_none();
    let entries: Vec<(Key, Node)> = mapping.entries().iter().filter(is_kept).cloned().collect();
    Node { kind: Kind::Mapping(entries.into()), ..mapping.clone() }
}

/// Returns a mapping with the entries of `defaults` and `own`.
///
/// For a key in both, the value is `both(key, default, own)`. An `own` that is not a mapping is returned unchanged.
fn combined(
    defaults: &[(Key, Node)],
    own: &Node,
    both: &dyn Fn(&str, &Node, &Node) -> Node,
) -> Node {
    if !matches!(own.kind, Kind::Mapping(_)) {
        return own.clone();
    }
    let mut entries: Vec<(Key, Node)> = defaults.to_vec();
    for (key, value) in own.entries() {
        match entries.iter_mut().find(|(it, _)| it.name == key.name) {
            Some(entry) => *entry = (key.clone(), both(&key.name, &entry.1, value)),
            None => entries.push((key.clone(), value.clone())),
        }
    }
    Node { kind: Kind::Mapping(entries.into()), ..own.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_test_has_the_entries_of_the_default_test() {
        let node = |value: &Value| Node::at(kindlm_source::Span::new(0, 0), value);
        let check = |name: &str| json!({"type": name});
        let default = json!({
            "prompts": ["p", "q"],
            "models": ["m"],
            "vars": {"a": 1, "b": 2},
            "expect": {"assert": [check("x")], "output": {"maxLength": 9}},
        });
        for (test, expected) in [
            (
                json!({"name": "t", "vars": {"b": 3, "c": 4}, "expect": {"assert": [check("y")]}}),
                json!({
                    "prompts": ["p", "q"],
                    "models": ["m"],
                    "vars": {"a": 1, "b": 3, "c": 4},
                    "expect": {"assert": [check("x"), check("y")], "output": {"maxLength": 9}},
                    "name": "t",
                }),
            ),
            (
                json!({"name": "t", "prompt": "r", "models": ["n"], "vars": {}, "expect": {"assert": []}}),
                json!({
                    "models": ["n"],
                    "vars": {"a": 1, "b": 2},
                    "expect": {"assert": [check("x")], "output": {"maxLength": 9}},
                    "name": "t",
                    "prompt": "r",
                }),
            ),
            (
                json!({"name": "t", "command": "c", "vars": 7, "expect": {"output": null}}),
                json!({
                    "vars": 7,
                    "expect": {"assert": [check("x")], "output": null},
                    "name": "t",
                    "command": "c",
                }),
            ),
            (json!("file://cases.yaml"), json!("file://cases.yaml")),
            (
                json!({"name": "t", "prompt": "r", "matrix": {"b": [3, 4]}}),
                json!({
                    "models": ["m"],
                    "vars": {"a": 1},
                    "expect": {"assert": [check("x")], "output": {"maxLength": 9}},
                    "name": "t",
                    "prompt": "r",
                    "matrix": {"b": [3, 4]},
                }),
            ),
        ] {
            let merged = merged(&node(&test), &node(&default)).to_json();
            assert_eq!(merged, expected, "{test}");
        }
        let default = json!({"matrix": {"a": [1, 2], "b": [3, 4]}});
        for (vars, matrix) in [
            (json!({"a": 5}), json!({"b": [3, 4]})),
            (json!({"a": 5, "b": 6}), Value::Null),
            (json!({"c": 5}), default["matrix"].clone()),
        ] {
            let test = json!({"name": "t", "vars": vars});
            let merged = merged(&node(&test), &node(&default)).to_json();
            assert_eq!((&merged["vars"], &merged["matrix"]), (&vars, &matrix), "{test}");
        }
    }
}
