//! Runs that stop for reasons other than a kill, and are resumed.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kindlm_store::Digest;
use kindlm_store::journal::{Durability, Journal, JournalWriter};
use serde_json::{Value, json};

use crate::binary;
use crate::journaled::{
    Counting, REPORTS, assert_same, ended, journaled, kindlm, reports, run_folder,
};

/// Returns the reports of an undisturbed run.
fn expected(counting: &Counting, cases: usize) -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    counting.suite(folder.path(), cases);
    let args = [&["test"], &REPORTS[..]].concat();
    let (code, stderr) = ended(kindlm(folder.path(), "whole", &args).output().unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    reports(folder.path())
}

/// Resumes the run. Checks that it requests only the missing executions, and that the reports are as expected.
fn goes_on(folder: &Path, counting: &Counting, cases: usize, expected: &[String; 2]) {
    let missing = cases - journaled(folder).unwrap().len();
    let args = [&["test", "--resume"], &REPORTS[..]].concat();
    let (code, stderr) = ended(kindlm(folder, "the rest", &args).output().unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    assert_eq!(counting.by("the rest").len(), missing, "{stderr}");
    assert_eq!(journaled(folder).unwrap().len(), cases);
    assert_same(&reports(folder), expected);
}

/// The system's file size limit simulates a full disk: a write beyond the limit is cut off there.
#[cfg(target_os = "linux")]
#[test]
fn a_run_stops_on_a_full_disk_and_resumes() {
    const CASES: usize = 60;
    let counting = Counting::start(Duration::from_millis(2));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    counting.suite(folder, CASES);
    let script = format!("ulimit -f 48; exec '{}' test", binary());
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .envs([("KEY", "full"), ("NO_COLOR", "1")])
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let (code, stderr) = ended(output);
    assert_eq!(code, Some(4), "{stderr}");
    for said in ["error: cannot write `", "journal.jsonl`: file too large; repeat 1 of `c"] {
        assert!(stderr.contains(said), "{stderr}");
    }
    assert!(stderr.contains("help: after fixing this, `kindlm test --resume "), "{stderr}");
    assert!(stdout.contains("were not run") || stdout.contains("not sent"), "{stdout}");
    let kept = journaled(folder).unwrap().len();
    let asked = counting.by("full").len();
    // Only executions that were in flight when the first execution could not be stored are lost.
    assert!(kept > 5 && asked < CASES && asked - kept <= 8 + 1, "{kept} of {asked}");
    goes_on(folder, &counting, CASES, &expected(&counting, CASES));
}

#[test]
fn a_torn_last_line_is_as_if_it_were_not_there() {
    let counting = Counting::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    counting.suite(folder, 30);
    let args = ["test", "--max-failures", "1", "--concurrency", "1"];
    let (code, stderr) = ended(kindlm(folder, "first", &args).output().unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("22 executions were not run: `kindlm test --resume "), "{stderr}");
    let journal = run_folder(folder).unwrap().join("journal.jsonl");
    let mut file = OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(br#"{"case":"c8","model":"m","rep"#).unwrap();
    assert_eq!(journaled(folder).unwrap().len(), 8);
    goes_on(folder, &counting, 30, &expected(&counting, 30));
}

#[test]
fn a_damaged_line_is_named_and_its_execution_is_run_again() {
    let counting = Counting::start(Duration::ZERO);
    let expected = expected(&counting, 30);
    for (place, damage) in [
        // A plausible cost, an answer with an additional letter, invalid JSON, and an invalid outcome.
        (5, ("\"costUsd\":0.", "\"costUsd\":1.")),
        (9, ("\"output\":\"", "\"output\":\"x")),
        (2, ("{", "(")),
        (31, ("\"outcome\":\"", "\"outcome\":\"x")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        counting.suite(folder, 30);
        let key = format!("first-{place}");
        ended(kindlm(folder, &key, &["test"]).output().unwrap());
        let journal = run_folder(folder).unwrap().join("journal.jsonl");
        let text = fs::read_to_string(&journal).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let damaged = lines[place - 1].replacen(damage.0, damage.1, 1);
        assert_ne!(damaged, lines[place - 1]);
        lines[place - 1] = damaged;
        fs::write(&journal, lines.join("\n") + "\n").unwrap();
        let key = format!("again-{place}");
        let args = [&["test", "--resume"], &REPORTS[..]].concat();
        let (code, stderr) = ended(kindlm(folder, &key, &args).output().unwrap());
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(&format!("warning: line {place} of `")), "{stderr}");
        assert!(
            stderr.contains("; its execution is run again, unless it is in another line too"),
            "{stderr}"
        );
        assert_eq!(counting.by(&key).len(), 1, "{stderr}");
        assert_same(&reports(folder), &expected);
    }
}

#[test]
fn a_damaged_header_is_not_passed_over_for_an_older_run() {
    let counting = Counting::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    counting.suite(folder, 4);
    ended(kindlm(folder, "first", &["test"]).output().unwrap());
    let first = run_folder(folder).unwrap();
    ended(kindlm(folder, "second", &["test"]).output().unwrap());
    let runs = fs::read_dir(folder.join(".kindlm/runs")).unwrap().map(|it| it.unwrap().path());
    let second = runs.into_iter().find(|it| it.is_dir() && *it != first).unwrap();
    let journal = second.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"repeats\":1", "\"repeats\":2", 1)).unwrap();
    let (code, stderr) = ended(kindlm(folder, "again", &["test", "--resume"]).output().unwrap());
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("error: the first line of the journal `"), "{stderr}");
    assert!(counting.by("again").is_empty());
}

