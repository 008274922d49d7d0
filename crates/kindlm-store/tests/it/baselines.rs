//! Tests for storing, validating and comparing baselines.

use std::time::Duration;

use kindlm_store::{Baseline, BaselineError, Baselines, Entry, EntryCheck, EntryScore, StoreError};
use kindlm_types::{
    AssertionResult, CaseResult, Cost, Execution, ExecutionResult, FailureCode, Outcome, Report,
    Severity, Spend,
};
use serde_json::{Map, Value, json};

fn entry(case: &str, model: &str, pass_rate: f64) -> Entry {
    Entry {
        case: case.to_owned(),
        model: model.to_owned(),
        pass_rate,
        output_text: "o".to_owned(),
        run_count: 1,
        ..Entry::default()
    }
}

fn baseline(entries: impl IntoIterator<Item = Entry>) -> Baseline {
    let mut baseline = Baseline::new("s", "2026-01-01T00:00:00Z");
    entries.into_iter().for_each(|it| baseline.insert(it));
    baseline
}

#[test]
fn a_stored_baseline_is_loaded_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let store = Baselines::new(folder.path());
    assert!(store.list().unwrap().is_empty());
    assert_eq!(store.find("default").unwrap(), None);

    let mut first = entry("a::b", "m", 0.5);
    first.outcome = Some(Outcome::Failed);
    first.failure_codes = vec![FailureCode::new("CONTAINS_FAILED")];
    first.scores =
        vec![EntryScore { assertion: "judge".into(), label: "polite".into(), mean: 0.1 + 0.2 }];
    let kept = baseline([first, entry("a", "b::m", 1.0)]);
    let path = store.set("release-1", &kept).unwrap();

    assert_eq!(path, folder.path().join("baselines/release-1.json"));
    assert_eq!(store.load("release-1").unwrap(), kept, "both are written as a::b::m");
    let kept = baseline([entry("a", "m", 1.0), entry("b", "m", 0.25)]);
    store.set("release-1", &kept).unwrap();
    assert_eq!(store.load("release-1").unwrap(), kept);
    assert_eq!(store.list().unwrap(), ["release-1"]);

    store.remove("release-1").unwrap();
    assert!(matches!(store.remove("release-1"), Err(StoreError::NoSuchBaseline { .. })));
    assert!(matches!(store.load("release-1"), Err(StoreError::NoSuchBaseline { .. })));
    assert!(matches!(store.set("../x", &kept), Err(StoreError::BadName { .. })));
}

#[test]
fn a_damaged_file_is_an_error_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let store = Baselines::new(folder.path());
    store.set("default", &baseline([entry("a", "m", 1.0)])).unwrap();
    let path = store.path("default").unwrap();
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 3] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let err = store.load("default").unwrap_err().to_string();
        assert!(err.contains("default.json`: it is damaged: not JSON"), "{err}");
        assert!(err.contains("kindlm baseline set"), "{err}");
    }
}

#[test]
fn the_first_executed_repeat_gives_the_stored_output() {
    let execution = |output: &str, error| ExecutionResult {
        execution: Execution { output: output.into(), ..Execution::default() },
        results: Vec::new(),
        outcome: Outcome::Passed,
        error,
        judge_cost_usd: None,
        judge_usage: kindlm_types::Usage::default(),
    };
    let lost = Some(kindlm_types::ExecutionError::NotRun { reason: "stopped".into() });
    let mut report = Report::default();
    report.cases.push(CaseResult {
        executions: vec![execution("", lost), execution("b1", None), execution("b2", None)],
        cost: Cost { known_usd: 0.002, unknown: 0 },
        ..case("t", "m")
    });
    let entry = Baseline::of(&report).unwrap().get("t", "m").unwrap().clone();
    assert_eq!((entry.output_text.as_str(), entry.cost_usd), ("b1", Some(0.002)));
}

fn case(name: &str, model: &str) -> CaseResult {
    CaseResult {
        case: name.to_owned(),
        model: model.to_owned(),
        tags: Vec::new(),
        digest: None,
        task_digest: None,
        cluster: None,
        plan_index: None,
        source: None,
        outcome: Outcome::Passed,
        pass_rate: 1.0,
        repeats: 1,
        errored_repeats: 0,
        scores: Vec::new(),
        failure_codes: Vec::new(),
        checks: kindlm_types::CheckCounts::default(),
        latency_avg_ms: None,
        cost: Cost::default(),
        total_tokens: 0,
        executions: Vec::new(),
    }
}

