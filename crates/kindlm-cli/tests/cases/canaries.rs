//! Runs that ask their judges about canaries: outputs of the calibration.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::calibrated::{kindlm, labels, output_text};
use crate::drifted::{Bed, Judge};

/// The cost of one answer of the mock: 10 input and 5 output tokens.
const ANSWER_USD: f64 = 0.000_015;

/// The cost of one answer of the agent. Each request to the agent reserves 1 US dollar.
const AGENT_USD: f64 = 0.005;

impl Bed {
    /// Writes a suite with these default judges and gates. Each token of the judge costs a millionth of a US dollar.
    fn write(&self, judge: &str, gates: &str) {
        let url = self.server.url();
        let yaml = format!(
            "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
             providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{url}/v1\" }} }}\n\
             models:\n\
             \x20 - {{ id: m, provider: openai, model: gpt-4o-mini, price: {{ input: 1, output: 1 }} }}\n\
             \x20 - {{ id: agent, provider: openai, model: gpt-4o, price: {{ input: 0, output: 1000 }}, params: {{ maxTokens: 1000 }} }}\n\
             prompts: {{ p: {{ user: hi }} }}\n\
             defaults: {{ judge: {{ {judge} }} }}\n\
             gates: {{ {gates} }}\n\
             tests: [{{ name: one, prompt: p, models: [agent], expect: {{ judge: [{{ criteria: Is kind }}] }} }}]\n"
        );
        fs::write(self.path().join("kindlm.yaml"), yaml).unwrap();
    }

    /// Runs the suite, expects the exit code `code`, and returns the report and the output.
    #[track_caller]
    fn report(&self, args: &[&str], code: i32) -> (Value, Output) {
        let args = [&["test", "--reporter", "pretty", "--reporter", "json=report.json"], args];
        let output = kindlm(self.path(), &args.concat());
        assert_eq!(output.status.code(), Some(code), "{}{}", shown(&output), output_text(&output));
        let text = fs::read_to_string(self.path().join("report.json")).unwrap();
        (serde_json::from_str(&text).unwrap(), output)
    }
}

/// Returns stdout with one space in place of line breaks and repeated spaces.
fn shown(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
}

