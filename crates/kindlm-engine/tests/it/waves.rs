//! Repeats that end early: the number of requests, the verdict, resuming, and stopping.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kindlm_engine::{
    Control, ReadRecord, Record, RecordError, Run, RunOptions, Suite, Until, execute,
    execute_streamed, plan, report, report_streamed,
};
use kindlm_stats::Sprt;
use kindlm_types::{
    CaseResult, CaseSource, Decision, ExecutionResult, FailureCode, Outcome, ProviderErrorKind,
    RunInfo,
};

use crate::support::{Fake, edit, failure, reply, says, suite};

/// Builds a model whose replies follow a text: `p` passes, `f` fails, and `e` is an error.
fn following(text: &'static str) -> Fake {
    let next = AtomicUsize::new(0);
    Fake::new(move |_, _| match text.as_bytes()[next.fetch_add(1, Ordering::SeqCst)] {
        b'p' => Ok(reply("yes")),
        b'f' => Ok(reply("no")),
        _ => Err(failure(ProviderErrorKind::Server)),
    })
}

fn decided() -> Until {
    Until::Decided(Sprt::new(0.8, 0.95, 0.05, 0.05).unwrap())
}

fn suite_of(until: Until, max: u32, pass_rate_min: f64) -> Suite {
    let mut suite = suite(&["x"]);
    let case = &mut suite.cases[0];
    (case.until, case.repeat, case.pass_rate_min) = (Some(until), max, pass_rate_min);
    edit(case, |body| body.checks = [says("yes")].into());
    suite
}

fn at_once(concurrency: usize) -> RunOptions {
    RunOptions { concurrency: Some(concurrency), ..RunOptions::default() }
}

#[derive(Default)]
struct Memory {
    /// A stored repeat that cannot be loaded, like a damaged line.
    damaged: Option<u32>,
    places: Mutex<HashMap<usize, ExecutionResult>>,
    kept: Mutex<HashMap<u32, ExecutionResult>>,
}

impl Record for Memory {
    fn recall(
        &self,
        at: usize,
        _: &str,
        _: &str,
        repeat: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        if self.damaged == Some(repeat) {
            return Err(RecordError(format!("line of repeat {repeat} is damaged")));
        }
        let found = self.kept.lock().unwrap().get(&repeat).cloned();
        let found = found.filter(|it| it.outcome != Outcome::Errored);
        if let Some(found) = &found {
            self.places.lock().unwrap().insert(at, found.clone());
        }
        Ok(found)
    }

    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        for (at, result) in finished {
            self.kept.lock().unwrap().insert(result.execution.repeat, result.clone());
            self.places.lock().unwrap().insert(*at, result.clone());
        }
        Ok(())
    }
}

impl ReadRecord for Memory {
    fn read_execution(&self, at: usize) -> Result<ExecutionResult, RecordError> {
        let found = self.places.lock().unwrap().get(&at).cloned();
        found.ok_or_else(|| RecordError(format!("execution {at} is missing")))
    }

    fn clean(&self, _: &mut ExecutionResult) {}
}

async fn case_of(suite: &Suite, options: &RunOptions, fake: &Fake, memory: &Memory) -> CaseResult {
    let plan = plan(suite, options).unwrap();
    let run = Run { record: memory, ..Run::new(suite, &plan, options, fake) };
    let mut executed = execute(run).await;
    assert_eq!((executed.failure, executed.cases.len()), (None, 1));
    executed.cases.remove(0)
}

