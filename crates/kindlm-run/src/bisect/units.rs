//! Splits the difference of two suites into units that can be applied one by one. A unit changes lines of a string, an
//! entry of a list, or another value.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};

/// The difference of two values.
#[derive(Clone, Debug, PartialEq)]
enum Difference {
    /// Both values are equal.
    Same(Value),
    /// A change of the whole value: its number, the old value and the new value. `None` is an absent value.
    Unit(usize, [Option<Value>; 2]),
    Object(Vec<(String, Difference)>),
    Array(Vec<Difference>),
    /// The lines of a text. Each line break belongs to the line before it.
    Text(Vec<Lines>),
}

/// Lines of a text.
#[derive(Clone, Debug, PartialEq)]
enum Lines {
    Same(String),
    Unit(usize, [Vec<String>; 2]),
}

/// The changes between two suites.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    difference: Difference,
    /// The changes. The index of a change is its number.
    pub(super) units: Vec<Unit>,
}

/// A change that can be applied alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// The place in the suite, such as `prompts.support.system`.
    pub(super) place: String,
    /// The removed lines, or the old value as JSON.
    pub(super) removed: Vec<String>,
    /// The added lines, or the new value as JSON.
    pub(super) added: Vec<String>,
}

impl Changes {
    /// Finds the changes between two suites.
    pub(super) fn between(old: &Value, new: &Value) -> Self {
        let mut units = Vec::new();
        let difference = differ("", Some(old), Some(new), &mut units);
        Self { difference, units }
    }

    /// Returns the old suite with some of the changes.
    pub(super) fn apply(&self, chosen: &BTreeSet<usize>) -> Value {
        applied(&self.difference, chosen).unwrap_or_default()
    }
}

fn differ(
    place: &str,
    old: Option<&Value>,
    new: Option<&Value>,
    units: &mut Vec<Unit>,
) -> Difference {
    match (old, new) {
        (Some(old), Some(new)) if old == new => Difference::Same(old.clone()),
        (Some(Value::Object(old)), Some(Value::Object(new))) => objects(place, old, new, units),
        (Some(Value::Array(old)), Some(Value::Array(new))) => arrays(place, old, new, units),
        (Some(Value::String(old)), Some(Value::String(new)))
            if old.trim_end().contains('\n') || new.trim_end().contains('\n') =>
        {
            texts(place, old, new, units)
        }
        (old, new) => unit(place, [old.cloned(), new.cloned()], units),
    }
}

fn unit(place: &str, values: [Option<Value>; 2], units: &mut Vec<Unit>) -> Difference {
    let lines = |it: &Option<Value>| match it {
        None => Vec::new(),
        Some(Value::String(text)) => text.lines().map(str::to_owned).collect(),
        Some(value) => vec![value.to_string()],
    };
    let [removed, added] = [lines(&values[0]), lines(&values[1])];
    units.push(Unit { place: place.to_owned(), removed, added });
    Difference::Unit(units.len() - 1, values)
}

fn objects(
    place: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    units: &mut Vec<Unit>,
) -> Difference {
    let below =
        |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    let added = new.keys().filter(|key| !old.contains_key(*key));
    let entries = old.keys().chain(added).map(|key| {
        let difference = differ(&below(key), old.get(key), new.get(key), units);
        (key.clone(), difference)
    });
    Difference::Object(entries.collect())
}

/// Pairs the entries of two lists by their `name` or `id`, or else by their value.
fn arrays(place: &str, old: &[Value], new: &[Value], units: &mut Vec<Unit>) -> Difference {
    let key = |it: &Value| {
        let name = ["name", "id"].iter().find_map(|key| it.get(*key)?.as_str());
        name.map_or_else(|| it.to_string(), |it| format!("name {it}"))
    };
    let keys = |all: &[Value]| all.iter().map(key).collect::<Vec<String>>();
    let below = |at: usize, it: Option<&Value>| {
        let name = ["name", "id"].iter().find_map(|key| it?.get(*key)?.as_str());
        match name {
            Some(name) => format!("{place}[{name}]"),
            None => format!("{place}[{at}]"),
        }
    };
    let mut entries = Vec::new();
    for operation in operations(&keys(old), &keys(new)) {
        let (then, now) = (operation.old_range(), operation.new_range());
        // Replaced entries are paired in order if the old and the new list have the same number of replaced entries.
        let pairs = match operation {
            DiffOp::Equal { .. } | DiffOp::Replace { .. } if then.len() == now.len() => {
                then.zip(now).map(|(then, now)| (Some(then), Some(now))).collect::<Vec<_>>()
            }
            _ => {
                let removed = then.map(|it| (Some(it), None));
                removed.chain(now.map(|it| (None, Some(it)))).collect()
            }
        };
        for (then, now) in pairs {
            let (before, after) = (then.and_then(|it| old.get(it)), now.and_then(|it| new.get(it)));
            let place = below(now.or(then).unwrap_or_default(), after.or(before));
            entries.push(differ(&place, before, after, units));
        }
    }
    Difference::Array(entries)
}

/// Compares two lists. `similar::capture_diff_slices` would compile every algorithm of that crate into the program.
fn operations(old: &[String], new: &[String]) -> Vec<DiffOp> {
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut hook, old, 0..old.len(), new, 0..new.len());
    hook.into_inner().into_inner().into_ops()
}

