//! A journal loses no appended execution, and reports damaged executions.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use kindlm_store::journal::{
    Durability, Header, Holder, Journal, JournalError, JournalWriter, PlannedCase,
};
use kindlm_store::{Digest, Runs};
use kindlm_testing::sample_report;
use kindlm_types::{ExecutionError, ExecutionResult, Outcome};
use kindlm_wire::v1;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::arbitrary;

fn header() -> Header<'static> {
    let mut header = Header::new("r1", "0.1.0", "2026-11-20T14:09:12.001Z", "support");
    header.suite_digest = Some("9f86".into());
    header.settings.insert("strict".into(), Digest::from_content("false"));
    header.models.insert("gpt".into(), Digest::from_content("openai gpt-4o"));
    header.cases.push(PlannedCase::new("finds the order", "gpt", 2));
    header
}

fn result(case: &str, repeat: u32, outcome: Outcome) -> ExecutionResult {
    let execution = kindlm_types::Execution {
        case: case.to_owned(),
        model: "gpt".to_owned(),
        repeat,
        output: "It is on its way.\nAnything else?".to_owned(),
        ..kindlm_types::Execution::default()
    };
    ExecutionResult { outcome, ..ExecutionResult::new(execution, Vec::new()) }
}

fn begun(folder: &TempDir) -> JournalWriter {
    JournalWriter::create(folder.path(), &header(), Durability::Flush).unwrap()
}

fn file(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("journal.jsonl")
}

fn results(folder: &Path) -> Result<Vec<ExecutionResult>, JournalError> {
    Journal::open(folder)?.entries()?.map(|entry| entry.map(|it| it.result)).collect()
}

/// Returns the executions of the sample report, without executions that were not run.
fn sample() -> Vec<ExecutionResult> {
    sample_report()
        .cases
        .into_iter()
        .flat_map(|case| case.executions)
        .filter(|it| !matches!(it.error, Some(ExecutionError::NotRun { .. })))
        .collect()
}

#[test]
fn everything_comes_back_in_order() {
    for durability in [Durability::Flush, Durability::Sync] {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("deep/er/r1");
        let writer = JournalWriter::create(&folder, &header(), durability).unwrap();
        let sample = sample();
        let places: Vec<_> = sample.iter().map(|it| writer.append(it).unwrap().unwrap()).collect();
        let journal = Journal::open(&folder).unwrap();
        assert_eq!(*journal.header(), header());
        assert_eq!(results(&folder).unwrap(), sample);
        for (place, it) in places.into_iter().zip(&sample) {
            assert_eq!(journal.read_execution(place).unwrap(), *it, "read at its place");
            assert_eq!(place.outcome(), it.outcome);
        }
    }
}

#[test]
fn is_one_line_for_the_run_and_one_for_each_execution() {
    let folder = tempfile::tempdir().unwrap();
    begun(&folder).append_all(&sample()).unwrap();
    let text = fs::read_to_string(file(&folder)).unwrap();
    assert!(text.ends_with("}\n"));
    assert_eq!(text.lines().count(), 1 + sample().len());
    assert!(text.lines().all(|line| line.starts_with('{') && line.ends_with('}')));
    assert_eq!(
        text.lines().next().unwrap(),
        concat!(
            r#"{"schemaVersion":2,"run":"r1","version":"0.1.0","startedAt":"2026-11-20T14:09:12.001Z","#,
            r#""suite":"support","suiteDigest":"9f86","settings":{"strict":"fcbcf165908dd18a"},"#,
            r#""models":{"gpt":"5f88db14cd94122e"},"cases":[{"case":"finds the order","model":"gpt","#,
            r#""repeats":2,"prompt":"e3b0c44298fc1c14","tools":"e3b0c44298fc1c14","#,
            r#""vars":"e3b0c44298fc1c14","checks":"e3b0c44298fc1c14"}],"crc32":"bde73f1d"}"#
        )
    );
}

