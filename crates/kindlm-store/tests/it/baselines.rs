//! Tests for storing, validating and comparing baselines.

use std::time::Duration;

use kindlm_stats::Decision;
use kindlm_store::{
    Baseline, BaselineError, Baselines, CompareOptions, Entry, EntryCheck, EntryRate, EntryScore,
    StoreError,
};
use kindlm_types::{
    AssertionResult, CaseChange, CaseChangeKind, CaseResult, ComparisonVerdict, Cost, EarlyEnd,
    Execution, ExecutionResult, FailureCode, JudgeVote, Outcome, Report, Severity, Spend,
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
    first.scores = vec![EntryScore::new("judge", "polite", 0.1 + 0.2)];
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
    let execution = |output: &str, error| {
        let execution = Execution { output: output.into(), ..Execution::default() };
        ExecutionResult { error, ..ExecutionResult::new(execution, Vec::new()) }
    };
    let lost = Some(kindlm_types::ExecutionError::NotRun { reason: "stopped".into() });
    let mut report = Report::default();
    report.cases.push(CaseResult {
        executions: vec![execution("", lost), execution("b1", None), execution("b2", None)],
        cost: Cost { known_usd: 0.002, unknown: 0 },
        ..case("t", "m")
    });
    let entry = Baseline::from_report(&report).unwrap().get("t", "m").unwrap().clone();
    assert_eq!((entry.output_text.as_str(), entry.cost_usd), ("b1", Some(0.002)));
}

#[test]
fn an_entry_keeps_the_maximum_of_early_repeats() {
    let end = EarlyEnd { max: 20, test: None, decision: Some(Decision::Fail) };
    let mut report = Report::default();
    report.cases.push(CaseResult { repeats: 3, early_end: Some(end), ..case("early", "m") });
    let entry = Baseline::from_report(&report).unwrap().get("early", "m").unwrap().clone();
    assert_eq!((entry.run_count, entry.planned_repeats()), (3, 20));
    let read = Baseline::parse(&Baseline::from_report(&report).unwrap().to_json()).unwrap();
    assert_eq!(read.get("early", "m").unwrap().planned_repeats(), 20);
}

fn case(name: &str, model: &str) -> CaseResult {
    CaseResult { pass_rate: 1.0, repeats: 1, ..CaseResult::new(name, model, Outcome::Passed) }
}

fn repeated(case: &str, passed: u64, judged: u64) -> Entry {
    Entry {
        passed: Some(passed),
        judged: Some(judged),
        run_count: u32::try_from(judged).unwrap(),
        task_digest: Some("t".to_owned()),
        ..entry(case, "m", 0.0)
    }
}

fn checked(ids: &[&str], digest: &str) -> Entry {
    let check = |id: &&str| EntryCheck::new(*id, "l", Some(Severity::Gate));
    Entry {
        checks: ids.iter().map(check).collect(),
        task_digest: Some(digest.to_owned()),
        ..repeated("a", 1, 1)
    }
}

fn judged_by(judges: &[&str]) -> Entry {
    let judges = judges.iter().map(|it| (*it).to_owned()).collect();
    Entry { judges, ..repeated("a", 1, 1) }
}

fn compared(before: Vec<Entry>, after: Vec<Entry>) -> kindlm_types::Comparison {
    baseline(before).compare(&baseline(after), ("before", "after"), CompareOptions::default())
}

fn described(change: &CaseChange) -> String {
    let kind = serde_json::to_value(&change.kind).unwrap();
    let kind = kind["kind"].as_str().unwrap().to_owned();
    let reason = change.kind.reason().map(|it| format!(" ({it})"));
    format!("{}: {kind}{}", change.case, reason.unwrap_or_default())
}

