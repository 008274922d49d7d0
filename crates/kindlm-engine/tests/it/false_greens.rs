//! Cases that other tools wrongly pass. Each test is named after the correct behaviour.

use kindlm_assertions::{Check, Evidence, Setup, compile};
use kindlm_engine::{Judgement, Judges, SimulatedTool, Suite, judge, run};
use kindlm_types::script::{ScriptAnswer, ScriptOutcome};
use kindlm_types::{
    ActionStatus, Answer, Answers, AssertionResult, Channel, CommandEnd, Completeness, Coverage,
    Event, Execution, FinishReason, NoFiles, Outcome, ProviderErrorKind, Question, Reply, Severity,
    Spend, ToolCall, ToolSpec, Usage,
};
use serde_json::{Value, json};

use crate::support::{Fake, edit, failure, model, reply, says, suite};

/// Compiles the checks of an `expect.assert` list.
fn checks(list: &Value) -> Vec<Check> {
    let (checks, problems) = compile(&json!({ "assert": list }), &Setup::new(&NoFiles, None));
    assert!(problems.is_empty(), "{problems:?}");
    checks
}

/// Returns the only result of an entry; `script` answers its scripts.
fn result(
    entry: &Value,
    execution: &Execution,
    script: &dyn Fn() -> ScriptOutcome,
) -> AssertionResult {
    let checks = checks(&json!([entry]));
    let mut answers = Answers::default();
    let asked = checks[0].questions(&Evidence {
        execution,
        answers: &answers,
        baseline: None,
        comparison: None,
    });
    for question in asked {
        assert!(matches!(question, Question::Script(_)), "{entry}");
        let answer = ScriptAnswer::new(script());
        answers.insert(&question, Ok(Answer::Script(answer)));
    }
    let evidence = Evidence { execution, answers: &answers, baseline: None, comparison: None };
    let mut results = checks[0].evaluate(&evidence);
    assert_eq!(results.len(), 1, "{entry}");
    results.remove(0)
}

fn status(entry: &Value, execution: &Execution) -> &'static str {
    let script = || -> ScriptOutcome { unreachable!("no script is asked") };
    result(entry, execution, &script).verdict.status()
}

fn output_text(output: &str) -> Execution {
    Execution { output: output.to_owned(), requests: 1, ..Execution::default() }
}

fn called(name: &str, input: Value) -> Execution {
    let call = ToolCall { name: name.to_owned(), arguments: input, ..ToolCall::default() };
    Execution { tool_calls: vec![call], ..output_text("Done.") }
}

async fn judged(list: &Value, execution: &Execution, fake: &Fake) -> Judgement {
    let models = [model("a")];
    judge(&checks(list), execution, None, &Judges::new(fake, &models, None)).await
}

