//! The schema for editors accepts the same files as the reader.

use kindlm_config::json_schema;
use serde_json::Value;

use crate::memory::{GOOD, load_text, with};

fn accepts(yaml: &str) -> bool {
    let value: Value = serde_yaml::from_str(yaml).unwrap();
    let schema = kindlm_schema::Schema::compile(&json_schema()).unwrap();
    schema.is_valid(&value)
}

#[test]
fn editors_and_the_reader_agree_about_structure() {
    assert!(accepts(GOOD));
    for (part, by) in [
        ("    prompt: greet\n", "    promt: greet\n"),
        ("project: demo", "projet: demo"),
        ("contains: [Ada]", "contians: [Ada]"),
        ("contains: [Ada]", "contains: Ada"),
        ("    model: gpt-4o\n", ""),
        ("    apiKeyEnv: OPENAI_API_KEY", "    apiKey: secret"),
        ("    apiKeyEnv: OPENAI_API_KEY", "    baseUrl: 'https://a.b'"),
        ("    apiKeyEnv: OPENAI_API_KEY", "    apiKeyCommand: ''"),
        ("project: demo", "project: demo\ngates: { passRateMin: 2 }"),
        ("project: demo", "project: demo\ngates: { passRate: 1 }"),
        ("project: demo", "project: demo\ndefaults: { repeat: 0 }"),
        ("project: demo", "project: demo\ndefaults:"),
        (
            "contains: [Ada]",
            "contains: [Ada] }\n      assert: [{ type: nothing }]\n      output: {",
        ),
    ] {
        let text = with(part, by);
        assert!(!accepts(&text), "{by}");
        assert!(load_text(&text).suite.is_none(), "{by}");
    }
    for (part, by) in [
        ("    apiKeyEnv: OPENAI_API_KEY", "    apiKeyEnv: null"),
        ("    apiKeyEnv: OPENAI_API_KEY", "    apiKeyCommand: print-key"),
        ("  - id: fast\n    provider: openai\n    model: gpt-4o-mini\n", "  - openai:gpt-4o\n"),
        ("project: demo", "project: demo\ngates: { passRateMin: 1 }"),
        (
            "contains: [Ada] }",
            "contains: [Ada] }\n      assert: [{ type: not-latency, maxMs: 5, severity: soft }]",
        ),
    ] {
        let text = with(part, by);
        assert!(accepts(&text), "{by}");
        assert!(load_text(&text).suite.is_some(), "{by}");
    }
}

#[test]
fn every_reference_leads_somewhere_and_stands_alone() {
    fn walk(root: &Value, value: &Value) {
        if let Some(target) = value.get("$ref").and_then(Value::as_str) {
            assert!(root.pointer(target.trim_start_matches('#')).is_some(), "{target}");
            assert_eq!(value.as_object().unwrap().len(), 1, "{value}");
        }
        let items = value.as_array().into_iter().flatten();
        items
            .chain(value.as_object().into_iter().flat_map(|it| it.values()))
            .for_each(|it| walk(root, it));
    }
    let schema = json_schema();
    assert!(schema.get("$defs").is_none());
    walk(&schema, &schema);
}

#[test]
fn keys_are_described() {
    let schema = json_schema();
    for (key, property) in schema["properties"].as_object().unwrap() {
        assert!(property["description"].is_string(), "{key}");
    }
    for name in ["TestEntry", "ModelEntry", "PromptEntry", "DefaultsBlock"] {
        for (key, property) in schema["definitions"][name]["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name}.{key}");
        }
    }
}
