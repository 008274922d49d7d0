//! The OpenAPI description of the routes, with the JSON Schemas of records and evaluations.

use kindlm_wire::evaluate::{BatchSummary, Evaluation, LineError, Record};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use crate::access::SCHEME;
use crate::records::SET_KEYS;
use crate::routes::samples::NOT_IN_SAMPLES;

/// The title and the license; the paths come from the routes.
#[derive(OpenApi)]
#[openapi(info(
    title = "KindLM server",
    description = "Checks outputs of prompts and agents.",
    license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
))]
pub(crate) struct Info;

/// Returns the description as JSON.
pub(crate) fn document(routes: &utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(routes).unwrap_or_default();
    let settings = SchemaSettings::draft2020_12();
    let mut generator =
        settings.with(|it| it.definitions_path = "/components/schemas".into()).into_generator();
    generator.subschema_for::<Record>();
    generator.subschema_for::<Evaluation>();
    generator.subschema_for::<BatchSummary>();
    generator.subschema_for::<LineError>();
    let schemas = generator.take_definitions(false);
    if let Some(known) = document["components"]["schemas"].as_object_mut() {
        known.extend(schemas);
    }
    for (schema, types, description) in [
        (
            "Record",
            json!(["string", "null"]),
            "The assertion set with the checks: `name` or `name@version`.",
        ),
        (
            "Evaluation",
            json!("string"),
            "The version of the assertion set, if the record named a set: `name@version`.",
        ),
    ] {
        document["components"]["schemas"][schema]["properties"]["set"] =
            json!({"type": types, "description": description});
    }
    describe_bodies(&mut document);
    document["components"]["securitySchemes"] =
        json!({(SCHEME): {"type": "http", "scheme": "bearer"}});
    name_operations(&mut document);
    document
}

/// The path whose request may have no body.
const OPTIONAL_BODY: &str = "/v1/samples/{id}/case";

/// Adds the schemas that are not derived from a type, and states which bodies are required.
fn describe_bodies(document: &mut Value) {
    let record = document["components"]["schemas"]["Record"]["properties"].clone();
    let known = &mut document["components"]["schemas"];
    known["NewSample"] = new_sample(record.clone());
    known["SetContent"] = set_content(&record);
    known["EventText"] = json!({
        "type": "string",
        "description": "The lines `id`, `event` and `data` of each event, and an empty line after it.",
        "pattern": "^((id|event|data): [^\\n]*\\n|:[^\\n]*\\n|\\n)*$",
    });
    for form in known["SuiteForm"]["oneOf"].as_array_mut().into_iter().flatten() {
        if form["type"] == "string" {
            form["minLength"] = json!(1);
        }
    }
    for (path, operations) in document["paths"].as_object_mut().into_iter().flatten() {
        for operation in operations.as_object_mut().into_iter().flat_map(|it| it.values_mut()) {
            if let Some(body) = operation.get_mut("requestBody") {
                body["required"] = json!(path != OPTIONAL_BODY);
            }
        }
    }
}

/// Returns the schema of a sample: the evidence of a record, with an agent.
fn new_sample(record: Value) -> Value {
    let Value::Object(mut properties) = record else { return Value::Null };
    for key in NOT_IN_SAMPLES {
        properties.remove(key);
    }
    let name = |description: &str, is_optional: bool| {
        let text = json!({"type": "string", "minLength": 1, "maxLength": 100});
        let mut forms = vec![text, json!({"type": "integer"})];
        forms.extend(is_optional.then(|| json!({"type": "null"})));
        json!({"description": description, "anyOf": forms})
    };
    let names = [
        ("id", "The id; a sample whose id is stored already is not stored again.", true),
        ("agent", "The agent.", false),
        ("subject", "The person or account that the sample is about.", true),
        ("version", "The version of the agent.", true),
    ];
    for (key, description, is_optional) in names {
        properties.insert(key.to_owned(), name(description, is_optional));
    }
    let error = "An error of the agent, in any form. A sample with an error is always evaluated.";
    properties.insert("error".to_owned(), json!({"description": error}));
    properties.insert("tags".to_owned(), tags());
    let forbidden = NOT_IN_SAMPLES.map(|it| json!({"required": [it]}));
    json!({
        "type": "object",
        "required": ["agent"],
        "properties": properties,
        "not": {"anyOf": forbidden},
    })
}

/// Returns the schema of the tags of a sample.
fn tags() -> Value {
    let tag = json!({"type": "string", "minLength": 1, "maxLength": 100});
    json!({
        "description": "Tags of the sample, such as a kind of customer. Pass rates can be shown for a tag.",
        "anyOf": [{"type": "array", "maxItems": 20, "items": tag}, {"type": "null"}],
    })
}

/// Returns the schema of the content of a set: the keys of a record that define checks.
fn set_content(record: &Value) -> Value {
    let mut properties = Map::new();
    for key in SET_KEYS {
        properties.insert(key.to_owned(), record[key].clone());
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "anyOf": [{"required": ["assertions"]}, {"required": ["expect"]}],
    })
}

/// Gives each operation an id of its own, such as `get_samples`. The ids of the routes are the names of functions, some
/// of which are equal.
fn name_operations(document: &mut Value) {
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for (path, operations) in paths {
        let words = path.trim_start_matches("/v1").split(|it: char| !it.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|it| !it.is_empty()).collect();
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            if operation.get("operationId").is_some() {
                operation["operationId"] = json!(format!("{method}_{}", words.join("_")));
            }
        }
    }
}