#[test]
fn each_case_is_compared_or_has_a_reason() {
    let skipped = |case| Entry { outcome: Some(Outcome::Skipped), ..repeated(case, 0, 0) };
    let not_run = |case| Entry { run_count: 0, ..skipped(case) };
    let unjudged = |case| Entry { run_count: 1, ..skipped(case) };
    let errored = |errored, of| Entry {
        errored_repeats: errored,
        run_count: of,
        outcome: Some(Outcome::Errored),
        ..repeated("a", u64::from(of - errored), u64::from(of - errored))
    };
    let digest = |task: Option<&str>, whole: &str| Entry {
        task_digest: task.map(str::to_owned),
        digest: Some(whole.to_owned()),
        ..repeated("a", 1, 1)
    };
    let good = || repeated("a", 1, 1);
    for (before, after, expected) in [
        (vec![good()], vec![good()], "a: unchanged"),
        (vec![good()], vec![repeated("a", 0, 1)], "a: changed"),
        (vec![repeated("a", 5, 5)], vec![repeated("a", 0, 5)], "a: regression"),
        (vec![repeated("a", 0, 5)], vec![repeated("a", 5, 5)], "a: fix"),
        (vec![repeated("a", 3, 3)], vec![repeated("a", 0, 3)], "a: changed"),
        (vec![good()], vec![good(), repeated("b", 1, 1)], "a: unchanged, b: new"),
        (vec![good()], vec![repeated("b", 1, 1)], "b: new, a: gone"),
        (vec![good()], vec![not_run("a")], "a: gone"),
        (vec![not_run("a")], vec![good()], "a: new"),
        (vec![not_run("a")], vec![], ""),
        (
            vec![repeated("a", 5, 5)],
            vec![errored(4, 5)],
            "a: unknown (4 of 5 repeats could not be judged after)",
        ),
        (
            vec![errored(1, 5)],
            vec![repeated("a", 5, 5)],
            "a: unknown (1 of 5 repeats could not be judged before)",
        ),
        (vec![good()], vec![unjudged("a")], "a: unknown (no check applied after)"),
        (vec![repeated("a", 1, 1)], vec![repeated("a", 5, 5)], "a: notComparable (1 → 5 repeats)"),
        (vec![judged_by(&["x"])], vec![judged_by(&["x"])], "a: unchanged"),
        (vec![judged_by(&["x", "y"])], vec![judged_by(&["x"])], "a: unchanged"),
        (vec![judged_by(&["x"])], vec![judged_by(&[])], "a: unchanged"),
        (vec![judged_by(&["x"])], vec![judged_by(&["y"])], "a: notComparable (judge x → y)"),
        (vec![checked(&["x"], "t")], vec![checked(&["x"], "t")], "a: unchanged"),
        (
            vec![checked(&["x", "y"], "t")],
            vec![checked(&["x"], "u")],
            "a: notComparable (it no longer checks `y`)",
        ),
        (
            vec![checked(&["x"], "t")],
            vec![checked(&["x", "y"], "u")],
            "a: notComparable (it now also checks `y`)",
        ),
        (
            vec![checked(&["x"], "t")],
            vec![checked(&["x"], "u")],
            "a: notComparable (its variables, checks or `repeat` differ)",
        ),
        // The prompt changed, and the task did not.
        (vec![digest(Some("t"), "1")], vec![digest(Some("t"), "2")], "a: unchanged"),
        (
            vec![digest(None, "1")],
            vec![digest(Some("t"), "2")],
            "a: notComparable (its prompt, variables, checks or `repeat` differ; set the baseline again to compare prompts)",
        ),
        (vec![digest(None, "1")], vec![digest(Some("t"), "1")], "a: unchanged"),
        // A file of the original KindLM has no digests and no counts.
        (
            vec![Entry { run_count: 4, ..entry("a", "m", 0.75) }],
            vec![repeated("a", 3, 4)],
            "a: unchanged",
        ),
    ] {
        let comparison = compared(before, after);
        let said: Vec<String> = comparison.cases.iter().map(described).collect();
        assert_eq!(said.join(", "), expected);
    }
}

