//! Names the grading model of a suite only once, and in the short form `provider:model`.

use std::collections::{HashMap, HashSet};

use kindlm_providers::Providers;
use kindlm_types::reasons;
use serde_json::{Map, Value};

use super::short::has_usual_provider;

/// The checks that the default judge grades if they name no model.
const JUDGED: [&str; 12] = [
    "answer-relevance",
    "context-faithfulness",
    "context-recall",
    "context-relevance",
    "conversation-relevance",
    "factuality",
    "g-eval",
    "llm-rubric",
    "model-graded-closedqa",
    "model-graded-factuality",
    "search-rubric",
    "select-best",
];

/// A judge becomes the default judge if at least this number of checks names it.
const SEVERAL: usize = 2;

/// Makes the most frequent judge the default judge. Writes models that only grade in the short form `provider:model`.
///
/// The requests to the judges stay the same.
pub(in crate::load) fn with_default_judge(mut root: Value, known: &Providers) -> Value {
    shorten(&mut root, known);
    let tested = tested_models(&root);
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    each_check(&mut root, &mut |check| {
        if let Some(model) = judge_of(check).filter(|it| !tested.contains(*it)) {
            *counts.entry(model.to_owned()).or_default() += 1;
            order.push(model.to_owned());
        }
    });
    let most = counts.values().copied().max().unwrap_or_default();
    let judge = order.into_iter().find(|it| counts.get(it) == Some(&most));
    let Some(judge) = judge.filter(|_| most >= SEVERAL) else { return root };
    each_check(&mut root, &mut |check| {
        if judge_of(check) == Some(&judge) {
            check.shift_remove("model");
        }
    });
    if let Some(document) = root.as_object_mut() {
        let defaults = document.entry("defaults").or_insert_with(|| Map::new().into());
        if let Some(defaults) = defaults.as_object_mut() {
            defaults.insert("judgeModel".to_owned(), judge.into());
        }
    }
    root
}

/// Returns all references to tested models, including other ids of the same models.
///
/// A tested model does not become the default judge, because the suite would warn about a self-judged test.
fn tested_models(root: &Value) -> HashSet<String> {
    let ids = tested_ids(root);
    let models = || root["models"].as_array().into_iter().flatten();
    let name = |it: &Value| {
        let (provider, model) = (it["provider"].as_str(), it["model"].as_str());
        format!("{}:{}", provider.unwrap_or_default(), model.unwrap_or_default())
    };
    let is_tested = |it: &&Value| it["id"].as_str().is_some_and(|it| ids.contains(it));
    let names: HashSet<String> = models().filter(is_tested).map(name).collect();
    let same = models().filter(|it| names.contains(&name(it))).filter_map(|it| it["id"].as_str());
    let same: Vec<String> = same.map(str::to_owned).collect();
    names.into_iter().chain(same).collect()
}

fn tested_ids(root: &Value) -> HashSet<String> {
    let tests = root.get("tests").and_then(Value::as_array).into_iter().flatten();
    tests
        .flat_map(|it| it["models"].as_array().into_iter().flatten())
        .filter_map(|it| Some(it.as_str()?.to_owned()))
        .collect()
}

fn judge_of(check: &Map<String, Value>) -> Option<&str> {
    let kind = check.get("type")?.as_str()?;
    let kind = kind.strip_prefix("not-").unwrap_or(kind);
    JUDGED.contains(&kind).then(|| check.get("model")?.as_str()).flatten()
}

