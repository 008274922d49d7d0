//! Records: storing executions, and resuming a run.

use std::collections::HashMap;
use std::sync::Mutex;

use kindlm_engine::{
    Control, Executed, Plan, ReadRecord, Record, RecordError, Run, RunOptions, RunProgress, Suite,
    TestCase, execute, execute_streamed, plan, report, report_streamed,
};
use kindlm_types::{
    CaseSource, ExecutionError, ExecutionResult, Outcome, ProviderErrorKind, RunInfo,
};

use crate::support::{Fake, edit, failure, last_user, model, reply, says, suite};

/// A record in memory with a limited capacity.
#[derive(Default)]
struct Memory {
    /// The stored executions by position in the plan.
    places: Mutex<HashMap<usize, ExecutionResult>>,
    kept: Mutex<HashMap<(String, String, u32), ExecutionResult>>,
    /// The maximum number of executions; unlimited if `None`.
    room: Option<usize>,
    /// A case that cannot be loaded.
    unreadable: Option<&'static str>,
}

impl Record for Memory {
    fn recall(
        &self,
        at: usize,
        case: &str,
        model: &str,
        repeat: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        if self.unreadable == Some(case) {
            return Err(RecordError(format!("cannot read `{case}`")));
        }
        let kept = self.kept.lock().unwrap();
        let found = kept.get(&(case.to_owned(), model.to_owned(), repeat));
        let found = found.filter(|it| it.outcome != Outcome::Errored).cloned();
        if let Some(found) = &found {
            self.places.lock().unwrap().insert(at, found.clone());
        }
        Ok(found)
    }

    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        let mut kept = self.kept.lock().unwrap();
        if self.room.is_some_and(|room| kept.len() + finished.len() > room) {
            return Err(RecordError("cannot write: full".to_owned()));
        }
        for (at, result) in finished {
            "kept".clone_into(&mut result.execution.command.get_or_insert_default().stderr);
            let it = &result.execution;
            kept.insert((it.case.clone(), it.model.clone(), it.repeat), result.clone());
            self.places.lock().unwrap().insert(*at, result.clone());
        }
        Ok(())
    }
}

impl ReadRecord for Memory {
    fn read_execution(&self, at: usize) -> Result<ExecutionResult, RecordError> {
        let found = self.places.lock().unwrap().get(&at).cloned();
        found.ok_or_else(|| RecordError(format!("line {at} is gone")))
    }

    fn clean(&self, result: &mut ExecutionResult) {
        "kept".clone_into(&mut result.execution.command.get_or_insert_default().stderr);
    }
}

impl Memory {
    fn names(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap();
        let mut names: Vec<String> =
            kept.keys().map(|(case, _, repeat)| format!("{case} {repeat}")).collect();
        names.sort();
        names
    }
}

async fn run(
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    fake: &Fake,
    record: &Memory,
) -> Executed {
    execute(Run { record, ..Run::new(suite, plan, options, fake) }).await
}

