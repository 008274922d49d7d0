//! A calibrated judge is watched: it stays the same, drifts, or another model answers.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kindlm_testing::{MockReply, MockServer};
use serde_json::Value;

use crate::calibrated::{CALIBRATE, kindlm, labels, output_text, suite};

/// The behaviour of the judge.
#[derive(Clone, Copy)]
pub(crate) enum Judge {
    /// Passes outputs with `[+]`.
    Strict,
    /// Passes all outputs.
    Lenient,
    /// Is strict, under another name.
    Renamed,
    /// Gives another score for one output each time the judge is asked.
    Fickle,
    /// Cannot be reached.
    Absent,
    /// Is strict. Two configurations answer, each with its own fingerprint.
    Fingerprinted,
    /// Is strict. A third configuration answers.
    OtherFingerprint,
}

/// A judge whose behaviour can be changed, and a folder with a suite and labels.
pub(crate) struct Bed {
    pub(crate) server: MockServer,
    behaviour: Arc<AtomicUsize>,
    folder: tempfile::TempDir,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let behaviour = Arc::new(AtomicUsize::new(Judge::Strict as usize));
        let (current, asked) = (Arc::clone(&behaviour), AtomicUsize::new(0));
        let server = MockServer::answering(move |request| {
            let has = |text: &str| request.body.windows(text.len()).any(|it| it == text.as_bytes());
            let is = |it: Judge| current.load(Ordering::SeqCst) == it as usize;
            if is(Judge::Absent) {
                return MockReply::error(400, "no");
            }
            let changed = is(Judge::Fickle)
                && has("[-] 3 7")
                && asked.fetch_add(1, Ordering::SeqCst) % 2 == 1;
            let reply = MockReply::text(if has("[+]") || is(Judge::Lenient) || changed {
                r#"{"score": 0.9, "reasoning": "yes"}"#
            } else {
                r#"{"score": 0.1, "reasoning": "no"}"#
            });
            if is(Judge::Renamed) {
                reply.from_model("gpt-4o-2026-11-01")
            } else if is(Judge::Fingerprinted) {
                // The judge has several fingerprints at the same time.
                reply.with_fingerprint(if has("[+]") { "fp_1" } else { "fp_2" })
            } else if is(Judge::OtherFingerprint) {
                reply.with_fingerprint("fp_3")
            } else {
                reply
            }
        })
        .unwrap();
        let bed = Self { server, behaviour, folder: tempfile::tempdir().unwrap() };
        suite(bed.path(), &bed.server.url(), 0.5);
        labels(bed.path(), [20, 0, 0, 20], [0, 0]);
        bed
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn judge(&self, judge: Judge) {
        self.behaviour.store(judge as usize, Ordering::SeqCst);
    }

    #[track_caller]
    pub(crate) fn calibrate(&self, args: &[&str], code: i32) -> Output {
        let output = kindlm(self.path(), &[&CALIBRATE[..], args].concat());
        assert_eq!(
            output.status.code(),
            Some(code),
            "{} {}",
            stdout(&output),
            output_text(&output)
        );
        output
    }

    #[track_caller]
    fn test(&self, code: i32) -> String {
        let output = kindlm(self.path(), &["test", "-q"]);
        assert_eq!(output.status.code(), Some(code), "{}", output_text(&output));
        output_text(&output)
    }