#[test]
fn a_run_asks_about_canaries_only_if_the_suite_says_so() {
    let bed = Bed::new();
    bed.write("model: m", "passRateMin: 0");
    bed.calibrate(&[], 0);
    let before = bed.server.count();
    let (report, _) = bed.report(&[], 0);
    assert_eq!(bed.server.count(), before + 2, "the model, and the judge");
    assert_eq!(report.get("canaries"), None);
    assert!(bed.watches().is_empty());

    bed.write("model: m, canaries: 10", "passRateMin: 0, costMaxUsd: 2");
    let (report, output) = bed.report(&[], 0);
    assert_eq!(bed.server.count(), before + 14, "ten canaries as well");
    let canaries = &report["canaries"][0];
    assert_eq!((&canaries["asked"], &canaries["different"]), (&10.into(), &0.into()));
    assert_eq!((&canaries["watches"], &canaries["check"]), (&1.into(), &"judge".into()));
    assert!(canaries["evidence"].as_f64() < Some(1.0), "{canaries}");
    assert_eq!(canaries.get("alarm"), None);
    assert_eq!(report["warnings"], serde_json::json!([]));
    let words = "m (openai:gpt-4o-mini) for `judge` 0 of 10 differ from the calibration; evidence ";
    assert!(shown(&output).contains(words), "{}", shown(&output));
    assert!(output_text(&output).contains("asking m (openai:gpt-4o-mini) about 10 canaries"));
    assert_eq!(bed.watches()[0]["run"], report["run"]["id"]);
    // The cost of canaries is a part of the cost of judges, and counts in the gate.
    near(&canaries["costUsd"], 10.0 * ANSWER_USD);
    near(&report["totals"]["judgeCost"]["knownUsd"], 11.0 * ANSWER_USD);
    let gate = |report: &Value, id: &str| {
        let gates = report["gates"].as_array().unwrap();
        gates.iter().find(|it| it["gate"] == id).unwrap().clone()
    };
    near(&gate(&report, "costMaxUsd")["actual"], 11.0 * ANSWER_USD + AGENT_USD);
    // `kindlm gate` measures the same cost.
    let again = kindlm(bed.path(), &["gate", "--reporter", "json"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    near(&gate(&again, "costMaxUsd")["actual"], 11.0 * ANSWER_USD + AGENT_USD);

    let (report, _) = bed.report(&[], 0);
    assert_eq!(report["canaries"][0]["watches"], 2, "the evidence of all runs counts");
}

#[test]
fn a_changed_judge_is_a_warning() {
    let bed = Bed::new();
    bed.write("model: m, canaries: 40", "passRateMin: 0");
    bed.calibrate(&[], 0);
    bed.judge(Judge::Lenient);
    let (report, output) = bed.report(&[], 0);
    let alarm =
        "judge changed: 20 of 40 differ from the calibration, own noise ≤ 6.3%; calibrate again";
    assert_eq!(report["canaries"][0]["alarm"], alarm);
    assert_eq!(report["warnings"][0], format!("m (openai:gpt-4o-mini) for `judge`: {alarm}"));
    // The agreement of the judge no longer holds in the report of this run.
    assert_eq!(report["suite"]["judges"][0]["calibration"]["alarm"], alarm);
    assert!(shown(&output).contains(alarm), "{}", shown(&output));
    // The alarm stands until the next calibration, and costs nothing.
    let before = bed.server.count();
    let (report, _) = bed.report(&[], 0);
    assert_eq!(bed.server.count(), before + 2);
    assert_eq!(
        (&report["canaries"][0]["asked"], &report["canaries"][0]["alarm"]),
        (&0.into(), &alarm.into())
    );
    assert_eq!(report["canaries"][0]["notAsked"], "an earlier watch found a change");
    bed.calibrate(&[], 0);
    let (report, _) = bed.report(&[], 0);
    assert_eq!(report["canaries"][0].get("alarm"), None);
}

#[test]
fn another_model_is_an_alarm_that_violates_the_gate() {
    let bed = Bed::new();
    bed.write("model: m, canaries: 1", "passRateMin: 0, judgeKappaMin: 0.5");
    bed.calibrate(&[], 0);
    bed.report(&[], 0);
    bed.judge(Judge::Renamed);
    let (report, _) = bed.report(&[], 1);
    let alarm = "judge changed: `gpt-4o-2026-11-01` answers now, and `mock-1` answered in the calibration; calibrate again";
    assert_eq!(report["canaries"][0]["alarm"], alarm);
    let gates = report["gates"].as_array().unwrap();
    let gate = gates.iter().find(|it| it["gate"] == "judgeKappaMin").unwrap();
    assert_eq!(gate["passed"], false, "{gate}");
    assert!(gate["message"].as_str().unwrap().contains("another model answered"), "{gate}");
    // The next run is refused before anything is sent.
    let before = bed.server.count();
    let output = kindlm(bed.path(), &["test"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(bed.server.count(), before);
}

#[test]
fn canaries_obey_the_budget() {
    let bed = Bed::new();
    bed.write("model: m, canaries: 10", "passRateMin: 0");
    bed.calibrate(&[], 0);
    let before = bed.server.count();
    let (report, _) = bed.report(&["--budget-usd", "0.0000001"], 1);
    assert_eq!(bed.server.count(), before, "nothing fits into the budget");
    assert_eq!(report["canaries"][0]["errored"], 10);
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(warning.ends_with("10 canaries could not be judged"), "{warning}");
    assert!(bed.watches().is_empty(), "without a verdict there is no evidence");

    // The canaries leave less than a request reserves, so the test is not sent.
    let (report, _) = bed.report(&["--budget-usd", "1.0001"], 1);
    assert_eq!(report["canaries"][0]["asked"], 10, "{report}");
    assert_eq!(bed.server.count(), before + 10, "{}", report["cases"][0]);
    assert_eq!(report["cases"][0]["outcome"], "errored", "{}", report["cases"][0]);

    // A resumed run does not ask again.
    let (report, _) =
        bed.report(&["--budget-usd", "5", "--resume", report["run"]["id"].as_str().unwrap()], 0);
    assert_eq!(bed.server.count(), before + 12);
    assert_eq!(
        (&report["canaries"][0]["asked"], &report["canaries"][0]["watches"]),
        (&10.into(), &1.into())
    );
    near(&report["totals"]["judgeCost"]["knownUsd"], 11.0 * ANSWER_USD);
}

#[test]
fn a_judge_that_cannot_be_watched_is_named() {
    let bed = Bed::new();
    bed.write("model: m, canaries: 3", "passRateMin: 0");
    let warned = |bed: &Bed, args: &[&str], words: &str| {
        let (report, _) = bed.report(args, 0);
        let warning = report["warnings"][0].as_str().unwrap_or_default().to_owned();
        assert!(warning.contains(words), "{warning}");
        report
    };
    let never = "was not watched: it was never calibrated for it; `kindlm calibrate labels.csv -c kindlm.yaml --judge m`";
    warned(&bed, &[], never);
    let dry = kindlm(bed.path(), &["test", "--dry-run"]);
    assert!(shown(&dry).contains(never), "{}", shown(&dry));
    bed.calibrate(&["--once"], 0);
    warned(&bed, &[], "asked about each output only once");
    bed.calibrate(&[], 0);
    let before = bed.server.count();
    let dry = kindlm(bed.path(), &["test", "--dry-run"]);
    assert!(
        shown(&dry).contains("judges: about 3 canaries before the first test"),
        "{}",
        shown(&dry)
    );
    assert_eq!(bed.server.count(), before);
    bed.report(&["--responses", "cache"], 0);
    let report = warned(&bed, &["--responses", "replay"], "the run may not send requests");
    assert_eq!(report.get("canaries"), None);
    assert_eq!(
        bed.watches().len(),
        1,
        "stored answers are no evidence, so the judge was asked once"
    );
    fs::remove_file(bed.path().join("labels.csv")).unwrap();
    warned(&bed, &[], "cannot read");
}

#[test]
fn canaries_are_asked_about_only_if_the_journal_can_be_written() {
    let bed = Bed::new();
    bed.write("model: m, canaries: 10", "passRateMin: 0");
    bed.calibrate(&[], 0);
    let before = bed.server.count();
    // A file in place of the folder of runs: no journal can be created.
    let runs = bed.path().join(".kindlm/runs");
    fs::write(&runs, "").unwrap();
    let output = kindlm(bed.path(), &["test"]);
    assert_eq!(output.status.code(), Some(4), "{}", output_text(&output));
    assert_eq!(bed.server.count(), before, "no judge was paid: {}", output_text(&output));
    fs::remove_file(&runs).unwrap();
    // A complete run is only reported again.
    let (report, _) = bed.report(&[], 0);
    let run = report["run"]["id"].as_str().unwrap().to_owned();
    fs::remove_file(bed.path().join(".kindlm/calibrations/openai-gpt-4o-mini.watches.jsonl"))
        .unwrap();
    let before = bed.server.count();
    let (report, _) = bed.report(&["--resume", &run], 0);
    assert_eq!(bed.server.count(), before);
    assert_eq!(report["canaries"][0]["notAsked"], "the run was complete");
}

#[test]
fn a_watch_without_a_verdict_keeps_the_evidence_of_earlier_watches() {
    let bed = Bed::new();
    bed.write("model: m, canaries: 10", "passRateMin: 0");
    bed.calibrate(&[], 0);
    let (first, _) = bed.report(&[], 0);
    bed.judge(Judge::Absent);
    let (second, output) = bed.report(&[], 3);
    let (first, second) = (&first["canaries"][0], &second["canaries"][0]);
    assert_eq!((&second["asked"], &second["errored"]), (&0.into(), &10.into()));
    assert_eq!((&second["evidence"], &second["watches"]), (&first["evidence"], &1.into()));
    assert!(!shown(&output).contains("✓ m (openai"), "{}", shown(&output));
}

#[test]
fn a_known_cost_of_a_jury_counts_beside_an_unknown_one() {
    let bed = Bed::new();
    bed.write("models: [m, free], samples: 1, canaries: 10", "passRateMin: 0");
    let path = bed.path().join("kindlm.yaml");
    let yaml = fs::read_to_string(&path).unwrap();
    let unpriced = "  - { id: free, provider: openai, model: unpriced-1 }\nprompts:";
    fs::write(&path, yaml.replace("prompts:", unpriced)).unwrap();
    bed.calibrate(&["--allow-unpriced"], 0);
    let (report, _) = bed.report(&["--allow-unpriced", "--budget-usd", "5"], 0);
    let canaries = &report["canaries"][0];
    assert_eq!(canaries["costUsd"], Value::Null, "{canaries}");
    near(&canaries["knownCostUsd"], 10.0 * ANSWER_USD);
    near(&report["totals"]["judgeCost"]["knownUsd"], 10.0 * ANSWER_USD);
    // The budget is for one request of the agent and half of the canaries, so the test is not sent.
    let budget = format!("{}", 1.0 + 5.0 * ANSWER_USD);
    let (report, _) = bed.report(&["--allow-unpriced", "--budget-usd", &budget], 1);
    assert_eq!(report["canaries"][0]["asked"], 10, "{}", report["canaries"]);
    assert_eq!(report["cases"][0]["outcome"], "errored", "{}", report["cases"][0]);
}

#[test]
fn a_calibration_with_few_labels_has_no_check_mark() {
    let bed = Bed::new();
    bed.write("model: m, canaries: 2", "passRateMin: 0");
    labels(bed.path(), [1, 0, 0, 1], [0, 0]);
    bed.calibrate(&[], 0);
    let (report, output) = bed.report(&[], 0);
    let caveat = "there are too few labels to find a change in one watch: even 2 different verdicts of 2 are no alarm; \
                  calibrate with 20 or more";
    assert_eq!(report["canaries"][0]["caveat"], caveat);
    assert!(shown(&output).contains("– m (openai:gpt-4o-mini) for `judge`"), "{}", shown(&output));
    let watched = bed.calibrate(&["--watch"], 0);
    assert!(shown(&watched).contains(caveat), "{}", shown(&watched));
}