#[test]
fn a_run_that_is_still_going_is_left_alone() {
    let counting = Counting::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    counting.suite(folder, 2);
    ended(kindlm(folder, "first", &["test"]).output().unwrap());
    let journal = Journal::open(run_folder(folder).unwrap()).unwrap();
    let held = JournalWriter::resume(&journal, Durability::Flush).unwrap();
    let (code, stderr) = ended(kindlm(folder, "again", &["test", "--resume"]).output().unwrap());
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("is writing `") && stderr.contains("wait until"), "{stderr}");
    drop(held);
    let (code, stderr) = ended(kindlm(folder, "again", &["test", "--resume"]).output().unwrap());
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("is complete: nothing is sent"), "{stderr}");
    assert!(counting.by("again").is_empty());
}

#[test]
fn failed_executions_are_resumed() {
    let counting = Counting::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    counting.suite(folder, 30);
    let refused = kindlm_testing::MockReply::error(400, "not now");
    counting.server.push_all([refused.clone(), refused.clone(), refused]);
    let (code, stderr) = ended(kindlm(folder, "first", &["test"]).output().unwrap());
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("3 executions were errored by a provider: `kindlm test"), "{stderr}");
    let args = [&["test", "--resume"], &REPORTS[..]].concat();
    let (code, stderr) = ended(kindlm(folder, "again", &args).output().unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("27 of 30 executions are done, going on"), "{stderr}");
    assert_eq!(counting.by("again").len(), 3);
    assert_same(&reports(folder), &expected(&counting, 30));
}

/// A shard that was killed has no report, and its incomplete results cannot be merged.
#[test]
fn a_shard_that_was_killed_is_not_merged_before_it_is_finished() {
    let counting = Counting::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    counting.suite(folder, 30);
    let args = ["test", "--shard", "1/2", "--reporter", "json=1.json"];
    let (code, stderr) = ended(kindlm(folder, "first", &args).output().unwrap());
    assert_eq!(code, Some(0), "{stderr}");
    let run = run_folder(folder).unwrap();
    // The state after a kill.
    fs::remove_file(run.join("report.json")).unwrap();
    let journal = run.join("journal.jsonl");
    let lines = fs::read_to_string(&journal).unwrap();
    let some: Vec<&str> = lines.lines().take(6).collect();
    fs::write(&journal, some.join("\n") + "\n").unwrap();
    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
    for named in
        [id.clone(), format!(".kindlm/runs/{id}"), format!(".kindlm/runs/{id}/journal.jsonl")]
    {
        let (code, stderr) = ended(kindlm(folder, "-", &["merge", &named]).output().unwrap());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains("never finished: 5 of 15 executions are done"), "{stderr}");
        assert!(stderr.contains(&format!("help: finish it with `kindlm test --resume {id}`")));
    }
    // Without arguments, the resumed run is still the first of two shards.
    let (code, stderr) = ended(kindlm(folder, "again", &["test", "--resume"]).output().unwrap());
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(counting.by("again").len(), 10, "{stderr}");
    let folder_of_run = format!(".kindlm/runs/{id}");
    let (code, stderr) = ended(kindlm(folder, "-", &["merge", &folder_of_run]).output().unwrap());
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("2/2") || stderr.contains("missing"), "{stderr}");
}

