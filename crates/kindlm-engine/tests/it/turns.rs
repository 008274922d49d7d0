//! Labelled turns: the requests, and the evidence for the checks of each turn.

use kindlm_engine::{
    Baseline, CaseBody, ConversationTurn, Run, RunOptions, Subject, Suite, TestCase, execute, plan,
    run,
};
use kindlm_types::{
    Channel, Coverage, Event, LongPromptPrice, Outcome, Price, ProviderErrorKind, Reply, Role,
    Speaker, ToolCall, Transcript, Turn, Usage,
};
use serde_json::json;

use crate::support::{Fake, asks, close, edit, failure, last_user, reply, says, sees, suite};

fn turn(label: &str, user: Option<&str>, text: Option<&'static str>) -> ConversationTurn {
    let checks = std::iter::once(sees()).chain(text.map(says)).collect();
    ConversationTurn::new(label, user.map(str::to_owned), checks)
}

fn conversation(turns: Vec<ConversationTurn>) -> Suite {
    let mut suite = suite(&["hi"]);
    edit(&mut suite.cases[0], |it| it.conversation = turns);
    suite
}

/// Builds an agent that calls the tool `look` on request, and then repeats the request.
fn agent() -> Fake {
    Fake::new(|_, prompt| {
        let asked = last_user(prompt);
        let answered = prompt.messages.last().is_some_and(|it| it.role == Role::Tool);
        if asked.starts_with("look") && !answered {
            let call = ToolCall { name: asked.replace(' ', "_"), ..ToolCall::default() };
            return Ok(Reply { tool_calls: vec![call], ..reply("looking") });
        }
        Ok(reply(&format!("did: {asked}")))
    })
}