#[test]
fn shows_scores_that_moved_and_outputs_that_changed() {
    let scored = |mean, output: &str| Entry {
        output_text: output.to_owned(),
        scores: vec![EntryScore { assertion: "judge".into(), label: "polite".into(), mean }],
        ..entry("t", "m", 1.0)
    };
    let comparison = baseline([scored(0.9, "a")]).compare(&baseline([scored(0.7, "b")]));
    let change = &comparison.unchanged[0];
    assert!(change.output_changed);
    assert_eq!((change.scores[0].before, change.scores[0].after), (0.9, 0.7));
    let same = baseline([scored(0.9, "a")]).compare(&baseline([scored(0.9004, "a")]));
    assert!(same.unchanged[0].scores.is_empty());
}

fn check(label: &str) -> EntryCheck {
    let (label, severity) = match label.split_once(' ') {
        Some((label, "soft")) => (label, Severity::Soft),
        _ => (label, Severity::Gate),
    };
    let severity = Some(severity);
    EntryCheck { assertion: "contains".to_owned(), label: label.to_owned(), severity }
}

fn checked(case: &str, labels: &[&str]) -> Entry {
    Entry { checks: labels.iter().map(|it| check(it)).collect(), ..entry(case, "m", 1.0) }
}

#[test]
fn missing_or_unknown_entries_fail() {
    let skipped = |case| Entry { outcome: Some(Outcome::Skipped), ..entry(case, "m", 0.0) };
    let not_run = |case| Entry { run_count: 0, ..skipped(case) };
    let errored = |case, errored, of| Entry {
        errored_repeats: errored,
        run_count: of,
        outcome: Some(Outcome::Errored),
        ..entry(case, "m", 1.0)
    };
    let good = || entry("a", "m", 1.0);
    for (before, after, held, says) in [
        (vec![good()], vec![good()], true, "1 same"),
        (vec![good()], vec![good(), entry("b", "m", 1.0)], true, "1 same, 1 new"),
        (vec![good()], vec![entry("b", "m", 1.0)], false, "1 new, 1 missing"),
        (vec![good(), entry("b", "m", 0.0)], vec![good()], false, "1 same, 1 missing"),
        (vec![good()], vec![not_run("a")], false, "1 missing"),
        (vec![not_run("a")], vec![good()], true, "1 new"),
        (vec![not_run("a")], vec![], true, ""),
        (vec![good()], vec![errored("a", 4, 5)], false, "1 unknown"),
        (vec![good()], vec![errored("a", 5, 5)], false, "1 unknown"),
        (vec![errored("a", 1, 5)], vec![good()], false, "1 unknown"),
        (vec![good()], vec![skipped("a")], false, "1 unknown"),
        (vec![skipped("a")], vec![skipped("a")], true, "1 same"),
        (vec![skipped("a")], vec![good()], true, "1 better"),
        (vec![good()], vec![Entry { pass_rate: 0.5, ..errored("a", 1, 5) }], false, "1 worse"),
        (vec![checked("a", &["x", "y"])], vec![checked("a", &["x"])], false, "1 same, 1 taken out"),
        (
            vec![checked("a", &["x"])],
            vec![checked("a", &["y"])],
            false,
            "1 same, 1 taken out, 1 added",
        ),
        (vec![checked("a", &["x"])], vec![checked("a", &[])], false, "1 same, 1 taken out"),
        (vec![checked("a", &["x"])], vec![checked("a", &["x", "y"])], true, "1 same, 1 added"),
        (vec![checked("a", &["x"])], vec![checked("a", &["x soft"])], false, "1 same, 1 made soft"),
        (vec![checked("a", &["x soft"])], vec![checked("a", &["x"])], true, "1 same"),
        (
            vec![checked("a", &["x soft", "x"])],
            vec![checked("a", &["x", "x soft"])],
            true,
            "1 same",
        ),
        (vec![checked("a", &["x", "x"])], vec![checked("a", &["x"])], false, "1 same, 1 taken out"),
        // A file of the original KindLM lists no checks.
        (vec![good()], vec![checked("a", &["x"])], true, "1 same"),
    ] {
        let comparison = baseline(before).compare(&baseline(after));
        let counted = |it: &[kindlm_store::Change]| it.len();
        let changes = [&comparison.regressions, &comparison.improvements, &comparison.unchanged];
        let added = changes.into_iter().flatten().map(|it| it.added_checks.len()).sum();
        let said = [
            (counted(&comparison.regressions), "worse"),
            (counted(&comparison.improvements), "better"),
            (counted(&comparison.unchanged), "same"),
            (counted(&comparison.unknown), "unknown"),
            (comparison.added.len(), "new"),
            (comparison.removed.len(), "missing"),
            (comparison.removed_checks(), "taken out"),
            (comparison.softened_checks(), "made soft"),
            (added, "added"),
        ];
        let said = said.iter().filter(|(count, _)| *count > 0);
        let said: Vec<String> = said.map(|(count, what)| format!("{count} {what}")).collect();
        assert_eq!((said.join(", ").as_str(), comparison.held()), (says, held));
    }
}

