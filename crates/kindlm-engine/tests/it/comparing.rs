//! Comparison of outputs, over models, prompts, repeats, shards and processes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use kindlm_assertions::{Check, Setup, compile};
use kindlm_engine::{
    BodyError, BodySource, CaseBody, Comparison, Control, Plan, Record, RecordError, Run,
    RunOptions, Shard, Suite, Targets, TestCase, execute, plan, shard,
};
use kindlm_types::{
    CaseResult, ExecutionError, ExecutionResult, NoFiles, ProviderErrorKind, Reply, Verdict,
};
use serde_json::json;

use crate::support::{Fake, edit, failure, last_user, model, reply, says};

/// Compiles the checks of a list entry.
fn entry(entry: &serde_json::Value) -> Vec<Check> {
    let (checks, problems) = compile(&json!({"assert": [entry]}), &Setup::new(&NoFiles, None));
    assert_eq!(problems, []);
    checks
}

fn best(orders: &str) -> Vec<Check> {
    entry(&json!({"type": "select-best", "value": "Is long", "model": "judge", "orders": orders}))
}

/// Builds cases on the models `a` and `b` in one comparison group, and a judge model.
fn compared(names: &[&str], checks: &[Check]) -> Suite {
    let case = |name: &&str| {
        let mut case = TestCase::prompt(*name, *name, &["a", "b"]);
        case.compared = Some(Comparison::Named("group".into()));
        edit(&mut case, |it| it.checks = checks.into());
        case
    };
    Suite {
        models: vec![model("a"), model("b"), model("judge")],
        cases: names.iter().map(case).collect(),
        ..Suite::default()
    }
}

/// Builds a backend whose judge chooses the long answer.
///
/// Model `a` gives a long answer, and model `b` a short answer.
fn honest() -> Fake {
    Fake::new(|_, prompt| {
        Ok(match prompt.model.as_str() {
            "a-name" => reply("a long answer"),
            "b-name" => reply("short"),
            _ => chooses(last_user(prompt), "a long answer"),
        })
    })
}

