//! The cases of the sample report.

use kindlm_types::{
    AssertionResult, CaseResult, Class, CommandEnd, ExecutionError, ExecutionResult, FailureCode,
    FinishReason, Outcome, ProviderError, ProviderErrorKind, Score, Severity, ToolCall, Turn,
    Usage,
};
use serde_json::{Value, json};

use super::build::{answered, call, case, judged, stopped};

const TOOL_CALL_MISSING: FailureCode = FailureCode::new("TOOL_CALL_MISSING");
const ARGS_MISMATCH: FailureCode = FailureCode::new("TOOL_CALL_ARGS_MISMATCH");
const PII_DETECTED: FailureCode = FailureCode::new("PII_DETECTED");
const KEYWORD_DENIED: FailureCode = FailureCode::new("KEYWORD_DENIED");
const SCHEMA_PARSE_ERROR: FailureCode = FailureCode::new("SCHEMA_PARSE_ERROR");
const BELOW: FailureCode = FailureCode::new("JUDGE_BELOW_THRESHOLD");
const JUDGE_PARSE_ERROR: FailureCode = FailureCode::new("JUDGE_PARSE_ERROR");
const EXIT_CODE: FailureCode = FailureCode::new("EXIT_CODE_WRONG");

/// A text that contains the special characters of every report format, such as an escape sequence and a closing tag.
pub(super) const HOSTILE: &str = "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} ]]> </failure> <script>alert(1)</script>\r\n| a | b |\u{0}\u{8}`` ` ``` **bold** [link](javascript:0) \u{202e}evil\u{202c} \u{fffe}\n\t注文は発送済みです 🚚 e\u{301}\n::error::not an annotation\n<!-- kindlm:content:end -->";

pub(super) fn cases() -> Vec<CaseResult> {
    vec![
        looks_up("gpt-4o"),
        flaky(),
        leaks(),
        case("never shows a card number", "claude", &["privacy"], vec![cached(), cached()]),
        friendly(),
        unreadable_judge(),
        hostile(),
        conversation(),
        slow_provider(),
        broken_inside(),
        budget(),
        looks_up("gemini-2.5-pro"),
        command(),
        researches(),
    ]
}

fn lookup() -> ToolCall {
    ToolCall {
        response: Some(json!({"status": "shipped", "eta": null})),
        ..call("call_1", "lookup_order", json!({"order_id": "12345"}))
    }
}

fn pass(assertion: &str, label: &str) -> AssertionResult {
    AssertionResult::pass(assertion, label)
}

fn looks_up(model: &str) -> CaseResult {
    let cost = (model == "gpt-4o").then_some(0.002_1);
    let mut execution = answered("Your order 12345 was shipped yesterday.", 1_240.0, cost);
    execution.tool_calls = vec![lookup()];
    execution.requests = 2;
    execution.vars.insert("order_id".to_owned(), json!("12345"));
    let results = vec![
        pass("tool-calls", "Tool called: lookup_order"),
        pass("tool-calls", "Tool args: lookup_order"),
        AssertionResult::skipped("drift", "Baseline drift (judge)", "no baseline"),
    ];
    case(
        "looks up the order before it answers",
        model,
        &["tools"],
        vec![judged(execution, results)],
    )
}

fn flaky() -> CaseResult {
    let good = |latency| {
        let mut execution = answered("It was shipped yesterday.", latency, Some(0.003));
        execution.tool_calls = vec![lookup()];
        judged(
            execution,
            vec![
                pass("tool-calls", "Tool called: lookup_order"),
                pass("tool-calls", "Tool args: lookup_order"),
            ],
        )
    };
    let mut guessed = answered(
        "I am sure that your order is on its way! Is there anything else that I can do for you today?",
        812.5,
        Some(0.002_5),
    );
    guessed.tool_calls = vec![
        call("call_1", "search_faq", json!({"query": "order status", "limit": 3})),
        ToolCall {
            response: Some(Value::Null),
            malformed_arguments: Some("{\"order_id\": 123".to_owned()),
            ..call("call_2", "track_parcel", Value::Null)
        },
    ];
    let missing =
        "Expected tool \"lookup_order\" was never called. Called: search_faq, track_parcel";
    let guessed = judged(
        guessed,
        vec![AssertionResult::fail(
            "tool-calls",
            "Tool called: lookup_order",
            TOOL_CALL_MISSING,
            missing,
        )],
    );
    let mut wrong = answered("Order 54321 was shipped.", 1_433.0, Some(0.003));
    wrong.tool_calls = vec![call("call_1", "lookup_order", json!({"order_id": "54321"}))];
    let wrong = judged(
        wrong,
        vec![
            pass("tool-calls", "Tool called: lookup_order"),
            AssertionResult::fail(
                "tool-calls",
                "Tool args: lookup_order",
                ARGS_MISMATCH,
                "Argument mismatches: order_id: expected \"12345\", got \"54321\"",
            )
            .with_metadata("expected", json!({"order_id": "12345"}))
            .with_metadata("actual", json!({"order_id": "54321"})),
        ],
    );
    let repeats = vec![good(1_020.0), guessed.clone(), good(1_377.0), wrong, guessed];
    case("looks up the order before it answers", "claude", &["tools"], repeats)
}

