//! The JSON Schemas of the config file, for editors and for the reader.

use std::sync::LazyLock;

use kindlm_assertions::{Registry, ScriptsBlock};
use kindlm_engine::gates;
use kindlm_schema::{Shape, finish};
use kindlm_types::AgentSpec;
use kindlm_types::Definitions;
use serde_json::{Map, Value, json};

use crate::written::{
    AssertionSetEntry, ComplianceBlock, DefaultsBlock, DerivedEntry, ModelEntry, MutateBlock,
    PromptEntry, SuiteBlock, TestEntry, TraceBlock, UploadBlock,
};

/// The compiled shapes of the config file.
///
/// Each shape is compiled on first use, because compiling all of them takes longer than checking a file.
#[derive(Debug)]
pub(crate) struct Shapes {
    /// The document, without the items of models, prompts, tests, gates and sets.
    pub(crate) root: Shape,
    pub(crate) model: Shape,
    pub(crate) prompt: Shape,
    pub(crate) test: Shape,
    pub(crate) set: Shape,
}

pub(crate) static SHAPES: LazyLock<Shapes> = LazyLock::new(|| Shapes {
    root: Shape::generate(|definitions| {
        let open = Items {
            models: json!({"type": "array", "minItems": 1}),
            prompts: json!({"type": "object", "minProperties": 1}),
            tests: json!({"anyOf": [{"type": "array", "minItems": 1}, {"type": "string"}]}),
            gates: json!({"type": "object"}),
            sets: json!({"type": "object"}),
        };
        root(definitions, open)
    }),
    model: Shape::from_type::<ModelEntry>(),
    prompt: Shape::from_type::<PromptEntry>(),
    test: Shape::from_type::<TestEntry>(),
    set: Shape::from_type::<AssertionSetEntry>(),
});

/// The schemas of the parts that are checked item by item.
struct Items {
    models: Value,
    prompts: Value,
    tests: Value,
    gates: Value,
    sets: Value,
}

fn providers(definitions: &mut Definitions) -> Value {
    let providers: Map<String, Value> = kindlm_providers::all()
        .map(|it| (it.meta.id.to_owned(), (it.schema)(definitions)))
        .collect();
    json!({
        "type": "object",
        "properties": providers,
        "additionalProperties": false,
        "minProperties": 1,
    })
}

fn root(definitions: &mut Definitions, items: Items) -> Value {
    let mut properties = Map::new();
    let mut add = |key: &str, schema: Value, description: &str| {
        properties.insert(key.to_owned(), described(schema, description));
    };
    add("kindlm", json!({"const": 1}), "The version of this file's format: 1.");
    add("project", json!({"type": "string", "minLength": 1}), "Groups suites in reports.");
    add("suite", definitions.reference::<SuiteBlock>(), "The name and description of the suite.");
    add("providers", providers(definitions), "The providers, and the variables of their keys.");
    add("models", items.models, "The models to test, each an object or `provider:model`.");
    let agents = json!({
        "type": "object",
        "additionalProperties": definitions.reference::<AgentSpec>(),
        "minProperties": 1,
    });
    add("agents", agents, "Agents that are programs, by name, for tests to run on.");
    add("prompts", items.prompts, "The prompts, by name.");
    add(
        "assertionSets",
        items.sets,
        "Sets of prompt assertions by name, for prompts and tests to refer to.",
    );
    add("tests", items.tests, "The tests: a list, or a dataset such as `file://cases/*.jsonl`.");
    add("gates", items.gates, "Thresholds over the whole run; they decide the exit code.");
    add("defaults", definitions.reference::<DefaultsBlock>(), "The defaults of tests.");
    add("compliance", definitions.reference::<ComplianceBlock>(), "A report for auditors.");
    add(
        "scripts",
        definitions.reference::<ScriptsBlock>(),
        "The runtime of scripts, and their permissions: by default, they may only compute.",
    );
    add(
        "reports",
        json!({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}}),
        "Reports that every run writes, as files below the folder of this file: `json: results.json`.",
    );
    add(
        "extensions",
        json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
        "Functions that are called with the results of a run: `file://hooks.js:afterAll`.",
    );
    let entry = json!({"type": "object", "description": "An entry of the list form."});
    add(
        "assertionTemplates",
        json!({"type": "object", "additionalProperties": entry}),
        "Checks to refer to by name: `$ref: '#/assertionTemplates/name'`.",
    );
    add(
        "derivedMetrics",
        json!({"type": "array", "items": definitions.reference::<DerivedEntry>()}),
        "Numbers that reports make out of named scores, for each model.",
    );
    add(
        "trace",
        definitions.reference::<TraceBlock>(),
        "The settings for reading traces of a running agent.",
    );
    add(
        "mutate",
        definitions.reference::<MutateBlock>(),
        "The settings of `kindlm mutate`, which measures the strength of the checks.",
    );
    add("upload", definitions.reference::<UploadBlock>(), "Accepted; nothing is uploaded yet.");
    json!({
        "title": "KindLM suite",
        "description": "A suite of tests for AI models and agents.",
        "type": "object",
        "properties": properties,
        "required": ["kindlm", "project", "suite", "models", "prompts", "tests"],
        "patternProperties": {"^x-": {"description": "Any value: a place for values that are shared by anchors."}},
        "additionalProperties": false,
    })
}

