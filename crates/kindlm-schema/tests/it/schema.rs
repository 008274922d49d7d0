//! Tests of users' schemas: drafts, formats, references and error messages.

use kindlm_schema::{Schema, lint};
use proptest::prelude::*;
use serde_json::{Value, json};

fn verdicts(schema: &Value, values: &[(Value, bool)]) {
    let compiled = Schema::compile(schema).unwrap();
    for (value, expected) in values {
        assert_eq!(compiled.is_valid(value), *expected, "{schema} on {value}");
        assert_eq!(compiled.violations(value).is_empty(), *expected, "{schema} on {value}");
    }
}

#[test]
fn the_draft_follows_from_the_declaration() {
    let exclusive = json!({"minimum": 1, "exclusiveMinimum": true});
    let declared = |uri: &str, schema: &Value| {
        let mut schema = schema.clone();
        schema["$schema"] = json!(uri);
        schema
    };
    verdicts(
        &declared("http://json-schema.org/draft-04/schema#", &exclusive),
        &[(json!(1), false), (json!(2), true)],
    );
    let tuple = json!({"prefixItems": [{"type": "string"}]});
    verdicts(&tuple, &[(json!([1]), true)]);
    verdicts(
        &declared("https://json-schema.org/draft/2020-12/schema", &tuple),
        &[(json!([1]), false), (json!(["a"]), true)],
    );
    verdicts(
        &declared(
            "https://json-schema.org/draft/2019-09/schema",
            &json!({"dependentRequired": {"a": ["b"]}}),
        ),
        &[(json!({"a": 1}), false), (json!({"a": 1, "b": 1}), true)],
    );
}