/// Returns `turn | status | label` for every result.
async fn results(suite: &Suite, fake: &Fake) -> Vec<String> {
    let report = run(suite, &RunOptions::default(), fake).await.unwrap();
    let results = &report.cases[0].executions[0].results;
    results
        .iter()
        .map(|it| {
            let turn = it.turn.as_deref().unwrap_or("-");
            format!("{turn} | {} | {}", it.verdict.status(), it.label)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn every_user_message_is_sent_and_each_turn_has_evidence() {
    let mut suite = conversation(vec![
        turn("first", Some("look here"), Some("did: look here")),
        turn("second", Some("thanks"), Some("did: thanks")),
        turn("third", Some("look there"), None),
    ]);
    edit(&mut suite.cases[0], |it| it.checks = vec![sees()].into());
    let fake = agent();
    assert_eq!(
        results(&suite, &fake).await,
        [
            "first | passed | \"did: look here\" tools [\"look_here\"] tokens 30 in 20 ms for Some(3e-5) baseline None",
            "first | passed | Says did: look here",
            "second | passed | \"did: thanks\" tools [] tokens 15 in 10 ms for Some(1.5e-5) baseline None",
            "second | passed | Says did: thanks",
            "third | passed | \"did: look there\" tools [\"look_there\"] tokens 30 in 20 ms for Some(3e-5) baseline None",
            "- | passed | \"did: look there\" tools [\"look_here\", \"look_there\"] tokens 75 in 50 ms for \
             Some(7.500000000000001e-5) baseline None",
        ]
    );
    let prompts = fake.prompts.lock().unwrap();
    let said: Vec<String> = prompts
        .last()
        .unwrap()
        .messages
        .iter()
        .map(|it| format!("{:?}: {}", it.role, it.content))
        .collect();
    assert_eq!(
        said,
        [
            "User: look here",
            "Assistant: looking",
            "Tool: {\"error\":\"Tool \\\"look_here\\\" not simulated\"}",
            "Assistant: did: look here",
            "User: thanks",
            "Assistant: did: thanks",
            "User: look there",
            "Assistant: looking",
            "Tool: {\"error\":\"Tool \\\"look_there\\\" not simulated\"}",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn turns_without_a_message_are_rounds_of_the_one_before() {
    let suite = {
        let mut it = suite(&["look up"]);
        let turns = vec![turn("call", None, Some("looking")), turn("answer", None, Some("did"))];
        edit(&mut it.cases[0], |it| it.conversation = turns);
        it
    };
    assert_eq!(
        results(&suite, &agent()).await,
        [
            "call | passed | \"looking\" tools [\"look_up\"] tokens 15 in 10 ms for Some(1.5e-5) baseline None",
            "call | passed | Says looking",
            "answer | passed | \"did: look up\" tools [] tokens 15 in 10 ms for Some(1.5e-5) baseline None",
            "answer | passed | Says did",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_turn_of_a_message_has_its_remaining_rounds() {
    let mut suite = suite(&["look up"]);
    edit(&mut suite.cases[0], |it| it.conversation = vec![turn("all", None, None)]);
    assert_eq!(
        results(&suite, &agent()).await,
        [
            "all | passed | \"did: look up\" tools [\"look_up\"] tokens 30 in 20 ms for Some(3e-5) baseline None"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_long_prompt_price() {
    let mut suite = suite(&["look up"]);
    edit(&mut suite.cases[0], |it| it.conversation = vec![turn("all", None, None)]);
    // Each of the two requests has 10 input tokens.
    for (above, usd) in [(10, "3e-5"), (9, "0.00027")] {
        let long_prompt = LongPromptPrice {
            above,
            input: 9.0,
            output: 9.0,
            cached_input: None,
            cache_write: None,
        };
        suite.models[0].price =
            Some(Price { long_prompt: Some(long_prompt), ..Price::new(1.0, 1.0) });
        let expected = format!(
            "all | passed | \"did: look up\" tools [\"look_up\"] tokens 30 in 20 ms for Some({usd}) baseline None"
        );
        assert_eq!(results(&suite, &agent()).await, [expected]);
        let report = run(&suite, &RunOptions::default(), &agent()).await.unwrap();
        let cost = report.cases[0].executions[0].execution.spend.cost_usd;
        assert!(close(cost.unwrap(), usd.parse().unwrap()), "{above}: {cost:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_not_reached_is_errored() {
    // The model is done after one round, so `late` is not reached; the next message is sent anyway.
    let suite = conversation(vec![
        turn("first", Some("hello"), None),
        turn("late", None, Some("x")),
        turn("next", Some("bye"), Some("did: bye")),
    ]);
    let report = run(&suite, &RunOptions::default(), &agent()).await.unwrap();
    let it = &report.cases[0].executions[0];
    assert_eq!(it.outcome, Outcome::Errored);
    let late: Vec<_> = it.results.iter().filter(|it| it.turn.as_deref() == Some("late")).collect();
    assert_eq!(late.len(), 2);
    assert_eq!(
        late[0].verdict.message(),
        Some("turn `late` was not reached: the conversation ended after 2 labelled turns")
    );
    let next = it.results.iter().filter(|it| it.turn.as_deref() == Some("next"));
    assert!(next.clone().count() == 2 && next.clone().all(|it| it.verdict.held()));
}

#[tokio::test(start_paused = true)]
async fn max_turns_ends_the_whole_conversation() {
    let mut suite = conversation(vec![
        turn("first", Some("hello"), None),
        turn("second", Some("bye"), Some("did")),
    ]);
    edit(&mut suite.cases[0], |it| it.max_turns = 1);
    let fake = agent();
    let shown = results(&suite, &fake).await;
    assert_eq!(fake.asked(), ["hello"]);
    assert_eq!(shown[0], "- | failed | Conversation within maxTurns limit");
    assert_eq!(shown[2..], ["second | errored | sees", "second | errored | says"]);
}

#[tokio::test(start_paused = true)]
async fn turns_are_judged_and_compared_with_their_own_baseline() {
    let mut suite =
        conversation(vec![turn("first", Some("hello"), None), turn("second", Some("bye"), None)]);
    edit(&mut suite.cases[0], |it| it.checks = vec![sees()].into());
    edit(&mut suite.cases[0], |it| it.conversation[1].checks = [sees(), asks("rate")].into());
    let fake = Fake::new(|_, prompt| {
        let asked = last_user(prompt);
        Ok(reply(if asked == "rate done: bye" { "0.5" } else { "done: bye" }))
    });
    let options = RunOptions::default();
    let plan = plan(&suite, &options).unwrap();
    let mut baseline = Baseline::default();
    baseline.insert("hi", "a", "whole");
    baseline.insert_turn("hi", "a", "second", "part");
    let run = Run { baseline: Some(&baseline), ..Run::new(&suite, &plan, &options, &fake) };
    let cases = execute(run).await.cases;
    let results = &cases[0].executions[0].results;
    let baselines: Vec<bool> = ["None", "Some(\"part\")", "Some(\"whole\")"]
        .iter()
        .zip(results.iter().filter(|it| it.assertion == "sees"))
        .map(|(baseline, it)| it.label.ends_with(&format!("baseline {baseline}")))
        .collect();
    assert_eq!(baselines, [true, true, true]);
    let judge = results.iter().find(|it| it.assertion == "judge").unwrap();
    assert_eq!(judge.score.map(kindlm_types::Score::get), Some(0.5));
    assert_eq!(judge.turn.as_deref(), Some("second"));
    let remade = Baseline::from_cases(&cases);
    assert_eq!(remade.output("hi", "a"), Some("done: bye"));
    assert_eq!(remade.turn("hi", "a", "first"), Some("done: bye"));
    assert_eq!(remade.turn("hi", "b", "first"), None);
}

#[tokio::test(start_paused = true)]
async fn each_turn_has_the_events_of_its_own_and_the_whole_has_all() {
    let suite = conversation(vec![
        turn("first", Some("look here"), None),
        turn("second", Some("thanks"), None),
    ]);
    let report = run(&suite, &RunOptions::default(), &agent()).await.unwrap();
    let execution = &report.cases[0].executions[0].execution;
    let told: Vec<String> = execution
        .events()
        .iter()
        .map(|it| match it {
            Event::Message { role, text } => format!("{role:?}: {text}"),
            Event::ActionCalled { name, .. } => format!("calls {name}"),
            other => other.type_name().to_owned(),
        })
        .collect();
    assert_eq!(
        told,
        [
            "User: look here",
            "usage",
            "Assistant: looking",
            "calls look_here",
            "action.result",
            "usage",
            "Assistant: did: look here",
            "User: thanks",
            "usage",
            "Assistant: did: thanks",
        ]
    );
    let ranges: Vec<_> = execution.turns.iter().map(|it| it.events.clone()).collect();
    assert_eq!(ranges, [0..7, 7..10]);
}

#[tokio::test(start_paused = true)]
async fn tokens_of_all_answers_add_up() {
    let suite =
        conversation(vec![turn("first", Some("look"), None), turn("second", Some("bye"), None)]);
    let report = run(&suite, &RunOptions::default(), &agent()).await.unwrap();
    let execution = &report.cases[0].executions[0].execution;
    let of = |it: &Event| matches!(it, Event::Usage { .. });
    assert_eq!(execution.recorded_events.iter().filter(|it| of(it)).count(), 3);
    assert_eq!(Event::usage(&execution.recorded_events), (Some(execution.usage), None));
    assert_eq!(execution.completeness.coverage, Coverage::Complete);
}

#[tokio::test(start_paused = true)]
async fn uncounted_tokens_leave_the_sum_unknown() {
    let suite =
        conversation(vec![turn("first", Some("hello"), None), turn("second", Some("bye"), None)]);
    let fake = Fake::new(|_, prompt| {
        let all = reply("yes");
        let counted = last_user(prompt) == "hello";
        Ok(if counted { all } else { Reply { usage: Usage::default(), ..all } })
    });
    let report = run(&suite, &RunOptions::default(), &fake).await.unwrap();
    let execution = &report.cases[0].executions[0].execution;
    assert!(!execution.completeness.coverage.includes(Channel::Usage));
    let others = Channel::ALL.into_iter().filter(|it| *it != Channel::Usage);
    assert!(others.into_iter().all(|it| execution.completeness.coverage.includes(it)));
    assert_eq!(execution.usage, Usage { partial: true, ..reply("").usage });
    assert_eq!(execution.spend.cost_usd, None, "the price of one answer is not that of both");
    // If no answer is counted, there is no sum that could be mistaken for the whole.
    let fake = Fake::new(|_, _| Ok(Reply::text("yes")));
    let report = run(&suite, &RunOptions::default(), &fake).await.unwrap();
    let execution = &report.cases[0].executions[0].execution;
    assert_eq!(
        (execution.usage, &execution.completeness.coverage),
        (Usage::default(), &Coverage::Complete)
    );
}

#[tokio::test(start_paused = true)]
async fn uncounted_tokens_leave_their_turn_unknown() {
    let suite =
        conversation(vec![turn("first", Some("look"), None), turn("second", Some("bye"), None)]);
    let fake = Fake::new(|_, prompt| {
        let answered = prompt.messages.last().is_some_and(|it| it.role == Role::Tool);
        if last_user(prompt) == "look" && !answered {
            let call = ToolCall { name: "look".to_owned(), ..ToolCall::default() };
            return Ok(Reply { tool_calls: vec![call], ..Reply::text("looking") });
        }
        Ok(reply("done"))
    });
    let report = run(&suite, &RunOptions::default(), &fake).await.unwrap();
    let turns = &report.cases[0].executions[0].execution.turns;
    assert_eq!(turns[0].usage, Usage { partial: true, ..reply("").usage });
    assert_eq!(turns[1].usage, reply("").usage, "the second was counted");
}

#[tokio::test(start_paused = true)]
async fn reported_cost_is_known_without_tokens() {
    let suite =
        conversation(vec![turn("first", Some("hello"), None), turn("second", Some("bye"), None)]);
    let fake = Fake::new(|_, prompt| {
        let half = Usage::counted(Some(7), None, None, None);
        let tells = Reply { usage: half, cost_usd: Some(0.5), ..reply("yes") };
        Ok(if last_user(prompt) == "hello" { tells } else { reply("yes") })
    });
    let report = run(&suite, &RunOptions::default(), &fake).await.unwrap();
    let execution = &report.cases[0].executions[0].execution;
    assert!(!execution.usage.is_whole());
    assert!(
        close(execution.spend.cost_usd.unwrap(), 0.5 + 15e-6),
        "{:?}",
        execution.spend.cost_usd
    );
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_call_is_a_gap_of_its_turn() {
    let never_called = json!({ "assert": [{ "type": "not-called-tool", "value": "deploy" }] });
    let checks = || {
        let setup = kindlm_assertions::Setup::new(&kindlm_types::NoFiles, None);
        let (checks, problems) = kindlm_assertions::compile(&never_called, &setup);
        assert!(problems.is_empty(), "{problems:?}");
        checks.into()
    };
    let call = ToolCall { id: "1".to_owned(), name: "look".to_owned(), ..ToolCall::default() };
    // A later call may have the id of an earlier one.
    let answered = ToolCall { response: Some(json!("a tree")), ..call.clone() };
    let output_text =
        |text: &str| Event::Message { role: Speaker::Assistant, text: text.to_owned() };
    let mut events: Vec<Event> = Event::of_call(&call).collect();
    events.push(output_text("Looking."));
    events.extend(Event::of_call(&answered));
    events.extend([output_text("Fine."), output_text("Bye.")]);
    let text = "said".to_owned();
    let told =
        |events, tool_calls| Turn { text: text.clone(), events, tool_calls, ..Turn::default() };
    let transcript = Transcript {
        events,
        tool_calls: vec![call, answered],
        turns: vec![told(0..2, 0..1), told(2..5, 1..2), told(5..6, 2..2)],
        gaps: vec!["a call of `look` has no result".to_owned()],
        requests: 3,
        coverage: Coverage::Complete,
        ..Transcript::default()
    };
    let labels = ["first", "second", "third"];
    let turns = labels.map(|it| ConversationTurn::new(it, None, checks()));
    let mut suite = suite(&[]);
    let body = CaseBody {
        conversation: turns.into(),
        ..CaseBody::new(Subject::Transcript(transcript.into()))
    };
    suite.cases.push(TestCase::new("told", body));
    let found = results(&suite, &Fake::saying("never asked")).await;
    let found: Vec<&str> = found.iter().map(|it| it.rsplit_once(" | ").unwrap().0).collect();
    assert_eq!(found, ["first | errored", "second | passed", "third | errored"]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_after_earlier_turns_is_an_event() {
    let suite =
        conversation(vec![turn("first", Some("hello"), None), turn("second", Some("bye"), None)]);
    let fails = |at: &'static str| {
        Fake::new(move |_, prompt| {
            let breaks = last_user(prompt) == at;
            if breaks { Err(failure(ProviderErrorKind::Server)) } else { Ok(reply("yes")) }
        })
    };
    let report = run(&suite, &RunOptions::default(), &fails("bye")).await.unwrap();
    let it = &report.cases[0].executions[0];
    let types: Vec<&str> = it.execution.events().iter().map(Event::type_name).collect();
    assert_eq!(types, ["message", "usage", "message", "message", "error"]);
    let Some(Event::Error { message }) = it.execution.recorded_events.last() else { panic!() };
    assert_eq!(*message, it.error.as_ref().unwrap().message());
    // Without earlier events, the error of the execution is sufficient.
    let report = run(&suite, &RunOptions::default(), &fails("hello")).await.unwrap();
    let types: Vec<&str> = report.cases[0].executions[0]
        .execution
        .recorded_events
        .iter()
        .map(Event::type_name)
        .collect();
    assert_eq!(types, ["message"]);
}

#[tokio::test(start_paused = true)]
async fn a_single_exchange_needs_no_record() {
    let report = run(&suite(&["hi"]), &RunOptions::default(), &agent()).await.unwrap();
    let execution = &report.cases[0].executions[0].execution;
    assert!(execution.recorded_events.is_empty());
    assert_eq!(execution.completeness.coverage, Coverage::Complete);
    let types: Vec<&str> = execution.events().iter().map(Event::type_name).collect();
    assert_eq!(types, ["message", "usage", "message"]);
}

#[tokio::test(start_paused = true)]
async fn each_turn_has_the_structured_output_of_its_own() {
    let block = |value| json!({ "assert": [{ "type": "output-equals", "value": value }] });
    let checks = |value| {
        let setup = kindlm_assertions::Setup::new(&kindlm_types::NoFiles, None);
        kindlm_assertions::compile(&block(value), &setup).0
    };
    let turns = [("first", "hello", json!({"n": 1})), ("second", "bye", json!(null))];
    let turns = turns.into_iter().chain([("third", "again", json!({"n": 3}))]);
    let suite = conversation(
        turns
            .map(|(label, user, value)| {
                ConversationTurn::new(label, Some(user.to_owned()), checks(value).into())
            })
            .collect(),
    );
    let fake = Fake::new(|_, prompt| {
        let output_json = match last_user(prompt) {
            "hello" => Some(json!({"n": 1})),
            "again" => Some(json!({"n": 4})),
            _ => None,
        };
        Ok(Reply { output_json, ..reply("said") })
    });
    assert_eq!(
        results(&suite, &fake).await,
        [
            "first | passed | Output equals",
            "second | failed | Output equals",
            "third | failed | Output equals",
        ]
    );
}
