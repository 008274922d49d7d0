//! The OpenAPI description of the routes, with the JSON Schemas of records and evaluations.

use kindlm_wire::evaluate::{BatchSummary, Evaluation, LineError, Record};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use utoipa::OpenApi;

use crate::access::SCHEME;

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
    for (schema, description) in [
        ("Record", "The assertion set with the checks: `name` or `name@version`."),
        (
            "Evaluation",
            "The version of the assertion set, if the record named a set: `name@version`.",
        ),
    ] {
        document["components"]["schemas"][schema]["properties"]["set"] =
            json!({"type": "string", "description": description});
    }
    document["components"]["securitySchemes"] =
        json!({(SCHEME): {"type": "http", "scheme": "bearer"}});
    name_operations(&mut document);
    document
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
