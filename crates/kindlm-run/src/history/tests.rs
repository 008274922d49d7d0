//! Tests of the history with reports on disk.

use std::path::Path;
use std::sync::{Arc, Mutex};

use kindlm_testing::sample_report;
use kindlm_types::{AssertionSetInfo, EarlyEnd, FileDigest, Outcome, Report, RunInfo};
use kindlm_wire::history::{Series, Unit};
use kindlm_wire::v1;

use super::*;

/// A temporary folder with stored runs, and the notices about them.
struct Stored {
    folder: tempfile::TempDir,
    notices: Arc<Mutex<Vec<String>>>,
}

/// Returns a report with one case, whose repeats are `p` (passed), `f` (failed) or `e` (errored).
fn report(run: &str, repeats: &str) -> Report {
    let mut report = sample_report();
    report.run = RunInfo {
        id: run.to_owned(),
        git_commit: Some(format!("{run:0>40}")),
        git_dirty: Some(false),
        ..report.run
    };
    report.suite.config_sha256 = Some("1".repeat(64));
    report.suite.assertion_sets = vec![rules("1")];
    report.suite.files = vec![FileDigest::new("a.csv", "2".repeat(64))];
    let mut case = report.cases[0].clone();
    "refund late".clone_into(&mut case.case);
    "model".clone_into(&mut case.model);
    (case.digest, case.task_digest) = (Some("d".to_owned()), Some("t".to_owned()));
    let first = case.executions[0].clone();
    let outcome = |it| match it {
        'p' => Outcome::Passed,
        'f' => Outcome::Failed,
        _ => Outcome::Errored,
    };
    let outcomes: Vec<Outcome> = repeats.chars().map(outcome).collect();
    case.executions.clear();
    for (repeat, outcome) in (0..).zip(&outcomes) {
        let mut execution = first.clone();
        (execution.outcome, execution.execution.repeat) = (*outcome, repeat);
        case.executions.push(execution);
    }
    case.outcome = outcomes.iter().copied().max().unwrap();
    case.repeats = u32::try_from(outcomes.len()).unwrap();
    report.cases = vec![case];
    report
}

fn rules(digest: &str) -> AssertionSetInfo {
    AssertionSetInfo {
        name: "tone".to_owned(),
        digest: digest.repeat(32),
        ..AssertionSetInfo::default()
    }
}

impl Stored {
    fn new(reports: &[Report]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for report in reports {
            let mut json = Vec::new();
            v1::write_compact(report, &mut json).unwrap();
            let runs = Runs::new(folder.path().join(".kindlm"));
            runs.save(&report.run.id, &String::from_utf8(json).unwrap()).unwrap();
        }
        Self { folder, notices: Arc::default() }
    }

    fn history(&self, case: Option<&str>, limit: usize) -> Result<History, Failure> {
        let notices = Arc::clone(&self.notices);
        let world = World {
            notices: Arc::new(move |text| notices.lock().unwrap().push(text.to_owned())),
            ..World::new(self.folder.path(), Arc::new(|_| None))
        };
        let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
        let config = HistoryConfig { case: case.map(str::to_owned), models: Vec::new(), limit };
        history(&world, &place, None, &config)
    }

    fn case(&self) -> Series {
        self.history(Some("refund"), 30).unwrap().series.remove(0)
    }
}

fn outcomes(series: &Series) -> Vec<&str> {
    series.runs.iter().map(|it| it.outcome.as_str()).collect()
}

#[test]
fn a_broken_case_has_its_change_point_and_its_cause() {
    let mut reports: Vec<Report> = [("a", "ppppp"), ("b", "ppppp"), ("c", "fffff"), ("d", "fffff")]
        .into_iter()
        .map(|(run, repeats)| report(run, repeats))
        .collect();
    for it in &mut reports[2..] {
        it.suite.config_sha256 = Some("3".repeat(64));
        it.suite.assertion_sets = vec![rules("2")];
        it.suite.files[0].sha256 = "4".repeat(64);
        it.cases[0].digest = Some("e".to_owned());
        it.run.git_commit = Some("5".repeat(40));
    }
    let series = Stored::new(&reports).case();
    assert_eq!(outcomes(&series), ["passed", "passed", "failed", "failed"]);
    assert_eq!((series.unit, series.change_points.len()), (Unit::Repeats, 1));
    let point = &series.change_points[0];
    assert_eq!(point.run, "c");
    assert_eq!((point.before.count, point.after.count, point.after.total), (10, 0, 10));
    assert_eq!((series.current.count, series.current.total), (0, 10));
    assert_eq!(series.flaky, Some(false));
    let [flip] = &*series.flips else { panic!("{:?}", series.flips) };
    assert_eq!((&*flip.before, &*flip.after), ("b", "c"));
    let case = &flip.cases[0];
    assert_eq!((case.before, case.after), (Outcome::Passed, Outcome::Failed));
    assert_eq!((case.case_changed, case.task_changed), (Some(true), Some(false)));
    let changes = &flip.changes;
    assert_eq!(changes.git_commit.as_ref().unwrap().after, Some("5".repeat(40)));
    assert_eq!(changes.config.as_ref().unwrap().before, Some("1".repeat(64)));
    assert_eq!((changes.files.len(), &*changes.files[0].path), (1, "a.csv"));
    assert_eq!(changes.conditions.len(), 1, "{:?}", changes.conditions);
    assert_eq!(changes.conditions[0].name.as_deref(), Some("tone"));
}

