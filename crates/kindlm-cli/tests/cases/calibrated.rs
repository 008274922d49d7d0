//! Calibration of a judge, and the gate that requires it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kindlm_testing::{MockReply, MockServer};
use serde_json::Value;

use crate::binary;

const KEY: &str = "key-nobody-may-see-4711";

/// Starts a judge that passes outputs with `[+]`. The reason of each pass contains its API key.
fn judge() -> MockServer {
    MockServer::answering(|request| {
        let has = |text: &str| request.body.windows(text.len()).any(|it| it == text.as_bytes());
        MockReply::text(if has("[+]") {
            format!(r#"{{"score": 0.9, "reasoning": "{KEY}"}}"#)
        } else {
            r#"{"score": 0.1, "reasoning": "no"}"#.to_owned()
        })
    })
    .unwrap()
}

pub(crate) fn suite(folder: &Path, url: &str, least: f64) {
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o-mini }}]\n\
         prompts: {{ p: {{ user: hi }} }}\n\
         gates: {{ judgeKappaMin: {least} }}\n\
         tests: [{{ name: one, prompt: p, expect: {{ judge: [{{ criteria: Is kind }}] }} }}]\n"
    );
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
}

/// Writes outputs with and without labels. All outputs differ.
///
/// `table` has the numbers of outputs by the labels of people and of the judge. `unlabelled` has the numbers of outputs
/// that the judge passes and fails.
pub(crate) fn labels(folder: &Path, table: [usize; 4], unlabelled: [usize; 2]) {
    let mut csv = "output,label\n".to_owned();
    let [both_pass, only_human, only_judge, both_fail] = table;
    let rows = [
        ("[+]", "pass", both_pass),
        ("[-]", "pass", only_human),
        ("[+]", "fail", only_judge),
        ("[-]", "fail", both_fail),
        ("[+]", "", unlabelled[0]),
        ("[-]", "", unlabelled[1]),
    ];
    for (at, (sign, label, count)) in rows.into_iter().enumerate() {
        for number in 0..count {
            writeln!(csv, "{sign} {at} {number},{label}").unwrap();
        }
    }
    fs::write(folder.join("labels.csv"), csv).unwrap();
}

pub(crate) fn kindlm(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(args).current_dir(folder).stdin(Stdio::null()).env("KEY", KEY);
    command.output().unwrap()
}

pub(crate) const CALIBRATE: [&str; 6] =
    ["calibrate", "labels.csv", "-c", "kindlm.yaml", "--criteria", "Is kind"];

pub(crate) fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((value - expected).abs() < 6e-7, "{value} is not {expected}");
}

