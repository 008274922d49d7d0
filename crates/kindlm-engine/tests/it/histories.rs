//! Cases of a history, which get the exchanges of earlier cases.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kindlm_engine::{
    BodyError, BodySource, CaseBody, HISTORY, Record, RecordError, Run, RunOptions, Shard, Suite,
    Targets, TestCase, execute, plan, shard,
};
use kindlm_types::{CaseResult, ExecutionError, ExecutionResult, ProviderErrorKind, Reply};
use serde_json::{Map, Value};

use crate::support::{Fake, failure, last_user, model, reply};

/// A body whose prompt has the earlier prompts and outputs before a question.
#[derive(Debug)]
struct Question(&'static str);

impl BodySource for Question {
    fn body(&self) -> Result<Cow<'_, CaseBody>, BodyError> {
        self.body_with(&Map::new())
    }

    fn body_with(&self, vars: &Map<String, Value>) -> Result<Cow<'_, CaseBody>, BodyError> {
        let earlier = vars.get(HISTORY).and_then(Value::as_array).into_iter().flatten();
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
        let output = |it: &Value| match &it["output"] {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let exchange = |it| ["[", &text(it, "input"), " -> ", &output(it), "] "].concat();
        let earlier: String = earlier.map(exchange).collect();
        let stored = vars.get("kept").map(|it| format!(" kept {it}")).unwrap_or_default();
        Ok(Cow::Owned(CaseBody::prompt(format!("{earlier}{}{stored}", self.0))))
    }
}

fn case(question: &'static str, history: Option<&str>, models: &[&str]) -> TestCase {
    TestCase {
        history: history.map(Arc::from),
        body: Arc::new(Question(question)),
        ..TestCase::prompt(question, question, models)
    }
}

fn suite(cases: Vec<TestCase>) -> Suite {
    Suite { models: vec![model("a"), model("b")], cases, ..Suite::default() }
}

/// Builds a model that answers with the number of words, so that the answer depends on the earlier exchanges.
fn counting() -> Fake {
    Fake::new(|_, prompt| Ok(reply(&format!("{}", last_user(prompt).split_whitespace().count()))))
}

#[derive(Default)]
struct Memory(Mutex<HashMap<(String, String, u32), ExecutionResult>>);

impl Record for Memory {
    fn recall(
        &self,
        _at: usize,
        case: &str,
        model: &str,
        repeat: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        let key = (case.to_owned(), model.to_owned(), repeat);
        let found = self.0.lock().unwrap().get(&key).cloned();
        Ok(found.filter(|it| it.error.is_none()).map(|mut it| {
            it.execution.written = None;
            it
        }))
    }

    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        for (_, result) in finished {
            let it = &result.execution;
            let key = (it.case.clone(), it.model.clone(), it.repeat);
            self.0.lock().unwrap().insert(key, result.clone());
        }
        Ok(())
    }
}

async fn run(suite: &Suite, fake: &Fake, record: &dyn Record) -> Vec<CaseResult> {
    let options = RunOptions::default();
    let plan = plan(suite, &options).unwrap();
    execute(Run { record, ..Run::new(suite, &plan, &options, fake) }).await.cases
}

#[tokio::test(start_paused = true)]
async fn later_cases_get_the_earlier_exchanges() {
    let mut cases = vec![
        case("one", Some("x"), &["a", "b"]),
        case("two", Some("y"), &["a"]),
        case("three", Some("x"), &["a", "b"]),
        case("four", None, &["a"]),
        case("five", Some("x"), &["a"]),
    ];
    cases[3].repeat = 2;
    let fake = counting();
    run(&suite(cases), &fake, &()).await;
    let mut asked = fake.asked();
    asked.sort();
    assert_eq!(
        asked,
        [
            "[one -> 1] [[one -> 1] three -> 4] five",
            "[one -> 1] three",
            "[one -> 1] three",
            "four",
            "four",
            "one",
            "one",
            "two"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_case_after_one_without_answer_is_not_run() {
    let cases = vec![
        case("one", Some("x"), &["a"]),
        case("two", Some("x"), &["a"]),
        case("three", Some("x"), &["a"]),
    ];
    let fake = Fake::new(|_, prompt| match last_user(prompt) {
        asked if asked.ends_with("two") => Err(failure(ProviderErrorKind::Auth)),
        _ => Ok(reply("1")),
    });
    let cases = run(&suite(cases), &fake, &()).await;
    let reason = "not sent: the earlier test `two` has no answer".to_owned();
    assert_eq!(cases[2].executions[0].error, Some(ExecutionError::NotRun { reason }));
    assert_eq!(fake.asked(), ["one", "[one -> 1] two"]);
}

#[tokio::test(start_paused = true)]
async fn a_stored_output_is_a_variable_of_later_cases() {
    let mut cases = vec![
        case("one", Some("x"), &["a"]),
        case("two", Some("x"), &["a"]),
        case("three", Some("y"), &["a"]),
    ];
    cases[0].stores = Some(Arc::from("kept"));
    let fake = counting();
    run(&suite(cases), &fake, &()).await;
    let mut asked = fake.asked();
    asked.sort();
    assert_eq!(asked, ["[one -> 1] two kept \"1\"", "one", "three"]);
}

#[tokio::test(start_paused = true)]
async fn a_structured_output_stays_an_object() {
    let cases = vec![case("one", Some("x"), &["a"]), case("two", Some("x"), &["a"])];
    let fake = Fake::new(|_, _| {
        let output_json = Some(serde_json::json!({"a": 1}));
        Ok(Reply { output_json, ..reply(r#"{ "a": 1 }"#) })
    });
    run(&suite(cases), &fake, &()).await;
    assert_eq!(fake.asked(), ["one", r#"[one -> {"a":1}] two"#]);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_continues_the_history() {
    let all = || {
        suite(vec![
            case("one", Some("x"), &["a"]),
            case("two", Some("x"), &["a"]),
            case("three", Some("x"), &["a"]),
        ])
    };
    let record = Memory::default();
    let first = counting();
    let mut begun = all();
    begun.cases.truncate(2);
    run(&begun, &first, &record).await;
    let second = counting();
    let cases = run(&all(), &second, &record).await;
    assert_eq!(cases.len(), 3);
    assert_eq!(second.asked(), ["[one -> 1] [[one -> 1] two -> 4] three"]);
}

#[test]
fn a_selected_case_selects_its_history() {
    let cases = vec![
        case("one", Some("x"), &["a"]),
        case("two", Some("y"), &["a"]),
        case("three", Some("x"), &["a"]),
        case("four", None, &["a"]),
    ];
    let mut options = RunOptions::default();
    let mut changed = Targets::default();
    changed.insert("one", "a");
    options.filter.only = Some(changed);
    let plan = plan(&suite(cases), &options).unwrap();
    let planned: Vec<usize> = plan.units.iter().map(|it| it.case).collect();
    assert_eq!(planned, [0, 2]);
}

#[test]
fn a_history_is_in_one_shard() {
    let cases = ["one", "two", "three", "four"].map(|it| case(it, Some("x"), &["a"]));
    let suite = suite(cases.into());
    let options = RunOptions::default();
    let whole = plan(&suite, &options).unwrap();
    let mut counts =
        [1, 2].map(|index| shard(&suite, &whole, &options, Shard::new(index, 2), None).units.len());
    counts.sort_unstable();
    assert_eq!(counts, [0, 4]);
}
