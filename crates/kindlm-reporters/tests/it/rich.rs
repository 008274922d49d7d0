//! A report with every kind of evidence, votes of judges, turns, events and changed files.

use kindlm_testing::sample_report;
use kindlm_types::{
    AssertionResult, CaseResult, Execution, ExecutionResult, Outcome, Report, SourcePlace,
};
use serde_json::{Value, json};

/// Returns a report with every kind of evidence. Its summary and its cases are like those of a run.
pub(crate) fn report() -> Report {
    build_report(tests())
}

/// Returns a report of conversations: a server that gives calls of several answers the same id, and labelled turns.
pub(crate) fn conversations() -> Report {
    build_report(vec![
        ("refunds in several answers", vec![rounds()]),
        ("asks, then answers", vec![turns()]),
        ("lists the customers", vec![addresses()]),
    ])
}

fn build_report(tests: Vec<(&'static str, Vec<ExecutionResult>)>) -> Report {
    let mut report = sample_report();
    report.models.truncate(2);
    let ids: Vec<String> = report.models.iter().map(|it| it.id.clone()).collect();
    let base = report.cases[0].clone();
    let mut cases = Vec::new();
    for (name, executions) in tests {
        for (number, model) in ids.iter().enumerate() {
            let fails = number == 0 || name == "prints the exact receipt";
            cases.push(case(
                &base,
                name,
                model,
                if fails { executions.clone() } else { vec![held()] },
            ));
        }
    }
    report.cases = cases;
    report
}

fn case(
    base: &CaseResult,
    name: &str,
    model: &str,
    mut executions: Vec<ExecutionResult>,
) -> CaseResult {
    for (repeat, it) in (0..).zip(&mut executions) {
        name.clone_into(&mut it.execution.case);
        model.clone_into(&mut it.execution.model);
        it.execution.repeat = repeat;
        it.outcome = Outcome::from_results(&it.results);
    }
    let codes =
        executions.iter().flat_map(|it| &it.results).filter_map(|it| it.verdict.code().cloned());
    CaseResult {
        case: name.to_owned(),
        model: model.to_owned(),
        tags: vec!["orders".to_owned()],
        source: Some(SourcePlace::new("agents/support/kindlm.yaml", 41, 5)),
        outcome: executions.iter().map(|it| it.outcome).max().unwrap(),
        repeats: u32::try_from(executions.len()).unwrap(),
        failure_codes: codes.collect(),
        latency_avg_ms: Some(1_431.0),
        executions,
        ..base.clone()
    }
}

fn held() -> ExecutionResult {
    made(
        &json!([{"type": "tool-calls", "label": "Tool called: lookup_order", "status": "passed", "pass": true}]),
        &json!({}),
    )
}

/// Builds an execution from results and fields in the format of the JSON report.
fn made(results: &Value, fields: &Value) -> ExecutionResult {
    let mut wire = json!({
        "case": "", "model": "", "repeat": 0, "outcome": "passed", "pass": true, "results": results,
        "input": [
            {"role": "system", "content": "You are the order desk of a small shop.\nRefund what a thing cost, and no more."},
            {"role": "user", "content": "Hi, I ordered a mug and a teapot, order 777. The mug came broken."},
        ],
        "output": "Done! I refunded 249 EUR for order 777 to the card ending in 4242.",
        "usage": {"inputTokens": 1200, "outputTokens": 210, "totalTokens": 1410},
        "latencyMs": 1431.0, "costUsd": 0.0042, "vars": {"order": "777", "tone": "friendly"},
    });
    for (key, value) in fields.as_object().unwrap() {
        wire[key] = value.clone();
    }
    let wire: kindlm_wire::v1::Execution = serde_json::from_value(wire).unwrap();
    let result: ExecutionResult = wire.try_into().unwrap();
    ExecutionResult { execution: Execution { requests: 1, ..result.execution }, ..result }
}

fn tests() -> Vec<(&'static str, Vec<ExecutionResult>)> {
    vec![
        ("refunds what the mug cost", vec![refund(), held(), refund(), held(), held()]),
        ("sorts the ticket by the schema", vec![ticket()]),
        ("prints the exact receipt", vec![receipt()]),
        ("keeps the order of its steps", vec![steps()]),
        ("repairs the cart", vec![repair()]),
    ]
}

fn failed(id: &str, label: &str, code: &str, message: &str, evidence: &Value) -> Value {
    json!({"type": id, "label": label, "status": "failed", "pass": false, "failureCode": code, "failureMessage": message,
        "source": {"file": "agents/support/kindlm.yaml", "line": 48, "column": 9}, "evidence": evidence})
}

fn refund() -> ExecutionResult {
    let mut tool = failed(
        "tool-calls",
        "Tool args: issue_refund",
        "TOOL_CALL_ARGS_MISMATCH",
        "Argument mismatches: amount: expected 24.9, got 249",
        &json!([{"kind": "toolCall", "tool": "issue_refund", "callId": "c2", "mismatches": [{"pointer": "/amount", "expected": "24.9", "actual": "249"}, {"pointer": "/reason", "expected": "\"broken\"", "actual": null}]}]),
    );
    tool["turn"] = "refund".into();
    let pii = failed(
        "pii",
        "PII: card number",
        "PII_DETECTED",
        "found a card number",
        &json!([{"kind": "matches", "of": {"text": "output"}, "spans": [{"start": 61, "end": 65, "what": "card number"}]}]),
    );
    let mut judge = failed(
        "judge",
        "Judge: The customer gets back what the mug cost",
        "JUDGE_BELOW_THRESHOLD",
        "Judge score 0.57 below threshold 0.8",
        &json!([]),
    );
    judge["class"] = "probabilistic".into();
    judge["score"] = 0.57.into();
    judge["reasoning"] =
        "It says \"refunded 249 EUR\", which is ten times the price of the mug.".into();
    judge["metadata"] = json!({"threshold": 0.8, "promptDigest": "5f1d7a84db00d2fc", "borderline": true, "panel": {"agreement": 0.67, "spread": 0.5, "borderline": true, "votes": [
        {"judge": "strict", "status": "failed", "score": 0.35, "reasoning": "The answer says \"refunded 249 EUR\" and never notices."},
        {"judge": "kind", "status": "passed", "score": 0.85, "reasoning": "It is friendly and confirms each step."},
        {"judge": "fair", "status": "failed", "score": 0.5, "reasoning": "Friendly, but the amount is wrong."}]}});
    let soft = json!({"type": "judge", "label": "Judge: Sounds friendly", "status": "passed", "pass": true, "score": 0.9, "severity": "soft", "class": "probabilistic", "metadata": {"threshold": 0.6, "judgeModel": "gpt-4o"}});
    let missing = failed(
        "keywords",
        "Contains: \"REF-777\"",
        "KEYWORD_MISSING",
        "Output must contain \"REF-777\"",
        &json!([{"kind": "absent", "of": {"text": "output"}, "expected": ["REF-777"]}]),
    );
    let slow = failed(
        "latency",
        "Latency",
        "LATENCY_EXCEEDED",
        "latency 1431 ms, at most 1000 ms",
        &json!([{"kind": "measure", "name": "latency", "actual": 1431.0, "limit": 1000.0, "bound": "atMost", "unit": "ms"}]),
    );
    made(
        &json!([{"type": "tool-calls", "label": "Tool called: lookup_order", "status": "passed", "pass": true, "turn": "intake"}, tool, pii, judge, soft, missing, slow]),
        &json!({
            "toolCalls": [
                {"id": "c1", "name": "lookup_order", "arguments": {"order_id": "777", "include": ["items", "payments"]}, "response": {"status": "delivered", "total": 78.8, "items": [{"sku": "MUG-2", "price": 24.9}, {"sku": "TEAPOT-1", "price": 49}]}},
                {"id": "c2", "name": "issue_refund", "arguments": {"order_id": "777", "amount": 249, "currency": "EUR"}, "response": {"ok": true}},
            ],
            "turns": [
                {"label": "intake", "user": "Hi, I ordered a mug and a teapot, order 777. The mug came broken.", "text": "I am sorry! Let me look at order 777.", "toolCalls": {"start": 0, "end": 1}, "usage": {"totalTokens": 410}, "latencyMs": 431.0},
                {"label": "refund", "user": "Please refund the mug.", "text": "Done! I refunded 249 EUR for order 777 to the card ending in 4242.", "toolCalls": {"start": 1, "end": 2}, "usage": {"totalTokens": 1000}, "latencyMs": 1000.0},
            ],
        }),
    )
}

fn ticket() -> ExecutionResult {
    let schema = failed(
        "schema",
        "Schema: ./ticket.schema.json",
        "SCHEMA_INVALID",
        "2 errors",
        &json!([{"kind": "schema", "errors": [
        {"pointer": "/priority", "expected": "one of \"low\", \"high\"", "actual": "\"urgent\""}, {"pointer": "", "expected": "the property `customer`", "actual": null}]}]),
    );
    let mut unreadable = failed(
        "judge",
        "Judge: Is short",
        "JUDGE_PARSE_ERROR",
        "the judge's reply has no readable score",
        &json!([]),
    );
    unreadable["status"] = "errored".into();
    made(
        &json!([schema, unreadable]),
        &json!({"output": "{\"priority\": \"urgent\", \"items\": [1, 2]}", "outputJson": {"priority": "urgent", "items": [1, 2]}}),
    )
}

fn receipt() -> ExecutionResult {
    let lines = |total: &str| {
        let middle: Vec<String> = (1..14).map(|it| format!("Item {it}   {it}.00 EUR")).collect();
        let middle = middle.join("\n");
        format!("RECEIPT\n{middle}\nTotal {total} EUR\nThank you!")
    };
    let diff = failed(
        "equals",
        "Equals",
        "ASSERTION_FAILED",
        "the output differs from the expected text",
        &json!([{"kind": "diff", "format": "text", "expected": lines("78.90"), "actual": lines("78.80")}]),
    );
    made(&json!([diff]), &json!({"output": lines("78.80")}))
}

fn steps() -> ExecutionResult {
    let order = failed(
        "trajectory",
        "Tool trajectory (strict)",
        "ASSERTION_FAILED",
        "Missing: confirm",
        &json!([{"kind": "trajectory", "expected": ["lookup_order", "confirm", "issue_refund"], "actual": ["lookup_order", "issue_refund", "close_ticket"]}]),
    );
    let events = json!([
        {"type": "message", "role": "user", "text": "Refund order 777."},
        {"type": "thinking", "text": "I need the order first."},
        {"type": "action.called", "callId": "1", "name": "lookup_order", "input": {"id": 777}},
        {"type": "action.result", "callId": "1", "output": {"total": 78.8}, "status": "completed"},
        {"type": "subagent.called", "callId": "2", "name": "refunds"},
        {"type": "subagent.completed", "callId": "2", "output": "refused", "status": "failed"},
        {"type": "error", "message": "the payment provider is down"},
        {"type": "message", "role": "assistant", "text": "I could not refund it."},
    ]);
    made(
        &json!([order]),
        &json!({"events": events, "exitCode": 0, "output": "I could not refund it."}),
    )
}

fn rounds() -> ExecutionResult {
    let refund = failed(
        "tool-calls",
        "Tool args: issue_refund",
        "TOOL_CALL_ARGS_MISMATCH",
        "Argument mismatches: amount: expected 24.9, got 249",
        &json!([{"kind": "toolCall", "tool": "issue_refund", "callId": "call_0", "mismatches": [{"pointer": "/amount", "expected": "24.9", "actual": "249"}]}]),
    );
    let calls = [
        ("lookup_order", json!({"order_id": "777"}), json!({"status": "delivered"})),
        ("issue_refund", json!({"amount": 249}), json!({"refund": "first"})),
        ("issue_refund", json!({"amount": 25}), json!({"refund": "second"})),
    ];
    let mut events = vec![
        json!({"type": "message", "role": "user", "text": "Hi, I ordered a mug and a teapot, order 777. The mug came broken."}),
    ];
    for (name, input, output) in &calls {
        events.push(
            json!({"type": "usage", "inputTokens": 120, "outputTokens": 30, "totalTokens": 150}),
        );
        events.push(
            json!({"type": "action.called", "callId": "call_0", "name": name, "input": input}),
        );
        events.push(json!({"type": "action.result", "callId": "call_0", "output": output, "status": "completed"}));
    }
    events.push(json!({"type": "message", "role": "assistant", "text": "I refunded 249 EUR."}));
    let calls = calls.map(|(name, input, output)| json!({"id": "call_0", "name": name, "arguments": input, "response": output}));
    made(
        &json!([refund]),
        &json!({"events": events, "toolCalls": calls, "output": "I refunded 249 EUR."}),
    )
}

fn turns() -> ExecutionResult {
    let mut shipped = failed(
        "contains",
        "Contains: \"shipped\"",
        "CONTAINS_FAILED",
        "Output does not contain \"shipped\"",
        &json!([{"kind": "absent", "of": {"text": "output"}, "expected": ["shipped"]}]),
    );
    shipped["turn"] = "order".into();
    let said = |role: &str, text: &str| json!({"type": "message", "role": role, "text": text});
    let events = json!([
        said("user", "Hello"),
        said("assistant", "Which order?"),
        said("user", "It is 12345."),
        said("assistant", "One moment."),
        said("assistant", "No idea, sorry."),
    ]);
    let turn = |label: &str, user: &str, text: &str, events: std::ops::Range<usize>| json!({"label": label, "user": user, "text": text, "toolCalls": {"start": 0, "end": 0}, "events": {"start": events.start, "end": events.end}, "latencyMs": 100.0});
    let mut judge = failed(
        "judge",
        "Judge: Says when it arrives",
        "JUDGE_BELOW_THRESHOLD",
        "It does not say when. (borderline: 1 of 2 votes pass)",
        &json!([{"kind": "measure", "name": "score", "actual": 0.4, "limit": 0.8, "bound": "atLeast"}, {"kind": "reason", "text": "It does not say when."}]),
    );
    judge["class"] = "probabilistic".into();
    judge["score"] = 0.4.into();
    judge["reasoning"] = "It does not say when.".into();
    judge["metadata"] = json!({"promptDigest": "5f1d7a84db00d2fc", "criterion": "5f1d7a84db00d2fc", "borderline": true, "panel": {"borderline": true, "votes": [
        {"judge": "strict", "status": "failed", "score": 0.2, "reasoning": "It does not say when."},
        {"judge": "kind", "status": "passed", "score": 0.85, "reasoning": "It is friendly."}]}});
    made(
        &json!([shipped, judge]),
        &json!({"input": [{"role": "user", "content": "Hello"}], "events": events, "output": "No idea, sorry.", "turns": [
            turn("greeting", "Hello", "Which order?", 0..2), turn("order", "It is 12345.", "No idea, sorry.", 2..5),
        ]}),
    )
}

fn addresses() -> ExecutionResult {
    let spans: Vec<Value> = (0..600)
        .map(|at| json!({"start": at * 8, "end": at * 8 + 7, "what": "e-mail address"}))
        .collect();
    let evidence = json!([{"kind": "matches", "of": {"text": "output"}, "spans": spans}]);
    let found = failed(
        "pii",
        "PII: e-mail address",
        "PII_DETECTED",
        "Found 600 PII matches for pattern \"e-mail address\"",
        &evidence,
    );
    made(&json!([found]), &json!({"output": "a@b.org ".repeat(600)}))
}

fn repair() -> ExecutionResult {
    let tests = failed(
        "tests",
        "Tests of the cart",
        "TESTS_FAILED",
        "1 of 3 tests failed",
        &json!([{"kind": "tests", "passed": 2, "failed": [{"name": "cart > refuses negative counts", "message": "expected -1 to throw"}]}]),
    );
    let command = failed(
        "command",
        "Command: npm run lint",
        "COMMAND_FAILED",
        "exit code 2",
        &json!([{"kind": "command", "exitCode": 2, "stdout": "", "stderr": "src/cart.ts:3 no-console"}]),
    );
    let workspace = json!({"changes": [
        {"path": "src/cart.ts", "change": "changed", "bytes": 120, "text": "a\nB\nc\n", "patch": "--- a/src/cart.ts\n+++ b/src/cart.ts\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
        {"path": "notes.md", "change": "added", "bytes": 6, "text": "# Note\n"},
    ]});
    let nested = json!({"type": "assert-set", "label": "Any of 2", "status": "failed", "pass": false, "failureCode": "ASSERTION_FAILED", "failureMessage": "0 of 2 held",
        "componentResults": [failed("contains", "Contains: \"a\"", "KEYWORD_MISSING", "not found", &json!([])), failed("contains", "Contains: \"b\"", "KEYWORD_MISSING", "not found", &json!([]))]});
    made(
        &json!([tests, command, nested]),
        &json!({"workspace": workspace, "exitCode": 0, "stderr": "done\n"}),
    )
}

#[test]
fn has_all_kinds_of_evidence() {
    let report = report();
    let mut kinds: Vec<String> = Vec::new();
    let results = report.cases.iter().flat_map(|it| &it.executions).flat_map(|it| &it.results);
    for evidence in results.flat_map(|it: &AssertionResult| &it.evidence) {
        kinds.push(serde_json::to_value(evidence).unwrap()["kind"].as_str().unwrap().to_owned());
    }
    kinds.sort_unstable();
    kinds.dedup();
    let all = [
        "absent",
        "command",
        "diff",
        "matches",
        "measure",
        "schema",
        "tests",
        "toolCall",
        "trajectory",
    ];
    assert_eq!(kinds, all);
}
