//! Rules that every provider must follow.

use kindlm_providers::{Kind, REGISTRY, built_in, find, shorthand};
use kindlm_types::Definitions;
use serde_json::{Value, json};

#[test]
fn ids_are_unique_sorted_and_well_formed() {
    let ids: Vec<&str> = REGISTRY.iter().map(|it| it.meta.id).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(ids, sorted);
    for id in ids {
        assert!(
            id.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-'),
            "{id}"
        );
        assert_eq!(find(id).map(|it| it.meta.id), Some(id));
    }
    assert!(find("no-such-provider").is_none());
}

#[test]
fn every_provider_is_documented() {
    for provider in REGISTRY {
        let meta = &provider.meta;
        assert!(
            meta.docs.starts_with(&format!("# {}\n", meta.id)),
            "{}: the page starts with its id",
            meta.id
        );
        assert!(
            meta.docs.contains("```yaml providers\n"),
            "{}: the page shows a configuration",
            meta.id
        );
        assert!(
            meta.summary.ends_with('.') && meta.summary.len() < 100,
            "{}: the summary is a sentence",
            meta.id
        );
        assert!(!meta.since.is_empty());
    }
}

#[test]
fn every_key_of_a_configuration_is_on_its_page_and_described() {
    for provider in REGISTRY {
        let mut definitions = Definitions::default();
        let schema = (provider.schema)(&mut definitions);
        let definitions = json!(definitions.take());
        let schema = schema["$ref"]
            .as_str()
            .and_then(|it| it.rsplit('/').next())
            .map_or(&schema, |name| &definitions[name]);
        assert_eq!(
            schema["additionalProperties"], false,
            "{}: unknown keys are refused",
            provider.meta.id
        );
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{}: `{key}`", provider.meta.id);
            assert!(property["description"].is_string(), "{place} has no description");
            assert!(provider.meta.docs.contains(&format!("`{key}")), "{place} is not on the page");
        }
    }
}

#[test]
fn the_default_configuration_of_a_shorthand_is_a_good_one() {
    for provider in REGISTRY {
        let config = provider.default_config();
        assert_eq!(config.is_some(), provider.meta.shorthand, "{}", provider.meta.id);
        let Some(config) = config else { continue };
        let good = match provider.kind {
            Kind::Http(make) => make(&config).map(drop),
            Kind::Socket(make) => make(&config).map(drop),
            Kind::Special(check) => check(&config),
        };
        assert_eq!(good, Ok(()), "{}", provider.meta.id);
    }
}

#[test]
fn a_shorthand_is_a_provider_and_a_model() {
    for (text, expected) in [
        ("openai:gpt-4o", Some(("openai", "gpt-4o"))),
        ("ollama:llama3:8b", Some(("ollama", "llama3:8b"))),
        ("openai:", None),
        ("openai", None),
        (":gpt-4o", None),
        ("nobody:x", None),
        ("http:x", None),
        ("OpenAI:gpt-4o", None),
    ] {
        assert_eq!(
            shorthand(&built_in(), text).map(|(it, model)| (it.meta.id, model)),
            expected,
            "{text}"
        );
    }
}

#[test]
fn all_problems_of_a_configuration_are_reported() {
    for (provider, config, pointers) in [
        (
            "openai",
            json!({"apiKeyEnv": "sk-abc", "baseUrl": "ftp://h"}),
            vec!["/apiKeyEnv", "/baseUrl"],
        ),
        (
            "ollama",
            json!({"apiKeyEnv": "a b", "baseUrl": "http://u:p@h"}),
            vec!["/apiKeyEnv", "/baseUrl"],
        ),
        (
            "openai",
            json!({"headers": {"X-Api-Key": "sk-abc", "X-Portkey-Virtual-Key": "a", "Authorization": "env:TOKEN"}}),
            vec!["/headers/X-Api-Key"],
        ),
        (
            "openai",
            json!({"apiKeyEnv": null, "apiKeyCommand": "print-key"}),
            vec!["/apiKeyCommand"],
        ),
        ("vertex", json!({"apiKeyCommand": " ", "project": "p"}), vec!["/apiKeyCommand"]),
        (
            "bedrock",
            json!({"apiKeyCommand": "print-key", "credentialsCommand": "print-it"}),
            vec!["/credentialsCommand"],
        ),
        ("bedrock", json!({"credentialsCommand": " "}), vec!["/credentialsCommand"]),
        (
            "http",
            json!({
                "url": "http://h", "apiKeyCommand": "print-key",
                "aws": {"service": "s", "region": "r", "credentialsCommand": " "},
            }),
            vec!["/aws/credentialsCommand", "/aws"],
        ),
        (
            "http",
            json!({"url": "http://h", "aws": {"service": "s", "region": "r"}, "apiKeyEnv": "KEY"}),
            vec!["/aws"],
        ),
        (
            "http",
            json!({
                "url": "http://h", "aws": {"service": "s", "region": "r"},
                "headers": {"authorization": "env:TOKEN"},
            }),
            vec!["/aws"],
        ),
        (
            "http",
            json!({
                "url": "h", "body": "{{user}", "responsePath": "a[", "toolCallsPath": "$[", "modelIdPath": "b[",
                "usagePaths": {"inputTokens": "["}, "headers": {"a b": "x", "A": "x\ny", "B": "env:"},
            }),
            vec![
                "/url",
                "/headers/A",
                "/headers/B",
                "/headers/a b",
                "/body",
                "/usagePaths/inputTokens",
                "/responsePath",
                "/toolCallsPath",
                "/modelIdPath",
            ],
        ),
    ] {
        let Kind::Http(make) = find(provider).unwrap().kind else {
            panic!("{provider} has a codec")
        };
        let problems = make(&config).expect_err("problems");
        let found: Vec<&str> = problems.iter().map(|it| it.pointer.as_str()).collect();
        assert_eq!(found, pointers, "{problems:#?}");
        assert!(!format!("{problems:?}").contains("sk-abc"), "a key is never repeated");
    }
}