#[test]
fn executions_that_were_not_run_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let not_run = ExecutionResult {
        error: Some(ExecutionError::NotRun { reason: "the budget is spent".to_owned() }),
        ..result("a", 0, Outcome::Errored)
    };
    let writer = begun(&folder);
    assert_eq!(writer.append(&not_run).unwrap(), None);
    let places = writer.append_all([&not_run, &result("a", 1, Outcome::Passed), &not_run]).unwrap();
    assert_eq!(places.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let (_, index) = {
        drop(writer);
        JournalWriter::resume(&Journal::open(folder.path()).unwrap(), Durability::Flush).unwrap()
    };
    assert_eq!((index.len(), index.get("a", "gpt", 0)), (1, None));
    assert_eq!(index.get("a", "gpt", 1), places[1]);
}

#[test]
fn the_last_entry_of_an_execution_counts() {
    let folder = tempfile::tempdir().unwrap();
    let writer = begun(&folder);
    for (case, repeat, outcome) in [
        ("a", 0, Outcome::Errored),
        ("a", 1, Outcome::Failed),
        ("b", 0, Outcome::Scored),
        ("a", 0, Outcome::Passed),
        ("b", 1, Outcome::Passed),
        ("b", 1, Outcome::Errored),
        // This execution has no applicable check, so running it again would not change its outcome.
        ("c", 0, Outcome::Skipped),
    ] {
        writer.append(&result(case, repeat, outcome)).unwrap();
    }
    let journal = Journal::open(folder.path()).unwrap();
    let index = journal.index().unwrap();
    assert_eq!((index.len(), index.done(), index.is_empty()), (5, 4, false));
    for (case, repeat, outcome, done) in [
        ("a", 0, Outcome::Passed, true),
        ("a", 1, Outcome::Failed, true),
        ("b", 0, Outcome::Scored, true),
        ("b", 1, Outcome::Errored, false),
        ("c", 0, Outcome::Skipped, true),
    ] {
        let place = index.get(case, "gpt", repeat).unwrap();
        assert_eq!((place.outcome(), place.is_done()), (outcome, done), "{case} {repeat}");
        assert_eq!(index.is_done(case, "gpt", repeat), done);
        assert_eq!(journal.read_execution(place).unwrap(), result(case, repeat, outcome));
    }
    assert_eq!(index.get("a", "other", 0), None);
    assert_eq!(index.get("gpt", "a", 0), None, "a model is no case");
    assert_eq!(index.get("a", "gpt", 2), None);
}

#[test]
fn a_line_cut_off_at_any_byte_loses_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let kept = [result("a", 0, Outcome::Passed), result("a", 1, Outcome::Failed)];
    let lost = &sample()[0];
    begun(&folder).append_all(&kept).unwrap();
    let whole = fs::metadata(file(&folder)).unwrap().len();
    {
        let journal = Journal::open(folder.path()).unwrap();
        JournalWriter::resume(&journal, Durability::Flush).unwrap().0.append(lost).unwrap();
    }
    let bytes = fs::read(file(&folder)).unwrap();
    for cut in usize::try_from(whole).unwrap()..bytes.len() {
        fs::write(file(&folder), &bytes[..cut]).unwrap();
        assert_eq!(results(folder.path()).unwrap(), kept, "cut at {cut}");
        let journal = Journal::open(folder.path()).unwrap();
        let (writer, index) = JournalWriter::resume(&journal, Durability::Flush).unwrap();
        assert_eq!(index.len(), 2);
        assert_eq!(fs::metadata(file(&folder)).unwrap().len(), whole, "the torn line is cut off");
        let place = writer.append(lost).unwrap().unwrap();
        assert_eq!(journal.read_execution(place).unwrap(), *lost);
        assert_eq!(fs::read(file(&folder)).unwrap(), bytes, "as if nothing had happened");
    }
}