/// Builds the reply of a judge that chooses the output with this text, whatever its position.
fn chooses(question: &str, said: &str) -> Reply {
    let lines: Vec<&str> = question.lines().collect();
    let at = lines.iter().position(|it| *it == said).unwrap();
    let number = lines[at - 1].split(' ').nth(2).unwrap();
    reply(&format!(r#"{{"best": {number}, "reason": "It is longer."}}"#))
}

/// A record like a journal, which stores all executions.
///
/// The record recalls executions that are finished or only lack a judgement.
#[derive(Default)]
struct Memory {
    kept: Mutex<HashMap<(String, String, u32), ExecutionResult>>,
    entries: AtomicU32,
    /// A model whose executions cannot be loaded.
    unreadable: Option<&'static str>,
}

impl Record for Memory {
    fn recall(
        &self,
        _at: usize,
        case: &str,
        model: &str,
        repeat: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        if self.unreadable == Some(model) {
            return Err(RecordError(format!("cannot read `{case}` on `{model}`")));
        }
        let kept = self.kept.lock().unwrap();
        let found = kept.get(&(case.to_owned(), model.to_owned(), repeat));
        let is_done = |it: &&ExecutionResult| it.error.is_none() || it.is_unjudged();
        Ok(found.filter(is_done).cloned())
    }

    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        for (_, result) in finished {
            let it = &result.execution;
            let key = (it.case.clone(), it.model.clone(), it.repeat);
            self.kept.lock().unwrap().insert(key, result.clone());
            self.entries.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

async fn run(suite: &Suite, options: &RunOptions, fake: &Fake, record: &dyn Record) -> Vec<String> {
    let plan = plan(suite, options).unwrap();
    let executed = execute(Run { record, ..Run::new(suite, &plan, options, fake) }).await;
    shown(&executed.cases)
}

/// Returns a line for each repeat: case, model, outcome, and each result with its score.
fn shown(cases: &[CaseResult]) -> Vec<String> {
    let of = |it: &ExecutionResult| {
        let results = it.results.iter().map(|result| {
            let score = result.score.map_or("-".to_owned(), |it| it.to_string());
            format!(" {}={score}", result.assertion)
        });
        let results: String = results.collect();
        let execution = &it.execution;
        format!(
            "{} {} {} {:?}{results}",
            execution.case, execution.model, execution.repeat, it.outcome
        )
    };
    cases.iter().flat_map(|it| it.executions.iter().map(of)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_best_model_passes_after_both_orders() {
    let suite = compared(&["x"], &best("both"));
    let fake = honest();
    let lines = run(&suite, &RunOptions::default(), &fake, &()).await;
    assert_eq!(lines, ["x a 0 Passed select-best=1", "x b 0 Failed select-best=0"]);
    let judged: Vec<String> =
        fake.asked().into_iter().filter(|it| it.contains("Criterion")).collect();
    assert_eq!(judged.len(), 2, "{judged:#?}");
    let first = |it: &String| it.find("a long answer") < it.find("short");
    assert_eq!(judged.iter().filter(|it| first(it)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_prefers_the_first_output_gives_a_tie() {
    let suite = compared(&["x"], &best("both"));
    let fake = Fake::new(|_, prompt| {
        Ok(match prompt.model.as_str() {
            "judge-name" => reply(r#"{"best": 0, "reason": "It comes first."}"#),
            other => reply(other),
        })
    });
    let options = RunOptions::default();
    let planned = plan(&suite, &options).unwrap();
    let executed = execute(Run::new(&suite, &planned, &options, &fake)).await;
    let lines = shown(&executed.cases);
    assert_eq!(lines, ["x a 0 Passed select-best=0.5", "x b 0 Passed select-best=0.5"]);
    let result = &executed.cases[0].executions[0].results[0];
    let judging = result.judging.as_ref().unwrap();
    assert!(judging.tie && judging.borderline);
    assert_eq!(result.metadata["choices"][1]["best"], "`b`");
}

#[tokio::test(start_paused = true)]
async fn prompts_are_compared_as_well_repeat_by_repeat() {
    let mut checks = vec![says("long"), says("answer")];
    checks.extend(entry(&json!({"type": "max-score"})));
    let suite = compared(&["x", "y"], &checks);
    let fake = Fake::new(|_, prompt| {
        Ok(match (prompt.model.as_str(), last_user(prompt)) {
            ("b-name", "y") => reply("a long answer"),
            ("a-name", _) => reply("an answer"),
            _ => reply("nothing"),
        })
    });
    let options = RunOptions { repeat: Some(2), ..RunOptions::default() };
    let lines = run(&suite, &options, &fake, &()).await;
    let best: Vec<&String> = lines.iter().filter(|it| it.contains("max-score=1")).collect();
    assert_eq!(lines.len(), 8);
    assert_eq!(
        best,
        ["y b 0 Passed says=1 says=1 max-score=1", "y b 1 Passed says=1 says=1 max-score=1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_output_leaves_the_best_undecided() {
    let suite = compared(&["x"], &best("both"));
    let fake = Fake::new(|_, prompt| match prompt.model.as_str() {
        "b-name" => Err(failure(ProviderErrorKind::Server)),
        other => Ok(reply(other)),
    });
    let options = RunOptions::default();
    let planned = plan(&suite, &options).unwrap();
    let executed = execute(Run::new(&suite, &planned, &options, &fake)).await;
    assert_eq!(shown(&executed.cases), ["x a 0 Errored select-best=-", "x b 0 Errored"]);
    let Verdict::Errored { code, message } = &executed.cases[0].executions[0].results[0].verdict
    else {
        panic!("errored");
    };
    assert_eq!(code.as_str(), "EVIDENCE_MISSING");
    assert!(message.contains("no output of `b`"), "{message}");
    assert!(!fake.asked().iter().any(|it| it.contains("Criterion")), "nobody is asked");
}

#[tokio::test(start_paused = true)]
async fn single_outputs_are_skipped_and_thresholds_see_all_scores() {
    let mut suite = compared(&["x"], &[&best("both")[..], &[says("long")]].concat());
    suite.cases[0].threshold = Some(0.6);
    let mut options = RunOptions::default();
    let lines = run(&suite, &options, &honest(), &()).await;
    assert_eq!(
        lines,
        [
            "x a 0 Passed says=1 select-best=1 threshold=1",
            "x b 0 Failed says=0 select-best=0 threshold=0"
        ]
    );
    options.filter.models = vec!["a".to_owned()];
    let lines = run(&suite, &options, &honest(), &()).await;
    assert_eq!(lines, ["x a 0 Passed says=1 select-best=- threshold=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_comparison_is_resumed_without_new_requests() {
    let suite = compared(&["x"], &best("both"));
    let (options, memory, control) = (
        RunOptions { concurrency: Some(1), ..RunOptions::default() },
        Memory::default(),
        Control::default(),
    );
    let planned = plan(&suite, &options).unwrap();
    // The user interrupts the run while the second model answers.
    let stopping = control.clone();
    let fake = Fake::new(move |_, prompt| {
        if prompt.model == "b-name" {
            stopping.stop("not sent: the run was interrupted");
        }
        Ok(reply(if prompt.model == "a-name" { "a long answer" } else { "short" }))
    });
    let run_1 = Run {
        record: &memory,
        control: Some(&control),
        ..Run::new(&suite, &planned, &options, &fake)
    };
    let executed = execute(run_1).await;
    for case in &executed.cases {
        let it = &case.executions[0];
        assert!(it.is_unjudged(), "{it:?}");
        let Some(ExecutionError::NotRun { reason }) = &it.error else { panic!("not run") };
        assert!(reason.contains("waits for the outputs"), "{reason}");
    }
    let fake = honest();
    let lines = run(&suite, &options, &fake, &memory).await;
    assert_eq!(lines, ["x a 0 Passed select-best=1", "x b 0 Failed select-best=0"]);
    let models: Vec<String> =
        fake.prompts.lock().unwrap().iter().map(|it| it.model.clone()).collect();
    assert_eq!(models, ["judge-name", "judge-name"]);
    // Complete results are not judged again.
    let fake = honest();
    let lines = run(&suite, &options, &fake, &memory).await;
    assert_eq!(lines, ["x a 0 Passed select-best=1", "x b 0 Failed select-best=0"]);
    assert_eq!(fake.asked(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn evidence_is_kept_before_it_is_compared() {
    let suite = compared(&["x"], &best("both"));
    let memory = Memory::default();
    run(&suite, &RunOptions::default(), &honest(), &memory).await;
    assert_eq!(memory.entries.load(Ordering::SeqCst), 4, "each execution, then each verdict");
}

/// A set that contains a comparison is evaluated with the comparison. Other sets are evaluated before.
#[tokio::test(start_paused = true)]
async fn a_comparison_in_a_set_is_made_beside_other_sets() {
    let set = |inner: serde_json::Value| entry(&json!({"type": "assert-set", "assert": [inner]}));
    let first = set(json!({"type": "contains", "value": "o"}));
    let second =
        set(json!({"type": "select-best", "value": "Is long", "model": "judge", "orders": "both"}));
    let suite = compared(&["x"], &[first, second].concat());
    let lines = run(&suite, &RunOptions::default(), &honest(), &()).await;
    assert_eq!(
        lines,
        ["x a 0 Passed assert-set=1 assert-set=1", "x b 0 Failed assert-set=1 assert-set=0"]
    );
}

#[tokio::test(start_paused = true)]
async fn decided_comparisons_survive_a_second_stop() {
    let suite = compared(&["x"], &best("both"));
    let (options, memory) =
        (RunOptions { concurrency: Some(1), ..RunOptions::default() }, Memory::default());
    run(&suite, &options, &honest(), &memory).await;
    // The process ended after only one of the verdicts was stored.
    let settled = {
        let mut kept = memory.kept.lock().unwrap();
        kept.remove(&("x".to_owned(), "b".to_owned(), 0)).unwrap();
        kept.values().next().unwrap().clone()
    };
    let control = Control::default();
    let stopping = control.clone();
    let fake = Fake::new(move |_, _| {
        stopping.stop("not sent: the run was interrupted");
        Ok(reply("short"))
    });
    let planned = plan(&suite, &options).unwrap();
    let stopped = Run {
        record: &memory,
        control: Some(&control),
        ..Run::new(&suite, &planned, &options, &fake)
    };
    let executed = execute(stopped).await;
    assert_eq!(executed.cases[0].executions[0], settled);
    assert!(executed.cases[1].executions[0].is_unjudged());
    let kept = memory.kept.lock().unwrap();
    assert_eq!(kept[&("x".to_owned(), "a".to_owned(), 0)], settled);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_member_stops_the_run_and_spoils_nothing() {
    let suite = compared(&["x"], &best("both"));
    let (options, mut memory) = (RunOptions::default(), Memory::default());
    run(&suite, &options, &honest(), &memory).await;
    let before = memory.kept.lock().unwrap().clone();
    memory.unreadable = Some("b");
    let planned = plan(&suite, &options).unwrap();
    let fake = honest();
    let again = Run { record: &memory, ..Run::new(&suite, &planned, &options, &fake) };
    let executed = execute(again).await;
    assert_eq!(executed.failure, Some(RecordError("cannot read `x` on `b`".to_owned())));
    assert_eq!(shown(&executed.cases), ["x a 0 Passed select-best=1", "x b 0 Errored"]);
    let error = &executed.cases[1].executions[0].error;
    assert!(matches!(error, Some(ExecutionError::Internal { .. })), "{error:?}");
    assert_eq!(*memory.kept.lock().unwrap(), before);
}

#[test]
fn a_group_that_is_called_as_a_test_is_another_one() {
    let mut suite = compared(&["x", "y", "group"], &[]);
    suite.cases[2].compared = Some(Comparison::Case("group".into()));
    let mut options = RunOptions::default();
    let mut failed = Targets::default();
    failed.insert("y", "b");
    options.filter.only = Some(failed);
    let again = plan(&suite, &options).unwrap();
    let names = again.units.iter().map(|it| suite.cases[it.case].name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["x", "x", "y", "y"]);
}

#[test]
fn compared_cases_share_a_shard_and_rerun_together() {
    let mut suite = compared(&["x", "y"], &[]);
    suite.cases.insert(1, TestCase::prompt("alone", "alone", &["a"]));
    let options = RunOptions::default();
    let whole = plan(&suite, &options).unwrap();
    let names = |part: &Plan| {
        let mut names: Vec<&str> =
            part.units.iter().map(|it| suite.cases[it.case].name.as_str()).collect();
        names.dedup();
        names.join(" ")
    };
    let parts =
        [1, 2].map(|index| names(&shard(&suite, &whole, &options, Shard::new(index, 2), None)));
    assert_eq!(parts, ["x y", "alone"]);
    let mut failed = Targets::default();
    failed.insert("y", "b");
    let mut options = RunOptions::default();
    options.filter.only = Some(failed);
    let again = plan(&suite, &options).unwrap();
    assert_eq!((names(&again).as_str(), again.units.len()), ("x y", 4));
}

/// A body that cannot be created again.
#[derive(Debug)]
struct Broken;

impl BodySource for Broken {
    fn body(&self) -> Result<Cow<'_, CaseBody>, BodyError> {
        Err(BodyError("a file is missing".to_owned()))
    }
}

#[tokio::test(start_paused = true)]
async fn body_error_keeps_stored_evidence() {
    let mut suite = compared(&["x"], &best("both"));
    let memory = Memory::default();
    run(&suite, &RunOptions::default(), &honest(), &memory).await;
    for it in memory.kept.lock().unwrap().values_mut() {
        it.error = Some(ExecutionError::NotRun { reason: "stopped".to_owned() });
    }
    suite.cases[0].body = Arc::new(Broken);
    run(&suite, &RunOptions::default(), &honest(), &memory).await;
    for it in memory.kept.lock().unwrap().values() {
        assert!(matches!(it.error, Some(ExecutionError::Internal { .. })), "{it:?}");
        assert!(["a long answer", "short"].contains(&&*it.execution.output), "{it:?}");
    }
}
