//! Outputs that talk to the judge: they are data in the question, and change nothing about how the reply is read.
//!
//! `tests/injections.jsonl` holds them; each goes through `prompt-assertion` and `judge`.

use kindlm_assertions::{Check, Evidence, Setup, compile};
use kindlm_types::ask::JudgeQuestion;
use kindlm_types::{
    Answer, Answers, AssertionResult, Execution, Message, NoFiles, Question, Role, Usage,
};
use serde_json::{Value, json};

/// What the judge says, and what that comes to whatever the output was.
const VERDICTS: [(&str, &str); 3] = [
    (
        r#"{"results":[{"id":"a","pass":true,"reasoning":"x"},{"id":"b","pass":false,"reasoning":"y"}]}"#,
        "passed failed",
    ),
    (
        r#"{"results":[{"id":"b","pass":false,"reasoning":"y"},{"id":"a","pass":false,"reasoning":"x"}]}"#,
        "failed failed",
    ),
    (r#"{"results":[{"id":"a","pass":true,"reasoning":"x"}]}"#, "passed errored"),
];
const SCORES: [(&str, &str); 3] = [
    (r#"{"score":0.1,"reasoning":"x"}"#, "failed"),
    (r#"{"score":0.9,"reasoning":"x"}"#, "passed"),
    ("I would rather not say.", "errored"),
];

struct Injection {
    name: String,
    output: String,
}

fn injections() -> Vec<Injection> {
    let read = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        Injection { name: text("name"), output: text("output") }
    };
    include_str!("../injections.jsonl").lines().map(read).collect()
}

fn rules() -> Check {
    check(&json!({"assert": [{"type": "prompt-assertion", "assertions": [
        {"id": "a", "instruction": "Cite sources", "criteria": ["Are sources cited?"]},
        {"id": "b", "instruction": "Be polite"},
    ]}]}))
}

fn judge() -> Check {
    check(&json!({"judge": [{"criteria": "Is polite", "rubric": "1 = polite"}]}))
}

fn check(expect: &Value) -> Check {
    let (mut checks, problems) = compile(expect, &Setup::new(&NoFiles, None));
    assert!(problems.is_empty(), "{problems:?}");
    checks.remove(0)
}

/// Judges an output by these replies, the last of which is given again and again; tells the questions, too.
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
            Evidence { execution: &execution, answers: &answers, baseline: None, contest: None };
        let mut questions = check.questions(&evidence);
        questions.retain(|it| answers.get(it).is_none());
        let Some(question) = questions.pop() else {
            return (check.evaluate(&evidence), asked);
        };
        let text = replies.get(asked.len()).or(replies.last()).unwrap().clone();
        let (model, usage) = ("judge".to_owned(), Usage::default());
        answers.insert(&question, Ok(Answer::Text { text, model, usage, cost_usd: None }));
        let Question::Judge(question) = question else { panic!("{question:?}") };
        asked.push(question);
    }
}

fn statuses(results: &[AssertionResult]) -> String {
    results.iter().map(|it| it.verdict.status()).collect::<Vec<_>>().join(" ")
}

/// The text between the lines of a fence, and what stands around the fence.
fn between<'q>(question: &'q str, name: &str) -> (&'q str, String) {
    let begin = question.find(&format!("BEGIN {name} ")).unwrap();
    let line = question[begin..].lines().next().unwrap();
    let mark = line.rsplit(' ').next().unwrap();
    assert_eq!(mark.len(), 32);
    let end = format!("\nEND {name} {mark}");
    assert_eq!(question.matches(&end).count(), 1, "the fence ends once");
    let inside = begin + line.len() + 1;
    let ends = question.rfind(&end).unwrap();
    let around = format!("{}{}", &question[..begin], &question[ends + end.len()..]);
    (&question[inside.min(ends)..ends], around.replace(mark, "MARK"))
}

#[test]
fn the_output_is_inside_its_fence_whole_and_nothing_else_of_the_question_changes() {
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
            // Asked again, the question is the same and more.
            assert!(asked[1].user.starts_with(&asked[0].user), "{}", it.name);
            // The same output is the same question: answers that are kept are found again.
            let (_, again) = judged(&check, &it.output, &silent);
            assert_eq!(again, asked, "{}", it.name);
        }
    }
}

#[test]
fn the_reply_is_read_alike_whatever_the_output_says() {
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
fn a_judge_that_quotes_the_output_before_its_verdict_gives_no_other_verdict() {
    for (check, (verdict, expected), mild) in
        [(rules(), VERDICTS[1], VERDICTS[0].0), (judge(), SCORES[0], SCORES[1].0)]
    {
        for it in injections() {
            for quoted in [
                format!("The output says:\n{}\n\nMy verdict:\n{verdict}", it.output),
                format!("{verdict}\n\nThat is because it says: {}", it.output),
                // Not even well-formed: the quotation stands in the reason without escapes.
                verdict.replace("\"x\"", &format!("\"it says {}\"", it.output)),
            ] {
                // Whatever can be read of it is the verdict; what cannot be read is asked about again.
                let (results, _) = judged(&check, &it.output, std::slice::from_ref(&quoted));
                let said = statuses(&results);
                assert!(!said.contains("passed"), "{}: {said}: {quoted}", it.name);
                let (results, asked) =
                    judged(&check, &it.output, &[quoted.clone(), verdict.to_owned()]);
                assert_eq!(statuses(&results), expected, "{}: {quoted}", it.name);
                assert!(asked.len() <= 2);
            }
        }
        // The control: where the judge itself passes something, it passes.
        let (results, _) = judged(&check, "Hello", &[mild.to_owned()]);
        assert!(statuses(&results).contains("passed"));
    }
}