#[test]
fn zeros_at_the_end_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    begun(&folder).append(&result("a", 0, Outcome::Passed)).unwrap();
    let whole = fs::read(file(&folder)).unwrap();
    for tail in [&b"\0\0\0\0"[..], b"\0\0\0\"outcome\":\"passed\"}\n"] {
        fs::write(file(&folder), [&whole, tail].concat()).unwrap();
        assert_eq!(results(folder.path()).unwrap().len(), 1);
        let journal = Journal::open(folder.path()).unwrap();
        JournalWriter::resume(&journal, Durability::Flush).unwrap();
        assert_eq!(fs::read(file(&folder)).unwrap(), whole);
    }
}

#[test]
fn a_damaged_line_costs_its_execution_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let all = ["a", "b", "c"].map(|case| result(case, 0, Outcome::Passed));
    begun(&folder).append_all(&all).unwrap();
    let text = fs::read_to_string(file(&folder)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let with = |second: &str| [lines[0], lines[1], second, lines[3], ""].join("\n");
    for (spoiled, says, left) in [
        (with(&lines[2].replace("way", "may")), "does not match", &["a", "c"][..]),
        (with(&lines[2].replace("\"passed\"", "\"failed\"")), "does not match", &["a", "c"]),
        (with(&lines[2][..lines[2].len() / 2]), "does not end with a checksum", &["a", "c"]),
        (with("not JSON"), "does not end with a checksum", &["a", "c"]),
        (with(""), "does not end with a checksum", &["a", "c"]),
        (with("\0\0"), "does not end with a checksum", &["a", "c"]),
        // Without a line break, two executions are on one line.
        (text.replacen(&format!("{}\n", lines[2]), lines[2], 1), "does not match", &["a"]),
    ] {
        fs::write(file(&folder), &spoiled).unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let (writer, index) = JournalWriter::resume(&journal, Durability::Flush).unwrap();
        let [damaged] = index.damaged() else { panic!("{:?}", index.damaged()) };
        let damaged = damaged.to_string();
        assert!(damaged.contains("line 3 of `") && damaged.contains(says), "{damaged}");
        let done = ["a", "b", "c"].into_iter().filter(|it| index.is_done(it, "gpt", 0));
        assert_eq!(done.collect::<Vec<_>>(), left, "{spoiled}");
        // Executions that run again are appended; the other lines stay.
        let place = writer.append(&all[1]).unwrap().unwrap();
        assert_eq!(journal.read_execution(place).unwrap(), all[1]);
        assert!(journal.index().unwrap().is_done("b", "gpt", 0));
    }
}

#[test]
fn a_line_of_another_journal_is_not_used() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    begun(&one).append(&result("a", 0, Outcome::Passed)).unwrap();
    let mut header = header();
    header.run = "r2".into();
    drop(JournalWriter::create(two.path(), &header, Durability::Flush).unwrap());
    let line = fs::read_to_string(file(&one)).unwrap().lines().nth(1).unwrap().to_owned() + "\n";
    let mut other = fs::OpenOptions::new().append(true).open(file(&two)).unwrap();
    other.write_all(line.as_bytes()).unwrap();
    let index = Journal::open(two.path()).unwrap().index().unwrap();
    assert_eq!((index.len(), index.damaged().len()), (0, 1));
}

#[test]
fn a_damaged_first_line_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    begun(&folder).append(&result("a", 0, Outcome::Passed)).unwrap();
    let text = fs::read_to_string(file(&folder)).unwrap();
    for (from, to) in [("\"repeats\":2", "\"repeats\":3"), ("support", "suppork"), ("r1", "r2")] {
        fs::write(file(&folder), text.replacen(from, to, 1)).unwrap();
        let err = Journal::open(folder.path()).unwrap_err();
        assert!(matches!(err, JournalError::Header { .. }), "{err}");
    }
}

