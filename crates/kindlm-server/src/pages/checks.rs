//! The checks in a form: rules as sentences, one per line, and other checks as YAML.

use serde_json::{Map, Value, json};

use crate::records::SET_KEYS;

/// The maximum length of the id of a rule, in characters.
const LONGEST_ID: usize = 40;

/// The two fields of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// One rule per line.
    pub(super) rules: String,
    /// An `expect` block, or an object with `assertions`, `expect` and `threshold`.
    pub(super) yaml: String,
}

impl Fields {
    /// Returns the keys of a record or a set. The error text is for the person who wrote the form.
    pub(super) fn checks(&self) -> Result<Map<String, Value>, String> {
        let mut written = match self.yaml.trim() {
            "" => Map::new(),
            yaml => block(yaml)?,
        };
        let mut rules = rules(&self.rules);
        match written.remove("assertions") {
            None => {}
            Some(Value::Array(more)) => rules.extend(more),
            Some(_) => return Err("Checks: `assertions` must be a list".to_owned()),
        }
        // Always in this order, so that the same checks have the same digest.
        let mut checks = Map::new();
        if !rules.is_empty() {
            checks.insert("assertions".to_owned(), rules.into());
        }
        checks.extend(written);
        if checks.is_empty() {
            return Err("Write at least one rule or one check.".to_owned());
        }
        Ok(checks)
    }

    /// Returns the fields for the content of a set.
    pub(super) fn of(content: &Map<String, Value>) -> Self {
        let mut rest = content.clone();
        let sentences: Option<Vec<&str>> =
            content.get("assertions").and_then(Value::as_array).and_then(|all| {
                let texts = all.iter().map(|it| it["instruction"].as_str());
                let texts: Vec<&str> = texts.collect::<Option<_>>()?;
                (rules(&texts.join("\n")) == *all).then_some(texts)
            });
        if sentences.is_some() {
            rest.remove("assertions");
        }
        let only_expect = rest.len() == 1 && rest.get("expect").is_some_and(Value::is_object);
        let shown = match rest.get("expect") {
            Some(expect) if only_expect && !is_set(expect) => expect.clone(),
            _ => Value::Object(rest),
        };
        let is_empty = shown.as_object().is_some_and(Map::is_empty);
        let yaml = if is_empty { String::new() } else { yaml(&shown) };
        Self { rules: sentences.unwrap_or_default().join("\n"), yaml }
    }
}

fn is_set(value: &Value) -> bool {
    SET_KEYS.iter().any(|it| value.get(it).is_some())
}

/// Returns a value as YAML.
pub(super) fn yaml(value: &Value) -> String {
    serde_yaml::to_string(value).unwrap_or_else(|_| format!("{value:#}"))
}

fn block(yaml: &str) -> Result<Map<String, Value>, String> {
    let value: Value =
        serde_yaml::from_str(yaml).map_err(|err| format!("Checks: not valid YAML: {err}"))?;
    match value {
        Value::Null => Ok(Map::new()),
        Value::Object(set) if is_set(&Value::Object(set.clone())) => Ok(set),
        Value::Object(expect) => Ok(Map::from_iter([("expect".to_owned(), expect.into())])),
        _ => Err("Checks: expected keys such as `output:`".to_owned()),
    }
}

/// Makes a prompt assertion of each sentence. Its id comes from its words, so it stays the same if lines are added.
fn rules(text: &str) -> Vec<Value> {
    let mut ids: Vec<String> = Vec::new();
    let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    lines
        .map(|line| {
            let name = id(line);
            let same = ids.iter().filter(|it| **it == name).count();
            let id = if same == 0 { name.clone() } else { format!("{name}_{}", same + 1) };
            ids.push(name);
            json!({"id": id, "instruction": line, "criteria": [line]})
        })
        .collect()
}

fn id(sentence: &str) -> String {
    let lower = sentence.to_lowercase();
    let words = lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
    let mut id = String::new();
    for word in words {
        if !id.is_empty() && id.chars().count() + word.chars().count() >= LONGEST_ID {
            break;
        }
        if !id.is_empty() {
            id.push('_');
        }
        id.extend(word.chars().take(LONGEST_ID));
    }
    if id.is_empty() { "rule".to_owned() } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(rules: &str, yaml: &str) -> Fields {
        Fields { rules: rules.to_owned(), yaml: yaml.to_owned() }
    }

    #[test]
    fn sentences_and_yaml_become_checks() {
        let checks =
            fields("Names the order.\n\n Is polite. \nIs polite.", "output: { contains: [x] }");
        let checks = Value::Object(checks.checks().unwrap());
        let ids: Vec<&Value> =
            checks["assertions"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, ["names_the_order", "is_polite", "is_polite_2"]);
        assert_eq!(checks["assertions"][1]["criteria"], json!(["Is polite."]));
        assert_eq!(checks["expect"]["output"]["contains"], json!(["x"]));
    }

    #[test]
    fn stored_checks_return_as_they_were_written() {
        for (rules, yaml) in [
            ("Is polite.", "output:\n  contains:\n  - x\n"),
            ("", "output:\n  maxLength: 5\n"),
            ("Is polite.\nIs short.", ""),
            ("", "expect:\n  output:\n    contains:\n    - x\nthreshold: 0.5\n"),
        ] {
            let before = fields(rules, yaml);
            assert_eq!(Fields::of(&before.checks().unwrap()), before);
        }
        // A rule that a sentence cannot express stays in the YAML.
        let detailed = json!({"assertions": [{"id": "tone", "criteria": ["Is it polite?"]}]});
        let shown = Fields::of(detailed.as_object().unwrap());
        assert!(shown.rules.is_empty() && shown.yaml.contains("id: tone"), "{shown:?}");
        assert_eq!(Value::Object(shown.checks().unwrap()), detailed);
    }

    #[test]
    fn invalid_checks_are_explained() {
        for (rules, yaml, expected) in [
            ("", "", "at least one rule"),
            ("", "output: [", "not valid YAML"),
            ("", "just words", "expected keys"),
            ("", "assertions: 3", "must be a list"),
        ] {
            let error = fields(rules, yaml).checks().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