#[test]
fn a_service_key_in_a_header_is_a_problem() {
    for (value, is_problem) in [
        ("Bearer sk-live-Abc0123456789", true),
        ("ghp_Abc0123456789xyz", true),
        ("Bearer env:TOKEN", false),
        ("Bearer test-token", false),
    ] {
        let headers = json!({"Authorization": value});
        for (provider, config) in [
            ("http", json!({"url": "http://h", "headers": headers})),
            ("mcp", json!({"serverUrl": "http://h", "toolName": "t", "headers": headers})),
            ("websocket", json!({"url": "ws://h", "message": "hi", "headers": headers})),
        ] {
            let made = match find(provider).unwrap().kind {
                Kind::Http(make) => make(&config).map(drop),
                Kind::Socket(make) => make(&config).map(drop),
                Kind::Special(check) => check(&config),
            };
            let problems = made.err().unwrap_or_default();
            let found: Vec<_> = problems.iter().map(|it| (&*it.pointer, &*it.message)).collect();
            let expected = [("/headers/Authorization", "a key must not be in a file")];
            assert_eq!(found, expected[..usize::from(is_problem)], "{provider}: {value}");
        }
    }
}

#[test]
fn a_codec_shows_no_header_value_when_it_is_printed() {
    let config = json!({"url": "http://h", "headers": {"X-Token": "very-secret"}});
    let codec = super::codec("http", &config);
    let request = codec.encode(&super::hi()).unwrap();
    assert!(!format!("{codec:?}{request:?}").contains("very-secret"));
}

/// The providers whose API has no structured output.
const WITHOUT_STRUCTURED_OUTPUT: &[&str] = &[
    // The user's template defines the body.
    "http",
    "replicate",
];

/// Returns the places of a body that contain a schema which requires the boolean `pass`.
fn schemas(body: &Value, place: &str, found: &mut Vec<String>) {
    let kind = body["properties"]["pass"]["type"].as_str().map(str::to_lowercase);
    if kind.as_deref() == Some("boolean") && body["required"] == json!(["pass"]) {
        found.push(place.to_owned());
    }
    match body {
        Value::Object(object) => {
            object.iter().for_each(|(key, it)| schemas(it, &format!("{place}/{key}"), found));
        }
        Value::Array(list) => {
            let items = list.iter().enumerate();
            items.for_each(|(at, it)| schemas(it, &format!("{place}/{at}"), found));
        }
        _ => {}
    }
}

/// The exchanges `structured.json` show the place of the schema in each API.
#[test]
fn every_codec_asks_for_structured_output_where_its_api_has_it() {
    let schema = json!({
        "type": "object",
        "properties": {"pass": {"type": "boolean"}},
        "required": ["pass"],
        "additionalProperties": false,
    });
    let mut asked = super::hi();
    asked.response_format = Some(kindlm_types::ResponseFormat::new("ruling", schema));
    let codecs = REGISTRY.iter().filter(|it| matches!(it.kind, Kind::Http(_)));
    for id in codecs.map(|it| it.meta.id) {
        let codec = super::usual(id);
        let plain = codec.encode(&super::hi()).unwrap().json().into_owned();
        let body = codec.encode(&asked).unwrap().json().into_owned();
        let mut found = Vec::new();
        schemas(&body, "", &mut found);
        if WITHOUT_STRUCTURED_OUTPUT.contains(&id) {
            assert_eq!(body, plain, "{id}: remove it from `WITHOUT_STRUCTURED_OUTPUT`");
            continue;
        }
        assert_eq!(
            found.len(),
            1,
            "{id}: the request must contain the schema of `Prompt::response_format` once, but has it at {found:?}; \
             send it in `encode`, or add `{id}` to `WITHOUT_STRUCTURED_OUTPUT` if the API has no structured output: {body:#}"
        );
        assert_eq!(plain.pointer(&found[0]), None, "{id}: sends a schema without being asked");
    }
    // Anthropic returns structured output through a forced tool.
    let body = super::usual("anthropic").encode(&asked).unwrap().json().into_owned();
    let name = &body["tools"][0]["name"];
    let expected = json!({"type": "tool", "name": name, "disable_parallel_tool_use": true});
    assert_eq!(body["tool_choice"], expected);
}

#[expect(dead_code, reason = "the test calls what `main` prints")]
#[path = "../../../examples/own_provider.rs"]
mod own_provider;

#[test]
fn an_own_provider_is_configured_by_its_type() {
    assert_eq!(own_provider::answer().unwrap(), "It has shipped.");
}
