//! Random executions for property tests.

use std::collections::BTreeSet;

use std::time::Duration;

use kindlm_types::workspace::{CommandRan, FileChange, TestRan, TestsRan, Workspace};
use kindlm_types::{
    ActionStatus, AssertionResult, Channel, Class, CommandEnd, Completeness, Coverage, Event,
    Execution, ExecutionError, ExecutionResult, FailureCode, FinishReason, JudgePanel, JudgeVote,
    Judging, MalformedKind, Message, NamedScore, Outcome, ProviderError, ProviderErrorKind, Role,
    Score, Severity, Span, Speaker, Spend, ToolCall, Trace, Turn, Usage, Verdict, VoteStatus,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Returns texts, some of which could end a line or a JSON string too early.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,24}",
        Just(String::new()),
        Just("line\nbreak\r\n\u{2028}\u{0}\"\\ 注文 🚚".to_owned()),
        Just("stop".to_owned()),
        // The line writer searches for this text.
        Just("\"results\":[]".to_owned()),
    ]
}

/// Returns finite numbers of any size.
fn number() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("JSON has finite numbers only", |it| it.is_finite())
}

pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        number().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text(), inner), 0..4).prop_map(|it| it.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    vec((text(), json()), 0..3).prop_map(|it| it.into_iter().collect())
}

fn usage() -> impl Strategy<Value = Usage> {
    any::<([u64; 3], [Option<u64>; 2], bool, bool)>().prop_map(
        |(
            [input_tokens, output_tokens, total_tokens],
            [cached_input_tokens, cache_write_tokens],
            partial,
            total_only,
        )| {
            Usage {
                input_tokens,
                output_tokens,
                total_tokens,
                cached_input_tokens,
                cache_write_tokens,
                partial,
                total_only,
            }
        },
    )
}

pub(crate) fn tool_call() -> impl Strategy<Value = ToolCall> {
    (text(), text(), json(), of(text()), of(json())).prop_map(
        |(id, name, arguments, malformed_arguments, response)| ToolCall {
            id,
            name,
            arguments,
            malformed_arguments,
            response,
        },
    )
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    let role = prop::sample::select(vec![Role::System, Role::User, Role::Assistant, Role::Tool]);
    (role, text(), vec(tool_call(), 0..2), of(text()), of(text())).prop_map(
        |(role, content, tool_calls, tool_call_id, tool_name)| Message {
            role,
            content,
            parts: Vec::new(),
            tool_calls,
            tool_call_id,
            tool_name,
        },
    )
}

/// Returns a latency and a time to the first token.
fn times() -> impl Strategy<Value = (f64, Option<f64>)> {
    (number(), of(number()))
}

fn turn() -> impl Strategy<Value = Turn> {
    let said = (text(), of(text()));
    (text(), of(text()), said, of(json()), 0..9_usize, usage(), times()).prop_map(
        |(label, user, (text, unread), output_json, start, usage, (latency_ms, first_token_ms))| {
            Turn {
                label,
                user,
                text,
                unread,
                output_json,
                tool_calls: start..start + 2,
                events: start..start + 1,
                requests: 2,
                usage,
                latency_ms,
                first_token_ms,
            }
        },
    )
}

