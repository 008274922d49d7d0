//! Outputs that address the judge: they are data in the question, and do not change how the reply is read.
//!
//! `tests/injections.jsonl` has the outputs. Every check that asks a judge, except `drift`, judges each output.

use std::borrow::Cow;

use kindlm_assertions::{Candidate, Check, Evidence, OutputComparison, Setup, assertions, compile};
use kindlm_types::ask::{JudgeQuestion, mark_in};
use kindlm_types::{Answer, Answers, AssertionResult, Execution, Message, NoFiles, Question, Role};
use serde_json::{Value, json};

/// The replies of the judge, with the expected statuses for every output.
const VERDICTS: [(&str, &str); 3] = [
    (
        r#"{"mark":"MARK","results":[{"id":"a","pass":true,"reasoning":"x"},{"id":"b","pass":false,"reasoning":"y"}]}"#,
        "passed failed",
    ),
    (
        r#"{"mark":"MARK","results":[{"id":"b","pass":false,"reasoning":"y"},{"id":"a","pass":false,"reasoning":"x"}]}"#,
        "failed failed",
    ),
    (r#"{"mark":"MARK","results":[{"id":"a","pass":true,"reasoning":"x"}]}"#, "passed errored"),
];
const SCORES: [(&str, &str); 3] = [
    (r#"{"mark":"MARK","score":0.1,"reasoning":"x"}"#, "failed"),
    (r#"{"mark":"MARK","score":0.9,"reasoning":"x"}"#, "passed"),
    ("I would rather not say.", "errored"),
];

pub(crate) struct Injection {
    pub(crate) name: String,
    pub(crate) output: String,
}

pub(crate) fn injections() -> Vec<Injection> {
    let read = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        Injection { name: text("name"), output: text("output") }
    };
    include_str!("../injections.jsonl").lines().map(read).collect()
}

pub(crate) fn rules() -> Check {
    check(&json!({"assert": [{"type": "prompt-assertion", "assertions": [
        {"id": "a", "instruction": "Cite sources", "criteria": ["Are sources cited?"]},
        {"id": "b", "instruction": "Be polite"},
    ]}]}))
}

fn judge() -> Check {
    check(&json!({"judge": [{"criteria": "Is polite", "rubric": "1 = polite"}]}))
}

pub(crate) fn check(expect: &Value) -> Check {
    let (mut checks, problems) = compile(expect, &Setup::new(&NoFiles, None));
    assert!(problems.is_empty(), "{problems:?}");
    checks.remove(0)
}

/// Judges an output, and returns the results and the questions.
///
/// If the check asks more questions than there are replies, the last reply is given again.
fn judged(
    check: &Check,
    output: &str,
    replies: &[String],
) -> (Vec<AssertionResult>, Vec<JudgeQuestion>) {
    let execution = Execution {
        input: vec![Message::new(Role::User, "Where is my order?")],
        output: output.to_owned(),
        ..Execution::default()
    };
    let mut answers = Answers::default();
    let mut asked = Vec::new();
    loop {
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        let mut questions = check.questions(&evidence);
        questions.retain(|it| answers.get(it).is_none());
        let Some(question) = questions.pop() else {
            return (check.evaluate(&evidence), asked);
        };
        let text = replies.get(asked.len()).or(replies.last()).unwrap();
        let Question::Judge(judge) = &question else { panic!("{question:?}") };
        let text = marked(text, judge);
        asked.push(judge.clone());
        answers.insert(&question, Ok(Answer::from_text(text, "judge")));
    }
}

/// Returns the reply with `MARK` replaced by the mark of the question.
pub(crate) fn marked(reply: &str, question: &JudgeQuestion) -> String {
    reply.replace("MARK", mark_in(&question.user).unwrap_or("MARK"))
}

pub(crate) fn statuses(results: &[AssertionResult]) -> String {
    results.iter().map(|it| it.verdict.status()).collect::<Vec<_>>().join(" ")
}

/// Returns the text inside a fence, and the text around the fence.
fn between<'q>(question: &'q str, name: &str) -> (&'q str, String) {
    let begin = question.find(&format!("BEGIN {name} ")).unwrap();
    let line = question[begin..].lines().next().unwrap();
    let mark = line.rsplit(' ').next().unwrap();
    assert_eq!(mark.len(), 24);
    let end = format!("\nEND {name} {mark}");
    assert_eq!(question.matches(&end).count(), 1, "the fence ends once");
    let inside = begin + line.len() + 1;
    let ends = question.rfind(&end).unwrap();
    let around = format!("{}{}", &question[..begin], &question[ends + end.len()..]);
    (&question[inside.min(ends)..ends], around.replace(mark, "MARK"))
}

#[test]
fn the_fence_holds_the_whole_output_and_nothing_else_changes() {
    for (check, name) in [(rules(), "agent output"), (judge(), "output")] {
        let silent = ["no".to_owned()];
        let (_, plain) = judged(&check, "Hello", &silent);
        let (_, plain_around) = between(&plain[0].user, name);
        for it in injections() {
            let (_, asked) = judged(&check, &it.output, &silent);
            assert_eq!(asked[0].system, plain[0].system, "{}", it.name);
            assert_eq!(asked[0].response_format, plain[0].response_format, "{}", it.name);
            let (inside, around) = between(&asked[0].user, name);
            assert_eq!(inside, it.output, "{}", it.name);
            assert_eq!(around, plain_around, "{}", it.name);
            // A repeated question starts with the original question.
            assert!(asked[1].user.starts_with(&asked[0].user), "{}", it.name);
            // Equal outputs give equal questions, so that stored answers are found.
            let (_, again) = judged(&check, &it.output, &silent);
            assert_eq!(again, asked, "{}", it.name);
        }
    }
}

#[test]
fn the_output_does_not_change_how_replies_are_read() {
    for (check, replies) in [(rules(), VERDICTS), (judge(), SCORES)] {
        for (reply, expected) in replies {
            for it in injections() {
                let (results, _) = judged(&check, &it.output, &[reply.to_owned()]);
                assert_eq!(statuses(&results), expected, "{}: {reply}", it.name);
            }
        }
    }
}

#[test]
fn a_quoted_output_does_not_change_the_verdict() {
    for (check, (verdict, expected), mild) in
        [(rules(), VERDICTS[1], VERDICTS[0].0), (judge(), SCORES[0], SCORES[1].0)]
    {
        for it in injections() {
            for quoted in [
                format!("The output says:\n{}\n\nMy verdict:\n{verdict}", it.output),
                format!("{verdict}\n\nThat is because it says: {}", it.output),
                // This reply is not even valid JSON, because the quotation in the reason is not escaped.
                verdict.replace("\"x\"", &format!("\"it says {}\"", it.output)),
            ] {
                // A readable part gives the verdict. After an unreadable reply, the judge is asked again.
                let (results, _) = judged(&check, &it.output, std::slice::from_ref(&quoted));
                let said = statuses(&results);
                assert!(!said.contains("passed"), "{}: {said}: {quoted}", it.name);
                let (results, asked) =
                    judged(&check, &it.output, &[quoted.clone(), verdict.to_owned()]);
                assert_eq!(statuses(&results), expected, "{}: {quoted}", it.name);
                assert!(asked.len() <= 2);
            }
        }
        // The control: an item passes if the judge itself passes the item.
        let (results, _) = judged(&check, "Hello", &[mild.to_owned()]);
        assert!(statuses(&results).contains("passed"));
    }
}

/// A row of the table: a check in list form that a model grades.
///
/// `passes` and `fails` are the judge's replies, step by step, that pass and fail the check. `fence` is the name of the
/// fence with the output, or `None` if the question does not contain the output.
pub(crate) struct Graded {
    pub(crate) entry: Value,
    pub(crate) passes: &'static [&'static str],
    pub(crate) fails: &'static [&'static str],
    fence: Option<&'static str>,
}

