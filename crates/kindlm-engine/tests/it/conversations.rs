//! The conversation loop: the test vectors of the original KindLM, and features that the original KindLM lacks.

use kindlm_engine::{RunOptions, SimulatedAnswer, SimulatedResponse, SimulatedTool, Suite, run};
use kindlm_types::{
    ActionState, ActionStatus, CaseResult, Event, Execution, Facts, Message, Outcome,
    ProviderErrorKind, Role, ToolCall, ToolSpec,
};
use serde_json::{Value, json};

use crate::support::{Fake, close, edit, failure, reply, says, suite, vectors};

/// Runs the only case of the suite once. The model gives these replies in order, and repeats the last reply.
async fn converse(suite: &Suite, script: Vec<kindlm_types::Reply>) -> (CaseResult, Fake) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let fake = Fake::new(move |_, _| {
        let index = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(script[index.min(script.len() - 1)].clone())
    });
    let mut report = run(suite, &RunOptions::default(), &fake).await.unwrap();
    (report.cases.remove(0), fake)
}

#[tokio::test(start_paused = true)]
async fn agrees_with_the_original() {
    let vectors = vectors("kindlm-core/conversation.jsonl");
    for vector in &vectors {
        let id = vector["id"].as_str().unwrap();
        let (input, expect) = (&vector["input"], &vector["expect"]);
        let mut suite = suite(&["hi"]);
        edit(&mut suite.cases[0], |it| it.tools = list(&input["tools"]).iter().map(tool).collect());
        let (case, fake) =
            converse(&suite, list(&input["script"]).iter().map(turn).collect()).await;
        let execution = &case.executions[0].execution;
        // The original KindLM appends a note to the model's text.
        let said = expect["finalText"].as_str().unwrap();
        let said = said.split("\n[Note: Conversation truncated").next().unwrap();
        assert_eq!(execution.output, said, "{id}");
        assert_eq!(execution.requests, u32::try_from(expect["turns"].as_u64().unwrap()).unwrap());
        assert_eq!(execution.completeness.truncated, expect["truncated"], "{id}");
        assert!(close(execution.latency_ms.unwrap(), expect["totalLatencyMs"].as_f64().unwrap()));
        let usage = json!({
            "inputTokens": execution.usage.input_tokens,
            "outputTokens": execution.usage.output_tokens,
            "totalTokens": execution.usage.total_tokens,
        });
        assert_eq!(usage, expect["totalUsage"], "{id}");
        assert_eq!(calls(execution), expect["allToolCalls"], "{id}");
        let prompts = fake.prompts.lock().unwrap();
        let lengths: Vec<usize> = prompts.iter().map(|it| it.messages.len()).collect();
        assert_eq!(json!(lengths), expect["messagesPerRequest"], "{id}");
        let last = &prompts.last().unwrap().messages;
        let answers: Vec<Value> =
            last.iter().filter(|it| it.role == Role::Tool).map(tool_message).collect();
        assert_eq!(json!(answers), expect["toolMessages"], "{id}");
        if let Some(messages) = expect.get("lastRequestMessages") {
            assert_eq!(json!(last.iter().map(message).collect::<Vec<_>>()), *messages, "{id}");
        }
    }
    assert_eq!(vectors.len(), 18);
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn tool(it: &Value) -> SimulatedTool {
    let responses = list(&it["responses"]).iter().map(|it| {
        SimulatedResponse::new(it["when"].as_object().unwrap().clone(), it["then"].clone())
    });
    SimulatedTool {
        spec: ToolSpec { name: it["name"].as_str().unwrap().to_owned(), ..ToolSpec::default() },
        responses: responses.collect(),
        default_response: it.get("defaultResponse").cloned(),
    }
}

fn turn(it: &Value) -> kindlm_types::Reply {
    let calls = list(&it["toolCalls"]).iter().enumerate().map(|(index, call)| ToolCall {
        id: call["id"].as_str().map_or(format!("call_{index}"), str::to_owned),
        name: call["name"].as_str().unwrap().to_owned(),
        arguments: call["arguments"].clone(),
        ..ToolCall::default()
    });
    kindlm_types::Reply {
        tool_calls: calls.collect(),
        ..reply(it["text"].as_str().unwrap_or_default())
    }
}

fn calls(execution: &Execution) -> Value {
    let show = |(index, call): (usize, &ToolCall)| json!({ "id": call.id, "name": call.name, "arguments": call.arguments, "index": index });
    execution.tool_calls.iter().enumerate().map(show).collect()
}

fn tool_message(it: &Message) -> Value {
    json!({ "toolCallId": it.tool_call_id, "toolName": it.tool_name, "content": it.content })
}

fn message(it: &Message) -> Value {
    let mut shown = json!({ "role": it.role, "content": it.content });
    if !it.tool_calls.is_empty() {
        shown["toolCalls"] = it
            .tool_calls
            .iter()
            // In the original KindLM, `index` is the position among the calls of a reply. Here each reply has one call.
            .map(
                |it| json!({ "id": it.id, "name": it.name, "arguments": it.arguments, "index": 0 }),
            )
            .collect();
    }
    if it.role == Role::Tool {
        shown["toolCallId"] = json!(it.tool_call_id);
        shown["toolName"] = json!(it.tool_name);
    }
    shown
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: "c".to_owned(), name: name.to_owned(), arguments, ..ToolCall::default() }
}