/// A run that was killed counts as the last run, even if an older run has a later id.
#[test]
fn a_run_that_never_ended_is_the_last_run_all_the_same() {
    let counting = Counting::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    counting.suite(folder, 3);
    let said = |args: &[&str]| ended(kindlm(folder, "key", args).output().unwrap());
    let (code, stderr) = said(&["test", "-q"]);
    assert_eq!(code, Some(0), "{stderr}");
    // The clock was ahead in the first run.
    let id = "20990101-000000-000-ffff";
    let first = folder.join(".kindlm/runs").join(id);
    fs::rename(run_folder(folder).unwrap(), &first).unwrap();
    let order = folder.join(".kindlm/runs/order");
    fs::write(&order, format!("{id}\n")).unwrap();
    assert_eq!(said(&["test", "-q"]).0, Some(0));
    // The state after a kill.
    let runs = fs::read_dir(folder.join(".kindlm/runs")).unwrap().map(|it| it.unwrap().path());
    let second = runs.into_iter().find(|it| it.is_dir() && *it != first).unwrap();
    let second_id = second.file_name().unwrap().to_str().unwrap();
    let journal = second.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let whole: String = text.split_inclusive('\n').take(2).collect();
    fs::remove_file(second.join("report.json")).unwrap();
    for (text, why) in [
        (text.as_str(), "has no report, because writing it failed"),
        (whole.as_str(), "has no report, because it was never finished: 1 of "),
    ] {
        fs::write(&journal, text).unwrap();
        for args in [&["test", "--failed"][..], &["report"], &["gate"], &["baseline", "set"]] {
            let (code, stderr) = said(args);
            assert_eq!(code, Some(2), "{args:?}: {stderr}");
            let expected = format!("the last run `{second_id}` {why}");
            assert!(stderr.contains(&expected), "{args:?}: {stderr}");
            let help = format!(
                "`kindlm test --resume {second_id}` in the folder where it was started, or start a new run"
            );
            assert!(stderr.contains(&help), "{stderr}");
        }
    }
    // A run that is still active is ignored, with a message.
    let held = Journal::open(&second).unwrap();
    let held = JournalWriter::resume(&held, Durability::Flush).unwrap();
    for args in [&["report"][..], &["gate"], &["test", "--failed"]] {
        let (code, stderr) = said(args);
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
        let expected = format!("the run `{second_id}` is still running (process ");
        assert!(stderr.contains(&expected), "{args:?}: {stderr}");
    }
    let (code, stderr) = said(&["report", second_id]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains(") and has no report yet: 1 of "), "{stderr}");
    drop(held);
    assert_eq!(said(&["report", id]).0, Some(0));
    // A run without a first line was killed before anything was sent, and is ignored.
    let torn = folder.join(".kindlm/runs/99990101-000000-000-0000");
    fs::create_dir(&torn).unwrap();
    fs::write(torn.join("journal.jsonl"), "{\"schemaVersion\"").unwrap();
    let listed = fs::read_to_string(&order).unwrap() + "99990101-000000-000-0000\n";
    fs::write(&order, listed).unwrap();
    let (code, stderr) = said(&["test", "--resume", "-q"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("skipped the run `99990101-000000-000-0000`"), "{stderr}");
    assert!(stderr.contains(&format!("run {second_id}: 1 of ")), "{stderr}");
    assert_eq!(said(&["report"]).0, Some(0));
}

#[test]
fn a_digest_is_short_and_stable() {
    let counting = Counting::start(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    counting.suite(folder.path(), 2);
    ended(kindlm(folder.path(), "first", &["test"]).output().unwrap());
    let journal = Journal::open(run_folder(folder.path()).unwrap()).unwrap();
    let header = journal.header();
    assert_eq!(header.settings["project"], Digest::from_content("p"));
    let vars = kindlm_engine::Digest::default().text("n").value(&"0".into()).finish();
    assert_eq!(header.cases[0].vars, Digest::shortened(vars.as_bytes()));
}

/// The first turn was answered and paid for, and the second turn was rejected.
///
/// After the run is resumed, both attempts count.
#[test]
fn earlier_attempts_count_in_budget_and_report() {
    use kindlm_testing::{MockReply, MockServer};
    let answer = || {
        MockReply::json(&json!({
            "choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100_000, "completion_tokens": 1}
        }))
    };
    let server = MockServer::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: x, price: {{ input: 1, output: 1 }}, params: {{ maxTokens: 9 }} }}]\n\
         prompts: {{ p: {{ user: a }} }}\ngates: {{ costMaxUsd: 0.25 }}\ntests:\n\
         \x20 - name: t\n    prompt: p\n    conversation: [{{ turn: one, user: a }}, {{ turn: two, user: b }}]\n\
         \x20   expect: {{ output: {{ contains: [yes] }} }}\n",
        server.url()
    );
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
    let said = |args: &[&str]| {
        let mut command = kindlm(folder, "key", args);
        command.stdout(std::process::Stdio::piped());
        let output = command.output().unwrap();
        let stdout = String::from_utf8(output.stdout.clone()).unwrap();
        let (code, stderr) = ended(output);
        (code, stdout + &stderr)
    };
    server.push_all([answer(), MockReply::error(400, "not now")]);
    let (code, text) = said(&["test"]);
    assert!(code != Some(0) && text.contains("Cost: $0.1000"), "{code:?} {text}");
    // Resume twice: earlier costs count in every resumed run.
    server.push_all([answer(), MockReply::error(400, "not now")]);
    let (code, text) = said(&["test", "--resume"]);
    assert!(code != Some(0) && text.contains("Cost: $0.2000"), "{code:?} {text}");
    server.push_all([answer(), answer()]);
    let (code, text) = said(&["test", "--resume", "--reporter", "json=report.json"]);
    assert_eq!(code, Some(1), "{text}");
    let report: Value =
        serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
    let execution = &report["cases"][0]["executions"][0];
    assert_eq!(execution["earlierUsd"], json!(0.200_002), "{text}");
    let cost = report["cases"][0]["cost"]["knownUsd"].as_f64().unwrap();
    assert!((cost - 0.300_003).abs() < 1e-9, "{cost}: the second turn was not begun");
    let said = report.to_string();
    assert!(said.contains("the run's budget is exceeded: $0.3000 > $0.2500"), "{said}");
}