#[rustfmt::skip]
pub(crate) fn graded() -> Vec<Graded> {
    let row = |entry, passes, fails, fence| Graded { entry, passes, fails, fence };
    vec![
        row(json!({"type": "llm-rubric", "value": "Is polite"}),
            &[r#"{"mark":"MARK","pass":true,"score":1,"reason":"x"}"#], &[r#"{"mark":"MARK","pass":false,"score":0,"reason":"x"}"#], Some("output")),
        row(json!({"type": "g-eval", "value": "Is polite"}),
            &[r#"{"mark":"MARK","steps":["Look."]}"#, r#"{"mark":"MARK","score":9,"reason":"x"}"#], &[r#"{"mark":"MARK","steps":["Look."]}"#, r#"{"mark":"MARK","score":1,"reason":"x"}"#], Some("output")),
        row(json!({"type": "factuality", "value": "It ships today."}),
            &[r#"{"mark":"MARK","category":"C","reason":"x"}"#], &[r#"{"mark":"MARK","category":"D","reason":"x"}"#], Some("submitted answer")),
        row(json!({"type": "model-graded-factuality", "value": "It ships today."}),
            &[r#"{"mark":"MARK","category":"C","reason":"x"}"#], &[r#"{"mark":"MARK","category":"D","reason":"x"}"#], Some("submitted answer")),
        row(json!({"type": "model-graded-closedqa", "value": "Is polite"}),
            &[r#"{"mark":"MARK","choice":"Y","reason":"x"}"#], &[r#"{"mark":"MARK","choice":"N","reason":"x"}"#], Some("output")),
        row(json!({"type": "answer-relevance"}),
            &[r#"{"mark":"MARK","question":"Where is my order?"}"#], &[r#"{"mark":"MARK","question":"Do you like trains?"}"#], Some("answer")),
        row(json!({"type": "context-faithfulness"}),
            &[r#"{"mark":"MARK","statements":["It ships."]}"#, r#"{"mark":"MARK","verdicts":[{"reason":"x","supported":true}]}"#],
            &[r#"{"mark":"MARK","statements":["It ships."]}"#, r#"{"mark":"MARK","verdicts":[{"reason":"x","supported":false}]}"#], Some("answer")),
        row(json!({"type": "context-recall", "value": "It ships."}),
            &[r#"{"mark":"MARK","statements":[{"statement":"It ships.","attributed":true}]}"#],
            &[r#"{"mark":"MARK","statements":[{"statement":"It ships.","attributed":false}]}"#], None),
        row(json!({"type": "context-relevance", "threshold": 0.1}),
            &[r#"{"mark":"MARK","sentences":["It ships today."]}"#], &[r#"{"mark":"MARK","sentences":[]}"#], None),
        row(json!({"type": "moderation"}),
            &[r#"{"mark":"MARK","flags":[]}"#], &[r#"{"mark":"MARK","flags":[{"code":"hate","description":"x","confidence":0.9}]}"#], Some("output")),
        row(json!({"type": "classifier", "labels": ["kind", "rude"], "value": "kind", "threshold": 0.5}),
            &[r#"{"mark":"MARK","scores":{"kind":0.9,"rude":0.1}}"#], &[r#"{"mark":"MARK","scores":{"kind":0.1,"rude":0.9}}"#], Some("output")),
        row(json!({"type": "judge:factuality", "value": "It ships today.", "severity": "gate", "atLeast": 0.5}),
            &[r#"{"mark":"MARK","choice":"C","reason":"x"}"#], &[r#"{"mark":"MARK","choice":"D","reason":"x"}"#], Some("submitted answer")),
        row(json!({"type": "judge:closedQA", "value": "Is polite", "severity": "gate", "atLeast": 0.5}),
            &[r#"{"mark":"MARK","choice":"Y","reason":"x"}"#], &[r#"{"mark":"MARK","choice":"N","reason":"x"}"#], Some("output")),
        row(json!({"type": "judge:summarizes", "value": "It ships today.", "severity": "gate", "atLeast": 0.5}),
            &[r#"{"mark":"MARK","choice":"A","reason":"x"}"#], &[r#"{"mark":"MARK","choice":"D","reason":"x"}"#], Some("summary")),
        row(json!({"type": "trajectory:goal-success", "value": "The order ships"}),
            &[r#"{"mark":"MARK","pass":true,"score":1,"reason":"x"}"#], &[r#"{"mark":"MARK","pass":false,"score":0,"reason":"x"}"#], Some("output")),
        row(json!({"type": "select-best", "value": "Is polite", "orders": "one"}),
            &[r#"{"mark":"MARK","best":0,"reason":"x"}"#], &[r#"{"mark":"MARK","best":1,"reason":"x"}"#], Some("output 0")),
    ]
}

/// Judges an output with these replies; returns the status and the questions.
///
/// Each step gets one reply.
fn graded_by(check: &Check, output: &str, replies: &[&str]) -> (String, Vec<JudgeQuestion>) {
    graded_with(check, output, "It ships today.", replies)
}

/// Judges an output, with a context and a baseline, by these replies, step by step.
///
/// Returns the status and the questions.
pub(crate) fn graded_with(
    check: &Check,
    output: &str,
    retrieved: &str,
    replies: &[&str],
) -> (String, Vec<JudgeQuestion>) {
    let of = |output: &str| Execution {
        input: vec![Message::new(Role::User, "Where is my order?")],
        output: output.to_owned(),
        requests: 1,
        vars: json!({"context": retrieved}).as_object().unwrap().clone(),
        ..Execution::default()
    };
    let candidates =
        [output, "The other one."].map(|it| Candidate::new("m", Cow::Owned(of(it)), &[], true));
    let comparison = check.compares().then_some(OutputComparison::new(&candidates, 0));
    let execution = of(output);
    let mut answers = Answers::default();
    let mut asked = Vec::new();
    for step in 0.. {
        let baseline = Some("It ships today.");
        let evidence = Evidence { execution: &execution, answers: &answers, baseline, comparison };
        let mut questions = check.questions(&evidence);
        questions.retain(|it| answers.get(it).is_none());
        if questions.is_empty() {
            return (statuses(&check.evaluate(&evidence)), asked);
        }
        for question in questions {
            let answer = match &question {
                Question::Judge(question) => {
                    asked.push(question.clone());
                    let text = replies.get(step).or(replies.last()).unwrap();
                    Answer::from_text(marked(text, question), "judge")
                }
                Question::Embedding(question) if question.text.contains("my order") => {
                    Answer::from_vector([1.0, 0.0])
                }
                Question::Embedding(_) => Answer::from_vector([0.0, 1.0]),
                Question::Script(_) => panic!("no script"),
            };
            answers.insert(&question, Ok(answer));
        }
    }
    unreachable!("the steps end")
}

#[test]
fn injected_outputs_do_not_change_a_grade() {
    for row in graded() {
        let kind = row.entry["type"].as_str().unwrap();
        let check = check(&json!({"assert": [row.entry]}));
        let (_, plain) = graded_by(&check, "Hello", row.passes);
        // Use the first question that shows the output.
        let shown = |asked: &[JudgeQuestion], fence: &str| {
            let begin = format!("BEGIN {fence} ");
            asked.iter().find(|it| it.user.contains(&begin)).map(|it| it.user.clone()).unwrap()
        };
        let plain_around = row.fence.map(|it| between(&shown(&plain, it), it).1);
        for it in injections() {
            let name = &it.name;
            for (replies, expected) in [(row.passes, "passed"), (row.fails, "failed")] {
                let (said, asked) = graded_by(&check, &it.output, replies);
                // Some checks ask no question about an empty output.
                if asked.is_empty() {
                    assert!(it.output.trim().is_empty(), "{kind}: {name}: nobody was asked");
                    continue;
                }
                assert_eq!(said, expected, "{kind}: {name}");
                assert_eq!(asked[0].system, plain[0].system, "{kind}: {name}");
                assert_eq!(asked[0].response_format, plain[0].response_format, "{kind}: {name}");
                match row.fence {
                    Some(fence) => {
                        let question = shown(&asked, fence);
                        let (inside, around) = between(&question, fence);
                        assert_eq!(inside, it.output, "{kind}: {name}");
                        assert_eq!(Some(around), plain_around, "{kind}: {name}");
                    }
                    None => assert_eq!(asked[0].user, plain[0].user, "{kind}: {name}"),
                }
            }
        }
    }
}

/// Checks that the table has all checks that ask a judge, except those in `elsewhere`.
///
/// `conversation-relevance` is not in the table, because its fence contains the whole conversation.
#[test]
fn every_check_that_asks_a_judge_is_in_the_table() {
    let elsewhere = ["judge", "prompt-assertion", "drift", "conversation-relevance"];
    let table: Vec<String> =
        graded().iter().map(|it| it.entry["type"].as_str().unwrap().to_owned()).collect();
    for it in assertions().filter(|it| it.build.asks_judges()) {
        let id = it.meta.id;
        assert!(table.iter().any(|it| it == id) || elsewhere.contains(&id), "`{id}` has no row");
    }
    let entry = json!({"assert": [{"type": "conversation-relevance"}]});
    for it in injections().iter().filter(|it| !it.output.trim().is_empty()) {
        for (verdict, expected) in [("yes", "passed"), ("no", "failed")] {
            let reply = json!({"mark": "MARK", "verdict": verdict, "reason": "x"}).to_string();
            let (said, asked) = graded_by(&check(&entry), &it.output, &[&reply]);
            assert_eq!(said, expected, "{}", it.name);
            assert_eq!(asked[0].user.matches("END conversation ").count(), 1, "{}", it.name);
        }
    }
}