pub(crate) fn finish_reason() -> impl Strategy<Value = FinishReason> {
    prop_oneof![
        prop::sample::select(vec![
            FinishReason::Stop,
            FinishReason::Length,
            FinishReason::ToolCalls,
            FinishReason::ContentFilter,
            FinishReason::Refusal,
        ]),
        // Upper-case words differ from all known reasons, which have other enum variants.
        "[A-Z]{0,8}".prop_map(FinishReason::Other),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let status = prop::sample::select(vec![
        ActionStatus::Completed,
        ActionStatus::Failed,
        ActionStatus::Rejected,
    ]);
    let event = prop_oneof![
        text().prop_map(|text| Event::Message { role: Speaker::Assistant, text }),
        (text(), text(), json()).prop_map(|(call_id, name, input)| Event::ActionCalled {
            call_id,
            name,
            tool: None,
            input
        }),
        (text(), of(json()), status).prop_map(|(call_id, output, status)| {
            Event::ActionResult { call_id, output, status }
        }),
        (usage(), of(number())).prop_map(|(usage, cost_usd)| Event::Usage { usage, cost_usd }),
    ];
    vec(event, 0..4)
}

fn coverage() -> impl Strategy<Value = Coverage> {
    of(vec(prop::sample::select(Channel::ALL.to_vec()), 0..4))
        .prop_map(|it| it.map_or(Coverage::Complete, Coverage::from_iter))
}

pub(crate) fn execution() -> impl Strategy<Value = Execution> {
    let names = (text(), text(), any::<u32>());
    let said = (
        vec(message(), 0..3),
        (text(), of(text())),
        of(json()),
        vec(tool_call(), 0..3),
        vec(turn(), 0..3),
    );
    // A cost of earlier attempts is only written if it is above 0, so negative numbers cannot be read back.
    let spent = (of(number()), prop_oneof![Just(0.0), 0.001..9.0]);
    let times = (of(number()), of(number()));
    let numbers = (any::<u32>(), usage(), times, of(number()), spent, of(finish_reason()));
    let gaps = vec(text(), 0..2);
    let rest = (any::<bool>(), (any::<bool>(), gaps), of(any::<i32>()), text(), object());
    let told = (
        of(vec(number(), 0..3)),
        object(),
        of(json()),
        (of(trace()), of(workspace())),
        events(),
        coverage(),
        object(),
    );
    (names, said, numbers, rest, told).prop_map(|(names, said, numbers, rest, told)| {
        let (case, model, repeat) = names;
        let (input, (output, unread), output_json, tool_calls, turns) = said;
        let (requests, usage, times, cost_usd, (paid_usd, earlier_usd), finish_reason) = numbers;
        let (latency_ms, first_token_ms) = times;
        let (truncated, (cached, gaps), exit_code, stderr, vars) = rest;
        let (
            log_probs,
            metadata,
            provider_response,
            (trace, workspace),
            recorded_events,
            coverage,
            test_metadata,
        ) = told;
        Execution {
            case,
            model,
            repeat,
            input,
            output,
            completeness: Completeness {
                unread,
                truncated,
                gaps,
                unsupported: Vec::new(),
                coverage,
                declared: BTreeSet::new(),
            },
            output_json,
            tool_calls,
            turns,
            requests,
            usage,
            latency_ms,
            first_token_ms,
            spend: Spend { cost_usd, paid_usd, earlier_usd, cached },
            finish_reason,
            command: CommandEnd::from_parts(exit_code, stderr),
            vars,
            test_metadata,
            log_probs,
            metadata,
            provider_response,
            images: Vec::new(),
            recorded_events,
            trace: trace.map(Box::new),
            workspace: workspace.map(Box::new),
            // The following fields are not written to reports.
            tools: Vec::new(),
            written: None,
        }
    })
}

fn workspace() -> impl Strategy<Value = Workspace> {
    let change = (text(), of(text()), of(text()), any::<(bool, bool)>(), any::<u64>());
    let change = change.prop_map(|(path, text, patch, (binary, cut), bytes)| FileChange {
        path,
        bytes,
        binary,
        text,
        patch,
        cut,
        ..FileChange::default()
    });
    let command = (text(), of(any::<i32>()), text(), of(text()));
    let command = command.prop_map(|(run, exit_code, stdout, problem)| CommandRan {
        run,
        exit_code,
        stdout,
        problem,
        ..CommandRan::default()
    });
    let test = (text(), of(text())).prop_map(|(name, message)| TestRan {
        name,
        message,
        ..TestRan::default()
    });
    let tests = (vec(test, 0..3), of(text())).prop_map(|(tests, problem)| TestsRan {
        tests,
        problem,
        ..TestsRan::default()
    });
    (vec(change, 0..3), vec(command, 0..2), vec(tests, 0..2), of(text())).prop_map(
        |(changes, commands, tests, kept)| Workspace {
            changes,
            commands,
            tests,
            kept,
            ..Workspace::default()
        },
    )
}

fn trace() -> impl Strategy<Value = Trace> {
    let span = (text(), of(text()), text(), number(), of(number()), of(object()), of(any::<i64>()));
    let span = span.prop_map(
        |(span_id, parent_span_id, name, start_time, end_time, attributes, status_code)| Span {
            span_id,
            parent_span_id,
            name,
            start_time,
            end_time,
            attributes,
            status_code,
            status_message: None,
        },
    );
    (of(text()), vec(span, 0..3)).prop_map(|(trace_id, spans)| Trace {
        trace_id,
        spans,
        ..Trace::default()
    })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    const CODE: FailureCode = FailureCode::new("KEYWORD_MISSING");
    prop_oneof![
        Just(Verdict::Pass),
        text().prop_map(|message| Verdict::Fail { code: CODE, message }),
        text().prop_map(|message| Verdict::Errored { code: CODE, message }),
        text().prop_map(|reason| Verdict::Skipped { reason }),
    ]
}

fn assertion_result() -> impl Strategy<Value = AssertionResult> {
    (simple_result(), vec(simple_result(), 0..2), vec((text(), number(), number()), 0..2)).prop_map(
        |(result, components, scores)| {
            let named_scores = scores.into_iter().map(|(name, score, weight)| {
                NamedScore::new(name, Score::new(score).unwrap(), weight)
            });
            AssertionResult { components, named_scores: named_scores.collect(), ..result }
        },
    )
}

fn simple_result() -> impl Strategy<Value = AssertionResult> {
    let score = of(number().prop_map(|it| Score::new(it).unwrap()));
    let severity = prop::sample::select(vec![Severity::Gate, Severity::Soft]);
    let class = prop::sample::select(vec![Class::Deterministic, Class::Probabilistic]);
    let cause = of(Just(FailureCode::PROVIDER_TIMEOUT));
    let texts = (of(text()), of(text()), of(text()), cause, of(judging()));
    (text(), verdict(), score, severity, class, number(), texts, object()).prop_map(
        |(label, verdict, score, severity, class, weight, texts, metadata)| {
            let (metric, turn, reasoning, cause, judging) = texts;
            let judging = judging.filter(|_| class == Class::Probabilistic).map(Box::new);
            AssertionResult {
                assertion: "keywords".to_owned(),
                is_negated: severity == Severity::Soft,
                label,
                verdict,
                score,
                severity,
                class,
                weight,
                decides_score: class == Class::Probabilistic,
                metric,
                turn,
                reasoning,
                cause,
                judging,
                set: None,
                components: Vec::new(),
                named_scores: Vec::new(),
                evidence: Vec::new(),
                source: None,
                metadata,
            }
        },
    )
}

/// Returns judging data in which the model is always known.
fn judging() -> impl Strategy<Value = Judging> {
    let status = prop::sample::select(vec![VoteStatus::Passed, VoteStatus::Errored]);
    let vote = (of(text()), of(any::<u32>()), status, of(number()), of(text())).prop_map(
        |(judge, sample, status, score, reasoning)| {
            let mut vote = JudgeVote::default();
            (vote.judge, vote.sample, vote.status) = (judge, sample, status);
            (vote.score, vote.reasoning) = (score, reasoning);
            vote
        },
    );
    let panel = (vec(vote, 0..3), of(number()), any::<bool>()).prop_map(|(votes, spread, it)| {
        let mut panel = JudgePanel::default();
        (panel.votes, panel.spread, panel.borderline) = (votes, spread, it);
        panel
    });
    let flags = (any::<bool>(), any::<bool>());
    (text(), of(text()), of(2..9_u32), flags, of(panel), of(object())).prop_map(
        |(model, answered, asked, (tie, borderline), panel, settings)| {
            let mut judging = Judging::default();
            (judging.model, judging.answered, judging.asked) = (Some(model), answered, asked);
            (judging.tie, judging.borderline) = (tie, borderline);
            (judging.panel, judging.settings) = (panel, settings);
            judging
        },
    )
}

fn error() -> impl Strategy<Value = ExecutionError> {
    // A double holds up to 48 days in seconds with nanosecond precision.
    let wait = of((0..4_000_000_u64, 0..1_000_000_000_u32));
    prop_oneof![
        text().prop_map(|message| ExecutionError::Internal { message }),
        (text(), text(), of(any::<u16>()), any::<bool>(), wait, any::<u32>()).prop_map(
            |(provider, message, status, retryable, wait, attempts)| {
                ExecutionError::Provider(ProviderError {
                    kind: ProviderErrorKind::RateLimited,
                    provider,
                    message,
                    status,
                    retryable,
                    retry_after: wait.map(|(seconds, nanos)| Duration::new(seconds, nanos)),
                    attempts,
                    lost: false,
                    not_sent: false,
                    malformed: MalformedKind::Unknown,
                })
            }
        ),
    ]
}

/// Returns the result as a passed result, without components, named scores, metadata and facts about judgements.
pub(crate) fn passed(result: &AssertionResult) -> AssertionResult {
    AssertionResult {
        verdict: Verdict::Pass,
        score: result.score.map(|it| Score::new(it.get().abs()).unwrap()),
        weight: result.weight.abs(),
        components: Vec::new(),
        named_scores: Vec::new(),
        metadata: Map::new(),
        judging: None,
        set: None,
        ..result.clone()
    }
}

/// Returns results that a run may append to its journal.
pub(crate) fn result() -> impl Strategy<Value = ExecutionResult> {
    let outcome = prop::sample::select(vec![
        Outcome::Passed,
        Outcome::Scored,
        Outcome::Failed,
        Outcome::Errored,
    ]);
    (execution(), vec(assertion_result(), 0..3), outcome, of(error()), of(number()), usage())
        .prop_map(|(execution, results, outcome, error, judge_cost_usd, judge_usage)| {
            let judge_spending = Vec::new();
            ExecutionResult {
                execution,
                results,
                outcome,
                error,
                judge_cost_usd,
                judge_usage,
                judge_spending,
            }
        })
}