#[test]
fn names_other_causes_of_changed_results() {
    let with = |version: &str, judge: &str, name: &str, rules: Option<&str>| {
        let mut report = Report::default();
        report.run.version = version.to_owned();
        report.suite.project = "p".to_owned();
        report.models = vec![kindlm_types::ModelInfo {
            id: "judge".to_owned(),
            provider: "openai".to_owned(),
            name: name.to_owned(),
            ..kindlm_types::ModelInfo::default()
        }];
        report.suite.assertion_sets = rules
            .map(|version| kindlm_types::AssertionSetInfo {
                name: "kind".to_owned(),
                version: Some(version.to_owned()),
                digest: "d".to_owned(),
                ..kindlm_types::AssertionSetInfo::default()
            })
            .into_iter()
            .collect();
        let mut executed = case("t", "m");
        let mut set = AssertionResult::pass("assert-set", "Set");
        let mut judged = AssertionResult::pass("judge", "polite");
        judged.judging_mut().model = Some(judge.to_owned());
        set.set = Some(kindlm_types::SetRule { checks: 1, ..Default::default() });
        set.components = vec![judged];
        executed.executions = vec![ExecutionResult {
            execution: Execution::default(),
            results: vec![set],
            outcome: Outcome::Passed,
            error: None,
            judge_cost_usd: None,
            judge_usage: kindlm_types::Usage::default(),
        }];
        report.cases.push(executed);
        Baseline::of(&report).unwrap()
    };
    let before = with("0.1.0", "judge", "gpt-4o", Some("3"));
    let text = before.to_json();
    assert_eq!(Baseline::parse(&text).unwrap(), before, "read back");
    assert!(before.is_of("p", "") && !before.is_of("other", "") && !before.is_of("p", "other"));
    let labels: Vec<&str> =
        before.get("t", "m").unwrap().checks.iter().map(|it| it.label.as_str()).collect();
    assert_eq!(labels, ["Set", "Set > polite"]);
    assert!(before.compare(&before).differences.is_empty());
    let now = with("0.2.0", "other", "gpt-5", None);
    let named = before.compare(&now).differences.into_iter().map(|it| {
        let shown = |it: Option<String>| it.unwrap_or_else(|| "none".to_owned());
        format!("{}: {} → {}", it.what, shown(it.before), shown(it.after))
    });
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            "KindLM: 0.1.0 → 0.2.0",
            "judges: judge → other",
            "the model `judge`: openai:gpt-4o → openai:gpt-5",
            "the rules `kind`: version 3, digest d → none",
        ]
    );
}

/// The test vectors with an intended difference from the original KindLM.
///
/// Each has the reason for the difference.
const DIFFERENCES: &[(&str, &str)] = &[(
    "de-entry-garbage",
    "an entry that cannot be read is reported when the file is loaded, not when the comparison trips over it",
)];

fn vectors() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/conformance/kindlm-core/baseline.jsonl"
    );
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn agrees_with_the_original_on_every_vector() {
    let vectors = vectors();
    let mut differing = Vec::new();
    for vector in &vectors {
        let input = &vector["input"];
        let ours = match input["op"].as_str().unwrap() {
            "deserialize" => deserialize(input["text"].as_str().unwrap()),
            "compare" => compare(&input["baseline"], &input["current"]),
            "build" => build(input),
            op => panic!("unknown operation {op}"),
        };
        let mut theirs = vector["expect"].clone();
        // The wording of error messages may differ.
        theirs.as_object_mut().unwrap().shift_remove("message");
        if ours != theirs {
            differing.push(vector["id"].as_str().unwrap().to_owned());
            assert!(
                DIFFERENCES.iter().any(|(id, _)| vector["id"] == *id),
                "{}: {ours}\n{theirs}",
                vector["id"]
            );
        }
    }
    assert_eq!(vectors.len(), 21);
    assert_eq!(differing, DIFFERENCES.iter().map(|(id, _)| *id).collect::<Vec<_>>());
}