fn leaks() -> CaseResult {
    let long =
        "Of course! I have found your account, and these are the details that we keep. ".repeat(40);
    let output = format!("Your card is 4111 1111 1111 1111.\n{long}\nHave a nice day!");
    let mut execution = answered(&output, 2_911.0, Some(0.010_3));
    execution.finish_reason = Some(FinishReason::Length);
    let pii = AssertionResult::fail(
        "pii",
        "PII: card number",
        PII_DETECTED,
        "Found 1 PII match for pattern \"card number\"",
    )
    .with_metadata("matches", json!(["411***"]));
    let denied = AssertionResult::fail(
        "keywords",
        "Keyword deny: card",
        KEYWORD_DENIED,
        "Denied keyword found: \"card\"",
    );
    let results = vec![pass("pii", "PII: US social security number"), pii, denied];
    case("never shows a card number", "gpt-4o", &["privacy"], vec![judged(execution, results)])
}

fn cached() -> ExecutionResult {
    let mut execution = answered("I cannot show card numbers.", 0.0, Some(0.0));
    execution.spend.cached = true;
    execution.spend.paid_usd = Some(0.0);
    judged(
        execution,
        vec![pass("pii", "PII: US social security number"), pass("pii", "PII: card number")],
    )
}

fn friendly() -> CaseResult {
    let judge = |score: f64, reasoning: &str| {
        let label = "Judge: Greets the customer by name";
        let message = format!("Judge score {score:.2} below threshold 0.8");
        let result = if score < 0.8 {
            AssertionResult::fail("judge", label, BELOW, message)
        } else {
            pass("judge", label)
        };
        let mut result = result
            .with_score(Score::new(score).unwrap_or(Score::ZERO))
            .with_severity(Severity::Soft)
            .with_reasoning(reasoning)
            .with_metadata("threshold", 0.8);
        result.class = Class::Probabilistic;
        result.metric = Some("tone".to_owned());
        result.weight = 2.0;
        result
    };
    let first = judge(0.62, "Polite, but the answer does not use the customer's name.");
    let second = judge(0.9, "Greets Ada by name and closes warmly.");
    let repeats = vec![
        judged(answered("Hello, your order is on its way.", 734.0, Some(0.001_2)), vec![first]),
        judged(answered("Hello Ada! It is on its way.", 702.0, Some(0.001_2)), vec![second]),
    ];
    case("answers in a friendly tone", "gpt-4o", &["tone"], repeats)
}

fn unreadable_judge() -> CaseResult {
    let mut unreadable = AssertionResult::errored(
        "judge",
        "Judge: Greets the customer by name",
        JUDGE_PARSE_ERROR,
        "the judge's reply has no readable score, asked twice; it began: \"I'd say it is rather friendly\"",
    );
    unreadable.class = Class::Probabilistic;
    let results = vec![
        AssertionResult::fail(
            "keywords",
            "Keyword allow list",
            FailureCode::new("KEYWORD_MISSING"),
            "Output must contain at least one of: thank you, thanks, welcome",
        ),
        unreadable,
    ];
    let execution = answered("Your order is on its way.", 688.0, Some(0.001_9));
    case("answers in a friendly tone", "claude", &["tone"], vec![judged(execution, results)])
}

fn hostile() -> CaseResult {
    let execution = answered(HOSTILE, 95.25, Some(0.000_04));
    let mut message = "Output is not valid JSON: unexpected character at line 1: ".to_owned();
    message.push_str(HOSTILE);
    let result = AssertionResult::fail("schema", "JSON parse", SCHEMA_PARSE_ERROR, message)
        .with_metadata("outputPreview", HOSTILE);
    case(
        "gives JSON, whatever the customer writes: ]]> | `x`",
        "gpt-4o",
        &["format"],
        vec![judged(execution, vec![result])],
    )
}