/// Returns the JSON Schema of `kindlm.yaml`, for editors.
///
/// Editors use the schema for completion, hover texts and error marks. It describes the structure that
/// [`load`](crate::load) checks.
///
/// The schema is draft 7, because the YAML language server of editors supports this draft completely. The server
/// silently ignores parts of newer drafts.
///
/// ```
/// let schema = kindlm_config::json_schema();
/// assert_eq!(schema["properties"]["kindlm"]["const"], 1);
/// assert!(schema["properties"]["providers"]["properties"]["openai"].is_object());
/// ```
pub fn json_schema() -> Value {
    json_schema_with(&kindlm_assertions::built_in(), &gates::built_in())
}

/// Returns the JSON Schema for editors, with the assertions and gates of these registries.
pub fn json_schema_with(
    registry: &Registry,
    gate_registry: &kindlm_types::Registry<gates::Registration>,
) -> Value {
    let mut definitions = Definitions::default();
    let dataset = json!({
        "type": "string",
        "pattern": "^file://.+",
        "description": "A dataset: `file://cases.jsonl`, `.csv`, `.yaml`, or a glob of such files.",
    });
    let shorthand = json!({
        "type": "string",
        "pattern": "^[^:]+:.+",
        "description": "`provider:model`, such as `openai:gpt-4o`.",
    });
    let prompt_text = json!({
        "type": "string",
        "minLength": 1,
        "description": "The message of the user, or `file://` and the path of its file. A JSON or YAML file may be a list of messages.",
    });
    let test = definitions.reference::<TestEntry>();
    let described = json!({
        "type": "object",
        "required": ["dataset"],
        "properties": {
            "dataset": dataset,
            "format": {
                "enum": ["kindlm", "promptfoo"],
                "description": "The format of the file. `promptfoo` reads test files of promptfoo: CSV with `__expected`, sheets of `.xlsx`, JSON and YAML.",
            },
        },
        "additionalProperties": false,
        "description": "A dataset with its format.",
    });
    let items = Items {
        models: json!({"type": "array", "minItems": 1, "items": {"anyOf": [definitions.reference::<ModelEntry>(), shorthand]}}),
        prompts: json!({"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": [definitions.reference::<PromptEntry>(), prompt_text]}}),
        tests: json!({"anyOf": [{"type": "array", "minItems": 1, "items": {"anyOf": [test, dataset, described]}}, dataset]}),
        gates: gates::schema_with(gate_registry),
        sets: json!({"type": "object", "additionalProperties": {"anyOf": [
            {"type": "array", "minItems": 1, "items": {}},
            {"type": "string", "pattern": "^file://.+", "description": "The file of a set: `file://sets/tone.yaml`."},
            definitions.reference::<AssertionSetEntry>(),
        ]}}),
    };
    let mut document = root(&mut definitions, items);
    // Models are optional with agents, commands or transcripts.
    document["required"] = json!(["kindlm", "project", "suite", "tests"]);
    document["anyOf"] = json!([
        {"required": ["models", "prompts"]},
        {"required": ["agents"]},
        {"properties": {"tests": {"type": "array", "contains": {"type": "object", "anyOf": [
            {"required": ["transcript"]}, {"required": ["command"]},
        ]}}}},
    ]);
    let ids: Vec<&str> = kindlm_providers::all().map(|it| it.meta.id).collect();
    document["properties"]["providers"]["additionalProperties"] = json!({
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": ids, "description": "The type of the provider."}},
        "description": "Another provider of the same type, under its own name.",
    });
    let mut schema = finish(document, definitions);
    let mut definitions = schema
        .as_object_mut()
        .and_then(|it| it.shift_remove("$defs"))
        .and_then(|it| if let Value::Object(map) = it { Some(map) } else { None })
        .unwrap_or_default();
    add_expect(&mut definitions, registry);
    if let Value::Object(map) = &mut schema {
        map.shift_insert(0, "$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
        map.insert("definitions".to_owned(), Value::Object(definitions));
    }
    to_draft_7(&mut schema);
    schema
}

