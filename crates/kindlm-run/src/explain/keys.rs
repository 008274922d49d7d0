//! The pages of the keys of `kindlm.yaml`, from its JSON Schema.

use std::fmt::Write as _;

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde_json::{Map, Value};

/// The maximum number of allowed values, and of meanings of one key, on a page.
const LISTED: usize = 12;

/// An object with more alternatives than this number counts as an entry of a list of assertions.
///
/// The page of an entry has only the keys that more than half of the alternatives have.
const MANY: usize = 20;

/// A key of `kindlm.yaml`.
pub(super) struct Key<'a> {
    /// The path of the key, such as `tests[].expect.guardrails.pii`; `<name>` stands for a name that the user chooses.
    pub path: String,
    /// True if the key is required in its object.
    is_required: bool,
    /// The schemas of the key, one for each kind of object that has the key.
    schemas: Vec<&'a Value>,
}

impl Key<'_> {
    /// Returns the last name of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }
}

/// All keys of a schema.
pub(super) struct Keys<'a> {
    schema: &'a Value,
    pub all: Vec<Key<'a>>,
}

impl<'a> Keys<'a> {
    /// Returns the keys of a JSON Schema of `kindlm.yaml`, in the order of the schema.
    pub(super) fn from_schema(schema: &'a Value) -> Self {
        let mut keys = Self { schema, all: Vec::new() };
        keys.add("", schema, &mut Vec::new());
        // The alternatives of an object often have the same keys, so join the keys with the same path.
        let mut merged: IndexMap<String, Key<'a>> = IndexMap::new();
        for key in std::mem::take(&mut keys.all) {
            match merged.entry(key.path.clone()) {
                Entry::Occupied(mut known) => known.get_mut().schemas.extend(key.schemas),
                Entry::Vacant(place) => {
                    place.insert(key);
                }
            }
        }
        keys.all = merged.into_values().collect();
        keys
    }

    /// Adds the keys below `node`. `open` has the definitions that contain the node, because definitions may be
    /// recursive.
    fn add(&mut self, path: &str, node: &'a Value, open: &mut Vec<&'a Value>) {
        let alternatives = alternatives(self.schema, node);
        if alternatives.iter().any(|it| open.iter().any(|open| std::ptr::eq(*open, *it))) {
            return;
        }
        let depth = open.len();
        open.extend(&alternatives);
        for (name, schemas, is_required) in children(&alternatives) {
            let path = if path.is_empty() { name } else { format!("{path}.{name}") };
            let is_turn = path.ends_with("conversation[].expect");
            self.all.push(Key { path: path.clone(), is_required, schemas: schemas.clone() });
            // The `expect` of a turn has the same keys as the `expect` of the test.
            if is_turn {
                continue;
            }
            for schema in schemas {
                self.add_below(&path, schema, open);
            }
        }
        open.truncate(depth);
    }

    /// Adds the keys of a value: of the value itself, of the items of a list, and of the values of a map.
    fn add_below(&mut self, path: &str, schema: &'a Value, open: &mut Vec<&'a Value>) {
        self.add(path, schema, open);
        for alternative in alternatives(self.schema, schema) {
            if let Some(items) = alternative.get("items") {
                self.add_below(&format!("{path}[]"), items, open);
            }
            if let Some(values) =
                alternative.get("additionalProperties").filter(|it| it.is_object())
            {
                self.add_below(&format!("{path}.<name>"), values, open);
            }
        }
    }

