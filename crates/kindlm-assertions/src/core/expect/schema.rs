//! The JSON Schema of an `expect` block, and the compiled schemas of its parts.

use kindlm_schema::{Shape, finish};
use kindlm_types::Definitions;
use serde_json::{Map, Value, json};

use super::{JUDGING, LIST, NOT, known_types};
use crate::core::assertion::RegisteredAssertion;
use crate::core::judging::JudgeBlock;
use crate::{Build, Registration, Registry};

/// Returns the JSON Schema of an `expect` block, for editors and for embedding.
///
/// The definitions of the schema are under `$defs`.
pub fn expect_schema(registry: &Registry) -> Value {
    let mut definitions = Definitions::default();
    let mut nested = Map::new();
    for registration in registry.iter() {
        let Some(path) = registration.meta.path else { continue };
        let mut place = with_summary(placed(registration, &mut definitions), registration);
        if path.list {
            place =
                json!({"type": "array", "items": place, "description": registration.meta.summary});
        }
        insert(&mut nested, path.pointer, place);
    }
    let judging = definitions.schema_for::<JudgeBlock>();
    insert(&mut nested, &format!("/{JUDGING}"), judging);
    let entry = list_entry(registry, &mut definitions);
    let list = json!({"type": "array", "items": entry, "description": "Any assertion, by its id."});
    insert(&mut nested, &format!("/{LIST}"), list);
    finish(object(nested), definitions)
}

/// The name of the schema definition for a list entry. The entries of an `assert-set` refer to this definition.
const LIST_ENTRY: &str = "ListEntry";

/// Defines the schema of a list entry, and returns the reference to it.
fn list_entry(registry: &Registry, definitions: &mut Definitions) -> Value {
    let reference = json!({"$ref": format!("#/$defs/{LIST_ENTRY}")});
    let mut kinds = Vec::new();
    for registration in registry.iter() {
        let mut schema = placed(registration, definitions);
        if let (Build::Set(_), Some(list)) =
            (registration.build, schema.pointer_mut(&format!("/properties/{LIST}/items")))
        {
            *list = reference.clone();
        }
        let ids = [registration.meta.id.to_owned(), format!("{NOT}{}", registration.meta.id)];
        kinds.push(json!({
            "if": {"properties": {"type": {"enum": ids}}, "required": ["type"]},
            "then": listed(schema, registration),
        }));
    }
    let ids: Vec<Value> = known_types(registry).into_iter().map(Value::from).collect();
    let definition = json!({
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ids, "description": "The assertion's id; `not-` inverts it."}},
        "anyOf": [{"required": ["type"]}, {"required": ["$ref"]}],
        "allOf": kinds,
    });
    definitions.add(LIST_ENTRY, definition);
    reference
}

/// Returns the schema of an assertion's configuration.
///
/// If the assertion asks judges, the schema includes the options about judges.
fn placed(registration: &Registration, definitions: &mut Definitions) -> Value {
    let mut schema = (registration.schema)(definitions);
    if !registration.build.asks_judges() {
        return schema;
    }
    let judges = definitions.schema_for::<JudgeBlock>();
    let properties = schema.as_object_mut().map(|it| it.entry("properties").or_insert(json!({})));
    if let (Some(Value::Object(properties)), Some(Value::Object(judges))) =
        (properties, judges.get("properties"))
    {
        for (key, schema) in judges {
            properties.entry(key).or_insert_with(|| schema.clone());
        }
    }
    schema
}

/// Returns an object schema with these properties and no others.
fn object(properties: Map<String, Value>) -> Value {
    let mut schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    schema["properties"] = Value::Object(properties);
    schema
}

/// Inserts a schema at a place such as `/guardrails/pii`.
///
/// Missing objects around the place are created.
fn insert(properties: &mut Map<String, Value>, pointer: &str, schema: Value) {
    let path = pointer.trim_start_matches('/');
    match path.split_once('/') {
        None => _ = properties.insert(path.to_owned(), schema),
        Some((key, rest)) => {
            let container = properties.entry(key).or_insert_with(|| object(Map::new()));
            if let Some(Value::Object(inner)) = container.get_mut("properties") {
                insert(inner, rest, schema);
            }
        }
    }
}

fn with_summary(mut schema: Value, registration: &Registration) -> Value {
    if let Value::Object(map) = &mut schema {
        map.insert("description".to_owned(), registration.meta.summary.into());
    }
    schema
}

/// Returns the schema of a list entry: the assertion's own keys and the common options.
fn listed(schema: Value, registration: &Registration) -> Value {
    let mut schema = with_summary(schema, registration);
    let Value::Object(map) = &mut schema else { return schema };
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for (key, option) in option_schemas() {
            properties.entry(key).or_insert(option);
        }
    }
    let required = map.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        required.insert(0, json!("type"));
    }
    schema
}

fn option_schemas() -> [(&'static str, Value); 12] {
    let threshold = "The least score that passes, instead of the assertion's own decision";
    [
        ("type", json!({"type": "string", "description": "The assertion's id; `not-` inverts it"})),
        ("threshold", json!({"type": "number", "description": threshold})),
        ("atLeast", json!({"type": "number", "description": "Another name of `threshold`"})),
        (
            "severity",
            json!({"enum": ["gate", "soft"], "default": "gate", "description": "`gate` must hold, `soft` is a score to watch"}),
        ),
        (
            "weight",
            json!({"type": "number", "minimum": 0, "default": 1, "description": "The share in the weighted mean score"}),
        ),
        (
            "metric",
            json!({"type": "string", "minLength": 1, "description": "The named score that the check contributes to"}),
        ),
        (
            "on",
            json!({"type": "string", "minLength": 1, "description": "The value of the execution that the check \
                judges instead of the output: `json.order.id`, `toolCalls[0].input`, `usage.outputTokens`, \
                `stderr`, `vars.x`, …"}),
        ),
        (
            "require",
            json!({"type": "boolean", "default": false, "description": "Stops the execution if the check does not \
                hold"}),
        ),
        (
            "skip",
            json!({"type": "string", "minLength": 1, "description": "The reason to skip the check; it is reported as skipped"}),
        ),
        (
            "transform",
            json!({"type": "string", "minLength": 1, "description": "A script that returns the `output` for the \
                check: an expression, the body of a function, or `file://` and a file"}),
        ),
        (
            "$ref",
            json!({"type": "string", "pattern": "^#/assertionTemplates/.+", "description": "An entry of \
                `assertionTemplates`; keys beside it take precedence"}),
        ),
        (
            "label",
            json!({"type": "string", "minLength": 1, "description": "Shown instead of the assertion's own label"}),
        ),
    ]
}

impl RegisteredAssertion {
    /// Returns the compiled schema; `list_form` adds the options that every entry of an `assert` list takes.
    pub(super) fn shape(&self, list_form: bool) -> &Shape {
        let own = |definitions: &mut Definitions| placed(self.registration, definitions);
        if list_form {
            self.shapes
                .listed
                .get_or_init(|| Shape::generate(|it| listed(own(it), self.registration)))
        } else {
            self.shapes.nested.get_or_init(|| Shape::generate(own))
        }
    }
}
