//! Test vectors of the original implementation of KindLM.
//!
//! This crate must accept the same configs and report errors at the same paths. Intended differences are listed with
//! the reasons.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_config::{Code, fill, load};
use kindlm_engine::{Subject, Suite};
use serde_json::{Map, Value, json};

use crate::memory::{Memory, brief};

fn vectors(file: &str) -> Vec<Value> {
    let path =
        format!("{}/../../fixtures/conformance/kindlm-core/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn id(vector: &Value) -> &str {
    vector["id"].as_str().unwrap()
}

/// Returns the YAML of a vector. The vector `too-large` only describes its length in prose.
fn yaml(vector: &Value) -> String {
    if let Some(yaml) = vector["input"]["yaml"].as_str() {
        return yaml.to_owned();
    }
    assert_eq!(id(vector), "too-large");
    let minimal = &vectors("config_valid.jsonl")[0];
    yaml(minimal) + "\n# " + &"x".repeat(1_048_576)
}

fn files(vector: &Value) -> Memory {
    let files = vector["input"]["files"].as_object();
    Memory::from_files(
        files
            .into_iter()
            .flatten()
            .map(|(path, text)| (path.trim_start_matches("/cfg/"), text.as_str().unwrap())),
    )
}

/// Configs that the original accepts and we reject.
///
/// The columns are the vector, our code and path, and the reason.
const STRICTER: &[(&str, &str, &str)] = &[
    (
        "output-json-file-not-json",
        "CONFIG_FILE tests[0].expect.output.schemaFile",
        "a schema that cannot be used is found before money is spent",
    ),
    (
        "judge",
        "CONFIG_UNKNOWN_REFERENCE tests[0].expect.judge[1].model",
        "a judge that does not exist never answers",
    ),
    ("compliance", "CONFIG_UNKNOWN_KEY compliance.metadata.extra", "unknown keys are errors"),
    ("trace-full", "CONFIG_INVALID_VALUE trace.spanFilter.namePattern", "patterns must compile"),
];

/// Checks that this crate accepts the configs that the original accepts, except for those in `STRICTER`.
///
/// Many vectors use `{{name}}` without a value. The original reports that at run time, but this crate reports it when
/// it reads the config. Therefore this test removes the placeholder first.
#[test]
fn configs_that_the_original_accepts_are_accepted() {
    let vectors = vectors("config_valid.jsonl");
    assert_eq!(vectors.len(), 36);
    let mut differing = Vec::new();
    for vector in &vectors {
        let text = yaml(vector);
        let as_it_is = load("kindlm.yaml", text.as_bytes(), &files(vector), &|_| None);
        let is_missing = |it: &&kindlm_config::Diagnostic| it.code == Code::MISSING_VARIABLE;
        let missing: Vec<_> = as_it_is.diagnostics.iter().filter(is_missing).collect();
        assert_eq!(!missing.is_empty(), text.contains("Hi {{name}}"), "{}", id(vector));
        assert!(missing.iter().all(|it| it.message == "`name` has no value in this test"));

        let text = text.replace("Hi {{name}}", "Hi name");
        let loaded = load("kindlm.yaml", text.as_bytes(), &files(vector), &|_| None);
        for it in &loaded.diagnostics {
            differing.push((id(vector).to_owned(), format!("{} {}", it.code, it.path)));
        }
        if let Some(suite) = &loaded.suite {
            compare(vector, suite);
        }
    }
    let expected: Vec<_> =
        STRICTER.iter().map(|(id, said, _)| ((*id).to_owned(), (*said).to_owned())).collect();
    assert_eq!(differing, expected);
}

/// Compares a suite with the resolved config of the original.
fn compare(vector: &Value, suite: &Suite) {
    let config = &vector["expect"]["config"];
    let id = id(vector);
    assert_eq!(json!(suite.info.project), config["project"], "{id}");
    assert_eq!(json!(suite.info.name), config["suite"]["name"], "{id}");
    assert_eq!(json!(suite.info.description), config["suite"]["description"], "{id}");
    assert_eq!(Value::Object(suite.providers.clone()), config["providers"], "{id}");
    let models: Vec<Value> = suite
        .models
        .iter()
        .map(|it| json!({"id": it.id, "provider": it.provider, "model": it.name, "params": it.params}))
        .collect();
    assert_eq!(
        kindlm_schema::normalise_numbers(json!(models)),
        kindlm_schema::normalise_numbers(config["models"].clone()),
        "{id}"
    );
    let defaults = &config["defaults"];
    assert_eq!(json!(suite.defaults.concurrency), defaults["concurrency"], "{id}");
    assert_eq!(
        json!(u64::try_from(suite.defaults.timeout.as_millis()).unwrap()),
        defaults["timeoutMs"],
        "{id}"
    );
    let gates: BTreeMap<String, f64> =
        suite.gates.iter().map(|it| it.evaluate(&[])).map(|it| (it.gate, it.threshold)).collect();
    for (gate, threshold) in config["gates"].as_object().unwrap() {
        let expected = threshold.as_f64().unwrap();
        assert!((gates[gate] - expected).abs() < f64::EPSILON, "{id}: {gate}");
    }
    assert_eq!(
        gates.len(),
        config["gates"].as_object().unwrap().len() + 2,
        "{id}: erroredMax and providerErrorsMax are ours"
    );
    let tests = config["tests"].as_array().unwrap();
    assert_eq!(suite.cases.len(), tests.len(), "{id}");
    for (case, test) in suite.cases.iter().zip(tests) {
        let body = case.body.body().unwrap();
        assert_eq!(json!(case.name), test["name"], "{id}");
        assert_eq!(Value::Object(body.vars.clone()), test["vars"], "{id}");
        assert_eq!(case.skip.is_some(), test["skip"] == json!(true), "{id}");
        assert_eq!(json!(case.repeat), *test.get("repeat").unwrap_or(&defaults["repeat"]), "{id}");
        let turns: Vec<&str> = body.conversation.iter().map(|it| it.label.as_str()).collect();
        let expected: Vec<&str> = test["conversation"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| it["turn"].as_str().unwrap())
            .collect();
        assert_eq!(turns, expected, "{id}");
        let Subject::Prompt { messages } = &body.subject else { panic!("{id}") };
        let prompt = &config["prompts"][test["prompt"].as_str().unwrap()];
        let user = messages.iter().find(|it| it.role == kindlm_types::Role::User).unwrap();
        assert_eq!(
            json!(user.content),
            json!(prompt["user"].as_str().unwrap().replace("Hi {{name}}", "Hi name")),
            "{id}"
        );
    }
    if let Some(compliance) = &suite.compliance {
        assert_eq!(json!(compliance.enabled), config["compliance"]["enabled"]);
    }
}

/// Configs that the original rejects and we accept, because our limits are wider.
const WIDER: &[(&str, &str)] = &[
    ("too-large", "files up to 64 MiB"),
    ("models-51", "any number of models"),
    ("params-max-big", "`maxTokens` up to 10,000,000"),
    ("test-vars-number", "`vars` of any type"),
    ("defaults-conc-33", "`concurrency` up to 4096"),
    ("defaults-timeout-999", "any `timeoutMs` from 1: scripted and local models answer at once"),
    ("defaults-repeat-101", "`repeat` up to 10,000"),
];

/// Errors that we report at other paths than the original, with the reason.
const OTHER_PATHS: &[(&str, &[&str], &str)] = &[
    (
        "test-empty",
        &["tests[0]", "tests[0].expect", "tests[0].name"],
        "what the test runs is missing as well, and said in the same pass",
    ),
    ("expect-json-no-schema", &["tests[0].expect.output.schemaFile"], "the key that is missing"),
    ("expect-json-empty-schema", &["tests[0].expect.output.schemaFile"], "the value that is empty"),
];

/// Error paths that the original only describes in prose.
const IN_PROSE: &[(&str, &[&str])] = &[
    ("x-dup-model", &["models[1].id"]),
    ("x-dup-test", &["tests[1].name"]),
    ("x-prompt-typo", &["tests[0].prompt"]),
    ("x-prompt-case", &["tests[0].prompt"]),
    ("x-prompt-many", &["tests[0].prompt"]),
    ("x-model-typo", &["tests[0].models[0]"]),
    ("x-model-two", &["tests[0].models[0]", "tests[0].models[1]"]),
    ("x-judge-model", &["defaults.judgeModel"]),
    ("x-suggest-tie", &["tests[0].prompt"]),
    ("x-proto-prompt", &["tests[0].prompt"]),
    ("file-missing_json", &["tests[0].expect.output.schemaFile"]),
    ("file-_up_json", &["tests[0].expect.output.schemaFile"]),
    ("file-a_up_json", &["tests[0].expect.output.schemaFile"]),
    ("file-_srv_x", &["tests[0].expect.output.schemaFile"]),
    ("file-C_x_json", &["tests[0].expect.output.schemaFile"]),
    ("argsschema-escape", &["tests[0].expect.toolCalls[0].argsSchema"]),
    (
        "files-two-errors",
        &["tests[0].expect.output.schemaFile", "tests[0].expect.toolCalls[0].argsSchema"],
    ),
];

#[test]
fn configs_refused_by_the_original_are_refused_at_the_same_path() {
    let vectors = vectors("config_invalid.jsonl");
    assert_eq!(vectors.len(), 107);
    let mut accepted = Vec::new();
    let mut elsewhere = Vec::new();
    let mut differing = Vec::new();
    for vector in &vectors {
        let text = yaml(vector).replace("Hi {{name}}", "Hi name");
        let loaded = load("kindlm.yaml", text.as_bytes(), &files(vector), &|_| None);
        let id = id(vector);
        if loaded.suite.is_some() {
            accepted.push(id.to_owned());
            continue;
        }
        let ours: BTreeSet<String> = loaded.diagnostics.iter().map(|it| it.path.clone()).collect();
        if vector["expect"]["code"] == "CONFIG_PARSE_ERROR" {
            let all = brief(&loaded.diagnostics);
            let is_syntax = |it: &kindlm_config::Diagnostic| {
                it.code == Code::SYNTAX || it.code == Code::DUPLICATE
            };
            // The original limits the number of aliases; we limit their expanded size. This vector is small, but not a
            // suite.
            assert!(
                loaded.diagnostics.iter().any(is_syntax) || id == "yaml-alias-bomb",
                "{id}: {all:?}"
            );
            continue;
        }
        let errors = vector["expect"]["errors"].as_array().unwrap();
        let in_prose = IN_PROSE.iter().find(|(it, _)| *it == id);
        let theirs: BTreeSet<String> = match in_prose {
            Some((_, paths)) => paths.iter().map(|it| (*it).to_owned()).collect(),
            None => errors
                .iter()
                .map(|it| it.as_str().unwrap().split(": ").next().unwrap().to_owned())
                .collect(),
        };
        if let Some(suggested) = errors[0].as_str().unwrap().split("Did you mean: \"").nth(1) {
            let suggested = suggested.trim_end_matches("\"?");
            let help = loaded.diagnostics[0].help.as_deref().unwrap();
            assert_eq!(help, format!("did you mean `{suggested}`?"), "{id}");
        }
        if ours != theirs {
            match OTHER_PATHS.iter().find(|(it, ..)| *it == id) {
                Some((_, paths, _)) => {
                    assert!(ours.iter().eq(paths.iter()), "{id}: {ours:?}");
                    elsewhere.push(id.to_owned());
                }
                None => differing.push(format!(
                    "{id}: theirs {theirs:?}, ours {:?}",
                    brief(&loaded.diagnostics)
                )),
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    let names = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(accepted, names(WIDER.iter().map(|(id, _)| *id).collect()));
    assert_eq!(elsewhere, names(OTHER_PATHS.iter().map(|(id, ..)| *id).collect()));
    let used = IN_PROSE.iter().all(|(id, _)| vectors.iter().any(|it| it["id"] == *id));
    assert!(used);
}

/// Results that differ from the original, with the reason.
const INTERPOLATION: &[(&str, &str)] = &[
    ("spaces", "`{{ a }}` is `{{a}}`, in every text"),
    ("space-left", "`{{ a}}` is `{{a}}`: without a value it is missing"),
    ("tab", "`{{\ta}}` is `{{a}}`"),
    ("proto-toString", "an inherited property is not a variable: it is missing"),
];

#[test]
fn texts_are_filled_as_in_the_original() {
    let vectors = vectors("interpolation.jsonl");
    assert_eq!(vectors.len(), 39);
    let mut differing = Vec::new();
    for vector in &vectors {
        let input = &vector["input"];
        let vars = input["vars"].as_object().cloned().unwrap_or_default();
        let no_env = Map::new();
        let env = input["env"].as_object().unwrap_or(&no_env);
        let filled = fill(input["template"].as_str().unwrap(), &vars, &|name| {
            env.get(name)?.as_str().map(str::to_owned)
        });
        let expect = &vector["expect"];
        let agrees = if expect["ok"] == json!(true) {
            filled.missing.is_empty() && json!(filled.text) == expect["text"]
        } else {
            json!(filled.missing) == expect["missing"]
        };
        if !agrees {
            differing.push(id(vector).to_owned());
        }
    }
    let expected: Vec<_> = INTERPOLATION.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(differing, expected);
}
