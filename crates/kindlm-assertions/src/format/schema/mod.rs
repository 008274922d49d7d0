//! `schema`: the form and the content of the output text.

use std::sync::Arc;

use kindlm_schema::{Schema, Violation};
use kindlm_types::{
    AssertionResult, Bound, CheckedText, Class, FailureCode, Problem, ProblemKind, ResultEvidence,
    Severity, Verdict, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::needles::empty_texts;
use crate::core::result_evidence::{self, absent, found, measure, occurrences, whole};
use crate::core::schema_file;
use crate::{
    Assertion, Build, Code, Evidence, ExpectPath, Meta, PassEvidence, Registration, Series, Setup,
    StaysValid, Traits,
};

const ID: &str = "schema";
const PARSE_ERROR: FailureCode = FailureCode::new("SCHEMA_PARSE_ERROR");
const INVALID: FailureCode = FailureCode::new("SCHEMA_INVALID");
const CONTAINS_FAILED: FailureCode = FailureCode::new("CONTAINS_FAILED");
const NOT_CONTAINS_FAILED: FailureCode = FailureCode::new("NOT_CONTAINS_FAILED");
const MAX_LENGTH_EXCEEDED: FailureCode = FailureCode::new("MAX_LENGTH_EXCEEDED");

/// The highest number of violations of a schema that a failure message names.
const NAMED: usize = 20;

/// The highest number of violations of a schema in the metadata.
const KEPT: usize = 200;

/// The highest number of characters of an unparsable output in the metadata.
const PREVIEW: usize = 200;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/output", list: false }),
        summary: "The output is JSON that conforms to a schema, has or lacks certain texts, and is not too long.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: PARSE_ERROR, summary: "The output is not JSON." },
            Code {
                code: INVALID,
                summary: "The output is JSON, but does not conform to the schema.",
            },
            Code { code: CONTAINS_FAILED, summary: "The output does not contain a required text." },
            Code {
                code: NOT_CONTAINS_FAILED,
                summary: "The output contains a text that is ruled out.",
            },
            Code { code: MAX_LENGTH_EXCEEDED, summary: "The output is longer than allowed." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Plain(build),
};

/// The expected form and content of the output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// `json` parses the output and validates it against the schema; `text` (default) leaves the output unchanged.
    #[serde(default)]
    format: Format,
    /// A file with the JSON Schema, relative to the config file. `json` requires `schemaFile` or `schema`.
    schema_file: Option<String>,
    /// The JSON Schema itself, instead of `schemaFile`.
    schema: Option<Value>,
    /// Texts that must be in the output, case-sensitive.
    #[serde(default)]
    contains: Vec<String>,
    /// Texts that must not be in the output, case-sensitive.
    #[serde(default)]
    not_contains: Vec<String>,
    /// The highest number of characters (Unicode scalar values) in the output.
    #[schemars(range(min = 1))]
    max_length: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Text,
    Json,
}

/// A compiled schema with its name in results.
#[derive(Debug)]
struct Named {
    name: String,
    schema: Arc<Schema>,
}

#[derive(Debug)]
struct Output {
    /// The schema for JSON output; `None` for text.
    json: Option<Named>,
    contains: Arc<[String]>,
    not_contains: Vec<String>,
    max_length: Option<u64>,
}

fn build(config: &Value, setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    let empty = [("contains", &config.contains), ("notContains", &config.not_contains)]
        .into_iter()
        .flat_map(|(key, texts)| empty_texts(key, texts))
        .collect::<Vec<_>>();
    if !empty.is_empty() {
        return Err(empty);
    }
    let named = find_schema(&config, setup)?;
    let json = match (config.format, named) {
        (Format::Text, _) => None,
        (Format::Json, Some(named)) => Some(named),
        (Format::Json, None) => {
            let problem = Problem::new("", "`schemaFile` is required when `format` is `json`")
                .with_kind(ProblemKind::MissingKey { key: "schemaFile".to_owned() })
                .with_help(
                    "name a file with the JSON Schema of the output, or write it under `schema`",
                );
            return Err(vec![problem]);
        }
    };
    Ok(Arc::new(Output {
        json,
        contains: config.contains.into(),
        not_contains: config.not_contains,
        max_length: config.max_length,
    }))
}

/// Returns the schema from `schemaFile` or `schema`; `None` without a schema.
///
/// The schema is compiled even if the format does not use it, so that its problems are reported. Fails if both keys are
/// set, or if the schema cannot be used.
fn find_schema(config: &Config, setup: &Setup<'_>) -> Result<Option<Named>, Vec<Problem>> {
    match (config.schema_file.as_deref().filter(|it| !it.is_empty()), &config.schema) {
        (Some(_), Some(_)) => {
            let problem = Problem::key("/schema", "`schema` and `schemaFile` exclude each other");
            Err(vec![problem.with_help("keep one of the two")])
        }
        (Some(path), None) => {
            let schema = setup.schemas.load(setup.files, path, "/schemaFile")?;
            Ok(Some(Named { name: path.to_owned(), schema }))
        }
        (None, Some(schema)) => {
            let schema = schema_file::inline(schema, "/schema")?;
            Ok(Some(Named { name: "inline".to_owned(), schema }))
        }
        (None, None) => Ok(None),
    }
}

