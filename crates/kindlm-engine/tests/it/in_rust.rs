//! A suite that is built, run and checked in Rust, without YAML and command line.

use kindlm_engine::{CaseBody, Model, RunOptions, SimulatedTool, Suite, TestCase, gates, run};
use kindlm_types::{ExitStatus, Limits, Params, Price, Reply, ToolCall, ToolSpec};
use serde_json::json;

use crate::support::{Fake, last_user, reply, says};

/// Builds a support agent that calls a tool for the order before it answers.
fn agent() -> Fake {
    Fake::new(|_, prompt| {
        let lookup = prompt.messages.iter().rfind(|it| it.tool_name.is_some());
        Ok(match lookup {
            Some(answer) => reply(&format!("Your order: {}", answer.content)),
            None if last_user(prompt).contains("order") => Reply {
                tool_calls: vec![ToolCall {
                    id: "call_1".to_owned(),
                    name: "lookup_order".to_owned(),
                    arguments: json!({ "order_id": "12345" }),
                    ..ToolCall::default()
                }],
                ..reply("")
            },
            None => reply("Hello! What can I do for you?"),
        })
    })
}

/// Builds a suite in which all orders have this status.
fn support_suite(status: &str) -> Suite {
    let mut greeting = CaseBody::prompt("Hi");
    greeting.checks = [says("Hello")].into();

    let mut order = CaseBody::prompt("Where is my order 12345?");
    order.tools = [SimulatedTool {
        spec: ToolSpec { name: "lookup_order".to_owned(), ..ToolSpec::default() },
        default_response: Some(json!({ "status": status })),
        ..SimulatedTool::default()
    }]
    .into();
    order.checks = [says("shipped")].into();
    let order = TestCase {
        repeat: 3,
        tags: ["orders".to_owned()].into(),
        ..TestCase::new("knows the order", order)
    };

    Suite {
        models: vec![Model {
            id: "support".to_owned(),
            provider: "openai".to_owned(),
            name: "gpt-4o".to_owned(),
            params: Params { temperature: Some(0.2), ..Params::default() },
            price: Some(Price::new(2.5, 10.0)),
            limits: Limits::default(),
            tells_vars: false,
            offers: [].into(),
            declared: std::collections::BTreeSet::new(),
            agent: None,
        }],
        cases: vec![TestCase::new("greets", greeting).on(&["support"]), order.on(&["support"])],
        gates: gates::defaults(),
        ..Suite::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_support_agent_behaves() {
    let report = run(&support_suite("shipped"), &RunOptions::default(), &agent()).await.unwrap();

    assert_eq!(report.exit_status(), ExitStatus::Success);
    let totals = report.totals();
    assert_eq!((totals.cases, totals.passed, totals.executions), (2, 2, 4));

    let order = &report.cases[1];
    assert_eq!((order.case.as_str(), order.repeats), ("knows the order", 3));
    let call = &order.executions[0].execution.tool_calls[0];
    assert_eq!(call.arguments, json!({ "order_id": "12345" }));
    assert_eq!(call.response, Some(json!({ "status": "shipped" })));
    assert_eq!(report.models[0].name, "gpt-4o");
}

#[tokio::test(start_paused = true)]
async fn a_regression_is_caught() {
    let suite = support_suite("lost");
    let report = run(&suite, &RunOptions::default(), &agent()).await.unwrap();

    assert_eq!(report.exit_status(), ExitStatus::GatesFailed);
    let broken: Vec<&str> =
        report.gates.iter().filter(|it| !it.passed()).map(|it| it.message.as_str()).collect();
    assert_eq!(broken, ["Pass rate: 50.0% (1 of 2; 95% CI 9.5 to 90.5) (min: 95.0%)"]);
}