/// Adds the schemas of the assertions to the keys `expect` and `assertions`.
fn add_expect(definitions: &mut Map<String, Value>, registry: &Registry) {
    let expect = embed(definitions, "Expect", kindlm_assertions::expect_schema(registry));
    definitions.insert("Expect".to_owned(), expect);
    for (name, description) in
        [("TestEntry", "The checks of the test."), ("Turn", "The checks of this turn.")]
    {
        let place = definitions.get_mut(name).and_then(|it| it.pointer_mut("/properties/expect"));
        if let Some(place) = place {
            *place = json!({"$ref": "#/$defs/Expect", "description": description});
        }
    }
    let Some(rules) = kindlm_assertions::find("prompt-assertion") else { return };
    let rules = Shape::generate(rules.schema).schema().clone();
    let rules = embed(definitions, "Rule", rules);
    let Some(items) = rules.pointer("/properties/assertions/items") else { return };
    for entry in ["PromptEntry", "AssertionSetEntry"] {
        let place = definitions
            .get_mut(entry)
            .and_then(|it| it.pointer_mut("/properties/assertions/items"));
        if let Some(place) = place {
            place.clone_from(items);
        }
    }
}

/// Moves a schema's definitions into the definitions of the document, and returns the schema.
///
/// The names of the moved definitions begin with `prefix`.
fn embed(definitions: &mut Map<String, Value>, prefix: &str, mut schema: Value) -> Value {
    let own = schema.as_object_mut().and_then(|it| it.shift_remove("$defs"));
    rename(&mut schema, prefix);
    if let Some(Value::Object(own)) = own {
        for (name, mut definition) in own {
            rename(&mut definition, prefix);
            definitions.insert(format!("{prefix}{name}"), definition);
        }
    }
    schema
}

fn rename(schema: &mut Value, prefix: &str) {
    each(schema, &mut |map| {
        if let Some(Value::String(target)) = map.get_mut("$ref")
            && let Some(name) = target.strip_prefix("#/$defs/")
        {
            *target = format!("#/$defs/{prefix}{name}");
        }
    });
}

/// Converts references to draft 7.
///
/// References then point into `definitions` and have no keys beside them, because draft 7 ignores such keys.
fn to_draft_7(schema: &mut Value) {
    each(schema, &mut |map| {
        let Some(Value::String(target)) = map.get_mut("$ref") else { return };
        *target = target.replace("#/$defs/", "#/definitions/");
        if map.len() > 1
            && let Some(reference) = map.shift_remove("$ref")
        {
            map.insert("allOf".to_owned(), json!([{"$ref": reference}]));
        }
    });
}

fn each(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(|it| each(it, change));
            change(map);
        }
        Value::Array(items) => items.iter_mut().for_each(|it| each(it, change)),
        _ => {}
    }
}

fn described(mut schema: Value, description: &str) -> Value {
    if let Value::Object(map) = &mut schema {
        map.insert("description".to_owned(), description.into());
    }
    schema
}