impl Assertion for Output {
    fn traits(&self) -> Traits {
        let parts: [(bool, &str, &'static [&'static str]); 4] = [
            (self.json.is_some(), "schema", &["JSON parse", "Schema: "]),
            (!self.contains.is_empty(), "contains", &[CONTAINS]),
            (!self.not_contains.is_empty(), "notContains", &["Not contains: "]),
            (self.max_length.is_some(), "maxLength", &["Max length: "]),
        ];
        let parts = parts.into_iter().filter(|(is_used, ..)| *is_used);
        let series = parts.map(|(_, key, labels)| Series { name: format!("output.{key}"), labels });
        let (is_json, wanted) = (self.json.is_some(), Arc::clone(&self.contains));
        let of_pass =
            PassEvidence::new(move |it| evidence_of_pass(&it.execution.output, is_json, &wanted));
        Traits {
            series: series.collect(),
            stays_valid: StaysValid::Results(stays_valid),
            evidence_of_pass: Some(of_pass),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let output = &evidence.execution.output;
        let mut results = Vec::new();
        if let Some(named) = &self.json {
            let parsed;
            let value = match &evidence.execution.output_json {
                Some(value) => value,
                None => match serde_json::from_str::<Value>(output) {
                    Ok(value) => {
                        parsed = value;
                        &parsed
                    }
                    // Further checks of a text that should be JSON would only mislead the user.
                    Err(err) => return vec![not_json(output, &err)],
                },
            };
            results.push(AssertionResult::pass(ID, "JSON parse"));
            results.push(conforms(named, value));
        }
        results.extend(self.contains.iter().map(|text| contains(output, text)));
        results.extend(self.not_contains.iter().map(|text| lacks(output, text)));
        results.extend(self.max_length.map(|limit| short_enough(output, limit)));
        results
    }
}

/// Returns the evidence that the output conforms: its whole text, or the places of the wanted texts.
fn evidence_of_pass(output: &str, is_json: bool, wanted: &[String]) -> Vec<ResultEvidence> {
    if is_json {
        return vec![whole(CheckedText::Output, output, "JSON that conforms to the schema")];
    }
    if wanted.is_empty() {
        return vec![whole(CheckedText::Output, output, "the unwanted output")];
    }
    wanted.iter().map(|it| phrase_evidence(output, it)).collect()
}

/// Returns true if a text was found, or if the output is too long. More output cannot change such a result.
fn stays_valid(result: &AssertionResult) -> bool {
    match &result.verdict {
        Verdict::Pass => result.label.starts_with(CONTAINS),
        Verdict::Fail { code, .. } => [NOT_CONTAINS_FAILED, MAX_LENGTH_EXCEEDED].contains(code),
        Verdict::Errored { .. } | Verdict::Skipped { .. } => false,
    }
}

fn not_json(output: &str, err: &serde_json::Error) -> AssertionResult {
    let preview: String = output.chars().take(PREVIEW).collect();
    let message = format!("Output is not valid JSON: {err}");
    AssertionResult::fail(ID, "JSON parse", PARSE_ERROR, message)
        .with_metadata("outputPreview", preview)
        .with_evidence(absent(["valid JSON"]))
}

fn conforms(named: &Named, value: &Value) -> AssertionResult {
    let label = format!("Schema: {}", named.name);
    let violations = named.schema.violations(value);
    if violations.is_empty() {
        return AssertionResult::pass(ID, label);
    }
    let mut lines: Vec<String> = violations.iter().take(NAMED).map(Violation::to_string).collect();
    if violations.len() > NAMED {
        lines.push(format!("… ({} more)", violations.len() - NAMED));
    }
    let errors: Vec<Value> = violations
        .iter()
        .take(KEPT)
        .map(|it| json!({"instancePath": it.instance, "schemaPath": format!("#{}", it.schema), "message": it.message}))
        .collect();
    AssertionResult::fail(ID, label, INVALID, lines.join("; "))
        .with_metadata("schemaErrors", errors)
        .with_evidence(ResultEvidence::Schema {
            errors: result_evidence::violations(&named.schema, value),
        })
}

/// Returns the places of a text in the output.
fn phrase_evidence(output: &str, text: &str) -> ResultEvidence {
    let places = occurrences(output, text).map(|it| (it, text.to_owned()));
    found(CheckedText::Output, output, places)
}

/// The start of the label for a text that must be in the output.
const CONTAINS: &str = "Contains: ";

fn contains(output: &str, text: &str) -> AssertionResult {
    let label = format!("{CONTAINS}\"{text}\"");
    if output.contains(text) {
        return AssertionResult::pass(ID, label);
    }
    let message = format!("Output does not contain \"{text}\"");
    AssertionResult::fail(ID, label, CONTAINS_FAILED, message).with_evidence(absent([text]))
}

fn lacks(output: &str, text: &str) -> AssertionResult {
    let label = format!("Not contains: \"{text}\"");
    if !output.contains(text) {
        return AssertionResult::pass(ID, label);
    }
    let message = format!("Output contains forbidden substring \"{text}\"");
    AssertionResult::fail(ID, label, NOT_CONTAINS_FAILED, message)
        .with_evidence(phrase_evidence(output, text))
}

fn short_enough(output: &str, limit: u64) -> AssertionResult {
    let label = format!("Max length: {limit}");
    let length = output.chars().count() as u64;
    if length <= limit {
        return AssertionResult::pass(ID, label);
    }
    let message = format!("Output length {length} exceeds max {limit}");
    #[expect(clippy::cast_precision_loss, reason = "no output has 2^53 characters")]
    let (length, limit) = (length as f64, (limit as f64, Bound::AtMost));
    let evidence = measure("length", length, limit, Some("characters"));
    AssertionResult::fail(ID, label, MAX_LENGTH_EXCEEDED, message).with_evidence(evidence)
}