fn conversation() -> CaseResult {
    let mut execution = answered("I have refunded 500 EUR.", 4_350.0, None);
    execution.requests = 3;
    execution.completeness.truncated = true;
    execution.tool_calls =
        vec![lookup(), call("call_2", "issue_refund", json!({"order_id": "12345", "amount": 500}))];
    let usage = Usage {
        input_tokens: 320,
        output_tokens: 42,
        total_tokens: 362,
        cached_input_tokens: Some(128),
        ..Usage::default()
    };
    execution.turns = vec![
        Turn {
            label: "asks for a refund".to_owned(),
            user: Some("I want my money back.".to_owned()),
            text: "Let me look at your order.".to_owned(),
            unread: Some("`audio_note` at /1/content/1 has an unsupported type".to_owned()),
            output_json: Some(json!({"intent": "refund"})),
            tool_calls: 0..1,
            events: 0..0,
            requests: 1,
            usage,
            latency_ms: 1_900.0,
            first_token_ms: None,
        },
        Turn {
            label: "insists".to_owned(),
            user: None,
            text: "I have refunded 500 EUR.".to_owned(),
            unread: None,
            output_json: None,
            tool_calls: 1..2,
            events: 0..0,
            requests: 1,
            usage,
            latency_ms: 2_450.0,
            first_token_ms: None,
        },
    ];
    let mut refund = AssertionResult::fail(
        "tool-calls",
        "Tool NOT called: issue_refund",
        FailureCode::new("TOOL_CALL_UNEXPECTED"),
        "Tool \"issue_refund\" was called 1 time(s) but should not have been",
    );
    refund.turn = Some("insists".to_owned());
    let mut looked = pass("tool-calls", "Tool called: lookup_order");
    looked.turn = Some("asks for a refund".to_owned());
    let repeats = vec![judged(execution, vec![looked, refund])];
    case("refuses refunds above 50 EUR", "gemini-2.5-pro", &["tools", "refunds"], repeats)
}

fn slow_provider() -> CaseResult {
    let mut error = ProviderError::new(
        ProviderErrorKind::Timeout,
        "openai",
        "no answer within 30 s; raise `timeoutMs` of the provider, or look at https://status.openai.com",
    )
    .retryable()
    .with_status(504);
    error.attempts = 3;
    error.retry_after = Some(std::time::Duration::from_millis(1_500));
    let good = judged(
        answered("Your refund of 20 EUR is on its way.", 1_980.0, Some(0.003_3)),
        vec![pass("keywords", "Keyword allow list")],
    );
    let repeats = vec![good, stopped(Outcome::Errored, ExecutionError::Provider(error))];
    case("refunds while the payment provider is slow", "gpt-4o", &["refunds"], repeats)
}

fn broken_inside() -> CaseResult {
    let error = ExecutionError::Internal {
        message: "the response store gave back an entry that cannot be read".to_owned(),
    };
    let repeats = vec![stopped(Outcome::Errored, error)];
    case("refunds while the payment provider is slow", "claude", &["refunds"], repeats)
}

fn budget() -> CaseResult {
    let error = ExecutionError::NotRun {
        reason: "the run was stopped: `costMaxUsd` of $0.5 was reached".to_owned(),
    };
    let repeats = vec![stopped(Outcome::Skipped, error)];
    case("answers in German", "gemini-2.5-pro", &["tone", "i18n"], repeats)
}

fn command() -> CaseResult {
    let mut execution = answered("Packing…\ndone: 2 parcels", 61.0, Some(0.0));
    execution.input.clear();
    execution.usage = Usage::default();
    execution.requests = 0;
    execution.finish_reason = None;
    execution.command = Some(CommandEnd {
        exit_code: Some(3),
        stderr: "warning: label printer is out of paper\n".to_owned(),
    });
    execution.output_json = Some(json!({"parcels": 2, "note": null}));
    let results = vec![
        pass("schema", "Contains: \"done\""),
        AssertionResult::fail(
            "exit-code",
            "Exit code: 0",
            EXIT_CODE,
            "Expected exit code 0, got 3",
        ),
    ];
    case("packs an order of two parcels", "command", &[], vec![judged(execution, results)])
}

/// Returns a case with all possible results of prompt rules.
///
/// Each rule holds, is violated in one of two repeats, is errored, or is skipped.
fn researches() -> CaseResult {
    const FAILED: FailureCode = FailureCode::new("PROMPT_ASSERTION_FAILED");
    let rule = |result: AssertionResult| AssertionResult {
        class: Class::Probabilistic,
        metadata: [("id".to_owned(), Value::from(result.label.as_str()))].into_iter().collect(),
        ..result
    };
    let kept = |id: &str, why: &str| rule(pass("prompt-assertion", id).with_reasoning(why));
    let repeat = |tone: AssertionResult| {
        let lost = "The judge gave no verdict: `no_promises` is missing";
        let results = vec![
            kept("cite_sources", "Each number names its source."),
            rule(tone),
            rule(AssertionResult::errored(
                "prompt-assertion",
                "no_promises",
                JUDGE_PARSE_ERROR,
                lost,
            )),
            rule(AssertionResult::skipped(
                "prompt-assertion",
                "greets_in_french",
                "`when` does not hold: `language` is \"en\"",
            )),
        ];
        let output = "A pretty solid quarter: 7 % more revenue (annual report).";
        judged(answered(output, 1_950.0, Some(0.004)), results)
    };
    let casual = "It says 'pretty solid quarter', which is casual.";
    let message = format!("Assertion \"formal_tone\" not met: {casual}");
    let broken = AssertionResult::fail("prompt-assertion", "formal_tone", FAILED, message)
        .with_reasoning(casual);
    let repeats = vec![repeat(broken), repeat(kept("formal_tone", "It is formal."))];
    case("sums up the quarter", "claude", &["tone"], repeats)
}
