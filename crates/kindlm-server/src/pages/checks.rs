//! The checks in a form: rules as sentences, one per line, and other checks as YAML.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::records::SET_KEYS;
use crate::store::digest;

/// The maximum length of the words in the id of a rule, in characters.
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
    /// Returns the checks as the keys of a record or a set. The error text is for the person who wrote the form.
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
        // The order of the keys is always the same, so that the same checks have the same digest.
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
    pub(super) fn from_content(content: &Map<String, Value>) -> Self {
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
    let value = kindlm_run::yaml(yaml).map_err(|err| format!("Checks: not valid YAML: {err}"))?;
    match value {
        Value::Null => Ok(Map::new()),
        Value::Object(set) if is_set(&Value::Object(set.clone())) => Ok(set),
        Value::Object(expect) => Ok(Map::from_iter([("expect".to_owned(), expect.into())])),
        _ => Err("Checks: expected keys such as `output:`".to_owned()),
    }
}

/// Makes a prompt assertion of each sentence. The id consists of the words, so it stays the same if other sentences are
/// added. If words are left out, or an earlier sentence has the same id, a digest makes the id unique.
///
/// Repeated sentences make one rule.
fn rules(text: &str) -> Vec<Value> {
    let (mut lines, mut ids) = (BTreeSet::new(), BTreeSet::new());
    let all = text.lines().map(str::trim).filter(|it| !it.is_empty());
    all.filter(|line| lines.insert(*line))
        .map(|line| {
            let (mut id, is_cut) = id(line);
            // Another sentence may have the same words, or begin with them.
            if is_cut || ids.contains(&id) {
                id = format!("{id}_{}", &digest(line.as_bytes())[..6]);
            }
            ids.insert(id.clone());
            json!({"id": id, "instruction": line, "criteria": [line]})
        })
        .collect()
}

/// Returns the words of a sentence as an id, and true if some of them were left out.
fn id(sentence: &str) -> (String, bool) {
    let lower = sentence.to_lowercase();
    let words = lower.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty());
    let words = words.collect::<Vec<_>>().join("_");
    if words.is_empty() {
        return ("rule".to_owned(), false);
    }
    let Some((end, _)) = words.char_indices().nth(LONGEST_ID) else { return (words, false) };
    // The last word may be cut, so it is left out if it is not the only word.
    let cut = &words[..end];
    (cut.rsplit_once('_').map_or(cut, |(it, _)| it).to_owned(), true)
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
        assert_eq!(ids, ["names_the_order", "is_polite"]);
        assert_eq!(checks["assertions"][1]["criteria"], json!(["Is polite."]));
        assert_eq!(checks["expect"]["output"]["contains"], json!(["x"]));
    }

    #[test]
    fn different_sentences_have_different_ids() {
        let long = "The answer names the order number and the amount of";
        let text = format!("Is polite.\nIs polite!\nIs polite 2\n{long} it.\n{long} them.\n!\n?");
        let rules = rules(&text);
        let ids: Vec<&str> = rules.iter().filter_map(|it| it["id"].as_str()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 7, "{ids:?}");
        assert_eq!([ids[0], ids[2], ids[5]], ["is_polite", "is_polite_2", "rule"]);
        assert!(ids[1].starts_with("is_polite_") && ids[6].starts_with("rule_"), "{ids:?}");
        let start = "the_answer_names_the_order_number_and_";
        assert!(ids[3].starts_with(start) && ids[4].starts_with(start), "{ids:?}");
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
            assert_eq!(Fields::from_content(&before.checks().unwrap()), before);
        }
        // A rule that a sentence cannot express stays in the YAML.
        let detailed = json!({"assertions": [{"id": "tone", "criteria": ["Is it polite?"]}]});
        let shown = Fields::from_content(detailed.as_object().unwrap());
        assert!(shown.rules.is_empty() && shown.yaml.contains("id: tone"), "{shown:?}");
        assert_eq!(Value::Object(shown.checks().unwrap()), detailed);
    }

    #[test]
    fn invalid_checks_are_explained() {
        for (rules, yaml, expected) in [
            ("", "", "at least one rule"),
            ("", "output: [", "not valid YAML"),
            ("", "output: { contains: [x] }\noutput: { maxLength: 5 }", "duplicate key `output`"),
            ("", r#"{"output": {}, "output": {}}"#, "duplicate key `output`"),
            ("", "just words", "expected keys"),
            ("", "assertions: 3", "must be a list"),
        ] {
            let error = fields(rules, yaml).checks().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