#[test]
fn the_numbers_agree_with_the_published_table() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = judge();
    suite(folder, &server.url(), 0.6);
    labels(folder, [20, 5, 10, 15], [70, 30]);

    // The judge was never calibrated, so no request is sent.
    let refused = kindlm(folder, &["test"]);
    assert_eq!(refused.status.code(), Some(2), "{}", output_text(&refused));
    assert!(
        output_text(&refused)
            .contains("m (openai:gpt-4o-mini) may not judge `judge`: it was never calibrated")
    );
    assert!(output_text(&refused).contains("kindlm calibrate labels.csv -c kindlm.yaml --judge m"));
    assert_eq!(server.count(), 0);

    let output = kindlm(folder, &[&CALIBRATE[..], &["--json", "--responses", "cache"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert_eq!(server.count(), 200, "labelled outputs are asked about twice, and others once");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    near(&found["kappa"]["value"], 0.40);
    near(&found["kappa"]["standardError"], 0.126_996);
    near(&found["kappa"]["low"], 0.126_906);
    near(&found["kappa"]["high"], 0.613_835);
    near(&found["agreement"]["value"], 0.7);
    near(&found["baseRate"]["value"], 0.5);
    assert_eq!(found["labelled"], 50);
    assert_eq!(found["unlabelled"], 100);
    // The corrected rate is (0.7 + 0.6 - 1) / (0.8 + 0.6 - 1).
    near(&found["corrected"][0]["observed"]["value"], 0.7);
    near(&found["corrected"][0]["roganGladen"]["value"], 0.75);
    let powered = &found["corrected"][0]["predictionPowered"];
    assert!(powered["low"].as_f64() < powered["value"].as_f64(), "{powered}");

    // The stored calibration contains no key, and is used without asking the judge again.
    let all = [String::from_utf8_lossy(&output.stdout).into_owned(), output_text(&output)].concat();
    assert!(!all.contains(KEY) && all.contains("[redacted]"));
    let kept = folder.join(".kindlm/calibrations/openai-gpt-4o-mini.json");
    let kept: Value = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
    near(&kept["calibrations"][0]["kappa"], 0.40);
    assert_eq!(kept["calibrations"][0]["counts"]["onlyJudge"], 10);
    let again = kindlm(folder, &[&CALIBRATE[..], &["--responses", "cache"]].concat());
    assert_eq!((again.status.code(), server.count()), (Some(0), 200), "{}", output_text(&again));

    // Kappa is 0.40, which is below 0.6. Its lower bound is above 0.12.
    let refused = kindlm(folder, &["test"]);
    assert_eq!(refused.status.code(), Some(2), "{}", output_text(&refused));
    assert!(
        output_text(&refused).contains("a κ of 0.40 only (50 labels, 95% interval 0.13 to 0.61)"),
        "{}",
        output_text(&refused)
    );
    assert_eq!(server.count(), 200);
    suite(folder, &server.url(), 0.12);
    let ran = kindlm(folder, &["test", "--reporter", "json"]);
    assert_eq!(server.count(), 202, "{}", output_text(&ran));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let gate = report["gates"].as_array().unwrap().iter().find(|it| it["gate"] == "judgeKappaMin");
    let gate = gate.unwrap_or_else(|| panic!("{}", report["gates"]));
    assert_eq!(
        gate["message"],
        "Judge κ: 0.40 (m for `judge`, 50 labels, 95% interval 0.13 to 0.61, min: 0.12)"
    );
}

#[test]
fn the_agreement_in_reports_needs_each_criterion() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = judge();
    suite(folder, &server.url(), 0.12);
    labels(folder, [20, 5, 10, 15], [0, 0]);
    let output = kindlm(folder, &CALIBRATE);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let config = fs::read_to_string(folder.join("kindlm.yaml")).unwrap();
    let config = config.replace("gates: { judgeKappaMin: 0.12 }\n", "");
    let labels_of = |criteria: &str| {
        let config = config.replace("{ criteria: Is kind }", criteria);
        fs::write(folder.join("kindlm.yaml"), config).unwrap();
        let ran = kindlm(folder, &["test", "--reporter", "json"]);
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let judges = &report["suite"]["judges"];
        assert_eq!(judges.as_array().map(Vec::len), Some(1), "{judges}");
        judges[0]["calibration"]["labels"].clone()
    };
    assert_eq!(labels_of("{ criteria: Is kind }"), 50);
    assert_eq!(labels_of("{ criteria: Is kind }, { criteria: Is short }"), Value::Null);
}

#[test]
fn a_kappa_that_may_be_chance_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = judge();
    suite(folder, &server.url(), 0.6);
    labels(folder, [1, 0, 0, 1], [0, 0]);
    let output = kindlm(folder, &CALIBRATE);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let refused = kindlm(folder, &["test"]);
    assert_eq!(refused.status.code(), Some(2), "{}", output_text(&refused));
    let why = "its κ of 1.00 may be chance (2 labels, 95% interval -0.42 to 1.00)";
    assert!(output_text(&refused).contains(why), "{}", output_text(&refused));
}