fn calling(calls: Vec<ToolCall>) -> kindlm_types::Reply {
    kindlm_types::Reply { tool_calls: calls, ..reply("") }
}

#[tokio::test(start_paused = true)]
async fn answers_stay_beside_their_calls() {
    let mut suite = suite(&["hi"]);
    edit(&mut suite.cases[0], |it| {
        it.tools = vec![tool(&json!({
            "name": "f",
            "responses": [{ "when": { "n": 1, "o": { "a": [1], "b": 2 } }, "then": "hit" }],
            "defaultResponse": "miss",
        }))]
        .into();
    });
    for (arguments, response) in [
        (json!({ "n": 1.0, "o": { "b": 2, "a": [1.0] } }), "hit"),
        (json!({ "n": 1, "o": { "a": [1], "b": 2, "c": 3 } }), "miss"),
        (json!({ "n": 1, "o": { "a": [1, 2], "b": 2 } }), "miss"),
        (json!(null), "miss"),
        (json!([1]), "miss"),
    ] {
        let script = vec![calling(vec![call("f", arguments.clone())]), reply("done")];
        let (case, _) = converse(&suite, script).await;
        let calls = &case.executions[0].execution.tool_calls;
        assert_eq!(calls[0].response, Some(json!(response)), "{arguments}");
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_arguments_are_kept_and_answered() {
    let mut suite = suite(&["hi"]);
    edit(&mut suite.cases[0], |it| {
        it.tools = vec![tool(&json!({ "name": "f", "defaultResponse": 1 }))].into();
    });
    let broken =
        ToolCall { malformed_arguments: Some("{\"a\":".to_owned()), ..call("f", Value::Null) };
    let script = vec![calling(vec![broken, call("f", json!({}))]), reply("done")];
    let (case, fake) = converse(&suite, script).await;
    assert_eq!(case.outcome, Outcome::Passed);
    let calls = &case.executions[0].execution.tool_calls;
    assert_eq!(calls[0].malformed_arguments.as_deref(), Some("{\"a\":"));
    let prompts = fake.prompts.lock().unwrap();
    let answers: Vec<&str> =
        prompts[1].messages[2..].iter().map(|it| it.content.as_str()).collect();
    assert_eq!(answers, ["{\"error\":\"Arguments are not valid JSON\"}", "1"]);
}

#[tokio::test(start_paused = true)]
async fn running_out_of_turns_is_a_failure_with_the_originals_words() {
    let mut suite = suite(&["hi"]);
    edit(&mut suite.cases[0], |it| it.max_turns = 2);
    edit(&mut suite.cases[0], |it| it.checks = vec![says("t")].into());
    let script =
        vec![kindlm_types::Reply { text: "t".to_owned(), ..calling(vec![call("f", json!({}))]) }];
    let (case, fake) = converse(&suite, script).await;
    let execution = &case.executions[0];
    assert_eq!(fake.asked().len(), 2);
    assert_eq!(execution.outcome, Outcome::Failed);
    assert_eq!(
        execution.execution.output, "t",
        "a check sees what the model said, and nothing else"
    );
    let shown = kindlm_testing::examples::show_results(&execution.results);
    assert_eq!(
        shown,
        "fail  0  MAX_TURNS_EXCEEDED  Conversation within maxTurns limit — \
         MAX_TURNS_EXCEEDED: conversation exceeded 2 turns\npass  1  Says t\n"
    );
    let answered: Vec<bool> =
        execution.execution.tool_calls.iter().map(|it| it.response.is_some()).collect();
    assert_eq!(answered, [true, false], "the last call was never answered");
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_are_one_turn() {
    let mut suite = suite(&["hi"]);
    edit(&mut suite.cases[0], |it| {
        it.tools = vec![tool(&json!({ "name": "f", "defaultResponse": 1 }))].into();
    });
    let calls = ["1", "2", "3"].map(|id| ToolCall { id: id.to_owned(), ..call("f", json!({})) });
    let (case, _) = converse(&suite, vec![calling(calls.into()), reply("done")]).await;
    let execution = &case.executions[0].execution;
    assert_eq!(Facts::from_events(&execution.events()).answers, 2);
    assert_eq!(execution.requests, 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_test_cannot_answer_has_failed() {
    use ActionStatus::{Completed, Failed};
    let tools = json!([{ "name": "f", "responses": [{ "when": { "a": 1 }, "then": "hit" }] }]);
    let broken = ToolCall { malformed_arguments: Some("{".to_owned()), ..call("f", Value::Null) };
    for (tools, call, status) in [
        (&tools, call("f", json!({ "a": 1 })), Completed),
        (&tools, call("f", json!({ "a": 2 })), Failed),
        (&tools, broken, Failed),
        (&tools, call("g", json!({})), Failed),
        (&json!([]), call("g", json!({})), Failed),
    ] {
        let mut suite = suite(&["hi"]);
        edit(&mut suite.cases[0], |it| it.tools = list(tools).iter().map(tool).collect());
        let (case, _) = converse(&suite, vec![calling(vec![call.clone()]), reply("done")]).await;
        let events = case.executions[0].execution.events().into_owned();
        let state = Facts::from_events(&events).actions[0].state;
        assert_eq!(state, ActionState::Ended(status), "{call:?}");
        let first = events.first().map(Event::type_name);
        assert_eq!(first, Some("message"), "what the user said comes first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_simulated_tool_can_fail_and_answer_differently_each_time() {
    let mut suite = suite(&["hi"]);
    let answer = |then: &str, status| SimulatedAnswer::new(json!(then), status);
    let answers =
        vec![answer("timeout", ActionStatus::Failed), answer("second", ActionStatus::Completed)];
    let response = SimulatedResponse { when: serde_json::Map::new(), answers };
    edit(&mut suite.cases[0], |it| {
        it.tools =
            vec![SimulatedTool { responses: vec![response], ..tool(&json!({ "name": "f" })) }]
                .into();
    });
    let calls = |id: &str| vec![ToolCall { id: id.to_owned(), ..call("f", json!({})) }];
    let script = vec![calling(calls("1")), calling(calls("2")), calling(calls("3")), reply("done")];
    let (case, _) = converse(&suite, script).await;
    let events = case.executions[0].execution.events().into_owned();
    let found: Vec<_> = Facts::from_events(&events)
        .actions
        .iter()
        .map(|it| (it.output.cloned(), it.has_failed()))
        .collect();
    let output_text = |text: &str| Some(json!(text));
    assert_eq!(
        found,
        [
            (output_text("timeout"), true),
            (output_text("second"), false),
            (output_text("second"), false)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_separate_refusal_is_the_output() {
    let refusal = kindlm_types::Reply { refusal: Some("I cannot.".to_owned()), ..reply("") };
    let (case, _) = converse(&suite(&["hi"]), vec![refusal]).await;
    assert_eq!(case.executions[0].execution.output, "I cannot.");
}

#[tokio::test(start_paused = true)]
async fn evidence_survives_a_provider_failure() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let fake =
        Fake::new(move |_, _| match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Ok(calling(vec![call("f", json!({}))])),
            _ => Err(failure(ProviderErrorKind::Auth)),
        });
    let report = run(&suite(&["hi"]), &RunOptions::default(), &fake).await.unwrap();
    let it = &report.cases[0].executions[0];
    assert_eq!(it.outcome, Outcome::Errored);
    assert_eq!(it.error.as_ref().unwrap().code().unwrap().as_str(), "PROVIDER_AUTH_FAILED");
    assert_eq!(it.execution.requests, 1);
    assert_eq!(it.execution.tool_calls.len(), 1);
    assert!(close(it.execution.spend.cost_usd.unwrap(), 15e-6));
    assert!(it.results.is_empty());
    assert_eq!(report.exit_status().code(), 3);
}

#[tokio::test(start_paused = true)]
async fn tokens_and_cost_add_up_and_an_unknown_price_is_no_zero() {
    let script = || vec![calling(vec![call("f", json!({}))]), reply("done")];
    let mut suite = suite(&["hi"]);
    let (case, _) = converse(&suite, script()).await;
    assert!(close(case.cost.usd().unwrap(), 30e-6));
    assert_eq!(case.total_tokens, 30);
    suite.models[0].price = None;
    let (case, _) = converse(&suite, script()).await;
    assert_eq!((case.cost.unknown, case.cost.usd()), (1, None));
}