#[test]
fn an_errored_run_is_missing_and_no_flip() {
    let reports = [report("a", "p"), report("b", "e"), report("c", "p"), report("d", "f")];
    let series = Stored::new(&reports).case();
    assert_eq!(outcomes(&series), ["passed", "errored", "passed", "failed"]);
    let errored = &series.runs[1];
    assert_eq!((errored.held.total, errored.held.rate, errored.errored), (0, None, 1));
    assert_eq!(series.change_points, []);
    assert_eq!((series.current.count, series.current.total), (2, 3));
    assert_eq!(series.flaky, Some(true));
    let flips: Vec<(&str, &str)> =
        series.flips.iter().map(|it| (&*it.before, &*it.after)).collect();
    assert_eq!(flips, [("c", "d")]);
    // The commit is derived from the id of the run, so the commits always differ here.
    assert!(series.flips[0].changes.git_commit.is_some());
}

#[test]
fn a_changed_prompt_is_no_flakiness() {
    let mut reports = [report("a", "pp"), report("b", "p"), report("c", "f"), report("d", "ff")];
    for it in &mut reports[2..] {
        it.cases[0].digest = Some("e".to_owned());
    }
    let series = Stored::new(&reports).case();
    assert_eq!((series.change_points.len(), series.since.as_deref()), (0, Some("c")));
    assert_eq!((series.current.count, series.current.total), (0, 3));
    assert_eq!(series.flaky, Some(false));
}

#[test]
fn stored_answers_are_no_new_evidence() {
    let mut reports = [report("a", "ppppp"), report("b", "fffff"), report("c", "fffff")];
    for it in &mut reports[1..] {
        it.cases[0].executions.iter_mut().for_each(|it| it.execution.spend.cached = true);
    }
    let stored = Stored::new(&reports);
    let series = stored.case();
    assert_eq!(series.change_points, []);
    assert_eq!((series.current.count, series.current.total), (5, 5));
    assert_eq!(series.flips.len(), 1);
    let suite = &stored.history(None, 3).unwrap().series[0];
    assert_eq!((suite.current.count, suite.current.total), (1, 1));
}

#[test]
fn repeats_that_end_early_count_by_run() {
    let early = EarlyEnd { max: 5, test: None, decision: None };
    let mut reports = [report("a", "ppppp"), report("b", "f"), report("c", "f")];
    for it in &mut reports {
        it.cases[0].early_end = Some(early);
    }
    let series = Stored::new(&reports).case();
    assert_eq!(series.unit, Unit::Runs);
    assert_eq!((series.current.count, series.current.total), (1, 3));
}

#[test]
fn the_suite_names_the_cases_that_flipped_last() {
    let stored = Stored::new(&[report("a", "f"), report("b", "p"), report("c", "f")]);
    let history = stored.history(None, 2).unwrap();
    assert!(history.has_older);
    let series = &history.series[0];
    assert_eq!((series.unit, series.model.as_deref(), series.flaky), (Unit::Cases, None, None));
    assert_eq!(series.runs.iter().map(|it| &*it.run).collect::<Vec<_>>(), ["b", "c"]);
    assert!(series.runs.iter().all(|it| it.duration_ms.is_some() && it.latency_ms.is_none()));
    let [flip] = &*series.flips else { panic!("{:?}", series.flips) };
    assert_eq!((&*flip.after, &*flip.cases[0].case), ("c", "refund late"));
    assert_eq!(*stored.notices.lock().unwrap(), [""; 0]);
}

#[test]
fn a_case_is_found_by_a_part_of_its_name() {
    let mut both = report("a", "p");
    let mut other = both.cases[0].clone();
    "refund early".clone_into(&mut other.case);
    both.cases.push(other);
    let stored = Stored::new(&[both]);
    for (pattern, expected) in [
        ("late", Ok("refund late")),
        ("refund early", Ok("refund early")),
        ("refund", Err("`refund` matches 2 cases: `refund early`, `refund late`")),
        ("none", Err("no stored run has a case `none`")),
        ("/(/", Err("is not a pattern")),
    ] {
        let found = stored.history(Some(pattern), 30);
        match expected {
            Ok(name) => assert_eq!(found.unwrap().case.as_deref(), Some(name)),
            Err(text) => {
                let failure = found.unwrap_err();
                let message = failure.message.unwrap();
                assert!(message.contains(text), "{message}");
            }
        }
    }
    let failure = Stored::new(&[]).history(None, 30).unwrap_err();
    assert!(failure.message.unwrap().contains("there is no finished run yet"));
}