#[test]
fn a_raw_entry_must_match_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let writer = begun(&folder);
    let all = [result("a", 0, Outcome::Passed), result("b", 0, Outcome::Passed)];
    let places = writer.append_all(&all).unwrap();
    let text = fs::read_to_string(file(&folder)).unwrap();
    for (place, (line, result)) in places.iter().zip(text.lines().skip(1).zip(&all)) {
        let written = serde_json::to_string(&v1::Execution::from(result)).unwrap();
        assert_eq!(writer.reader().unwrap().text(place.unwrap()).unwrap(), written);
        assert!(line.starts_with(written.trim_end_matches('}')));
    }
    for spoiled in [text.replace("way", "may"), text[..text.len() - 3].to_owned()] {
        fs::write(file(&folder), spoiled).unwrap();
        let read = writer.reader().unwrap().text(places[1].unwrap());
        let err = read.unwrap_err().to_string();
        assert!(err.contains("line 3 of `") && err.contains("is damaged: it"), "{err}");
    }
}

#[test]
fn reports_the_problem_of_the_first_line() {
    let folder = tempfile::tempdir().unwrap();
    for (text, says) in [
        ("", "it was never finished"),
        ("{\"schemaVersion\":1", "it was never finished"),
        ("{\"schemaVersion\":", "it was never finished"),
        ("\0\0\0\n", "it was never finished"),
        ("{}\n", "missing field `schemaVersion`"),
        ("{\"schemaVersion\":2}\n", "is damaged: it does not end with a checksum"),
        ("{\"schemaVersion\":1,\"x\":1}\n", "has `schemaVersion` 1, and this KindLM reads 2"),
        ("\0\0\0{\n", "is damaged: expected value"),
    ] {
        fs::write(file(&folder), text).unwrap();
        let err = Journal::open(folder.path()).unwrap_err().to_string();
        assert!(err.contains(says) && err.contains("journal.jsonl`"), "{err}");
    }
}

#[test]
fn one_process_appends_and_any_reads() {
    let folder = tempfile::tempdir().unwrap();
    let writer = begun(&folder);
    writer.append(&result("a", 0, Outcome::Passed)).unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    for err in [
        JournalWriter::resume(&journal, Durability::Flush).unwrap_err(),
        JournalWriter::create(folder.path(), &header(), Durability::Flush).unwrap_err(),
    ] {
        assert_eq!(
            err.to_string(),
            format!(
                "process {} is writing `{}`: wait until that run has ended, or stop it",
                std::process::id(),
                file(&folder).display()
            )
        );
    }
    assert_eq!(results(folder.path()).unwrap().len(), 1);
    let own = Holder::new(Some(std::process::id()));
    assert_eq!(journal.holder().unwrap(), Some(own), "and once more: {:?}", journal.holder());
    drop(writer);
    assert_eq!(journal.holder().unwrap(), None);
    // A killed process leaves its id in the file, but no lock.
    fs::write(folder.path().join("lock"), "1\n").unwrap();
    assert_eq!(journal.holder().unwrap(), None);
    let (writer, _) = JournalWriter::resume(&journal, Durability::Flush).unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    let err = JournalWriter::resume(&journal, Durability::Flush).unwrap_err().to_string();
    assert!(err.starts_with("another process is writing `"), "{err}");
    drop(writer);
}

#[test]
fn a_run_that_has_a_journal_is_not_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    drop(begun(&folder));
    let err = JournalWriter::create(folder.path(), &header(), Durability::Flush).unwrap_err();
    assert!(matches!(err, JournalError::Exists { .. }), "{err}");
    assert!(Journal::open(folder.path()).unwrap().entries().unwrap().next().is_none());
    let names = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
    let mut names: Vec<String> = names.map(|it| it.into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["journal.jsonl", "lock"], "nothing temporary is left");
}

#[test]
fn reports_a_missing_or_blocked_journal() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Journal::open(folder.path().join("no such run")).unwrap_err();
    assert!(matches!(missing, JournalError::Missing { .. }), "{missing}");
    let in_the_way = folder.path().join("file");
    fs::write(&in_the_way, "").unwrap();
    let err = JournalWriter::create(in_the_way.join("r1"), &header(), Durability::Flush);
    let err = err.unwrap_err().to_string();
    assert!(err.starts_with("cannot make the folder `") && !err.contains("os error"), "{err}");
}