#[tokio::test(start_paused = true)]
async fn repeats_end_when_decided() {
    const PASSES: &str = "pppppppppppppppppppp";
    let pass = Some(Decision::Pass);
    let fail = Some(Decision::Fail);
    for (until, max, min, text, requests, outcome, decision) in [
        (Until::Settled, 20, 1.0, "pf", 2, Outcome::Failed, fail),
        (Until::Settled, 20, 1.0, PASSES, 20, Outcome::Passed, pass),
        (Until::Settled, 10, 0.5, PASSES, 5, Outcome::Passed, pass),
        (decided(), 60, 1.0, PASSES, 18, Outcome::Passed, pass),
        (decided(), 60, 1.0, "fff", 3, Outcome::Failed, fail),
        (decided(), 4, 0.0, "pppp", 4, Outcome::Failed, None),
        // An error does not count for the test, and the case is errored as with fixed repeats.
        (decided(), 60, 1.0, "efff", 4, Outcome::Errored, fail),
        (decided(), 3, 1.0, "eee", 3, Outcome::Errored, None),
    ] {
        for concurrency in [1, 4, 100] {
            let (suite, options) = (suite_of(until, max, min), at_once(concurrency));
            let fake = following(text);
            let memory = Memory::default();
            let case = case_of(&suite, &options, &fake, &memory).await;
            let end = case.early_end.unwrap();
            assert_eq!(fake.asked().len(), requests, "{until:?} {text} {concurrency}");
            assert_eq!((end.max, end.decision, case.outcome), (max, decision, outcome), "{text}");
            assert_eq!(case.unneeded_repeats(), u64::from(max) - requests as u64, "{text}");
            let is_undecided = outcome == Outcome::Failed && decision.is_none();
            assert_eq!(case.is_undecided(), is_undecided);
            assert_eq!(case.failure_codes.contains(&FailureCode::UNDECIDED), is_undecided);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_given_number_of_repeats_is_carried_out_in_full() {
    let suite = suite_of(decided(), 60, 1.0);
    let options = RunOptions { repeat: Some(5), ..at_once(2) };
    let case = case_of(&suite, &options, &following("fffff"), &Memory::default()).await;
    assert_eq!((case.executions.len(), case.early_end), (5, None));
}

#[tokio::test(start_paused = true)]
async fn a_streamed_report_has_only_the_carried_out_repeats() {
    let (suite, options) = (suite_of(decided(), 60, 1.0), at_once(4));
    let plan = plan(&suite, &options).unwrap();
    let (fake, memory) = (following("pfpff"), Memory::default());
    let run = Run { record: &memory, ..Run::new(&suite, &plan, &options, &fake) };
    let streamed = execute_streamed(run).await;
    let streamed = report_streamed(&suite, &plan, streamed, &memory, RunInfo::default());
    let again = execute(Run::new(&suite, &plan, &options, &following("pfpff"))).await;
    let held = report(&suite, &plan, again.cases, RunInfo::default());
    assert_eq!(*streamed.cases.read_case(0).unwrap(), held.cases[0]);
    assert_eq!(streamed.summary(), held.summary());
    assert_eq!((held.totals().saved_repeats, held.totals().failed), (55, 1));
}

/// A repeat after a gap must not take the place of a repeat in the gap.
#[tokio::test(start_paused = true)]
async fn a_streamed_report_keeps_gaps_of_damaged_lines() {
    let (suite, options) = (suite_of(decided(), 60, 1.0), at_once(1));
    let plan = plan(&suite, &options).unwrap();
    let mut memory = Memory::default();
    case_of(&suite, &options, &following("pppfpfff"), &memory).await;
    memory.kept.lock().unwrap().remove(&1);
    memory.places.lock().unwrap().clear();
    memory.damaged = Some(2);
    let fake = Fake::saying("yes");
    let run = Run { record: &memory, ..Run::new(&suite, &plan, &options, &fake) };
    let streamed = execute_streamed(run).await;
    assert!(streamed.failure.is_some() && fake.asked().is_empty());
    let again = execute(Run { record: &memory, ..run }).await;
    let held = report(&suite, &plan, again.cases, RunInfo::default());
    let repeats = held.cases[0].executions.iter().map(|it| it.execution.repeat);
    assert_eq!(repeats.take(3).collect::<Vec<_>>(), [0, 2, 3], "repeat 1 was not carried out");
    let streamed = report_streamed(&suite, &plan, streamed, &memory, RunInfo::default());
    assert_eq!(*streamed.cases.read_case(0).unwrap(), held.cases[0]);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_case_sends_only_the_missing_repeats() {
    const TEXT: &str = "pppfpppppppppppppppppppppppppppp";
    let (suite, options) = (suite_of(decided(), 60, 1.0), at_once(4));
    let whole = case_of(&suite, &options, &following(TEXT), &Memory::default()).await;
    let all = whole.executions.len();
    for lost in 0..1 << 4 {
        let memory = Memory::default();
        case_of(&suite, &options, &following(TEXT), &memory).await;
        // The stored results end after 8 repeats, and some of the last four are missing.
        memory.kept.lock().unwrap().retain(|at, _| *at < 4 || *at < 8 && lost >> (at - 4) & 1 == 0);
        let missing = all - memory.kept.lock().unwrap().len();
        let fake = Fake::saying("yes");
        let resumed = case_of(&suite, &options, &fake, &memory).await;
        assert_eq!(fake.asked().len(), missing, "{lost:b}");
        assert_eq!((resumed.outcome, resumed.executions.len()), (whole.outcome, all));
        let fake = Fake::saying("yes");
        let complete = case_of(&suite, &options, &fake, &memory).await;
        assert_eq!((fake.asked().len(), complete.executions.len()), (0, all));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_case_is_not_passed() {
    let (suite, options) = (suite_of(decided(), 60, 1.0), at_once(1));
    let plan = plan(&suite, &options).unwrap();
    let control = Control::default();
    let stop = control.clone();
    let sent = AtomicUsize::new(0);
    let fake = Fake::new(move |_, _| {
        if sent.fetch_add(1, Ordering::SeqCst) == 4 {
            stop.stop("interrupted");
        }
        Ok(reply("yes"))
    });
    let run = Run { control: Some(&control), ..Run::new(&suite, &plan, &options, &fake) };
    let executed = execute(run).await;
    let case = &executed.cases[0];
    assert_eq!((fake.asked().len(), case.executions.len()), (5, 6));
    assert_eq!((case.outcome, case.saved_repeats()), (Outcome::Errored, 0));
    let report = report(&suite, &plan, executed.cases, RunInfo::default());
    assert_eq!(report.summary().not_run, 1);
}

#[test]
fn repeats_after_the_end_of_a_case_are_not_open() {
    for (until, fixed, done, open) in [
        (Until::Settled, false, "", 4),
        (Until::Settled, false, "p", 3),
        // One failure settles a case of which all repeats must pass.
        (Until::Settled, false, "pf", 0),
        (Until::Settled, true, "pf", 2),
        // A gap before a repeat that is done is filled first.
        (Until::Settled, false, "f-p", 2),
        (decided(), false, "ff", 2),
        (decided(), false, "fff", 0),
    ] {
        let suite = suite_of(until, 4, 1.0);
        let mut plan = plan(&suite, &RunOptions::default()).unwrap();
        plan.fixed_repeats = fixed;
        let found =
            plan.open_units(&suite, |unit| match done.as_bytes().get(unit.repeat as usize) {
                Some(b'p') => Some(Outcome::Passed),
                Some(b'f') => Some(Outcome::Failed),
                _ => None,
            });
        assert_eq!(found.len(), open, "{until:?} {fixed} {done}");
        assert_eq!(plan.may_end_early(&suite), !fixed);
    }
}
