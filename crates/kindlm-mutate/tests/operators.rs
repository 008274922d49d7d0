//! Tests of the operators: each mutant differs from its original, and is the same each time.

use std::collections::HashSet;
use std::fmt::Write as _;

use kindlm_mutate::{
    Family, MutatedEvidence, OPERATORS, Operator, Original, find, shown, unusable,
};
use kindlm_types::workspace::{ChangeKind, CommandRan, FileChange, RecordedFile};
use kindlm_types::{
    Channel, Completeness, Coverage, Event, Execution, FinishReason, Speaker, ToolCall, ToolSpec,
    Turn, Workspace,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn operators() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.into_iter().flatten()
}

fn vars(pairs: &[(&str, &str)]) -> serde_json::Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    let response = Some(json!({"ok": true}));
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
        response,
        ..ToolCall::default()
    }
}

fn support(case: &str, order: &str, name: &str, state: &str) -> Execution {
    Execution {
        case: case.to_owned(),
        output: format!(
            "Hello {name}. Your order {order} has been {state} on 3 May. You can follow it at any time. \
             Is there anything else?"
        ),
        tool_calls: vec![
            call("a", "lookup_order", json!({"order_id": order})),
            call("b", "log_contact", json!({"order_id": order, "topic": "status"})),
        ],
        tools: vec![ToolSpec { name: "issue_refund".to_owned(), ..ToolSpec::default() }],
        vars: vars(&[("order", order), ("name", name), ("state", state)]),
        ..Execution::default()
    }
}

fn order(case: &str, id: &str, status: &str) -> Execution {
    let value =
        json!({"id": id, "status": status, "items": [{"sku": "a/b", "count": 2}], "paid": true});
    Execution { case: case.to_owned(), output: value.to_string(), ..Execution::default() }
}

fn coding() -> Execution {
    let change = |path: &str, change: ChangeKind, text: &str, patch: Option<&str>| FileChange {
        path: path.to_owned(),
        change,
        bytes: text.len() as u64,
        text: Some(text.to_owned()),
        patch: patch.map(str::to_owned),
        ..FileChange::default()
    };
    let patch = "--- a/src/cart.ts\n+++ b/src/cart.ts\n@@ -1 +1 @@\n-return 0;\n+return total;\n";
    let workspace = Workspace {
        changes: vec![
            change("src/cart.ts", ChangeKind::Changed, "return total;\n", Some(patch)),
            change("test/cart.test.ts", ChangeKind::Added, "expect(total(cart)).toBe(3);\n", None),
        ],
        files: vec![RecordedFile {
            path: "src/cart.ts".to_owned(),
            text: Some("return total;\n".to_owned()),
            problem: None,
        }],
        ..Workspace::default()
    };
    Execution {
        case: "coding".to_owned(),
        workspace: Some(Box::new(workspace)),
        ..Execution::default()
    }
}

fn originals() -> Vec<Execution> {
    vec![
        support("refund", "12345", "Ada", "shipped"),
        support("status", "12352", "Bob", "delivered"),
        order("order", "A-1", "open"),
        order("other order", "A-2", "closed"),
        coding(),
    ]
}

/// Returns the mutants of an execution, each with its operator.
fn mutants(execution: &Execution, others: &[Execution]) -> Vec<(&'static Operator, Execution)> {
    let original = Original::new(execution, others, "digest");
    operators().filter_map(|it| Some((it, it.mutant(&original)?))).collect()
}