#[test]
fn runs_with_a_journal_are_found_without_a_report() {
    let state = tempfile::tempdir().unwrap();
    let runs = Runs::new(state.path());
    assert!(runs.journals().unwrap().is_empty());
    for id in ["20261120-2", "20261120-1"] {
        let folder = runs.run_folder(id).unwrap();
        JournalWriter::create(folder, &header(), Durability::Flush).unwrap();
    }
    runs.save("20261120-0", "{}").unwrap();
    assert_eq!(runs.journals().unwrap(), ["20261120-1", "20261120-2"]);
    assert_eq!(runs.list().unwrap(), ["20261120-0"]);
    assert!(runs.run_folder("../x").is_err());
    runs.begin("20261120-1").unwrap();
    assert_eq!(runs.journals().unwrap(), ["20261120-2", "20261120-1"]);
    let all = [("20261120-2", false), ("20261120-0", true), ("20261120-1", false)];
    assert_eq!(runs.all().unwrap(), all.map(|(id, has_report)| (id.to_owned(), has_report)));
}

#[test]
fn threads_may_share_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let writer = begun(&folder);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let writer = &writer;
            scope.spawn(move || {
                for repeat in 0..50 {
                    let it = result(&format!("case {thread}"), repeat, Outcome::Passed);
                    writer.append(&it).unwrap();
                }
            });
        }
    });
    let journal = Journal::open(folder.path()).unwrap();
    let index = journal.index().unwrap();
    assert_eq!(index.done(), 200);
    let place = index.get("case 3", "gpt", 49).unwrap();
    assert_eq!(journal.read_execution(place).unwrap(), result("case 3", 49, Outcome::Passed));
}

#[test]
fn a_journal_is_read_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let writer = begun(&folder);
    let journal = Journal::open(folder.path()).unwrap();
    let mut index = journal.index().unwrap();
    for repeat in 0..3 {
        let it = result("a", repeat, Outcome::Passed);
        index.insert(&it, writer.append(&it).unwrap().unwrap());
        assert_eq!(journal.index().unwrap().len(), index.len());
        let place = index.get("a", "gpt", repeat).unwrap();
        assert_eq!(journal.read_execution(place).unwrap(), it);
    }
    let half = b"{\"case\":\"a\",";
    fs::OpenOptions::new().append(true).open(file(&folder)).unwrap().write_all(half).unwrap();
    assert_eq!(journal.index().unwrap().len(), 3);
}

#[test]
fn numbers_outside_of_json_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let writer = begun(&folder);
    let mut weighed = result("a", 0, Outcome::Passed);
    weighed.results = vec![kindlm_types::AssertionResult::pass("keywords", "x")];
    weighed.results[0].weight = f64::NAN;
    let mut slow = result("b", 0, Outcome::Passed);
    slow.execution.turns =
        vec![kindlm_types::Turn { latency_ms: f64::INFINITY, ..kindlm_types::Turn::default() }];
    for it in [weighed, slow] {
        assert!(matches!(writer.append(&it), Err(JournalError::NotKept { .. })));
    }
    assert!(results(folder.path()).unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn appended_entries_are_read_back(given in prop::collection::vec(arbitrary::result(), 0..6)) {
        let folder = tempfile::tempdir().unwrap();
        let writer = begun(&folder);
        let (one_by_one, at_once) = given.split_at(given.len() / 2);
        for it in one_by_one {
            writer.append(it).unwrap();
        }
        writer.append_all(at_once).unwrap();
        let mut lines = v1::LineWriter::default();
        // The text of a line does not depend on the results in the previous line.
        let passed = given.iter().map(|it| ExecutionResult {
            results: it.results.iter().map(arbitrary::passed).collect(),
            ..it.clone()
        });
        for it in given.iter().cloned().chain(passed) {
            let plain = serde_json::to_string(&v1::Execution::from(&it)).unwrap();
            for _ in 0..2 {
                let mut line = b"before".to_vec();
                lines.write(&it, &mut line).unwrap();
                prop_assert_eq!(str::from_utf8(&line).unwrap(), format!("before{plain}"));
            }
        }
        prop_assert_eq!(results(folder.path()).unwrap(), given);
    }
}