    pub(crate) fn watches(&self) -> Vec<Value> {
        let path = ".kindlm/calibrations/openai-gpt-4o-mini.watches.jsonl";
        let text = fs::read_to_string(self.path().join(path)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_judge_that_drifts_is_refused_until_it_is_calibrated_again() {
    let bed = Bed::new();
    let calibrated = bed.calibrate(&[], 0);
    assert_eq!(bed.server.count(), 80, "each labelled output is asked about twice");
    let notice = "about 40 outputs, 40 of them twice (`--once` asks once)";
    assert!(output_text(&calibrated).contains(notice), "{}", output_text(&calibrated));
    let noise = "Own noise         0 of 40 differ when asked again, at most 6.3%";
    assert!(stdout(&calibrated).contains(noise), "{}", stdout(&calibrated));
    // The agent's answers have no `[+]`, so the test fails, but the judge may judge it.
    bed.test(1);

    let before = bed.server.count();
    for count in 1..=2 {
        let output = bed.calibrate(&["--watch", "--canaries", "10", "--json"], 0);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&found["asked"], &found["different"]), (&10.into(), &0.into()));
        assert_eq!((&found["watches"], &found["alarm"]), (&count.into(), &Value::Null));
        assert!(found["evidence"].as_f64() < Some(1.0), "{found}");
    }
    assert_eq!(bed.server.count(), before + 20, "a watch asks about a sample");
    let sample = |at: usize| -> Vec<String> {
        let requests = &bed.server.requests()[before + 10 * at..before + 10 * (at + 1)];
        let mut sample: Vec<String> =
            requests.iter().map(|it| String::from_utf8_lossy(&it.body).into_owned()).collect();
        sample.sort();
        sample
    };
    assert_ne!(sample(0), sample(1), "each watch asks about another sample");
    bed.test(1);

    bed.judge(Judge::Lenient);
    let output = bed.calibrate(&["--watch"], 1);
    let words = "judge changed: 20 of 60 differ from the calibration in 3 watches, own noise ≤ 6.3%; calibrate again";
    assert!(stdout(&output).contains(words), "{}", stdout(&output));
    assert!(stdout(&output).contains("labels.csv:22  then fail; now pass"), "{}", stdout(&output));
    assert_eq!(bed.watches().len(), 3);
    assert!(bed.test(2).contains(words));
    let count = bed.server.count();
    let refused = bed.calibrate(&["--watch"], 2);
    assert!(output_text(&refused).contains("cannot be watched: judge changed"), "{refused:?}");
    assert_eq!(bed.server.count(), count, "nothing was sent");

    bed.judge(Judge::Strict);
    bed.calibrate(&[], 0);
    bed.test(1);
    bed.calibrate(&["--watch"], 0);
}

#[test]
fn another_model_under_the_same_name_is_an_alarm_at_once() {
    let bed = Bed::new();
    bed.calibrate(&[], 0);
    bed.judge(Judge::Renamed);
    let output = bed.calibrate(&["--watch", "--canaries", "1"], 1);
    let words = "judge changed: `gpt-4o-2026-11-01` answers now, and `mock-1` answered in the calibration; calibrate again";
    assert!(stdout(&output).contains(words), "{}", stdout(&output));
    assert!(bed.watches()[0]["evidence"].as_f64() < Some(1.0), "the verdict is the same");
    assert!(bed.test(2).contains(words));
}

#[test]
fn a_new_fingerprint_is_an_alarm_if_no_known_one_answers() {
    let bed = Bed::new();
    bed.judge(Judge::Fingerprinted);
    bed.calibrate(&[], 0);
    let output = bed.calibrate(&["--watch", "--canaries", "1"], 0);
    assert!(stdout(&output).contains("0 of 1 differ"), "{}", stdout(&output));
    bed.judge(Judge::OtherFingerprint);
    let output = bed.calibrate(&["--watch", "--canaries", "1"], 1);
    let words = "judge changed: the provider reports the fingerprint `fp_3` now, and `fp_1`, `fp_2` in the calibration; calibrate again";
    assert!(stdout(&output).contains(words), "{}", stdout(&output));
    assert_eq!(bed.watches()[1]["fingerprints"], serde_json::json!(["fp_3"]));
    assert!(bed.test(2).contains(words));
    bed.calibrate(&[], 0);
    bed.calibrate(&["--watch", "--canaries", "1"], 0);
    // A judge without fingerprints gives no evidence.
    bed.judge(Judge::Strict);
    bed.calibrate(&["--watch", "--canaries", "1"], 0);
}

#[test]
fn a_judge_that_contradicts_itself_has_noise() {
    let bed = Bed::new();
    bed.judge(Judge::Fickle);
    let output = bed.calibrate(&["--json", "--responses", "cache"], 0);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["ownNoise"]["different"], &found["ownNoise"]["asked"]),
        (&1.into(), &40.into())
    );
    // The second answers are stored too, so a calibration from stored answers is the same.
    let again = bed.calibrate(&["--json", "--responses", "replay"], 0);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["ownNoise"], found["ownNoise"]);
    assert_eq!(bed.server.count(), 80);
}

#[test]
fn a_watch_without_answers_is_no_evidence() {
    let bed = Bed::new();
    bed.calibrate(&[], 0);
    bed.judge(Judge::Absent);
    let output = bed.calibrate(&["--watch", "--canaries", "3"], 3);
    assert!(output_text(&output).contains("not stored: no output was judged"), "{output:?}");
    assert!(stdout(&output).contains("3 could not be judged"), "{}", stdout(&output));
    assert!(bed.watches().is_empty());
}

#[test]
fn a_watch_that_cannot_be_done_is_refused_before_anything_is_sent() {
    let bed = Bed::new();
    let refused = |args: &[&str], words: &str| {
        let output = bed.calibrate(&[&["--watch"], args].concat(), 2);
        assert!(output_text(&output).contains(words), "{}", output_text(&output));
    };
    refused(&[], "cannot be watched: it was never calibrated for `judge`; nothing was sent");
    bed.calibrate(&["--once"], 0);
    assert_eq!(bed.server.count(), 40);
    refused(&[], "its calibration asked about each output only once");
    bed.calibrate(&[], 0);
    refused(&["--responses", "cache"], "a watch asks the judge again, and uses no stored answers");
    refused(&["--once"], "cannot be used with");
    let csv = fs::read_to_string(bed.path().join("labels.csv")).unwrap();
    fs::write(
        bed.path().join("labels.csv"),
        csv.replace("[+]", "[+] new").replace("[-]", "[-] new"),
    )
    .unwrap();
    refused(&[], "no output of labels.csv is in the calibration");
    fs::write(bed.path().join("labels.csv"), csv.replace("[+]", "[+] new")).unwrap();
    let output = bed.calibrate(&["--watch"], 0);
    let words = "warning: 20 of 40 outputs of the calibration are not in labels.csv";
    assert!(output_text(&output).contains(words), "{}", output_text(&output));
}

#[test]
fn a_spent_budget_is_reported_as_such() {
    let bed = Bed::new();
    let output = bed.calibrate(&["--budget-usd", "0.0001"], 1);
    let words = "not stored: 40 of 40 labelled outputs were not judged; the budget is spent";
    assert!(output_text(&output).contains(words), "{}", output_text(&output));
    assert_eq!(bed.server.count(), 0);
}