#[test]
fn without_a_declaration_it_reads_as_ajv_does() {
    verdicts(
        &json!({"items": [{"type": "string"}]}),
        &[(json!([1]), false), (json!(["a", 1]), true)],
    );
    verdicts(&json!({"dependencies": {"a": ["b"]}}), &[(json!({"a": 1}), false)]);
    verdicts(
        &json!({"definitions": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/definitions/a", "minLength": 2}}}),
        &[(json!({"x": "a"}), false), (json!({"x": "ab"}), true), (json!({"x": 12}), false)],
    );
    verdicts(
        &json!({"type": "string", "nullable": true}),
        &[(json!(null), true), (json!(1), false)],
    );
    verdicts(
        &json!({"$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}}),
        &[(json!("x"), true), (json!(1), false)],
    );
}

#[test]
fn booleans_are_schemas() {
    verdicts(&json!(true), &[(json!(1), true), (json!(null), true)]);
    verdicts(&json!(false), &[(json!(1), false), (json!(null), false)]);
}

#[test]
fn formats_are_asserted_in_every_draft() {
    for draft in
        ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
    {
        verdicts(
            &json!({"$schema": draft, "format": "date"}),
            &[(json!("2024-02-29"), true), (json!("2023-02-29"), false)],
        );
    }
}

#[test]
fn numbers_compare_as_numbers() {
    verdicts(&json!({"type": "integer"}), &[(json!(1.0), true), (json!(1.5), false)]);
    verdicts(&json!({"const": 1}), &[(json!(1.0), true)]);
    verdicts(&json!({"uniqueItems": true}), &[(json!([1, 1.0]), false)]);
}

#[test]
fn unusable_schemas_name_place_and_reason() {
    let lines: Vec<String> = [
        json!({"$ref": "http://127.0.0.1:9/x.json"}),
        json!({"properties": {"a": {"$ref": "https://example.com/x.json"}}}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"items": {"$ref": "other.json#/a"}}),
        json!({"$ref": "#/definitions/nothing"}),
        json!({"properties": {"total": {"type": "strnig"}}}),
        json!({"pattern": "(["}),
        json!({"required": "a"}),
        json!({"minLength": -1}),
        json!({"$schema": "https://example.com/draft", "type": "string"}),
        json!([1]),
        json!("string"),
        json!(null),
    ]
    .iter()
    .map(|schema| format!("{schema}\n  {}", Schema::compile(schema).map(|_| ()).unwrap_err()))
    .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn references_within_the_schema_and_to_its_own_ids_are_followed() {
    verdicts(
        &json!({"$id": "https://example.com/root", "definitions": {"a": {"$id": "a.json", "type": "string"}}, "properties": {"x": {"$ref": "a.json"}}}),
        &[(json!({"x": "s"}), true), (json!({"x": 1}), false)],
    );
    verdicts(
        &json!({"type": ["array", "null"], "items": {"$ref": "#"}}),
        &[(json!([[null, []]]), true)],
    );
}

#[test]
fn a_missing_place_is_found_beside_an_anchor() {
    for (good, bad, pointer) in [
        ("#id", "#/$defs/nothing", "/properties/b/$ref"),
        ("#id", "#nothing", "/properties/b/$ref"),
        ("#nothing", "#id", "/properties/a/$ref"),
    ] {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {"a": {"$ref": good}, "b": {"$ref": bad}},
            "$defs": {"id": {"$anchor": "id", "type": "string"}}
        });
        assert_eq!(Schema::compile(&schema).unwrap_err().pointer, pointer, "{good} {bad}");
    }
}

#[test]
fn every_violation_is_listed_in_the_order_of_the_value() {
    let schema = json!({
        "type": "object",
        "required": ["order_id", "total", "kind"],
        "properties": {
            "order_id": {"type": "string", "pattern": "^ORD-[0-9]{4}$"},
            "total": {"type": "number", "minimum": 0, "multipleOf": 0.5},
            "status": {"enum": ["shipped", "pending"]},
            "mail": {"format": "email"},
            "note": {"type": "string", "minLength": 1, "maxLength": 5},
            "items": {"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "integer"}},
            "action": {"oneOf": [
                {"type": "object", "required": ["refund"], "properties": {"refund": {"type": "number"}}},
                {"type": "string"}
            ]},
            "never": false,
            "one": {"const": 1}
        },
        "propertyNames": {"maxLength": 8},
        "additionalProperties": false
    });
    let value = json!({
        "one": 2, "never": 1, "action": {"refund": "x"}, "items": [1.5, 1.5], "note": "", "mail": "a",
        "status": "gone", "total": -0.25, "order_id": "ORD-1", "a/b": 1, "much_too_long": 1
    });
    let violations = Schema::compile(&schema).unwrap().violations(&value);
    let lines: Vec<String> =
        violations.iter().map(|it| format!("{it}   [{}]", it.schema)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn long_values_and_lists_are_shortened() {
    let schema = Schema::compile(&json!({"enum": (0..40).collect::<Vec<_>>()})).unwrap();
    let message = schema.violations(&json!("é".repeat(1000))).remove(0).message;
    assert!(message.ends_with('`') && message.chars().count() < 200, "{message}");
    assert!(message.contains("(28 more)"), "{message}");
}

#[test]
fn patterns_that_backtrack_stay_bounded() {
    let schema = Schema::compile(&json!({"pattern": "^(?=(a+)+$)"})).unwrap();
    let value = json!(format!("{}b", "a".repeat(5000)));
    assert!(!schema.is_valid(&value));
    assert_eq!(schema.violations(&value).len(), 1);
}

#[test]
fn lints_find_keywords_without_effect() {
    let schema = json!({
        "tpye": "object",
        "properties": {"requried": {"format": "e-mail", "minimun": 1}, "x": {"format": "date", "x-note": 1}},
        "enum": [{"tpye": 1}],
        "const": {"tpye": 1}
    });
    let lines: Vec<String> =
        lint(&schema).into_iter().map(|it| format!("{}: {}", it.pointer, it.message)).collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(lint(&json!(true)), []);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z$/~]{0,8}".prop_map(Value::from),
        Just(json!("string")),
        Just(json!("#/definitions/a")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            "[a-z]{1,3}",
            Just("$ref".to_owned()),
            Just("type".to_owned()),
            Just("properties".to_owned()),
            Just("anyOf".to_owned()),
            Just("items".to_owned()),
            Just("required".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_compiles_or_has_an_error(schema in any_json(), value in any_json()) {
        match Schema::compile(&schema) {
            Ok(compiled) => {
                prop_assert_eq!(compiled.is_valid(&value), compiled.violations(&value).is_empty());
            }
            Err(err) => prop_assert!(!err.message.is_empty()),
        }
        prop_assert!(lint(&schema).iter().all(|it| !it.pointer.is_empty()));
    }

    #[test]
    fn the_schema_made_of_a_value_accepts_it(value in any_json()) {
        let schema = Schema::compile(&json!({"const": value})).unwrap();
        prop_assert!(schema.is_valid(&value));
    }
}

#[test]
fn many_violations_take_no_longer_than_they_must() {
    let schema = Schema::compile(&json!({"additionalProperties": {"type": "string"}})).unwrap();
    let value: Value = (0..50_000).map(|it| (format!("k{it}"), json!(it))).collect();
    let violations = schema.violations(&value);
    assert_eq!(violations.len(), 50_000);
    assert_eq!(violations[49_999].instance, "/k49999");
    let unique = Schema::compile(&json!({"uniqueItems": true})).unwrap();
    let value: Value = (0..50_000).chain([49_999]).map(Value::from).collect();
    assert_eq!(unique.violations(&value)[0].message, "must not have equal items");
}

#[test]
fn schemas_that_refer_to_themselves_end() {
    for schema in [
        json!({"$ref": "#", "type": "object"}),
        json!({"$ref": "#"}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [{"$ref": "#"}], "type": "object"}),
        json!({"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a", "type": "object"}}, "$ref": "#/definitions/a"}),
    ] {
        if let Ok(compiled) = Schema::compile(&schema) {
            assert_eq!(compiled.is_valid(&json!(1)), compiled.violations(&json!(1)).is_empty());
        }
    }
}