/// Removes the entries of models that only grade, and uses their short form in checks.
fn shorten(root: &mut Value, known: &Providers) {
    let tested = tested_ids(root);
    let mut taken: HashSet<String> = HashSet::new();
    let mut renamed: HashMap<String, String> = HashMap::new();
    for model in root["models"].as_array().into_iter().flatten() {
        let id = model["id"].as_str().unwrap_or_default();
        taken.insert(id.to_owned());
        let short = short_judge(root, model, known).filter(|_| !tested.contains(id));
        if let Some(short) = short {
            renamed.insert(id.to_owned(), short);
        }
    }
    let is_free = |id: &str, short: &String| id == short || !taken.contains(short);
    renamed.retain(|id, short| is_free(id, short));
    if renamed.is_empty() {
        return;
    }
    if let Some(models) = root.get_mut("models").and_then(Value::as_array_mut) {
        models.retain(|it| !it["id"].as_str().is_some_and(|it| renamed.contains_key(it)));
    }
    each_check(root, &mut |check| {
        for key in ["model", "embeddingModel"] {
            if let Some(Value::String(id)) = check.get_mut(key)
                && let Some(short) = renamed.get(id)
            {
                id.clone_from(short);
            }
        }
    });
}

/// Returns the short form of a model that only grades; `None` if its entry under `models` changes the requests.
fn short_judge(root: &Value, model: &Value, known: &Providers) -> Option<String> {
    let entry = model.as_object()?;
    let (provider, name) = (entry.get("provider")?.as_str()?, entry.get("model")?.as_str()?);
    if !has_usual_provider(root, provider, known) {
        return None;
    }
    let params = entry.get("params").and_then(Value::as_object);
    // These parameters change no request to a judge. The temperature of a judge is 0, and a reasoning model gets a
    // higher limit of tokens than the default.
    let is_usual = |(key, value): (&String, &Value)| match key.as_str() {
        "temperature" => true,
        "omitDefaults" => reasons(name) || *value == false,
        _ => false,
    };
    let is_bare = entry.keys().all(|it| matches!(&**it, "id" | "provider" | "model" | "params"));
    (is_bare && params.into_iter().flatten().all(is_usual)).then(|| format!("{provider}:{name}"))
}

/// Calls a function with each check of all tests, and with each check inside an `assert-set`.
fn each_check(root: &mut Value, call: &mut dyn FnMut(&mut Map<String, Value>)) {
    for test in root.get_mut("tests").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(checks) = test.pointer_mut("/expect/assert") {
            each_in(checks, call);
        }
    }
}

fn each_in(checks: &mut Value, call: &mut dyn FnMut(&mut Map<String, Value>)) {
    for check in checks.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        call(check);
        if let Some(parts) = check.get_mut("assert") {
            each_in(parts, call);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_frequent_judge_becomes_the_default() {
        let check = |model: &str| json!({"type": "llm-rubric", "value": "x", "model": model});
        let suite = |model: &str| {
            json!({
                "providers": {"openai": {"apiKeyEnv": "OPENAI_API_KEY"}},
                "models": [
                    {"id": "tested", "provider": "openai", "model": "gpt-4o"},
                    {"id": "openai:chat:gpt-5", "provider": "openai", "model": "gpt-5", "params": {"omitDefaults": true}},
                    {"id": "again", "provider": "openai", "model": "gpt-4o", "params": {"seed": 1}},
                ],
                "tests": [{"models": ["tested"], "expect": {"assert": [
                    check(model), {"type": "assert-set", "assert": [check(model)]}, check("other"),
                    {"type": "similar", "model": model},
                ]}}],
            })
        };
        let known = kindlm_providers::built_in();
        let judged = with_default_judge(suite("openai:chat:gpt-5"), &known);
        assert_eq!(judged["defaults"], json!({"judgeModel": "openai:gpt-5"}));
        assert_eq!(judged["models"].as_array().unwrap().len(), 2);
        let bare = json!({"type": "llm-rubric", "value": "x"});
        let expected = json!([
            bare, {"type": "assert-set", "assert": [bare]}, check("other"),
            {"type": "similar", "model": "openai:gpt-5"},
        ]);
        assert_eq!(judged["tests"][0]["expect"]["assert"], expected);
        // A tested model, also under another id, is no default judge.
        for model in ["tested", "again"] {
            let judged = with_default_judge(suite(model), &known);
            assert_eq!(judged["defaults"], Value::Null, "{model}");
        }
    }
}