    /// Returns the page of a topic; `None` if no key's path ends with the topic.
    pub(super) fn page(&self, topic: &str) -> Option<String> {
        let wanted = segments(topic);
        let is_same = |it: &&Key<'a>| {
            let path = segments(&it.path);
            path.len() == wanted.len() && ends_with(&path, &wanted)
        };
        let exact = self.all.iter().find(|it| it.path == topic);
        if let Some(key) = exact.or_else(|| self.all.iter().find(is_same)) {
            return Some(self.describe(key));
        }
        let found: Vec<&Key<'a>> =
            self.all.iter().filter(|it| ends_with(&segments(&it.path), &wanted)).collect();
        match found.as_slice() {
            [] => None,
            [key] => Some(self.describe(key)),
            several => Some(self.list(topic, several)),
        }
    }

    /// Returns the list of the keys with a name. Keys with the same type and meaning share one text, and the other
    /// keys are in a table.
    fn list(&self, topic: &str, keys: &[&Key<'a>]) -> String {
        let mut groups: IndexMap<(String, String), Vec<&Key<'a>>> = IndexMap::new();
        for key in keys {
            groups.entry(self.type_and_meaning(&key.schemas)).or_default().push(*key);
        }
        let mut text = format!("# {topic}\n\n{} keys have this name.\n", keys.len());
        let mut rows = String::new();
        for ((kind, meaning), keys) in &groups {
            if let [key] = keys.as_slice() {
                let _ = writeln!(rows, "{}", self.row(&key.path, &key.schemas, false));
                continue;
            }
            let paths: Vec<String> = keys.iter().map(|it| format!("`{}`", it.path)).collect();
            let paths = paths.join(", ");
            let _ = write!(text, "\n{meaning}\n\n- Type: {kind}\n- Keys: {paths}\n");
        }
        if !rows.is_empty() {
            let _ = write!(text, "\n| Key | Type | Meaning |\n|---|---|---|\n{rows}");
        }
        text
    }

    fn describe(&self, key: &Key<'a>) -> String {
        let mut text = format!("# {}\n\n", key.path);
        let mut meanings: Vec<String> = Vec::new();
        for schema in &key.schemas {
            let meaning = self.meaning(schema, key.is_required);
            if !meanings.contains(&meaning) {
                meanings.push(meaning);
            }
        }
        text.push_str(&meanings.iter().take(LISTED).cloned().collect::<Vec<_>>().join("\n"));
        if let Some(more) = meanings.len().checked_sub(LISTED).filter(|it| *it > 0) {
            let _ = writeln!(
                text,
                "\nThe key has {more} more meanings; `kindlm explain <assertion>` shows each."
            );
        }
        for schema in &key.schemas {
            text.push_str(&self.table(schema));
        }
        text
    }

    /// Returns the description of a value, its type, its default, and the meanings of the allowed values.
    fn meaning(&self, schema: &'a Value, is_required: bool) -> String {
        let mut text = String::new();
        let default = default(schema);
        let mut described = description(schema);
        if let Some(default) = &default {
            let sentence = format!("Default: {}.", default.trim_matches('`'));
            described = described
                .strip_suffix(&sentence)
                .map_or(described.clone(), |it| it.trim_end().to_owned());
        }
        if !described.is_empty() {
            let _ = writeln!(text, "{described}\n");
        }
        let _ = writeln!(text, "- Type: {}", self.kind(schema));
        if let Some(default) = default {
            let _ = writeln!(text, "- Default: {default}");
        }
        if is_required {
            text.push_str("- Required\n");
        }
        let values: Vec<String> = alternatives(self.schema, schema)
            .iter()
            .filter_map(|it| Some(format!("- `{}`: {}", plain(it.get("const")?), description(it))))
            .filter(|it| !it.ends_with(": "))
            .collect();
        if !values.is_empty() {
            let _ = writeln!(text, "\nValues:\n\n{}", values.join("\n"));
        }
        text
    }

    /// Returns the table of the keys of an object; empty without keys.
    fn table(&self, schema: &'a Value) -> String {
        let mut text = String::new();
        for (suffix, nodes) in self.objects(schema) {
            let rows = children(&nodes);
            let least = if nodes.len() > MANY { nodes.len() / 2 } else { 0 };
            let rows: Vec<_> =
                rows.into_iter().filter(|(_, schemas, _)| schemas.len() > least).collect();
            if rows.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n## Keys{suffix}\n\n| Key | Type | Meaning |\n|---|---|---|");
            for (name, schemas, is_required) in rows {
                let _ = writeln!(text, "{}", self.row(&name, &schemas, is_required));
            }
            if least > 0 {
                text.push_str("\n`kindlm explain <type>` shows the other keys of an assertion.\n");
            }
        }
        text
    }

    /// Returns the objects that a value consists of: itself, the items of a list, or the values of a map.
    fn objects(&self, schema: &'a Value) -> Vec<(&'static str, Vec<&'a Value>)> {
        let own = alternatives(self.schema, schema);
        let parts = |key: &str| {
            let parts = own.iter().filter_map(|it| it.get(key)).filter(|it| it.is_object());
            parts.flat_map(|it| alternatives(self.schema, it)).collect::<Vec<_>>()
        };
        let (items, values) = (parts("items"), parts("additionalProperties"));
        vec![("", own), (" of each item", items), (" of each value", values)]
    }

    fn row(&self, name: &str, schemas: &[&'a Value], is_required: bool) -> String {
        let (kind, mut meaning) = self.type_and_meaning(schemas);
        if is_required {
            meaning.push_str(" Required.");
        }
        let cell = |text: &str| text.replace('\n', " ").replace('|', "\\|");
        format!("| `{name}` | {} | {} |", cell(&kind), cell(meaning.trim()))
    }

    /// Returns the type and the meaning of a key, with its default. Both are empty without a schema.
    fn type_and_meaning(&self, schemas: &[&'a Value]) -> (String, String) {
        let Some(first) = schemas.first().copied() else { return (String::new(), String::new()) };
        let mut meaning = description(first);
        if !meaning.is_empty() && !meaning.ends_with('.') {
            meaning.push('.');
        }
        if let Some(default) = default(first).filter(|_| !meaning.contains("efault")) {
            let _ = write!(meaning, " Default: {default}.");
        }
        (self.kind(first), meaning)
    }

    /// Returns the type and the limits of a value in words.
    fn kind(&self, schema: &'a Value) -> String {
        listed(&self.kinds(schema))
    }

    fn kinds(&self, schema: &'a Value) -> Vec<String> {
        let mut kinds: Vec<String> = Vec::new();
        for it in alternatives(self.schema, schema) {
            let kind = self.kind_of(it);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    fn kind_of(&self, schema: &'a Value) -> String {
        if let Some(value) = schema.get("const") {
            return format!("`{}`", plain(value));
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return listed(&values.iter().map(|it| format!("`{}`", plain(it))).collect::<Vec<_>>());
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => "text".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some(kind @ ("integer" | "number")) => ranged(kind, schema),
            Some("array") => match schema
                .get("items")
                .filter(|it| it.as_object().is_some_and(|it| !it.is_empty()))
            {
                Some(items) => {
                    let plural = |it: String| match it.as_str() {
                        "text" | "object" | "integer" | "number" => it + "s",
                        _ => it,
                    };
                    let kinds: Vec<String> = self.kinds(items).into_iter().map(plural).collect();
                    format!("list of {}", listed(&kinds))
                }
                None => "list".to_owned(),
            },
            Some("object") => {
                match schema.get("additionalProperties").filter(|it| it.is_object()) {
                    Some(values) if schema.get("properties").is_none() => {
                        format!("names with values: {}", self.kind(values))
                    }
                    _ => "object".to_owned(),
                }
            }
            _ if schema.get("properties").is_some() => "object".to_owned(),
            _ => "any value".to_owned(),
        }
    }
}

/// Returns the schemas that a value may conform to, with references resolved.
fn alternatives<'a>(root: &'a Value, node: &'a Value) -> Vec<&'a Value> {
    let mut found = Vec::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        if let Some(target) = node.get("$ref").and_then(Value::as_str) {
            open.extend(target.strip_prefix('#').and_then(|it| root.pointer(it)));
            continue;
        }
        let is_schema = |it: &&Value| {
            ["type", "properties", "$ref", "allOf", "anyOf", "oneOf", "const", "enum", "then"]
                .iter()
                .any(|key| it.get(key).is_some())
        };
        let parts = ["then", "allOf", "anyOf", "oneOf"].map(|key| node.get(key));
        let parts = parts
            .into_iter()
            .flatten()
            .flat_map(|it| it.as_array().map_or_else(|| vec![it], |all| all.iter().collect()));
        let parts: Vec<&Value> = parts.filter(is_schema).collect();
        open.extend(parts.iter().rev());
        if parts.is_empty() || node.get("properties").is_some() || node.get("items").is_some() {
            found.push(node);
        }
    }
    found
}

/// Returns the keys of an object, each with its schemas and a flag. The flag is true if every alternative that has the
/// key requires the key.
fn children<'a>(alternatives: &[&'a Value]) -> Vec<(String, Vec<&'a Value>, bool)> {
    let mut found: Vec<(String, Vec<&Value>, bool)> = Vec::new();
    for node in alternatives {
        let required = |name: &str| {
            node.get("required")
                .and_then(Value::as_array)
                .is_some_and(|it| it.iter().any(|it| it == name))
        };
        for (name, schema) in
            node.get("properties").and_then(Value::as_object).iter().flat_map(|it| it.iter())
        {
            match found.iter_mut().find(|(known, ..)| known == name) {
                Some((_, schemas, is_required)) => {
                    schemas.push(schema);
                    *is_required &= required(name);
                }
                None => found.push((name.clone(), vec![schema], required(name))),
            }
        }
    }
    found
}

/// Returns the names in a path, without `[]` and positions: `tests[3].expect` has `tests` and `expect`.
fn segments(path: &str) -> Vec<String> {
    let names = path.split('.').map(|it| it.split('[').next().unwrap_or_default());
    names.filter(|it| !it.is_empty()).map(str::to_lowercase).collect()
}

/// Returns true if a path ends with these names. `<name>` in the path stands for any name, unless only one name is
/// given.
fn ends_with(path: &[String], names: &[String]) -> bool {
    let is_same = |(known, name): (&String, &String)| known == "<name>" || known == name;
    let last_is_same = path.last() == names.last() || names.len() > 1;
    !names.is_empty()
        && last_is_same
        && names.len() <= path.len()
        && path[path.len() - names.len()..].iter().zip(names).all(is_same)
}

fn ranged(kind: &str, schema: &Value) -> String {
    let limit =
        |key: &str| schema.get(key).filter(|it| it.as_f64().is_some_and(|it| it.abs() < 1e15));
    let limit = |key: &str| limit(key).map(|it| it.to_string().trim_end_matches(".0").to_owned());
    match (limit("minimum"), limit("exclusiveMinimum"), limit("maximum")) {
        (Some(low), _, Some(high)) => format!("{kind} from {low} to {high}"),
        (Some(low), _, None) => format!("{kind}, at least {low}"),
        (None, Some(low), Some(high)) => format!("{kind} above {low}, at most {high}"),
        (None, Some(low), None) => format!("{kind} above {low}"),
        (None, None, Some(high)) => format!("{kind}, at most {high}"),
        (None, None, None) => kind.to_owned(),
    }
}

/// Returns `a, b or c`; for more than [`LISTED`] entries, returns their number and the first entry.
fn listed(all: &[String]) -> String {
    if let Some(first) = all.first().filter(|_| all.len() > LISTED) {
        return format!("one of {} values, such as {first}", all.len());
    }
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn description(schema: &Value) -> String {
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the default of a value as code; `None` without a default, or if the default is empty.
fn default(schema: &Value) -> Option<String> {
    let default = schema.get("default")?;
    let is_empty = |map: &Map<String, Value>| map.values().all(Value::is_null);
    match default {
        Value::Null => None,
        Value::Object(map) if is_empty(map) => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            Some(items.iter().map(|it| format!("`{}`", plain(it))).collect::<Vec<_>>().join(", "))
        }
        other => Some(format!("`{}`", plain(other))),
    }
}

/// Returns a value as it is written in the config file, in one line.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(_) => value.to_string().trim_end_matches(".0").to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(topic: &str) -> String {
        let schema = kindlm_config::json_schema();
        Keys::from_schema(&schema)
            .page(topic)
            .unwrap_or_else(|| panic!("there is no page of `{topic}`"))
    }

    #[test]
    fn a_page_has_type_default_values_and_meaning() {
        let text = page("defaults.repeat");
        let start = "# defaults.repeat\n\nThe number of repeats of each test on each model, or an object with `max` \
                     that ends the repeats early.\nDefault: 1.\n\n- Type: integer from 1 to 10000 or object\n\n## Keys\n";
        assert!(text.starts_with(start), "{text}");
        assert!(
            page("scripts.runtime").contains("- `node`: The installed Node.js. Not a sandbox.")
        );
        assert!(page("gates.piiFailuresMax").contains("- Default: `0`"));
        assert!(page("suite.name").contains("- Required\n"));
        assert!(page("tests[].expect").contains("| `toolCalls` | list of objects |"));
    }

    #[test]
    fn a_path_may_have_positions_names_and_other_case() {
        for (topic, path) in [
            ("tests[3].expect.guardrails", "tests[].expect.guardrails"),
            ("TESTS.Repeat", "tests[].repeat"),
            ("prompts.refund.user", "prompts.<name>.user"),
            ("expect.guardrails.pii.enabled", "tests[].expect.guardrails.pii.enabled"),
            ("judgeModel", "defaults.judgeModel"),
        ] {
            assert!(page(topic).starts_with(&format!("# {path}\n")), "{}", page(topic));
        }
        let several = page("repeat");
        assert!(
            several.contains("| `defaults.repeat` |") && several.contains("| `tests[].repeat` |")
        );
    }

    #[test]
    fn keys_with_one_meaning_share_its_text() {
        let text = page("apiKeyCommand");
        assert_eq!(text.matches("The command line that prints the key").count(), 1, "{text}");
        for path in ["providers.anthropic.apiKeyCommand", "providers.xai.apiKeyCommand"] {
            assert!(text.contains(&format!("`{path}`")), "{text}");
        }
        assert!(text.contains("\n\n- Type: text\n- Keys: `providers."), "{text}");
    }

    #[test]
    fn every_key_has_a_page_under_its_path() {
        let schema = kindlm_config::json_schema();
        let keys = Keys::from_schema(&schema);
        assert!(keys.all.len() > 300, "{}", keys.all.len());
        for key in &keys.all {
            let text = keys.page(&key.path).unwrap();
            assert!(text.contains("- Type: "), "{text}");
            assert!(text.starts_with(&format!("# {}\n", key.path)), "{text}");
        }
    }
}