#[test]
fn repeats_that_ended_early_are_compared_by_their_maximum() {
    let of_most = |max, entry| Entry { max_repeats: Some(max), ..entry };
    for (before, after, expected) in [
        (of_most(20, repeated("a", 5, 5)), of_most(20, repeated("a", 6, 9)), "a: changed"),
        (of_most(20, repeated("a", 5, 5)), repeated("a", 20, 20), "a: unchanged"),
        (
            of_most(20, repeated("a", 5, 5)),
            of_most(60, repeated("a", 5, 5)),
            "a: notComparable (20 → 60 repeats)",
        ),
    ] {
        let comparison = compared(vec![before], vec![after]);
        assert_eq!(comparison.cases.iter().map(described).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn the_verdict_follows_the_evidence() {
    let run = |passes: &[u64], of| {
        let of_case = |(at, passed): (usize, &u64)| repeated(&format!("case {at}"), *passed, of);
        passes.iter().enumerate().map(of_case).collect::<Vec<_>>()
    };
    let small = CompareOptions { margin: 0.01, ..CompareOptions::default() };
    let usual = CompareOptions::default();
    for (before, after, repeats, options, expected) in [
        (vec![5; 20], vec![5; 20], 5, usual, "notEnoughData"),
        (vec![1; 100], vec![1; 100], 1, usual, "noRegressionBeyond"),
        (vec![1; 100], vec![1; 100], 1, small, "notEnoughData"),
        (vec![5; 20], [vec![5; 12], vec![2; 8]].concat(), 5, usual, "regression"),
        ([vec![5; 12], vec![2; 8]].concat(), vec![5; 20], 5, usual, "improved"),
        // If one of twenty cases falls, chance can explain it.
        (vec![1; 20], [vec![1; 19], vec![0]].concat(), 1, usual, "notEnoughData"),
        (vec![], vec![], 1, usual, "notComparable"),
    ] {
        let comparison = baseline(run(&before, repeats)).compare(
            &baseline(run(&after, repeats)),
            ("before", "after"),
            options,
        );
        let verdict = serde_json::to_value(&comparison.verdict).unwrap();
        assert_eq!(verdict["kind"], expected, "{before:?} {after:?} {comparison:?}");
    }
}

fn rate(assertion: &str, label: &str, passed: u64) -> EntryRate {
    EntryRate { assertion: assertion.to_owned(), label: label.to_owned(), passed, judged: 4 }
}

#[test]
fn a_label_of_several_cases_has_a_row() {
    let run = |polite: u64, right: u64| {
        let entry = |at: usize| Entry {
            assertions: vec![
                rate("judge", "polite", polite),
                rate("judge", "right", right),
                rate("judge", &format!("names item {at}"), 3),
                rate("contains", "Contains: \"refund\"", 4),
            ],
            ..repeated(&format!("case {at}"), 4, 4)
        };
        let on_two_models = |it: Entry| [Entry { model: "n".to_owned(), ..it.clone() }, it];
        (0..10).map(entry).flat_map(on_two_models).collect::<Vec<_>>()
    };
    let comparison = compared(run(4, 0), run(0, 4));
    let rows = comparison.assertions.iter().map(|it| {
        let counts = (it.change.before.passed, it.change.after.passed);
        (it.assertion.as_str(), it.label.as_deref(), counts)
    });
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [
            ("judge", Some("polite"), (80, 0)),
            ("contains", None, (80, 80)),
            ("judge", None, (60, 60)),
            ("judge", Some("right"), (0, 80)),
        ]
    );
}

#[test]
fn stored_answers_are_not_compared() {
    let run = |cached_repeats| vec![Entry { cached_repeats, ..repeated("a", 5, 5) }];
    for (before, after, reason) in [
        (
            0,
            5,
            "5 of 5 answers after are from the response store, and prove nothing new; run it with `--responses live`",
        ),
        (
            2,
            0,
            "2 of 5 answers before are from the response store, and prove nothing new; run it with `--responses live`",
        ),
    ] {
        let comparison = compared(run(before), run(after));
        assert_eq!(comparison.cases[0].kind.reason(), Some(reason));
        assert!(matches!(comparison.verdict, ComparisonVerdict::NotComparable { .. }));
    }
}

#[test]
fn the_largest_changes_and_falls_come_first() {
    let run = |counts: &[(u64, u64)]| {
        let entry = |(at, &(one, other)): (usize, &(u64, u64))| Entry {
            assertions: vec![rate("contains", "", one), rate("judge", "", other)],
            ..repeated(&format!("case {at}"), one.min(other), 4)
        };
        counts.iter().enumerate().map(entry).collect::<Vec<_>>()
    };
    let comparison = compared(run(&[(4, 4), (4, 4), (4, 0)]), run(&[(4, 4), (4, 1), (4, 1)]));
    let cases: Vec<String> = comparison.cases.iter().map(described).collect();
    assert_eq!(cases, ["case 1: changed", "case 2: changed", "case 0: unchanged"]);
    let rows = comparison
        .assertions
        .iter()
        .map(|it| (it.assertion.as_str(), it.change.before.passed, it.change.after.passed));
    assert_eq!(rows.collect::<Vec<_>>(), [("judge", 8, 6), ("contains", 12, 12)]);
    let overall = comparison.pass_rate.unwrap();
    assert_eq!((overall.cases, overall.clusters, overall.before.judged), (3, 3, 12));
    assert!((overall.difference + 0.5 / 3.0).abs() < 1e-9);
}

#[test]
fn cases_of_a_cluster_count_once() {
    let run = |passed: u64| {
        let of_case = |at: usize| Entry {
            cluster: Some("document".to_owned()),
            ..repeated(&format!("case {at}"), passed, 5)
        };
        (0..20).map(of_case).collect::<Vec<_>>()
    };
    let comparison = compared(run(5), run(0));
    assert_eq!(comparison.pass_rate.unwrap().clusters, 1);
    assert_eq!(comparison.verdict, ComparisonVerdict::NotEnoughData { detectable: None });
}

#[test]
fn the_same_runs_give_the_same_p_value() {
    let run = |id: &str, passed: u64| {
        let of_case = |at: u64| repeated(&format!("case {at}"), (passed + at) % 5, 5);
        let mut run = baseline((0..40).map(of_case));
        run.run_id = Some(id.to_owned());
        run
    };
    let p = |id| {
        let names = ("before", "after");
        run("1", 0)
            .compare(&run(id, 2), names, CompareOptions::default())
            .pass_rate
            .unwrap()
            .p_value
    };
    assert!((p("2") - p("2")).abs() < f64::EPSILON);
    assert!((p("2") - p("3")).abs() > 0.0);
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
        let mut jurors = judge.split('+');
        if let (Some(one), None) = (jurors.next(), jurors.next()) {
            judged.judging_mut().model = Some(one.to_owned());
        } else {
            let vote = |it: &str| serde_json::from_value(json!({"judge": it, "status": "passed"}));
            let votes: Vec<JudgeVote> = judge.split('+').map(|it| vote(it).unwrap()).collect();
            judged.judging_mut().panel =
                Some(serde_json::from_value(json!({"votes": votes})).unwrap());
        }
        set.set = Some(kindlm_types::SetRule { checks: 1, ..Default::default() });
        set.components = vec![judged];
        executed.executions = vec![ExecutionResult::new(Execution::default(), vec![set])];
        report.cases.push(executed);
        Baseline::from_report(&report).unwrap()
    };
    let before = with("0.1.0", "judge", "gpt-4o", Some("3"));
    let text = before.to_json();
    assert_eq!(Baseline::parse(&text).unwrap(), before, "read back");
    assert!(before.is_of("p", "") && !before.is_of("other", "") && !before.is_of("p", "other"));
    let labels: Vec<&str> =
        before.get("t", "m").unwrap().checks.iter().map(|it| it.label.as_str()).collect();
    assert_eq!(labels, ["Set", "Set > polite"]);
    let compare = |now: &Baseline| before.compare(now, ("a", "b"), CompareOptions::default());
    assert!(compare(&before).differences.is_empty());
    let now = with("0.2.0", "other+third", "gpt-5", None);
    let named = compare(&now).differences.into_iter().map(|it| {
        let shown = |it: Option<String>| it.unwrap_or_else(|| "none".to_owned());
        let name = it.name.unwrap_or_default();
        format!("{:?} {name}: {} → {}", it.condition, shown(it.before), shown(it.after))
    });
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            "Version : 0.1.0 → 0.2.0",
            "Judges : judge → other, third",
            "Model judge: openai:gpt-4o → openai:gpt-5",
            "Rules kind: version 3, digest d → none",
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
        let mut theirs = match input["op"].as_str() {
            Some("compare") => only_names(&vector["expect"]),
            _ => vector["expect"].clone(),
        };
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
    let comparison =
        read(before).compare(&read(after), ("before", "after"), CompareOptions::default());
    let names = |wanted: &dyn Fn(&CaseChange) -> bool| -> Vec<String> {
        let wanted = comparison.cases.iter().filter(|it| wanted(it));
        let mut names: Vec<_> = wanted.map(|it| format!("{}::{}", it.case, it.model)).collect();
        names.sort();
        names
    };
    let changed =
        |it: &CaseChange| it.difference().filter(|_| it.kind.is_compared()).unwrap_or(0.0);
    json!({
        "regressions": names(&|it| changed(it) < -1e-9),
        "improvements": names(&|it| changed(it) > 1e-9),
        "unchanged": names(&|it| it.kind == CaseChangeKind::Unchanged),
        "newTests": names(&|it| it.kind == CaseChangeKind::New),
        "removedTests": names(&|it| it.kind == CaseChangeKind::Gone),
    })
}

/// Returns the names of the vector's changes, without failure codes, because KindLM compares only pass rates.
fn only_names(expected: &Value) -> Value {
    let named = |list: &str| -> Vec<String> {
        let name = |it: &Value| it["testName"].as_str().or(it.as_str()).unwrap().to_owned();
        let mut names: Vec<_> = expected[list].as_array().unwrap().iter().map(name).collect();
        names.sort();
        names
    };
    let lists = ["regressions", "improvements", "unchanged", "newTests", "removedTests"];
    lists.iter().map(|list| ((*list).to_owned(), json!(named(list)))).collect::<Map<_, _>>().into()
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
    let built: Value =
        serde_json::from_str(&Baseline::from_report(&report).unwrap().to_json()).unwrap();
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
        result.executions.push(ExecutionResult::new(execution, Vec::new()));
    }
    let count = u32::try_from(runs.len()).unwrap();
    result.repeats = count;
    result.pass_rate = f64::from(passed) / f64::from(count);
    result.latency_avg_ms = Some(latency / f64::from(count));
    result
}