#[test]
fn a_similarity_that_must_hold_keeps_its_threshold() {
    let entry = json!({"type": "similarity", "value": "abcdefghijklmn", "severity": "gate"});
    let execution = output_text("abcxxxxxxxxxxx");
    let result = result(&entry, &execution, &|| unreachable!());
    assert_eq!(result.verdict.status(), "failed");
    assert_eq!(result.severity, Severity::Gate);
    assert!((result.score.unwrap().get() - 3.0 / 14.0).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_cannot_be_asked_leaves_its_check_errored() {
    let list = json!([{"type": "llm-rubric", "value": "is polite", "threshold": 0.9}]);
    let fake = Fake::new(|_, _| Err(failure(ProviderErrorKind::Auth)));
    let judged = judged(&list, &output_text("Hi."), &fake).await;
    assert_eq!((judged.outcome, judged.results.len()), (Outcome::Errored, 1));
    // The result also exists without any judge.
    let fake = Fake::saying("never asked");
    let judged =
        judge(&checks(&list), &output_text("Hi."), None, &Judges::new(&fake, &[], None)).await;
    assert_eq!((judged.outcome, judged.results.len()), (Outcome::Errored, 1));
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_judge_is_kept() {
    let fake = Fake::saying(r#"{"reason": "it is curt", "pass": false, "score": 0.2}"#);
    let list = json!([{"type": "llm-rubric", "value": "is polite"}]);
    let judged = judged(&list, &output_text("No."), &fake).await;
    assert_eq!(judged.results[0].reasoning.as_deref(), Some("it is curt"));
}

#[test]
fn an_unknown_cost_is_not_a_low_one() {
    let entry = json!({"type": "max-cost", "value": 0.000_000_1});
    assert_eq!(status(&entry, &output_text("Hi.")), "errored");
    let not = json!({"type": "not-max-cost", "value": 1});
    assert_eq!(status(&not, &output_text("Hi.")), "errored");
    let free = Execution {
        spend: Spend { cost_usd: Some(0.0), ..output_text("Hi.").spend },
        ..output_text("Hi.")
    };
    assert_eq!(status(&entry, &free), "passed");
}

#[test]
fn uncounted_tokens_are_not_few() {
    let entry = json!({"type": "max-tokens", "value": 10});
    assert_eq!(status(&entry, &output_text("Hi.")), "errored");
    let usage = Usage { input_tokens: 4, output_tokens: 5, total_tokens: 90, ..Usage::default() };
    assert_eq!(status(&entry, &Execution { usage, ..output_text("Hi.") }), "passed");
}

#[test]
fn a_pattern_that_nothing_matches_finds_no_call() {
    let execution = called("weather", json!({"city": "Brooklyn"}));
    for input in [json!({"$regex": "NOPE"}), json!({"city": {"$regex": "NOPE"}})] {
        let entry = json!({"type": "called-tool", "value": "weather", "input": input});
        assert_eq!(status(&entry, &execution), "failed", "{entry}");
    }
}

#[test]
fn scripts_that_return_false_find_no_call() {
    let entry = json!({"type": "called-tool", "value": "weather", "input": {"$script": "false"}});
    let execution = called("weather", json!({"city": "Brooklyn"}));
    let no = || ScriptOutcome::Returned(json!(false).into());
    assert_eq!(result(&entry, &execution, &no).verdict.status(), "failed");
}

#[test]
fn a_pattern_sees_its_own_key_and_no_sibling() {
    let execution = called("weather", json!({"city": "Brooklyn", "unit": "c"}));
    let entry = json!({
        "type": "called-tool",
        "value": "weather",
        "input": {"city": {"$regex": "\"unit\":\"c\""}},
    });
    assert_eq!(status(&entry, &execution), "failed");
}

#[test]
fn a_list_is_not_matched_by_its_beginning() {
    let execution = called("buy", json!({"items": ["tea", "cups"]}));
    for (items, found) in [(json!(["tea"]), "failed"), (json!(["tea", "cups"]), "passed")] {
        let entry = json!({"type": "called-tool", "value": "buy", "input": {"items": items}});
        assert_eq!(status(&entry, &execution), found, "{entry}");
    }
}

#[test]
fn a_throwing_script_has_no_verdict() {
    let threw = || ScriptOutcome::Threw {
        message: Some("lost".to_owned()),
        stack: String::new(),
        thrown: "Error: lost".to_owned(),
    };
    for kind in ["satisfies", "not-satisfies", "events-satisfy", "not-events-satisfy"] {
        let result = result(&json!({"type": kind, "value": "x.y.z"}), &output_text("Hi."), &threw);
        assert_eq!(result.verdict.status(), "errored", "{kind}");
        assert_eq!(result.score, None, "{kind}: no score is not a score of 0");
    }
}

#[test]
fn a_script_without_a_result_has_not_failed() {
    for said_by in [json!(null), json!(0), json!("")] {
        let entry = json!({"type": "not-satisfies", "value": "value.find"});
        let says = || ScriptOutcome::Returned(said_by.clone().into());
        assert_eq!(
            result(&entry, &output_text("Hi."), &says).verdict.status(),
            "errored",
            "{said_by}"
        );
    }
}

#[test]
fn missing_events_prove_nothing() {
    let incomplete = Execution {
        completeness: Completeness {
            coverage: Coverage::Only([].into()),
            ..output_text("Done.").completeness
        },
        ..output_text("Done.")
    };
    for entry in [
        json!({"type": "not-called-tool", "value": "drop_table"}),
        json!({"type": "used-no-tools"}),
        json!({"type": "max-tool-calls", "value": 3}),
        json!({"type": "no-failed-actions"}),
        json!({"type": "not-event", "value": "error"}),
        json!({"type": "not-parked"}),
        json!({"type": "not-loaded-skill", "value": "deploy"}),
        json!({"type": "not-called-subagent", "value": "root"}),
        json!({"type": "not-tool-order", "value": ["a", "b"]}),
        json!({"type": "not-event-order", "value": ["thinking", "error"]}),
        json!({"type": "tool-trajectory", "value": []}),
        json!({"type": "not-tool-trajectory", "mode": "superset", "value": ["a"]}),
        json!({"type": "not-message-includes", "value": "sorry"}),
        json!({"type": "max-turns", "value": 9}),
        json!({"type": "not-events-satisfy", "value": "events.some(it => it.type === 'error')"}),
        json!({"type": "matches", "on": "toolCalls", "value": {"maxItems": 0}}),
        json!({"type": "excludes", "on": "messages", "value": "sorry"}),
    ] {
        assert_eq!(status(&entry, &incomplete), "errored", "{entry}");
    }
}

#[test]
fn a_call_without_a_result_is_not_completed() {
    let execution = called("pay", json!({}));
    for entry in [
        json!({"type": "called-tool", "value": "pay", "status": "completed"}),
        json!({"type": "not-called-tool", "value": "pay", "status": "failed"}),
        json!({"type": "no-failed-actions"}),
        json!({"type": "tool-order", "value": [{"tool": "pay", "status": "completed"}]}),
        json!({"type": "not-tool-order", "value": [{"tool": "pay", "status": "completed"}]}),
        json!({"type": "tool-trajectory", "value": [{"tool": "pay", "output": {"ok": true}}]}),
        json!({"type": "not-tool-trajectory", "value": [{"tool": "pay", "output": {"ok": true}}]}),
    ] {
        assert_eq!(status(&entry, &execution), "errored", "{entry}");
    }
    // A failure that is known still counts.
    let entry =
        json!({"type": "tool-trajectory", "value": [{"tool": "refund", "status": "completed"}]});
    assert_eq!(status(&entry, &execution), "failed");
}

#[test]
fn a_call_that_was_not_allowed_has_not_failed() {
    let id = "1".to_owned();
    let events = |status| {
        vec![
            Event::ActionCalled {
                call_id: id.clone(),
                name: "pay".to_owned(),
                tool: None,
                input: json!({}),
            },
            Event::ActionResult { call_id: id.clone(), output: None, status },
        ]
    };
    let entry = json!({"type": "no-failed-actions"});
    for (ended, found) in [(ActionStatus::Rejected, "passed"), (ActionStatus::Failed, "failed")] {
        let execution = Execution { recorded_events: events(ended), ..output_text("Done.") };
        assert_eq!(status(&entry, &execution), found);
    }
}

#[test]
fn nothing_at_all_is_no_success() {
    let nothing = Execution {
        completeness: Completeness {
            coverage: Coverage::Only([].into()),
            ..Completeness::default()
        },
        ..Execution::default()
    };
    assert_eq!(status(&json!({"type": "succeeded"}), &nothing), "errored");
    assert_eq!(status(&json!({"type": "includes", "value": "x"}), &nothing), "errored");
    assert_eq!(status(&json!({"type": "excludes", "value": "x"}), &nothing), "errored");
}

#[test]
fn a_value_that_is_not_there_excludes_nothing() {
    let execution = output_text(r#"{"order": 7}"#);
    for entry in [
        json!({"type": "excludes", "on": "json.note", "value": "sorry"}),
        json!({"type": "not-includes", "on": "json.note", "value": "sorry"}),
        json!({"type": "not-matches", "on": "json.note", "value": {"type": "string"}}),
        json!({"type": "not-equals", "on": "json.note", "value": "sorry"}),
        json!({"type": "not-satisfies", "on": "json.note", "value": "true"}),
    ] {
        assert_eq!(status(&entry, &execution), "failed", "{entry}");
    }
}

#[test]
fn a_turn_that_only_calls_tools_is_a_turn() {
    let call = |id: &str| Event::ActionCalled {
        call_id: id.to_owned(),
        name: "look".to_owned(),
        tool: None,
        input: json!({}),
    };
    let execution = Execution {
        requests: 3,
        recorded_events: vec![call("1"), call("2")],
        ..Execution::default()
    };
    assert_eq!(status(&json!({"type": "max-turns", "value": 2}), &execution), "failed");
}

#[tokio::test(start_paused = true)]
async fn a_failure_stays_visible_where_something_else_is_errored() {
    let list = json!([
        {"type": "includes", "value": "refund"},
        {"type": "max-cost", "value": 1},
    ]);
    let judged = judged(&list, &output_text("No."), &Fake::saying("never asked")).await;
    assert_eq!(judged.outcome, Outcome::Errored);
    let found: Vec<&str> = judged.results.iter().map(|it| it.verdict.status()).collect();
    assert_eq!(found, ["failed", "errored"]);
}

/// Builds a suite and a backend with a case that fails in every second repeat.
fn unsteady() -> (Suite, Fake) {
    let mut suite = suite(&["hi"]);
    suite.cases[0].repeat = 2;
    edit(&mut suite.cases[0], |it| it.checks = vec![says("hello")].into());
    let fake = Fake::new(|_, prompt| -> Result<Reply, _> {
        Ok(reply(if prompt.sample == 0 { "hello" } else { "bye" }))
    });
    (suite, fake)
}

#[tokio::test(start_paused = true)]
async fn one_repeat_that_passes_does_not_make_up_for_one_that_fails() {
    let (suite, fake) = unsteady();
    let report = run(&suite, &kindlm_engine::RunOptions::default(), &fake).await.unwrap();
    let case = &report.cases[0];
    assert_eq!((case.outcome, case.executions.len()), (Outcome::Failed, 2));
    assert!((case.pass_rate - 0.5).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn a_last_word_does_not_make_a_soft_check_of_a_gate() {
    // Severity and threshold are independent settings.
    let entry = json!({"type": "similarity", "value": "abc", "severity": "gate", "atLeast": 0.9});
    let found = result(&entry, &output_text("abd"), &|| unreachable!());
    assert_eq!((found.severity, found.verdict.status()), (Severity::Gate, "failed"));
}

/// Builds a reply of a program that wraps an agent, without complete evidence.
fn of_program(text: &str, tool_calls: Vec<ToolCall>) -> Reply {
    Reply { tool_calls, coverage: Coverage::Only([].into()), ..reply(text) }
}

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), ..ToolCall::default() }
}

async fn verdicts(suite: &Suite, fake: &Fake) -> (Execution, Vec<&'static str>) {
    let report = run(suite, &kindlm_engine::RunOptions::default(), fake).await.unwrap();
    let result = &report.cases[0].executions[0];
    let verdicts = result.results.iter().map(|it| it.verdict.status()).collect();
    (result.execution.clone(), verdicts)
}

#[tokio::test(start_paused = true)]
async fn a_program_around_an_agent_vouches_for_no_call() {
    let mut suite = suite(&["hi"]);
    let list = json!([
        {"type": "used-no-tools"}, {"type": "not-called-tool", "value": "pay"},
        {"type": "max-tool-calls", "value": 3}, {"type": "no-failed-actions"},
        {"type": "not-called-subagent", "value": "x"}, {"type": "not-event", "value": "error"},
    ]);
    edit(&mut suite.cases[0], |it| it.checks = checks(&list).into());
    let fake = Fake::new(|_, _| Ok(of_program("I deleted the account.", Vec::new())));
    let (execution, found) = verdicts(&suite, &fake).await;
    assert_eq!(found, ["errored"; 6]);
    assert!(execution.only_declared().is_empty());
    // The suite may declare evidence complete, for the provider and for the test.
    suite.models[0].declared = [Channel::Actions].into();
    edit(&mut suite.cases[0], |it| it.declared = [Channel::Errors].into());
    let (execution, found) = verdicts(&suite, &fake).await;
    assert_eq!(found, ["passed", "passed", "passed", "passed", "errored", "passed"]);
    assert_eq!(execution.only_declared(), [Channel::Actions, Channel::Errors].into());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_made_already_is_not_answered_again() {
    let mut suite = suite(&["hi"]);
    let tool = ToolSpec { name: "ours".to_owned(), ..ToolSpec::default() };
    edit(&mut suite.cases[0], |it| {
        it.tools = [SimulatedTool { spec: tool, ..SimulatedTool::default() }].into();
        it.checks = checks(&json!([{"type": "called-tool", "value": "theirs", "count": 1}])).into();
    });
    for (open, requests) in [(None, 1), (Some("theirs"), 1), (Some("ours"), 2)] {
        let fake = Fake::new(move |_, prompt| {
            let done = ToolCall { response: Some(json!("ok")), ..call("1", "theirs") };
            if prompt.messages.iter().any(|it| it.tool_call_id.is_some()) {
                return Ok(of_program("Done.", Vec::new()));
            }
            let more = open.map(|it| call("2", it));
            Ok(of_program("", std::iter::once(done).chain(more).collect()))
        });
        let (execution, _) = verdicts(&suite, &fake).await;
        assert_eq!(execution.requests, requests, "{open:?}");
        let events = execution.events();
        let results = events.iter().filter_map(|it| match it {
            Event::ActionResult { call_id, output, .. } => Some((call_id.as_str(), output.clone())),
            _ => None,
        });
        let first = results.collect::<Vec<_>>().first().cloned();
        assert_eq!(first, Some(("1", Some(json!("ok")))), "{open:?}");
    }
}

#[test]
fn a_program_that_did_nothing_has_no_output_to_pass_with() {
    for exit_code in [0, 3] {
        let silent = Execution {
            command: Some(CommandEnd { exit_code: Some(exit_code), ..CommandEnd::default() }),
            requests: 1,
            ..Execution::default()
        };
        for entry in [
            json!({"type": "not-includes", "value": "x"}),
            json!({"type": "excludes", "value": "x"}),
            json!({"type": "not-contains", "value": "x"}),
            json!({"type": "keywords", "deny": ["x"]}),
            json!({"type": "pii"}),
        ] {
            let answers = Answers::default();
            let evidence = Evidence {
                execution: &silent,
                answers: &answers,
                baseline: None,
                comparison: None,
            };
            let results = checks(&json!([entry]))[0].evaluate(&evidence);
            let is_errored = |it: &AssertionResult| it.verdict.status() == "errored";
            assert!(results.iter().all(is_errored) && !results.is_empty(), "{results:?}");
        }
    }
    let silent = Execution {
        command: Some(CommandEnd { exit_code: Some(0), ..CommandEnd::default() }),
        requests: 1,
        ..Execution::default()
    };
    let succeeded = json!({"type": "succeeded"});
    assert_eq!(status(&succeeded, &silent), "errored");
    assert_eq!(status(&json!({"type": "not-succeeded"}), &silent), "errored");
    let asked = Event::Message { role: kindlm_types::Speaker::User, text: "hi".to_owned() };
    let agent = Execution { recorded_events: vec![asked], ..silent.clone() };
    assert_eq!(status(&succeeded, &agent), "errored");
    let loud = Execution {
        command: Some(CommandEnd {
            stderr: "compiled 3 files".to_owned(),
            ..silent.command.unwrap()
        }),
        ..silent
    };
    assert_eq!(status(&succeeded, &loud), "passed");
    let code = json!({"type": "equals", "on": "exitCode", "value": 0});
    assert_eq!(status(&code, &agent), "passed");
}

#[test]
fn cached_tokens_that_were_not_reported_are_not_zero() {
    let entry = json!({"type": "equals", "on": "usage.cachedInputTokens", "value": 0});
    for (cached, expected) in [(None, "errored"), (Some(0), "passed"), (Some(3), "failed")] {
        let usage = Usage::counted(Some(5), Some(2), None, cached);
        assert_eq!(
            status(&entry, &Execution { usage, ..output_text("Hi.") }),
            expected,
            "{cached:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_calls_stop_without_calls_used_tools() {
    let mut suite = suite(&["hi"]);
    let list = json!([{"type": "used-no-tools"}, {"type": "not-called-tool", "value": "pay"}]);
    edit(&mut suite.cases[0], |it| it.checks = checks(&list).into());
    let fake = Fake::new(|_, _| -> Result<Reply, _> {
        Ok(Reply { finish_reason: FinishReason::ToolCalls, ..reply("Done.") })
    });
    let report = run(&suite, &kindlm_engine::RunOptions::default(), &fake).await.unwrap();
    let results = &report.cases[0].executions[0].results;
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|it| it.verdict.status() == "errored"), "{results:?}");
}