fn one_by_one() -> RunOptions {
    RunOptions { concurrency: Some(1), ..RunOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn an_execution_is_stored_before_it_is_reported() {
    let (suite, options) = (suite(&["x", "y"]), one_by_one());
    let plan = plan(&suite, &options).unwrap();
    let (fake, memory) = (Fake::saying("ok"), Memory::default());
    let heard = Mutex::new(Vec::new());
    let watch = |event: RunProgress<'_>| {
        if let RunProgress::ExecutionFinished(result) = event {
            assert_eq!(result.execution.stderr(), "kept");
            heard.lock().unwrap().push(memory.names());
        }
    };
    let executed =
        execute(Run { watch: &watch, record: &memory, ..Run::new(&suite, &plan, &options, &fake) })
            .await;
    assert_eq!(executed.failure, None);
    assert!(executed.cases.iter().all(|it| it.executions[0].execution.stderr() == "kept"));
    let expected: [&[&str]; 2] = [&["x 0"], &["x 0", "y 0"]];
    assert_eq!(*heard.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_ends_like_an_unstopped_one() {
    let mut suite = suite(&["x", "y", "z"]);
    suite.cases.iter_mut().for_each(|it| it.repeat = 2);
    for at_once in [1, 3] {
        let options = RunOptions { concurrency: Some(at_once), ..RunOptions::default() };
        let plan = plan(&suite, &options).unwrap();
        let whole = run(&suite, &plan, &options, &Fake::saying("ok"), &Memory::default()).await;
        for stop_after in 0..=6 {
            let memory = Memory::default();
            let control = Control::default();
            let handler = control.clone();
            let fake = Fake::new(move |_, prompt| match last_user(prompt) {
                "y" => Err(failure(ProviderErrorKind::Connection)),
                _ => Ok(reply("ok")),
            });
            let watch = |event: RunProgress<'_>| {
                if matches!(event, RunProgress::ExecutionFinished(_))
                    && memory.names().len() == stop_after
                {
                    handler.stop("interrupted");
                }
            };
            if stop_after == 0 {
                handler.stop("interrupted");
            }
            execute(Run {
                control: Some(&control),
                watch: &watch,
                record: &memory,
                ..Run::new(&suite, &plan, &options, &fake)
            })
            .await;
            let done = memory
                .kept
                .lock()
                .unwrap()
                .values()
                .filter(|it| it.outcome != Outcome::Errored)
                .count();
            let fake = Fake::saying("ok");
            assert_eq!(run(&suite, &plan, &options, &fake, &memory).await, whole);
            assert_eq!(fake.asked().len(), 6 - done, "stopped after {stop_after}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_stops_the_run() {
    let (suite, options) = (suite(&["x", "y", "z"]), one_by_one());
    let plan = plan(&suite, &options).unwrap();
    let (fake, memory) = (Fake::saying("ok"), Memory { room: Some(1), ..Memory::default() });
    let executed = run(&suite, &plan, &options, &fake, &memory).await;
    assert_eq!(executed.failure, Some(RecordError("cannot write: full".to_owned())));
    assert_eq!(fake.asked(), ["x", "y"]);
    assert_eq!(memory.names(), ["x 0"]);
    let errors: Vec<Option<ExecutionError>> =
        executed.cases.iter().map(|it| it.executions[0].error.clone()).collect();
    let message = "cannot write: full".to_owned();
    let reason = "not sent: the run was aborted: cannot write: full".to_owned();
    assert_eq!(
        errors,
        [None, Some(ExecutionError::Internal { message }), Some(ExecutionError::NotRun { reason })]
    );
    let lost = &executed.cases[1].executions[0];
    assert_eq!((lost.execution.output.as_str(), lost.results.len()), ("", 0));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_journal_stops_the_run_before_a_request() {
    let (suite, options) = (suite(&["x", "y", "z"]), one_by_one());
    let plan = plan(&suite, &options).unwrap();
    let memory = Memory { unreadable: Some("y"), ..Memory::default() };
    let fake = Fake::saying("ok");
    let executed = run(&suite, &plan, &options, &fake, &memory).await;
    assert_eq!(executed.failure, Some(RecordError("cannot read `y`".to_owned())));
    assert_eq!(fake.asked(), Vec::<String>::new());
    assert_eq!(executed.cases.len(), 3);
}

/// A failure of the stopped run counts after resuming, so no request is sent.
#[tokio::test(start_paused = true)]
async fn failures_of_before_count() {
    let mut suite = Suite { models: vec![model("a")], ..Suite::default() };
    suite.cases = ["x", "y"].map(|it| TestCase::prompt(it, it, &["a"])).into();
    edit(&mut suite.cases[0], |it| it.checks = [says("other")].into());
    let options = RunOptions { fail_fast: true, ..one_by_one() };
    let plan = plan(&suite, &options).unwrap();
    let memory = Memory::default();
    let first = run(&suite, &plan, &options, &Fake::saying("ok"), &memory).await;
    assert_eq!(memory.names(), ["x 0"]);
    let fake = Fake::saying("ok");
    assert_eq!(run(&suite, &plan, &options, &fake, &memory).await, first);
    assert!(fake.asked().is_empty());
    // Without that limit, the run continues.
    let executed = run(&suite, &plan, &one_by_one(), &fake, &memory).await;
    assert_eq!(fake.asked(), ["y"]);
    assert!(executed.cases[1].passed());
}

/// A streamed run has the same report as a run in memory.
#[tokio::test(start_paused = true)]
async fn a_run_that_holds_nothing_reports_the_same() {
    let mut suite = suite(&["x", "y", "z", "w"]);
    suite.cases.iter_mut().for_each(|it| it.repeat = 3);
    suite.cases[2].tags = ["late".to_owned()].into();
    suite.gates = kindlm_engine::gates::defaults();
    for (room, max_failures) in [(None, None), (None, Some(1)), (Some(7), None)] {
        let options = RunOptions { concurrency: Some(2), max_failures, ..RunOptions::default() };
        let plan = plan(&suite, &options).unwrap();
        let fake = Fake::new(move |_, prompt| match last_user(prompt) {
            "y" => Err(failure(ProviderErrorKind::Connection)),
            _ => Ok(reply("ok")),
        });
        let (one, two) = [(); 2].map(|()| Memory { room, ..Memory::default() }).into();
        let held = execute(Run { record: &one, ..Run::new(&suite, &plan, &options, &fake) }).await;
        let streamed =
            execute_streamed(Run { record: &two, ..Run::new(&suite, &plan, &options, &fake) })
                .await;
        assert_eq!(streamed.failure, held.failure);
        let mut held = report(&suite, &plan, held.cases, RunInfo::default());
        let results = held.cases.iter_mut().flat_map(|it| &mut it.executions);
        results.for_each(|it| one.clean(it));
        let streamed = report_streamed(&suite, &plan, streamed, &two, RunInfo::default());
        assert_eq!(streamed.summary(), held.summary());
        assert_eq!(streamed.gates, held.gates);
        let read: Vec<_> = streamed.each().map(|it| it.unwrap().into_owned()).collect();
        assert_eq!(read, held.cases);
        let marks = (0..read.len()).map(|it| streamed.cases.mark(it));
        assert!(marks.eq((0..read.len()).map(|it| held.cases.mark(it))));
        assert_eq!((streamed.cases.len(), streamed.cases.mark(read.len())), (4, None));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_case_is_an_error_of_the_report() {
    let (suite, options) = (suite(&["x", "y"]), one_by_one());
    let plan = plan(&suite, &options).unwrap();
    let (fake, memory) = (Fake::saying("ok"), Memory::default());
    let streamed =
        execute_streamed(Run { record: &memory, ..Run::new(&suite, &plan, &options, &fake) }).await;
    memory.places.lock().unwrap().remove(&1);
    let report = report_streamed(&suite, &plan, streamed, &memory, RunInfo::default());
    assert_eq!(report.totals().passed, 2, "what was counted stays counted");
    let read: Vec<_> = report.each().collect();
    assert!(read[0].is_ok());
    assert_eq!(read[1].as_ref().unwrap_err().to_string(), "line 1 is gone");
}
