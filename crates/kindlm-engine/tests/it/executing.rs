//! Execution: order, limits, stops and errors.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kindlm_engine::{
    Control, Executed, Plan, Run, RunOptions, RunProgress, Suite, TestCase, execute, gates, plan,
    run,
};
use kindlm_types::{
    AttemptBudget, BoxFuture, CaseResult, CommandOutput, Embedding, ExecutionError, ExitStatus,
    Models, Outcome, Ports, Prompt, ProviderError, ProviderErrorKind, Reply, Severity, ToolCall,
};
use proptest::prelude::*;

use crate::support::{Fake, asks, edit, failure, last_user, reply, says, suite};

async fn executed(suite: &Suite, options: &RunOptions, fake: &Fake) -> Vec<CaseResult> {
    run(suite, options, fake).await.unwrap().cases
}

fn at_once(concurrency: usize) -> RunOptions {
    RunOptions { concurrency: Some(concurrency), ..RunOptions::default() }
}

fn names(cases: &[CaseResult]) -> Vec<(&str, &str)> {
    cases.iter().map(|it| (it.case.as_str(), it.model.as_str())).collect()
}

#[tokio::test(start_paused = true)]
async fn results_are_in_the_order_of_the_plan() {
    let mut suite = suite(&["300", "100", "200"]);
    for case in &mut suite.cases {
        case.models = ["a", "b"].map(str::to_owned).into();
        case.repeat = 3;
    }
    // The name of the case is its latency in milliseconds; later repeats are faster.
    let calls = std::sync::atomic::AtomicU32::new(0);
    let fake = Fake::new(move |_, prompt| {
        let latency_ms: f64 = last_user(prompt).parse().unwrap();
        let faster = f64::from(calls.fetch_add(1, Ordering::SeqCst));
        Ok(Reply { latency_ms: latency_ms - faster, ..reply("ok") })
    });
    let cases = executed(&suite, &at_once(32), &fake).await;
    let expected = ["300", "100", "200"].map(|case| [(case, "a"), (case, "b")]);
    assert_eq!(names(&cases), expected.concat());
    for case in &cases {
        let repeats: Vec<u32> = case.executions.iter().map(|it| it.execution.repeat).collect();
        assert_eq!(repeats, [0, 1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_repeat_asks_for_a_sample_of_its_own() {
    let mut suite = suite(&["again"]);
    suite.cases[0].repeat = 3;
    let fake = Fake::saying("ok");
    executed(&suite, &at_once(1), &fake).await;
    let samples: Vec<u32> = fake.prompts.lock().unwrap().iter().map(|it| it.sample).collect();
    assert_eq!(samples, [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn progress_events_arrive_in_order() {
    let suite = suite(&["slow", "fast"]);
    let fake = Fake::new(|_, prompt| {
        let latency_ms = if last_user(prompt) == "slow" { 500.0 } else { 5.0 };
        Ok(Reply { latency_ms, ..reply("ok") })
    });
    let heard = Mutex::new(Vec::new());
    let watch = |event: RunProgress<'_>| {
        heard.lock().unwrap().push(match event {
            RunProgress::RunStarted { total } => format!("{total} to do"),
            RunProgress::ExecutionStarted { case, model, repeat } => {
                format!("{case} {model} {repeat}")
            }
            RunProgress::ExecutionFinished(it) => format!("{} {}", it.execution.case, it.outcome),
            RunProgress::AnswersLost { attempts, .. } => format!("{attempts} answers lost"),
            RunProgress::CaseFinished(it) => format!("all of {} {}", it.case, it.outcome),
        });
    };
    let options = at_once(2);
    let plan = plan(&suite, &options).unwrap();
    execute(Run { watch: &watch, ..Run::new(&suite, &plan, &options, &fake) }).await;
    assert_eq!(
        *heard.lock().unwrap(),
        [
            "2 to do",
            "slow a 0",
            "fast a 0",
            "fast passed",
            "all of fast passed",
            "slow passed",
            "all of slow passed",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_spawned_on_any_runtime() {
    fn is_send<T: Send>(it: T) -> T {
        it
    }
    let (suite, fake, options) = (suite(&["x"]), Fake::saying("ok"), RunOptions::default());
    is_send(run(&suite, &options, &fake)).await.unwrap();
}

#[test]
fn runs_on_a_runtime_of_one_thread_or_many() {
    let (suite, fake, options) = (suite(&["x", "y"]), Fake::saying("ok"), at_once(2));
    let one = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    for runtime in [one, many] {
        let report = runtime.block_on(run(&suite, &options, &fake)).unwrap();
        assert_eq!(report.totals().passed, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_requests_in_flight_and_names_the_rest() {
    let suite = suite(&["x", "y", "z"]);
    let control = Control::default();
    let handler = control.clone();
    let fake = Fake::new(move |_, _| {
        handler.stop("interrupted");
        Ok(reply("ok"))
    });
    let options = at_once(1);
    let plan = plan(&suite, &options).unwrap();
    let run = Run { control: Some(&control), ..Run::new(&suite, &plan, &options, &fake) };
    let cases = execute(run).await.cases;
    assert_eq!(fake.asked(), ["x"]);
    assert_eq!(cases[0].outcome, Outcome::Passed);
    for case in &cases[1..] {
        assert_eq!(case.outcome, Outcome::Errored);
        let it = &case.executions[0];
        let reason = "interrupted".to_owned();
        assert_eq!(it.error, Some(ExecutionError::NotRun { reason }));
        assert_eq!(it.execution.spend.cost_usd, Some(0.0));
        assert!(case.failure_codes.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn fail_fast_sends_nothing_after_the_first_failed_case() {
    let mut suite = suite(&["good", "bad", "never"]);
    for case in &mut suite.cases {
        edit(case, |it| it.checks = vec![says("good")].into());
    }
    suite.cases[1].repeat = 2;
    let options = RunOptions { fail_fast: true, ..at_once(1) };
    let fake = Fake::new(|_, prompt| Ok(reply(last_user(prompt))));
    let cases = executed(&suite, &options, &fake).await;
    assert_eq!(fake.asked(), ["good", "bad", "bad"], "a case fails when all its repeats are in");
    let outcomes: Vec<Outcome> = cases.iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Outcome::Passed, Outcome::Failed, Outcome::Errored]);
    assert_eq!(
        cases[2].executions[0].error.as_ref().unwrap().message(),
        "not sent: the run stops at the first failure, which was `bad` on `a`"
    );
}

#[tokio::test(start_paused = true)]
async fn so_many_failures_stop_the_run() {
    let mut suite = suite(&["bad 1", "good", "bad 2", "bad 3", "never"]);
    for case in &mut suite.cases {
        edit(case, |it| it.checks = vec![says("good")].into());
    }
    for (most, sent) in [(1, 1), (2, 3), (3, 4), (4, 5)] {
        let options = RunOptions { max_failures: Some(most), ..at_once(1) };
        let fake = Fake::new(|_, prompt| Ok(reply(last_user(prompt))));
        let cases = executed(&suite, &options, &fake).await;
        assert_eq!(fake.asked().len(), sent, "at most {most}");
        if most == 2 {
            assert_eq!(
                cases[4].executions[0].error.as_ref().unwrap().message(),
                "not sent: the run stops after 2 failures, the last of which was `bad 2` on `a`"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_counted_before_new_requests_begin() {
    let names: Vec<String> = (0..300).map(|it| format!("bad {it}")).collect();
    let mut suite = suite(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for case in &mut suite.cases {
        edit(case, |it| it.checks = vec![says("good")].into());
    }
    // 100 answers arrive at once, more than are stored with one write. The failure that reaches the limit is in the
    // second write.
    let options = RunOptions { max_failures: Some(80), ..at_once(100) };
    let fake = Fake::new(|_, prompt| Ok(Reply { latency_ms: 50.0, ..reply(last_user(prompt)) }));
    executed(&suite, &options, &fake).await;
    assert_eq!(fake.asked().len(), 100);
}

/// A port that answers for model `a` only after all calls for `b` are done, as if `a` had a low rate limit.
struct Slow {
    left: tokio::sync::Semaphore,
    fast: u32,
}

impl Models for Slow {
    fn complete<'a>(
        &'a self,
        _provider: &'a str,
        prompt: &'a Prompt,
        _timeout: Duration,
        _budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            if prompt.model == "a-name" {
                let _all = self.left.acquire_many(self.fast).await.unwrap();
            } else {
                self.left.add_permits(1);
            }
            Ok(reply("ok"))
        })
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        _model: &'a str,
        _text: &'a str,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        Box::pin(std::future::ready(Err(crate::support::unsupported(provider))))
    }

    fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    fn limits_calls(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_model_does_not_delay_others() {
    let names: Vec<String> = (0..10).map(|it| format!("case {it}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut suite = suite(&names);
    suite.cases.iter_mut().for_each(|it| it.models = ["a", "b"].map(str::to_owned).into());
    let slow = Slow { left: tokio::sync::Semaphore::new(0), fast: 10 };
    let report = run(&suite, &at_once(2), Ports::new(&slow)).await.unwrap();
    assert_eq!(report.totals().passed, 20);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_check_is_that_executions_error_only() {
    let mut suite = suite(&["x", "y"]);
    edit(&mut suite.cases[0], |it| it.checks = vec![says("panic!")].into());
    let report = run(&suite, &RunOptions::default(), &Fake::saying("ok")).await.unwrap();
    let it = &report.cases[0].executions[0];
    assert_eq!(it.outcome, Outcome::Errored);
    let message = it.error.as_ref().unwrap().message();
    assert!(message.starts_with("a check panicked, which is a bug: "), "{message}");
    assert_eq!((it.execution.case.as_str(), it.execution.model.as_str()), ("x", "a"));
    // The evidence and its cost stay.
    let other = &report.cases[1].executions[0];
    assert_eq!((it.execution.output.as_str(), it.execution.requests), ("ok", 1));
    assert_eq!(it.execution.spend, other.execution.spend);
    assert_eq!(report.cases[1].outcome, Outcome::Passed);
    assert_eq!(report.exit_status(), ExitStatus::Internal);
}

#[tokio::test(start_paused = true)]
async fn a_provider_error_is_that_executions_error_only() {
    let suite = suite(&["x", "y"]);
    let fake = Fake::new(|_, prompt| match last_user(prompt) {
        "x" => Err(failure(ProviderErrorKind::Timeout)),
        _ => Ok(reply("ok")),
    });
    let report = run(&suite, &RunOptions::default(), &fake).await.unwrap();
    assert_eq!(report.cases[0].outcome, Outcome::Errored);
    assert_eq!(report.cases[0].failure_codes[0].as_str(), "PROVIDER_TIMEOUT");
    assert_eq!(report.cases[0].cost.usd(), Some(0.0));
    assert_eq!(report.cases[1].outcome, Outcome::Passed);
    assert_eq!(report.exit_status(), ExitStatus::ProviderError);
}

#[tokio::test(start_paused = true)]
async fn strict_makes_a_soft_failure_a_failure() {
    let mut suite = suite(&["x"]);
    let mut soft = says("never said");
    soft.options.severity = Severity::Soft;
    edit(&mut suite.cases[0], |it| it.checks = vec![soft].into());
    for (strict, outcome) in [(false, Outcome::Scored), (true, Outcome::Failed)] {
        let options = RunOptions { strict, ..RunOptions::default() };
        let cases = executed(&suite, &options, &Fake::saying("ok")).await;
        assert_eq!((cases[0].outcome, cases[0].executions[0].outcome), (outcome, outcome));
    }
}

#[tokio::test(start_paused = true)]
async fn the_gates_decide_and_not_a_single_failed_case() {
    let mut suite = suite(&["good", "bad"]);
    for case in &mut suite.cases {
        edit(case, |it| it.checks = vec![says("good")].into());
    }
    let fake = Fake::new(|_, prompt| Ok(reply(last_user(prompt))));
    for (pass_rate_min, status) in [(0.5, ExitStatus::Success), (0.6, ExitStatus::GatesFailed)] {
        let block = serde_json::json!({ "passRateMin": pass_rate_min });
        suite.gates = gates::compile(block.as_object().unwrap()).0;
        let report = run(&suite, &RunOptions::default(), &fake).await.unwrap();
        assert_eq!(report.exit_status(), status);
    }
}

#[tokio::test(start_paused = true)]
async fn a_case_may_ask_for_less_than_all_repeats() {
    let mut suite = suite(&["x"]);
    edit(&mut suite.cases[0], |it| it.checks = vec![says("good")].into());
    suite.cases[0].repeat = 3;
    for (pass_rate_min, outcome) in [(0.6, Outcome::Passed), (1.0, Outcome::Failed)] {
        suite.cases[0].pass_rate_min = pass_rate_min;
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let fake = Fake::new(move |_, _| {
            Ok(reply(if calls.fetch_add(1, Ordering::SeqCst) == 1 { "bad" } else { "good" }))
        });
        let cases = executed(&suite, &RunOptions::default(), &fake).await;
        assert_eq!(cases[0].outcome, outcome);
        assert_eq!(fake.asked().len(), 3, "every repeat is sent, though all say the same");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_is_run_once_for_each_repeat() {
    let mut suite = suite(&[]);
    let mut case = TestCase::command("agent", "./agent --fast");
    case.repeat = 2;
    case.models = ["a", "b"].map(str::to_owned).into();
    case.timeout = Some(Duration::from_secs(7));
    edit(&mut case, |it| it.checks = [says("hello")].into());
    suite.cases.push(case);
    let fake = Fake::saying("").running(|command| {
        assert_eq!(
            (command.command_line.as_str(), command.timeout.as_secs()),
            ("./agent --fast", 7)
        );
        Ok(CommandOutput {
            text: "hello".to_owned(),
            output_json: Some(serde_json::json!({ "a": 1 })),
            tool_calls: vec![ToolCall { name: "f".to_owned(), ..ToolCall::default() }],
            stderr: "warning".to_owned(),
            exit_code: Some(3),
            latency_ms: 40.0,
            ..CommandOutput::default()
        })
    });
    let cases = executed(&suite, &RunOptions::default(), &fake).await;
    assert_eq!(names(&cases), [("agent", "command")]);
    assert_eq!((cases[0].repeats, cases[0].outcome), (2, Outcome::Passed));
    let it = &cases[0].executions[1].execution;
    assert_eq!((it.repeat, it.exit_code(), it.stderr()), (1, Some(3), "warning"));
    assert_eq!(it.output_json, Some(serde_json::json!({ "a": 1 })));
    assert_eq!(it.tool_calls[0].name, "f");
    assert_eq!((it.spend.cost_usd, it.usage.total_tokens, it.latency_ms), (None, 0, Some(40.0)));
}

#[tokio::test]
async fn a_value_without_text_is_the_output_of_a_command() {
    let mut suite = suite(&[]);
    let mut case = TestCase::command("agent", "./agent");
    edit(&mut case, |it| it.checks = [says("error")].into());
    suite.cases.push(case);
    for (value, output) in [
        (serde_json::json!({"error": "no"}), r#"{"error":"no"}"#),
        (serde_json::json!("an error"), "an error"),
    ] {
        let output_json = Some(value);
        let fake = Fake::saying("").running(move |_| {
            let output_json = output_json.clone();
            Ok(CommandOutput { output_json, exit_code: Some(0), ..CommandOutput::default() })
        });
        let cases = executed(&suite, &RunOptions::default(), &fake).await;
        assert_eq!(cases[0].outcome, Outcome::Passed, "{output}");
        assert_eq!(cases[0].executions[0].execution.output, output);
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_hangs_is_given_up() {
    let mut suite = suite(&[]);
    suite.cases.push(TestCase::command("agent", "sleep infinity"));
    let fake = Fake::saying("")
        .running(|_| Ok(CommandOutput { latency_ms: 1e12, ..CommandOutput::default() }));
    let options = RunOptions { timeout: Some(Duration::from_secs(1)), ..RunOptions::default() };
    let cases = executed(&suite, &options, &fake).await;
    assert_eq!(
        cases[0].executions[0].error.as_ref().unwrap().message(),
        "command: no answer and no error within 31 s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_another_suite_is_an_error_and_no_panic() {
    let plan = plan(&suite(&["x", "y"]), &RunOptions::default()).unwrap();
    let (options, fake) = (RunOptions::default(), Fake::saying("ok"));
    let empty = Suite::default();
    let cases = execute(Run::new(&empty, &plan, &options, &fake)).await.cases;
    assert!(cases.iter().all(|it| it.outcome == Outcome::Errored));
    let nothing = execute(Run::new(&empty, &Plan::default(), &options, &fake)).await;
    assert_eq!(nothing, Executed::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn order_and_bound_hold_for_any_latencies(
        latencies in proptest::collection::vec(0..50_u32, 1..40),
        repeat in 1..3_u32,
        concurrency in 1..9_usize,
    ) {
        let names: Vec<String> =
            latencies.iter().enumerate().map(|(i, ms)| format!("{i} {ms}")).collect();
        let mut suite = suite(&names.iter().map(String::as_str).collect::<Vec<_>>());
        for case in &mut suite.cases {
            edit(case, |it| it.checks = vec![asks("how polite?")].into());
        }
        let fake = Fake::new(|_, prompt| {
            let asked = last_user(prompt);
            let (_, latency) = asked.rsplit_once(' ').unwrap();
            Ok(Reply { latency_ms: latency.parse().unwrap(), ..reply("1") })
        });
        let options = RunOptions { repeat: Some(repeat), ..at_once(concurrency) };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let cases = runtime.block_on(executed(&suite, &options, &fake));
        prop_assert!(cases.iter().map(|it| &it.case).eq(&names));
        prop_assert!(cases.iter().all(|it| it.repeats == repeat && it.outcome == Outcome::Passed));
        let most = fake.most_in_flight.load(Ordering::SeqCst);
        prop_assert!(most <= concurrency, "{most} in flight");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_that_never_ran_or_crashed_is_errored_and_not_green() {
    for (exit_code, outcome, said) in [
        (Some(0), Outcome::Passed, ""),
        (Some(1), Outcome::Passed, ""),
        (Some(126), Outcome::Errored, "cannot be executed"),
        (Some(127), Outcome::Errored, "sh: agent: not found"),
        (None, Outcome::Errored, "a signal ended the command"),
    ] {
        let mut suite = suite(&[]);
        suite.cases.push(TestCase::command("agent", "agent"));
        let fake = Fake::saying("").running(move |_| {
            let stderr = "sh: agent: not found".to_owned();
            Ok(CommandOutput { exit_code, stderr, ..CommandOutput::default() })
        });
        let cases = executed(&suite, &RunOptions::default(), &fake).await;
        let it = &cases[0].executions[0];
        let message = it.error.as_ref().map(kindlm_types::ExecutionError::message);
        assert_eq!(cases[0].outcome, outcome, "{exit_code:?}");
        assert!(message.unwrap_or_default().contains(said), "{exit_code:?}");
        assert_eq!(it.failed_by_provider(), outcome == Outcome::Errored);
    }
}