#[test]
fn a_judge_that_is_not_reached_is_not_calibrated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = MockServer::answering(|_| MockReply::error(400, "no")).unwrap();
    suite(folder, &server.url(), 0.6);
    labels(folder, [2, 0, 0, 2], [0, 0]);
    let output = kindlm(folder, &CALIBRATE);
    assert_eq!(output.status.code(), Some(3), "{}", output_text(&output));
    assert!(output_text(&output).contains("not stored: 4 of 4 labelled outputs were not judged"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("none: there is nothing to count") && !text.contains("NaN"), "{text}");
    assert!(!folder.join(".kindlm/calibrations").exists());
}

#[test]
fn an_unlabelled_unjudged_output_is_reported() {
    for (reply, code, words) in [
        (MockReply::error(400, "no"), 3, "`--responses cache` requests only those again"),
        (MockReply::text("I would rather not say."), 1, "the judge's replies cannot be read"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let server = MockServer::answering(move |request| {
            let has = |text: &str| request.body.windows(text.len()).any(|it| it == text.as_bytes());
            match (has("[-] 5"), has("[+]")) {
                (true, _) => reply.clone(),
                (_, true) => MockReply::text(r#"{"score": 0.9, "reasoning": "yes"}"#),
                _ => MockReply::text(r#"{"score": 0.1, "reasoning": "no"}"#),
            }
        })
        .unwrap();
        suite(folder, &server.url(), 0.6);
        labels(folder, [2, 0, 0, 2], [3, 1]);
        let output = kindlm(folder, &CALIBRATE);
        assert_eq!(output.status.code(), Some(code), "{}", output_text(&output));
        let words = format!("1 of 4 outputs without a label were not judged; {words}");
        assert!(output_text(&output).contains(&words), "{}", output_text(&output));
        // All labels were complete, so the calibration is stored.
        assert!(folder.join(".kindlm/calibrations").exists());
    }
}

#[test]
fn undefined_numbers_are_reported_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = judge();
    suite(folder, &server.url(), 0.1);
    labels(folder, [6, 0, 0, 0], [3, 1]);
    let output = kindlm(folder, &CALIBRATE);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("people and judge gave every output the same answer"), "{text}");
    assert!(text.contains("one of the judge's error rates is unknown"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let refused = kindlm(folder, &["test"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(output_text(&refused).contains("it has no κ"), "{}", output_text(&refused));
}

#[test]
fn a_judge_that_could_mostly_not_be_read_is_not_calibrated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = MockServer::answering(|request| {
        let has = |text: &str| request.body.windows(text.len()).any(|it| it == text.as_bytes());
        MockReply::text(match (has("[+] 0"), has("[-] 3")) {
            (true, _) => r#"{"score": 0.9, "reasoning": "yes"}"#,
            (_, true) => r#"{"score": 0.1, "reasoning": "no"}"#,
            _ => "I would rather not say.",
        })
    })
    .unwrap();
    suite(folder, &server.url(), 0.6);
    labels(folder, [2, 25, 25, 2], [0, 0]);
    let output = kindlm(folder, &CALIBRATE);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    let words =
        "not stored: 50 of 54 labelled outputs were not judged; the judge's replies cannot be read";
    assert!(output_text(&output).contains(words), "{}", output_text(&output));
    assert!(!folder.join(".kindlm/calibrations").exists());
    let refused = kindlm(folder, &["test"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(output_text(&refused).contains("it was never calibrated"), "{}", output_text(&refused));
    // Earlier versions stored incomplete calibrations. They do not count as agreement.
    labels(folder, [2, 0, 0, 2], [0, 0]);
    assert_eq!(kindlm(folder, &CALIBRATE).status.code(), Some(0));
    let path = folder.join(".kindlm/calibrations/openai-gpt-4o-mini.json");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replace(r#""errored": 0"#, r#""errored": 50"#)).unwrap();
    let refused = kindlm(folder, &["test"]);
    assert_eq!(refused.status.code(), Some(2));
    let words = "it was calibrated on 4 of 54 labelled outputs only";
    assert!(output_text(&refused).contains(words), "{}", output_text(&refused));
    fs::write(&path, whole.replace(r#""kappa": 1.0"#, r#""kappa": 5"#)).unwrap();
    let refused = kindlm(folder, &["test"]);
    assert!(
        output_text(&refused).contains("`kappa` has 5, which does not match the counts"),
        "{}",
        output_text(&refused)
    );
}

#[test]
fn changed_provider_settings_make_another_judge() {
    let server = judge();
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path(), &server.url(), 0.5);
    labels(folder.path(), [40, 2, 2, 40], [0, 0]);
    // Duplicate rows are asked only once.
    let csv = fs::read_to_string(folder.path().join("labels.csv")).unwrap();
    let rows = csv.split_once('\n').unwrap().1;
    fs::write(folder.path().join("labels.csv"), format!("{csv}{rows}")).unwrap();
    let output = kindlm(folder.path(), &CALIBRATE);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("84 rows ask the same as an earlier row"),
        "{}",
        output_text(&output)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("84"), "{output:?}");
    let output = kindlm(folder.path(), &["test", "-q"]);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert_eq!(server.requests().len(), 2 * 84 + 2);
    // The URL of the judge does not affect its calibration.
    let path = folder.path().join("kindlm.yaml");
    let yaml = fs::read_to_string(&path).unwrap();
    fs::write(&path, yaml.replace("/v1\"", "/v1/\"")).unwrap();
    let output = kindlm(folder.path(), &["test", "-q"]);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    fs::write(&path, yaml.replace("/v1\" }", "/v1\", body: { reasoning_effort: low } }")).unwrap();
    let output = kindlm(folder.path(), &["test", "-q"]);
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    assert!(
        output_text(&output).contains("with other settings of its provider"),
        "{}",
        output_text(&output)
    );
    assert_eq!(kindlm(folder.path(), &CALIBRATE).status.code(), Some(0));
    assert_eq!(kindlm(folder.path(), &["test", "-q"]).status.code(), Some(1));
}

#[test]
fn a_report_that_is_lost_meanwhile_does_not_lose_the_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let of_server = path.clone();
    let server = MockServer::answering(move |_| {
        // Another process overwrites the report while the judge is asked.
        if let Ok(text) = fs::read(&of_server) {
            fs::write(&of_server, vec![b'x'; text.len()]).unwrap();
        }
        MockReply::text(r#"{"score": 0.9, "reasoning": "yes"}"#)
    })
    .unwrap();
    let folder = folder.path();
    suite(folder, &server.url(), 0.0);
    let yaml = fs::read_to_string(folder.join("kindlm.yaml")).unwrap();
    fs::write(folder.join("kindlm.yaml"), yaml.replace("gates: { judgeKappaMin: 0 }\n", ""))
        .unwrap();
    labels(folder, [2, 0, 2, 0], [0, 0]);
    let ran = kindlm(folder, &["test", "-q", "--reporter", "json=report.json"]);
    assert!(path.exists(), "{}", output_text(&ran));
    let output = kindlm(folder, &[&CALIBRATE[..], &["--report", "report.json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let warning = "warning: the pass rate of the run is not corrected: cannot read result 0";
    assert!(output_text(&output).contains(warning), "{}", output_text(&output));
    assert!(folder.join(".kindlm/calibrations/openai-gpt-4o-mini.json").exists());
}

#[test]
fn a_missing_key_is_found_before_the_judge_of_a_suite_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = judge();
    suite(folder, &server.url(), 0.6);
    labels(folder, [1, 0, 0, 1], [0, 0]);
    let mut command = Command::new(binary());
    command.args(CALIBRATE).current_dir(folder).stdin(Stdio::null()).env_remove("KEY");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    assert!(output_text(&output).contains("`KEY` is not set, and the judge `m` needs it"));
    assert!(!output_text(&output).contains("asking"), "{}", output_text(&output));
}