fn deserialize(text: &str) -> Value {
    match Baseline::parse(text) {
        Ok(_) => json!({"ok": true}),
        Err(BaselineError::Corrupt { .. }) => json!({"ok": false, "code": "BASELINE_CORRUPT"}),
        Err(BaselineError::Version { .. }) => {
            json!({"ok": false, "code": "BASELINE_VERSION_MISMATCH"})
        }
    }
}

fn compare(before: &Value, after: &Value) -> Value {
    let read = |results: &Value| {
        let text = json!({"version": "1", "suiteName": "s", "createdAt": "", "results": results});
        Baseline::parse(&text.to_string()).unwrap()
    };
    let comparison = read(before).compare(&read(after));
    let name = |case: &str, model: &str| format!("{case}::{model}");
    let changes = |changes: &[kindlm_store::Change], with_codes: bool| -> Value {
        changes
            .iter()
            .map(|it| {
                let mut value = json!({
                    "testName": name(&it.case, &it.model),
                    "baselinePassRate": it.before.map(number),
                    "currentPassRate": it.after.map(number),
                });
                if with_codes {
                    value["newFailureCodes"] = json!(it.new_failure_codes);
                }
                value
            })
            .collect()
    };
    let names = |entries: &[Entry]| -> Value {
        entries.iter().map(|it| name(&it.case, &it.model)).collect()
    };
    json!({
        "suiteName": "s",
        "hasBaseline": true,
        "regressions": changes(&comparison.regressions, true),
        "improvements": changes(&comparison.improvements, false),
        "unchanged": changes(&comparison.unchanged, false),
        "newTests": names(&comparison.added),
        "removedTests": names(&comparison.removed),
    })
}

/// Formats a rate like the test vectors: a whole number has no fraction.
fn number(rate: f64) -> Value {
    if rate.fract() == 0.0 { json!(u8::from(rate > 0.5)) } else { json!(rate) }
}

fn build(input: &Value) -> Value {
    let mut report = Report::default();
    input["suiteName"].as_str().unwrap().clone_into(&mut report.suite.name);
    input["timestamp"].as_str().unwrap().clone_into(&mut report.run.started_at);
    for group in input["groups"].as_array().unwrap() {
        report.cases.push(aggregated(group.as_array().unwrap()));
    }
    let built: Value = serde_json::from_str(&Baseline::of(&report).unwrap().to_json()).unwrap();
    let mut results = Map::new();
    for (key, entry) in built["results"].as_object().unwrap() {
        results.insert(
            key.clone(),
            json!({
                "passRate": number(entry["passRate"].as_f64().unwrap()),
                "outputText": entry["outputText"],
                "failureCodes": entry["failureCodes"],
                "latencyAvgMs": entry["latencyAvgMs"].as_f64().map(Duration::from_secs_f64).map(|it| it.as_secs()),
                "costUsd": entry["costUsd"],
                "runCount": entry["runCount"],
            }),
        );
    }
    json!({
        "version": built["version"],
        "suiteName": built["suiteName"],
        "createdAt": built["createdAt"],
        "results": results,
    })
}

/// Aggregates runs to a case result, with the fields that a baseline needs.
fn aggregated(runs: &[Value]) -> CaseResult {
    let first = &runs[0];
    let mut result =
        case(first["testCaseName"].as_str().unwrap(), first["modelId"].as_str().unwrap());
    let mut passed = 0_u32;
    let mut latency = 0.0;
    for run in runs {
        let mut ok = true;
        for assertion in run["assertions"].as_array().unwrap() {
            if assertion["passed"] == false {
                ok = false;
                let code: FailureCode =
                    serde_json::from_value(assertion["failureCode"].clone()).unwrap();
                if !result.failure_codes.contains(&code) {
                    result.failure_codes.push(code);
                }
            }
        }
        passed += u32::from(ok);
        latency += run["latencyMs"].as_f64().unwrap();
        let execution = Execution {
            output: run["outputText"].as_str().unwrap().to_owned(),
            spend: Spend { cost_usd: run["costEstimateUsd"].as_f64(), ..Spend::default() },
            ..Execution::default()
        };
        result.cost.add(&execution);
        result.executions.push(ExecutionResult {
            execution,
            results: Vec::new(),
            outcome: Outcome::Passed,
            error: None,
            judge_cost_usd: None,
            judge_usage: kindlm_types::Usage::default(),
        });
    }
    let count = u32::try_from(runs.len()).unwrap();
    result.repeats = count;
    result.pass_rate = f64::from(passed) / f64::from(count);
    result.latency_avg_ms = Some(latency / f64::from(count));
    result
}