fn texts(place: &str, old: &str, new: &str, units: &mut Vec<Unit>) -> Difference {
    let lines = |text: &str| text.split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
    let (old, new) = (lines(old), lines(new));
    let mut parts = Vec::new();
    let mut add = |before: &[String], after: &[String], line: usize| {
        let shown = |it: &[String]| it.iter().map(|it| it.trim_end().to_owned()).collect();
        let place = format!("{place}, line {}", line + 1);
        units.push(Unit { place, removed: shown(before), added: shown(after) });
        Lines::Unit(units.len() - 1, [before.to_vec(), after.to_vec()])
    };
    for operation in operations(&old, &new) {
        let (then, now) = (operation.old_range(), operation.new_range());
        let line = now.start;
        let before = old.get(then).unwrap_or_default();
        let after = new.get(now).unwrap_or_default();
        if let DiffOp::Equal { .. } = operation {
            parts.extend(before.iter().cloned().map(Lines::Same));
            continue;
        }
        // Replaced lines are paired in order.
        let one =
            |lines: &[String], at: usize| lines.get(at).cloned().into_iter().collect::<Vec<_>>();
        for at in 0..before.len().max(after.len()) {
            parts.push(add(&one(before, at), &one(after, at), line + at));
        }
    }
    Difference::Text(parts)
}

/// Returns the value with the chosen changes; `None` if the value is absent with these changes.
fn applied(difference: &Difference, chosen: &BTreeSet<usize>) -> Option<Value> {
    Some(match difference {
        Difference::Same(value) => value.clone(),
        Difference::Unit(number, [old, new]) => {
            return if chosen.contains(number) { new.clone() } else { old.clone() };
        }
        Difference::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.filter_map(|(key, it)| Some((key.clone(), applied(it, chosen)?)));
            Value::Object(entries.collect())
        }
        Difference::Array(entries) => entries.iter().filter_map(|it| applied(it, chosen)).collect(),
        Difference::Text(lines) => {
            let mut text = String::new();
            for it in lines {
                match it {
                    Lines::Same(line) => text.push_str(line),
                    Lines::Unit(number, [old, new]) => {
                        let lines = if chosen.contains(number) { new } else { old };
                        text.extend(lines.iter().map(String::as_str));
                    }
                }
            }
            Value::String(text)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn suite(system: &str, temperature: f64, rules: &[&str]) -> Value {
        json!({
            "models": [
                { "id": "a", "params": { "temperature": temperature } },
                { "id": "b", "params": {} },
            ],
            "prompts": { "support": { "system": system, "assertions": rules } },
        })
    }

    fn changes() -> (Value, Value, Changes) {
        let old = suite("Be polite.\nCite the order.\nEnd.\n", 0.0, &["one", "two"]);
        let new = suite("Be brief.\nCite the order.\nMore.\nEnd.\n", 1.0, &["one", "two", "three"]);
        let changes = Changes::between(&old, &new);
        (old, new, changes)
    }

    #[test]
    fn each_line_rule_and_parameter_is_a_unit() {
        let (_, _, changes) = changes();
        let units: Vec<(&str, String, String)> = changes
            .units
            .iter()
            .map(|it| (&*it.place, it.removed.join("|"), it.added.join("|")))
            .collect();
        let expected = [
            ("models[a].params.temperature", "0.0", "1.0"),
            ("prompts.support.system, line 1", "Be polite.", "Be brief."),
            ("prompts.support.system, line 3", "", "More."),
            ("prompts.support.assertions[2]", "", "three"),
        ];
        let expected = expected.map(|(place, old, new)| (place, old.to_owned(), new.to_owned()));
        assert_eq!(units, expected);
    }

    #[test]
    fn all_and_no_changes_give_both_suites() {
        let (old, new, changes) = changes();
        let all: BTreeSet<usize> = (0..changes.units.len()).collect();
        assert_eq!(changes.apply(&BTreeSet::new()), old);
        assert_eq!(changes.apply(&all), new);
        let some = changes.apply(&BTreeSet::from([1, 3]));
        assert_eq!(some["prompts"]["support"]["system"], "Be brief.\nCite the order.\nEnd.\n");
        assert_eq!(some["models"][0]["params"]["temperature"], 0.0);
        assert_eq!(some["prompts"]["support"]["assertions"], json!(["one", "two", "three"]));
    }

    #[test]
    fn other_shapes_come_back_whole() {
        for (old, new, count) in [
            (json!({ "a": 1 }), json!({ "a": 1 }), 0),
            (json!({ "a": 1 }), json!({ "b": 1 }), 2),
            (json!({ "a": [1, 2, 3] }), json!({ "a": [3] }), 2),
            (json!({ "a": "x" }), json!({ "a": { "b": "x" } }), 1),
            (json!({ "a": "one\ntwo" }), json!({ "a": "one" }), 2),
            (json!({ "a": "one\ntwo\n" }), json!({ "a": "one\n2\n3\n" }), 2),
            (
                json!([{ "name": "a", "v": 1 }]),
                json!([{ "name": "b" }, { "name": "a", "v": 2 }]),
                2,
            ),
            (json!({ "a": "one\n" }), json!({ "a": "two\n" }), 1),
        ] {
            let changes = Changes::between(&old, &new);
            assert_eq!(changes.units.len(), count, "{:?}", changes.units);
            let all: BTreeSet<usize> = (0..count).collect();
            assert_eq!(changes.apply(&BTreeSet::new()), old);
            assert_eq!(changes.apply(&all), new);
        }
    }
}
