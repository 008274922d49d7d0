//! Tests of the JSON report: it matches its schema, and can be parsed back.

use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::Report;
use kindlm_wire::{WireError, parse_report, v1};
use serde_json::{Value, json};

use crate::render;

fn sample() -> Value {
    serde_json::from_str(&render("json", &sample_report(), &Style::default())).unwrap()
}

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(render("json", &sample_report(), &Style::default()));
}

#[test]
fn keeps_to_its_schema() {
    let schema = v1::schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for report in [sample_report(), green_report(), Report::default()] {
        let json: Value =
            serde_json::from_str(&render("json", &report, &Style::default())).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&json)
            .map(|it| format!("{}: {it}", it.instance_path()))
            .collect();
        assert_eq!(errors, [""; 0]);
    }
    let mut wrong = sample();
    wrong["cases"][0]["outcome"] = json!("green");
    assert!(!validator.is_valid(&wrong), "the schema refuses what the report cannot hold");
}

/// Collects the paths of the schema's properties without a description.
fn undescribed(value: &Value, path: &str, found: &mut Vec<String>) {
    let Value::Object(map) = value else { return };
    if let Some(Value::Object(properties)) = map.get("properties") {
        for (name, property) in properties {
            if property.get("description").is_none() && property.get("const").is_none() {
                found.push(format!("{path}/{name}"));
            }
        }
    }
    for (key, value) in map {
        undescribed(value, &format!("{path}/{key}"), found);
    }
}

#[test]
fn the_schema_describes_every_field() {
    let mut found = Vec::new();
    undescribed(&v1::schema(), "", &mut found);
    assert_eq!(found, [""; 0], "give each field of the wire types a doc comment");
}

#[test]
fn is_read_back_without_loss() {
    for report in [sample_report(), green_report(), Report::default()] {
        let json = render("json", &report, &Style::default());
        assert_eq!(parse_report(json.as_bytes()).unwrap(), report);
    }
}

#[test]
fn fields_of_a_later_kindlm_are_ignored() {
    let mut json = sample();
    json["novelty"] = json!({"a": 1});
    json["cases"][0]["novelty"] = json!([1]);
    json["cases"][0]["executions"][0]["results"][0]["novelty"] = json!("x");
    json["gates"][0]["novelty"] = json!(null);
    assert_eq!(parse_report(json.to_string().as_bytes()).unwrap(), sample_report());
}

#[test]
fn refuses_unreadable_reports_with_a_reason() {
    let changed = |pointer: &str, value: Value| {
        let mut json = sample();
        *json.pointer_mut(pointer).unwrap() = value;
        json
    };
    let mut nameless = sample();
    nameless.as_object_mut().unwrap().remove("schemaVersion");
    let failing = sample()["cases"]
        .as_array()
        .unwrap()
        .iter()
        .position(|it| it["outcome"] == "failed")
        .unwrap();
    let codeless = {
        let mut json = sample();
        for result in json["cases"][failing]["executions"].as_array_mut().unwrap() {
            for result in result["results"].as_array_mut().unwrap() {
                result.as_object_mut().unwrap().remove("failureCode");
            }
        }
        json
    };
    for (json, expected) in [
        (
            changed("/schemaVersion", json!(2)),
            "the report has `schemaVersion` 2, and this KindLM reads 1: use the KindLM that wrote it, or a newer one",
        ),
        (
            changed("/schemaVersion", json!("1")),
            "the report has `schemaVersion` \"1\", and this KindLM reads 1: use the KindLM that wrote it, or a newer one",
        ),
        (
            json!({"schemaVersion": 7}),
            "the report has `schemaVersion` 7, and this KindLM reads 1: use the KindLM that wrote it, or a newer one",
        ),
        (
            nameless,
            "the report has no `schemaVersion`: give a file that `--reporter json` or `kindlm test` wrote",
        ),
        (json!([1]), "not a KindLM report: invalid type: integer `1`, expected any value"),
        (
            codeless,
            "the report's result `Tool called: lookup_order`: a failed or errored result needs a `failureCode`",
        ),
    ] {
        let error = parse_report(json.to_string().as_bytes()).unwrap_err().to_string();
        if expected.starts_with("not a KindLM report") {
            assert!(error.starts_with("not a KindLM report"), "{error}");
        } else {
            assert_eq!(error, expected);
        }
    }
    assert!(matches!(parse_report(b"{"), Err(WireError::Json(_))));
}

#[test]
fn a_json_null_that_an_agent_returned_is_not_the_absence_of_one() {
    let mut report = sample_report();
    report.cases[0].executions[0].execution.output_json = Some(Value::Null);
    let json = render("json", &report, &Style::default());
    assert_eq!(parse_report(json.as_bytes()).unwrap(), report);
}

#[test]
fn streaming_gives_the_same_report() {
    let report = sample_report();
    let whole = serde_json::to_string(&v1::Report::from(&report)).unwrap();
    assert_eq!(serde_json::to_string(&v1::Report::borrowing(&report)).unwrap(), whole);
}
