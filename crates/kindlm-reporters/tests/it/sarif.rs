//! Tests of SARIF against the schema of OASIS and the requirements of GitHub.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{CaseResult, Report};
use serde_json::Value;

use crate::{placed_report, render};

/// The schema of SARIF 2.1.0 by OASIS, without white space.
///
/// The file was taken from the crate `serde-sarif` (MIT). OASIS permits copies of its specifications.
const SCHEMA: &str = include_str!("../schemas/sarif-2.1.0.json");

fn sarif(report: &Report) -> Value {
    serde_json::from_str(&render("sarif", report, &Style::default())).unwrap()
}

fn results(log: &Value) -> &Vec<Value> {
    log["runs"][0]["results"].as_array().unwrap()
}

/// Panics if the log violates the schema or the requirements of GitHub.
pub(crate) fn check(logs: &[Value]) {
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    // This pattern of the schema is not valid. The reporter writes no language.
    for part in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][part]["properties"]["language"];
        language.as_object_mut().unwrap().remove("pattern").unwrap();
    }
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    for log in logs {
        let errors: Vec<String> = validator.iter_errors(log).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
        let rules: BTreeSet<&str> = rules.iter().map(|it| it["id"].as_str().unwrap()).collect();
        for result in results(log) {
            let rule = result["ruleId"].as_str().unwrap();
            assert!(rules.contains(rule) || rule == "NOT_RUN", "{rule}");
        }
    }
}

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(render("sarif", &placed_report(), &Style::default()));
}

#[test]
fn conforms_to_the_schema() {
    let reports = [sample_report(), placed_report(), green_report(), Report::default()];
    check(&reports.map(|it| sarif(&it)));
}

#[test]
fn each_result_has_the_line_of_its_check() {
    let log = sarif(&placed_report());
    let lines: BTreeSet<u64> = results(&log)
        .iter()
        .map(|it| it["locations"][0]["physicalLocation"]["region"]["startLine"].as_u64().unwrap())
        .collect();
    assert!(lines.len() > 8, "{lines:?}");
    // Without a known line, the results are at the first line of the config file.
    for result in results(&sarif(&sample_report())) {
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "agents/support/kindlm.yaml");
        assert_eq!(place["region"]["startLine"], 1);
    }
}

#[test]
fn results_of_one_cause_share_a_fingerprint() {
    let report = sample_report();
    let log = sarif(&report);
    let mut cases: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut identities = BTreeSet::new();
    for result in results(&log) {
        let prints = &result["partialFingerprints"];
        let text = result["message"]["text"].as_str().unwrap();
        let name = text.split(": ").next().unwrap();
        cases.entry(prints["kindlmCause/v1"].as_str().unwrap()).or_default().insert(name);
        identities.insert(prints["kindlmResult/v1"].as_str().unwrap());
    }
    assert_eq!(identities.len(), results(&log).len());
    assert!(cases.len() > 5);
}

#[test]
fn too_many_results_are_counted() {
    let mut report = sample_report();
    let failing = report.cases.iter().find(|it| it.findings().len() == 2).unwrap().clone();
    report.cases = (0..12_600)
        .map(|at| CaseResult { case: format!("case {at}"), ..failing.clone() })
        .collect();
    let log = sarif(&report);
    assert_eq!(results(&log).len(), 25_000);
    let note = &log["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["message"];
    assert_eq!(note["text"], "200 more results left out, because GitHub accepts at most 25,000");
}