#[test]
fn each_operator_changes_one_thing() {
    let all = originals();
    let mut text = String::new();
    for execution in &all {
        for (operator, mutant) in mutants(execution, &all) {
            let (id, case) = (operator.id, &execution.case);
            let family = if operator.family == Family::Harmful { "-" } else { "=" };
            writeln!(text, "{family} {case}: {id}\n{}\n", shown(operator.evidence, &mutant))
                .unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_operator_has_an_example() {
    let all = originals();
    let seen: HashSet<&str> =
        all.iter().flat_map(|it| mutants(it, &all)).map(|(operator, _)| operator.id).collect();
    let missing: Vec<&str> = operators().map(|it| it.id).filter(|it| !seen.contains(it)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn ids_are_unique_and_texts_are_complete() {
    let mut ids = HashSet::new();
    for it in operators() {
        assert!(ids.insert(it.id), "{}", it.id);
        assert!(!it.summary.is_empty() && !it.advice.is_empty(), "{}", it.id);
        assert_eq!(find(it.id).unwrap().id, it.id);
    }
    assert!(find("other").is_none());
}

#[test]
fn turns_and_events_change_with_the_output() {
    let said = |text: &str| Event::Message { role: Speaker::Assistant, text: text.to_owned() };
    let plain = support("refund", "12345", "Ada", "shipped");
    let mut recorded_events = Event::of_calls(&plain.tool_calls);
    recorded_events.insert(0, said("Let me see."));
    recorded_events.push(said(&plain.output));
    let turn = |label: &str, text: &str, calls: std::ops::Range<usize>, events| Turn {
        label: label.to_owned(),
        text: text.to_owned(),
        tool_calls: calls,
        events,
        ..Turn::default()
    };
    let turns =
        vec![turn("first", "Let me see.", 0..1, 0..2), turn("last", &plain.output, 1..2, 2..6)];
    let execution = Execution { recorded_events, turns, ..plain };
    for (operator, mutant) in mutants(&execution, &originals()) {
        let id = operator.id;
        assert_eq!(mutant.turns[1].text, mutant.output, "{id}");
        assert_eq!(mutant.turns[0].text, "Let me see.", "{id}");
        assert_eq!(mutant.recorded_events.last(), Some(&said(&mutant.output)), "{id}");
        let called = mutant.recorded_events.iter().filter_map(|it| match it {
            Event::ActionCalled { name, input, .. } => Some((name.clone(), input.clone())),
            _ => None,
        });
        let calls = mutant.tool_calls.iter().map(|it| (it.name.clone(), it.arguments.clone()));
        assert_eq!(called.collect::<Vec<_>>(), calls.collect::<Vec<_>>(), "{id}");
        let (first, last) = (&mutant.turns[0], &mutant.turns[1]);
        assert_eq!(last.tool_calls.end, mutant.tool_calls.len(), "{id}");
        assert_eq!(last.events.end, mutant.recorded_events.len(), "{id}");
        assert_eq!(first.tool_calls.end, last.tool_calls.start, "{id}");
        assert_eq!(first.events.end, last.events.start, "{id}");
    }
}

#[test]
fn incomplete_evidence_is_not_changed() {
    let whole = || support("refund", "12345", "Ada", "shipped");
    let cut = Execution { finish_reason: Some(FinishReason::Length), ..whole() };
    let completeness = Completeness {
        coverage: Coverage::Only([Channel::Messages].into()),
        ..Completeness::default()
    };
    let only_texts = Execution { completeness, ..whole() };
    let said = Event::Message { role: Speaker::Assistant, text: "Part one.".to_owned() };
    let in_parts = Execution { recorded_events: vec![said], ..whole() };
    let mut tested = coding();
    tested.workspace.as_mut().unwrap().commands.push(CommandRan::default());
    let mut large = coding();
    large.workspace.as_mut().unwrap().changes[0].cut = true;
    let (text, tools, files) =
        (MutatedEvidence::Text, MutatedEvidence::Tools, MutatedEvidence::Files);
    for (execution, evidence, reason) in [
        (&whole(), text, None),
        (&whole(), tools, None),
        (&coding(), files, None),
        (
            &cut,
            text,
            Some(
                "the answer is incomplete: the answer was cut at its token limit; raise `maxTokens` of the model",
            ),
        ),
        (
            &cut,
            tools,
            Some(
                "the tool calls are incomplete: the answer was cut at its token limit; raise `maxTokens` of the model",
            ),
        ),
        (&only_texts, text, None),
        (&only_texts, tools, Some("the tool calls are not recorded completely")),
        (&in_parts, text, Some("the last message in the events is not the output")),
        (
            &tested,
            files,
            Some("commands ran in the workspace, and their results cannot be repeated offline"),
        ),
        (&large, files, Some("a changed file was too large to be recorded")),
    ] {
        assert_eq!(unusable(evidence, execution).as_deref(), reason, "{evidence:?}");
        let changed = mutants(execution, &originals());
        assert_eq!(changed.iter().any(|(it, _)| it.evidence == evidence), reason.is_none());
    }
}

#[test]
fn labels_and_code_have_no_harmless_mutants() {
    for output in ["", "positive", "42", "Use this:\n```rust\nlet a = 1. ;\n```\nDone. Bye."] {
        let execution = Execution { output: output.to_owned(), ..Execution::default() };
        let harmless =
            mutants(&execution, &[]).into_iter().filter(|(it, _)| it.family == Family::Harmless);
        assert_eq!(harmless.count(), 0, "{output:?}");
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z~/]{0,3}", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

#[test]
fn calls_with_equal_ids_change_separately() {
    let answers = ["look", "refund"].map(|name| ToolCall {
        response: Some(json!({"of": name})),
        ..call("call_0", name, json!({"order": "777", "of": name}))
    });
    let execution = Execution {
        recorded_events: answers.iter().flat_map(Event::of_call).collect(),
        tool_calls: answers.to_vec(),
        output: "Done.".to_owned(),
        ..Execution::default()
    };
    let others = originals();
    let all = mutants(&execution, &others);
    let changed = all.iter().filter(|(_, it)| it.tool_calls != execution.tool_calls);
    let mut orders = HashSet::new();
    for (operator, mutant) in changed {
        assert_eq!(
            Event::tool_calls(&mutant.recorded_events),
            mutant.tool_calls,
            "{}",
            operator.id
        );
        let names = mutant.tool_calls.iter().map(|it| it.name.clone());
        orders.insert(names.collect::<Vec<_>>().join(" "));
    }
    assert!(orders.contains("refund look"), "{orders:?}");
    assert!(orders.contains("refund") || orders.contains("look"), "{orders:?}");
}

#[test]
fn an_added_call_is_the_last_if_no_message_follows_the_calls() {
    let tool_calls = vec![call("a", "look", json!({}))];
    let said = Event::Message { role: Speaker::Assistant, text: "Let me see.".to_owned() };
    let mut recorded_events = vec![said];
    recorded_events.extend(Event::of_calls(&tool_calls));
    let turn = Turn { tool_calls: 0..1, events: 0..3, ..Turn::default() };
    let execution =
        Execution { tool_calls, recorded_events, turns: vec![turn], ..Execution::default() };
    let original = Original::new(&execution, &[], "digest");
    for id in ["add-call", "repeat-call"] {
        let mutant = find(id).unwrap().mutant(&original).unwrap();
        assert_eq!(Event::tool_calls(&mutant.recorded_events), mutant.tool_calls, "{id}");
        assert_eq!(mutant.turns[0].tool_calls, 0..2, "{id}");
        assert_eq!(mutant.turns[0].events, 0..5, "{id}");
    }
}

#[test]
fn equal_calls_are_not_swapped() {
    let look = |id: &str| call(id, "look", json!({"order": "777"}));
    let refund = call("c", "refund", json!({}));
    for (tool_calls, swapped) in [
        (vec![look("a"), look("b")], None),
        (vec![look("a"), look("b"), refund], Some("look refund look")),
    ] {
        let execution = Execution { tool_calls, ..Execution::default() };
        let original = Original::new(&execution, &[], "digest");
        let mutant = find("swap-calls").unwrap().mutant(&original);
        let names = mutant
            .map(|it| it.tool_calls.iter().map(|it| it.name.clone()).collect::<Vec<_>>().join(" "));
        assert_eq!(names.as_deref(), swapped);
    }
}

fn execution() -> impl Strategy<Value = Execution> {
    let output = prop_oneof![
        "\\PC{0,80}",
        "([A-Z][a-z]{0,5} (is|has) [0-9]{1,3} (May|kg)[.!?] ){0,4}",
        json_value().prop_map(|it| it.to_string()),
    ];
    let calls = prop::collection::vec(("[a-c]{1,2}", "[a-z]{1,4}", json_value()), 0..4);
    (output, calls, prop::option::of(json_value()), any::<bool>()).prop_map(
        |(output, calls, output_json, has_events)| {
            let tool_calls: Vec<ToolCall> =
                calls.into_iter().map(|(id, name, it)| call(&id, &name, it)).collect();
            let recorded_events =
                if has_events { Event::of_calls(&tool_calls) } else { Vec::new() };
            let case = "generated".to_owned();
            Execution {
                case,
                output,
                output_json,
                tool_calls,
                recorded_events,
                ..Execution::default()
            }
        },
    )
}

proptest! {
    #[test]
    fn mutants_differ_and_repeat(execution in execution(), seed in "[a-f0-9]{0,8}") {
        let others = originals();
        let original = Original::new(&execution, &others, &seed);
        for operator in operators() {
            let mutant = operator.mutant(&original);
            prop_assert_eq!(&mutant, &operator.mutant(&original), "{}", operator.id);
            prop_assert_ne!(mutant.as_ref(), Some(&execution), "{}", operator.id);
            if let Some(mutant) = mutant {
                // Only the named evidence changes.
                let is_text = matches!(operator.evidence, MutatedEvidence::Text | MutatedEvidence::Json);
                prop_assert_eq!(is_text, mutant.tool_calls == execution.tool_calls, "{}", operator.id);
                prop_assert_eq!(!is_text, mutant.output == execution.output && mutant.output_json == execution.output_json, "{}", operator.id);
            }
        }
    }
}
