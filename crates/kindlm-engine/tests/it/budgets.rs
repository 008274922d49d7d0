//! Runs with a budget.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use kindlm_assertions::{Setup, compile};
use kindlm_engine::{
    CaseBody, Executed, Model, Record, RecordError, Run, RunOptions, SimulatedTool, Subject, Suite,
    TRANSCRIPT, TestCase, execute, gates, plan, run,
};
use kindlm_types::{
    CommandOutput, Event, Execution, ExecutionError, ExecutionResult, ExitStatus, FailureCode,
    NoFiles, Outcome, Params, Prompt, ProviderErrorKind, Report, ShardInfo, Spend, ToolCall,
    ToolSpec, Transcript,
};
use serde_json::json;

use crate::support::{Fake, asks, close, edit, failure, model, reply, says, suite};

/// Builds a suite in which a request costs $15e-6.
///
/// A request reserves $1e-6 for each byte of the prompt and $5e-6 for the answer.
fn limited(cases: &[&str]) -> Suite {
    let params = Params { max_tokens: Some(5), ..Params::default() };
    let limited = |id| Model { params: params.clone(), ..model(id) };
    Suite { models: vec![limited("a"), limited("b")], ..suite(cases) }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

/// Returns the maximum cost of a prompt whose case has a name of one letter.
fn most() -> f64 {
    let fake = Fake::saying("ok");
    executed(&limited(&["x"]), &at_once(1), &fake);
    let prompts = fake.prompts.lock().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a short prompt")]
    let bytes = serde_json::to_vec::<Prompt>(&prompts[0]).unwrap().len() as f64;
    (bytes + 5.0) * 1e-6
}

fn at_once(concurrency: usize) -> RunOptions {
    RunOptions { concurrency: Some(concurrency), ..RunOptions::default() }
}

fn executed(suite: &Suite, options: &RunOptions, fake: &Fake) -> Report {
    block_on(run(suite, options, fake)).unwrap()
}

fn with_budget(usd: f64, concurrency: usize) -> RunOptions {
    RunOptions { budget_usd: Some(usd), ..at_once(concurrency) }
}

fn reason(report: &Report, case: usize) -> &str {
    match &report.cases[case].executions[0].error {
        Some(ExecutionError::NotRun { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_that_may_cost_more_than_is_left_is_not_sent() {
    let most = most();
    let suite = limited(&["x", "y", "z", "w"]);
    let fake = Fake::saying("ok");
    // After two answers, the rest of the budget is 15e-6 less than the maximum cost of the third request.
    let report = executed(&suite, &with_budget(most + 15e-6, 1), &fake);
    assert_eq!(fake.asked(), ["x", "y"]);
    for case in [2, 3] {
        assert_eq!(
            reason(&report, case),
            format!(
                "not sent: of the run's budget of ${:.6}, $0.000030 is spent, and the next request may cost up to ${most:.6}",
                most + 15e-6
            )
        );
    }
    assert!(close(report.totals().cost.known_usd, 30e-6));
    assert_eq!(report.exit_status(), ExitStatus::GatesFailed);
    // The gates of a shard do not count, but its missing executions do.
    let shard = Some(ShardInfo::default());
    assert_eq!(Report { shard, ..report }.exit_status(), ExitStatus::GatesFailed);
}

#[test]
fn the_lower_of_gate_and_option_is_the_budget() {
    let most = most();
    let mut suite = limited(&["x", "y"]);
    let block = serde_json::json!({ "costMaxUsd": most / 2.0 });
    suite.gates = gates::compile(block.as_object().unwrap()).0;
    let fake = Fake::saying("ok");
    let report = executed(&suite, &with_budget(1.0, 1), &fake);
    assert_eq!(fake.asked(), [""; 0]);
    // The cost gate holds because nothing was spent, but the run must not succeed.
    assert!(report.gates.iter().find(|it| it.gate == "costMaxUsd").unwrap().passed());
    assert_eq!(report.exit_status(), ExitStatus::GatesFailed);
}

#[test]
fn requests_over_the_budget_run_one_after_another() {
    let most = most();
    let suite = limited(&["q", "r", "s", "t", "u", "v"]);
    let fake = Fake::saying("ok");
    // The budget allows two concurrent requests; the actual cost of all six is 90e-6.
    let report = executed(&suite, &with_budget(2.0 * most + 60e-6, 6), &fake);
    assert_eq!(fake.asked().len(), 6);
    assert!(fake.most_in_flight.load(Ordering::SeqCst) <= 2 + 60 / 15);
    assert_eq!(report.totals().passed, 6);
    assert_eq!(report.exit_status(), ExitStatus::Success);

    let fake = Fake::saying("ok");
    let report = executed(&suite, &with_budget(1.5 * most, 6), &fake);
    assert_eq!(fake.most_in_flight.load(Ordering::SeqCst), 1);
    assert!(report.totals().cost.known_usd <= 1.5 * most);
}

#[test]
fn each_request_of_a_tool_loop_is_paid_for_apart() {
    let most = most();
    let mut suite = limited(&["x"]);
    let spec = ToolSpec { name: "f".to_owned(), ..ToolSpec::default() };
    let tool = SimulatedTool { spec, ..SimulatedTool::default() };
    edit(&mut suite.cases[0], |it| it.tools = vec![tool].into());
    let fake = Fake::new(|_, _| {
        let call = ToolCall { name: "f".to_owned(), ..ToolCall::default() };
        Ok(kindlm_types::Reply { tool_calls: vec![call], ..reply("") })
    });
    let report = executed(&suite, &with_budget(most * 2.5, 1), &fake);
    let it = &report.cases[0].executions[0];
    assert!(fake.asked().len() < 10, "the loop went on");
    assert_eq!(fake.asked().len(), it.execution.requests as usize);
    assert!(matches!(it.error, Some(ExecutionError::NotRun { .. })), "{:?}", it.error);
    assert!(report.totals().cost.known_usd > 0.0, "what was sent is paid for");
}

#[test]
fn judges_spend_the_budget_too() {
    let most = most();
    let mut suite = limited(&["x", "y"]);
    edit(&mut suite.cases[0], |it| it.checks = vec![asks("q"), says("1")].into());
    let fake = Fake::saying("1");
    let report = executed(&suite, &with_budget(most + 1e-6, 1), &fake);
    // The question to the judge is longer than the prompt, so the budget does not allow it.
    assert_eq!(fake.asked(), ["x"]);
    assert!(reason(&report, 0).starts_with("not sent: of the run's budget"));
    let it = &report.cases[0].executions[0];
    assert_eq!((it.results.len(), it.execution.output.as_str()), (2, "1"), "what is known is kept");
    assert_eq!(report.exit_status(), ExitStatus::GatesFailed);
}

#[test]
fn unjudged_executions_are_stored_and_judged_later() {
    let most = most();
    let mut suite = limited(&["x"]);
    edit(&mut suite.cases[0], |it| it.checks = vec![asks("q"), says("1")].into());
    let options = with_budget(most + 1e-6, 1);
    let record = Keeping::default();
    let fake = Fake::saying("1");
    let run = |options, fake| {
        let plan = plan(&suite, options).unwrap();
        block_on(execute(Run { record: &record, ..Run::new(&suite, &plan, options, fake) }))
    };
    let first = &run(&options, &fake).cases[0];
    let kept = record.0.lock().unwrap().clone();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].is_unjudged() && kept[0].execution.output == "1", "{kept:?}");
    assert_eq!(kept[0].results[0].verdict.code(), Some(&FailureCode::BUDGET_EXCEEDED));
    assert!(close(first.cost.known_usd, 15e-6), "what it cost is in the report");

    // With the same budget, no further request is sent, and the results stay unchanged.
    let fake = Fake::saying("1");
    let still = &run(&options, &fake).cases[0];
    assert_eq!((fake.asked().len(), still.executions[0].execution.output.as_str()), (0, "1"));

    // With a larger budget, only the judge is asked.
    let fake = Fake::saying("1");
    let done = &run(&with_budget(1.0, 1), &fake).cases[0];
    assert_eq!(fake.asked(), ["q 1"]);
    assert!(done.passed(), "{done:?}");
    assert!(close(done.cost.known_usd, 15e-6));
    assert!(close(done.executions[0].judge_cost_usd.unwrap(), 15e-6));
}

#[test]
fn a_failed_judgement_is_repeated_without_the_model() {
    let mut suite = limited(&["x"]);
    edit(&mut suite.cases[0], |it| it.checks = vec![asks("q")].into());
    let record = Keeping::default();
    let options = at_once(1);
    let run = |fake| {
        let plan = plan(&suite, &options).unwrap();
        block_on(execute(Run { record: &record, ..Run::new(&suite, &plan, &options, fake) }))
    };
    let asked_q =
        |prompt: &Prompt| prompt.messages.last().is_some_and(|it| it.content.starts_with("q "));
    let fake = Fake::new(move |_, prompt| {
        if asked_q(prompt) {
            Err(failure(ProviderErrorKind::Server))
        } else {
            Ok(reply("an answer"))
        }
    });
    assert_eq!(run(&fake).cases[0].outcome, Outcome::Errored);
    let fake = Fake::saying("1");
    assert!(run(&fake).cases[0].passed());
    assert_eq!(fake.asked(), ["q an answer"]);
}

#[test]
fn a_repeated_judgement_knows_the_tools_of_its_test() {
    let list = json!({"assert": [{"type": "is-valid-openai-tools-call"}]});
    let (mut checks, problems) = compile(&list, &Setup::new(&NoFiles, None));
    assert!(problems.is_empty(), "{problems:?}");
    checks.push(asks("q"));
    let mut suite = limited(&["x"]);
    let spec = ToolSpec { name: "f".to_owned(), ..ToolSpec::default() };
    let tool = SimulatedTool { spec, ..SimulatedTool::default() };
    edit(&mut suite.cases[0], |it| {
        it.tools = vec![tool].into();
        it.answers_tools = false;
        it.checks = checks.into();
    });
    let record = Keeping::default();
    let options = at_once(1);
    let run = |judge: &'static str| {
        let fake = Fake::new(move |_, prompt| {
            if prompt.messages.iter().any(|it| it.content.starts_with("q ")) {
                return match judge {
                    "" => Err(failure(ProviderErrorKind::Server)),
                    said => Ok(reply(said)),
                };
            }
            let call =
                ToolCall { name: "f".to_owned(), arguments: json!({}), ..ToolCall::default() };
            Ok(kindlm_types::Reply { tool_calls: vec![call], ..reply("") })
        });
        let plan = plan(&suite, &options).unwrap();
        block_on(execute(Run { record: &record, ..Run::new(&suite, &plan, &options, &fake) }))
    };
    assert_eq!(run("").cases[0].outcome, Outcome::Errored);
    let again = &run("1").cases[0];
    assert!(again.passed(), "{:?}", again.executions[0].results);
}

/// A record that stores all executions, and recalls the last execution.
#[derive(Default)]
struct Keeping(Mutex<Vec<ExecutionResult>>);

impl Record for Keeping {
    fn recall(
        &self,
        _: usize,
        _: &str,
        _: &str,
        _: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        Ok(self.0.lock().unwrap().last().cloned())
    }

    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        for (_, result) in finished {
            let mut kept = result.clone();
            kept.execution.tools.clear();
            kept.execution.written = None;
            self.0.lock().unwrap().push(kept);
        }
        Ok(())
    }
}

#[test]
fn unpriced_executions_are_counted_at_the_end() {
    let most = most();
    let mut suite = limited(&["x", "y"]);
    suite.models[0].price = None;
    let fake = Fake::saying("ok");
    let report = executed(&suite, &with_budget(1e-9, 1), &fake);
    assert_eq!((fake.asked().len(), report.exit_status()), (2, ExitStatus::Success));

    suite.cases[0].models = ["b".to_owned()].into();
    let fake = Fake::saying("ok");
    executed(&suite, &with_budget(most / 2.0, 1), &fake);
    assert_eq!(fake.asked(), [""; 0], "the first did not fit, and so nothing more is sent");
}

#[test]
fn reported_cost_counts_without_a_price() {
    let mut suite = limited(&["x", "y", "z"]);
    suite.models[0].price = None;
    let fake = Fake::new(|_, _| Ok(kindlm_types::Reply { cost_usd: Some(0.002), ..reply("ok") }));
    let report = executed(&suite, &with_budget(0.003, 1), &fake);
    assert_eq!(fake.asked().len(), 2, "the second answer has crossed it");
    let why = format!("{:?}", report.cases[2].executions[0].error);
    assert!(why.contains("the run's budget is exceeded: $0.004000 > $0.003000"), "{why}");
}

#[test]
fn commands_stop_once_they_have_spent_more_than_there_is() {
    let mut suite = limited(&[]);
    let mut case = TestCase::command("agent", "./agent");
    case.repeat = 3;
    suite.cases.push(case);
    let fake = || {
        let output = CommandOutput {
            events: vec![Event::Usage { usage: reply("").usage, cost_usd: Some(0.002) }],
            exit_code: Some(0),
            ..CommandOutput::default()
        };
        Fake::saying("").running(move |_| Ok(output.clone()))
    };
    let report = executed(&suite, &with_budget(0.003, 1), &fake());
    let cost = report.totals().cost.known_usd;
    assert!(close(cost, 0.004), "the second has crossed it, and the third was run: {cost}");
    let why = format!("{:?}", report.cases[0].executions[2].error);
    assert!(why.contains("the run's budget is exceeded: $0.004000 > $0.003000"), "{why}");
    assert_eq!(executed(&suite, &with_budget(0.007, 1), &fake()).totals().passed, 1);
}

#[test]
fn cost_outside_of_the_run_is_not_counted() {
    let mut suite = limited(&["y"]);
    let transcript = Subject::Transcript(Transcript::default().into());
    suite.cases.insert(0, TestCase::new("x", CaseBody::new(transcript)));
    let execution = Execution {
        case: "x".to_owned(),
        model: TRANSCRIPT.to_owned(),
        spend: Spend { cost_usd: Some(7.0), ..Spend::default() },
        ..Execution::default()
    };
    let mut first = executed(&limited(&["x"]), &at_once(1), &Fake::saying("ok"));
    let known = first.cases.remove(0).executions.remove(0);
    let known = Known(ExecutionResult { execution, ..known });
    let fake = Fake::saying("ok");
    let options = with_budget(1.0, 1);
    let plan = plan(&suite, &options).unwrap();
    let run = Run { record: &known, ..Run::new(&suite, &plan, &options, &fake) };
    block_on(execute(run));
    assert_eq!(fake.asked(), ["y"]);
}

#[test]
fn failures_that_may_be_charged_count() {
    let most = most();
    let suite = limited(&["x", "y"]);
    for (kind, asked) in [(ProviderErrorKind::Timeout, 1), (ProviderErrorKind::Server, 2)] {
        let fake = Fake::new(move |_, _| Err(failure(kind)));
        executed(&suite, &with_budget(1.5 * most, 1), &fake);
        assert_eq!(fake.asked().len(), asked, "{kind:?}");
    }
}

/// A record that has a stored execution of the case `x` only.
struct Known(ExecutionResult);

impl Record for Known {
    fn recall(
        &self,
        _: usize,
        case: &str,
        _: &str,
        _: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        Ok((case == "x").then(|| self.0.clone()))
    }

    fn keep(&self, _: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        Ok(())
    }
}

#[test]
fn earlier_cost_counts() {
    let most = most();
    let suite = limited(&["x", "y"]);
    let first = executed(&suite, &at_once(1), &Fake::saying("ok"));
    let known = Known(first.cases[0].executions[0].clone());
    let fake = Fake::saying("ok");
    let options = with_budget(most + 10e-6, 1);
    let plan = plan(&suite, &options).unwrap();
    let Executed { cases, .. } = block_on(execute(kindlm_engine::Run {
        record: &known,
        ..kindlm_engine::Run::new(&suite, &plan, &options, &fake)
    }));
    assert_eq!(fake.asked(), [""; 0]);
    assert!(cases[0].passed() && !cases[1].passed());
}
