//! Judging: the choice of judges, the number of questions, and the cost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kindlm_assertions::{Assertion, Check, Evidence, Meta, Traits};
use kindlm_engine::{Judgement, Judges, Model, judge, judge_observed};
use kindlm_types::ask::{EmbeddingQuestion, JudgeQuestion};
use kindlm_types::{
    Answer, AssertionResult, Class, Execution, Outcome, Params, ProviderErrorKind, Question, Reply,
    Verdict,
};

use crate::support::{
    Fake, asks, asks_model, close, failure, last_user, model, reply, says, unsupported,
};

fn output_text(text: &str) -> Execution {
    Execution { output: text.to_owned(), ..Execution::default() }
}

async fn judged(checks: &[Check], fake: &Fake) -> Judgement {
    let models = [model("a"), model("b")];
    let judges = Judges::new(fake, &models, None);
    judge(checks, &output_text("hello"), None, &judges).await
}

#[tokio::test(start_paused = true)]
async fn checks_that_ask_nothing_cost_nothing() {
    let fake = Fake::saying("never");
    let judged = judged(&[says("hello"), says("bye")], &fake).await;
    assert_eq!(judged.outcome, Outcome::Failed);
    assert_eq!((judged.cost_usd, judged.usage.total().total_tokens), (Some(0.0), 0));
    assert!(fake.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn questions_repeat_in_rounds_and_their_cost_counts() {
    let fake = Fake::new(|_, _| Ok(reply("no idea")));
    let judged = judged(&[asks("polite?")], &fake).await;
    assert_eq!(judged.outcome, Outcome::Errored);
    assert_eq!(judged.results[0].verdict.code().unwrap().as_str(), "JUDGE_PARSE_ERROR");
    assert_eq!(fake.asked(), ["polite? hello", "polite? hello"]);
    assert_eq!(judged.usage.total().total_tokens, 30);
    assert!(close(judged.cost_usd.unwrap(), 30e-6));
    let prompts = fake.prompts.lock().unwrap();
    assert_eq!(prompts[0].params.temperature, Some(0.0));
    assert_eq!(prompts[0].params.max_tokens, Some(64));
    assert_eq!(prompts[0].model, "a-name");
    assert_eq!((prompts[0].sample, prompts[1].sample), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_judge_has_its_own_seed_and_as_many_tokens_as_it_was_given() {
    for (own, most) in [(None, 64), (Some(16), 64), (Some(4_000), 4_000)] {
        let fake = Fake::saying("no number");
        let stop_sequences = vec!["}".to_owned()];
        let params = Params {
            max_tokens: own,
            seed: Some(7),
            top_p: Some(0.5),
            stop_sequences,
            temperature: Some(1.0),
        };
        let models = [Model { params, ..model("a") }];
        judge(&[asks("polite?")], &output_text("hello"), None, &Judges::new(&fake, &models, None))
            .await;
        let prompts = fake.prompts.lock().unwrap();
        let asked = |it: u32| Params {
            temperature: Some(0.0),
            max_tokens: Some(most),
            seed: Some(7 + i64::from(it)),
            ..Params::default()
        };
        assert_eq!(prompts[0].params, asked(0));
        assert_eq!(prompts[1].params, asked(1));
    }
}

#[test]
fn cut_replies_are_retried_with_double_the_limit() {
    for (name, own, first, second) in [
        ("gpt-4o", None, 512, 1_024),
        ("gpt-4o", Some(1_024), 1_024, 2_048),
        ("gpt-5-mini", None, 8_192, 16_384),
        ("openai/o3", Some(1_024), 8_192, 16_384),
        ("gpt-5-mini", Some(20_000), 20_000, 40_000),
    ] {
        let params = Params { max_tokens: own, ..Params::default() };
        let model = Model { params, name: name.to_owned(), ..model("a") };
        for (after_cut, expected) in [(false, first), (true, second)] {
            let found = model.judge_params(&question(512, after_cut)).max_tokens;
            assert_eq!(found, Some(expected), "{name} {own:?} {after_cut}");
        }
    }
    // A set of 100 rules: `gpt-4o` supports at most 16,384 output tokens.
    let large = Model { name: "gpt-4o".to_owned(), ..model("a") };
    assert_eq!(large.judge_params(&question(13_056, true)).max_tokens, Some(16_384));
}

fn question(max_tokens: u32, after_cut: bool) -> JudgeQuestion {
    let mut question = JudgeQuestion::new("", "", max_tokens);
    question.after_cut = after_cut;
    question
}

#[tokio::test(start_paused = true)]
async fn equal_questions_are_asked_once() {
    let fake = Fake::saying("0.9");
    let models = [model("a")];
    let judges = Judges::new(&fake, &models, None);
    let checks = [asks("polite?"), asks("polite?"), asks("true?")];
    let execution = output_text("hello");
    let first = judge(&checks, &execution, None, &judges).await;
    let (second, third) = tokio::join!(
        judge(&checks, &execution, None, &judges),
        judge(&checks, &execution, None, &judges),
    );
    let mut asked = fake.asked();
    asked.sort();
    assert_eq!(asked, ["polite? hello", "true? hello"]);
    assert_eq!(first.results, second.results);
    assert_eq!(first.usage.total().total_tokens, 30);
    assert_eq!((second.usage.total().total_tokens, third.cost_usd), (0, Some(0.0)));
}

#[tokio::test(start_paused = true)]
async fn equal_questions_at_the_same_time_are_asked_once() {
    let fake = Fake::saying("0.9");
    let models = [model("a")];
    let judges = Judges::new(&fake, &models, None);
    let checks = [asks("polite?")];
    let execution = output_text("hello");
    let (first, second) = tokio::join!(
        judge(&checks, &execution, None, &judges),
        judge(&checks, &execution, None, &judges),
    );
    assert_eq!(fake.asked().len(), 1);
    assert_eq!(first.usage.total().total_tokens + second.usage.total().total_tokens, 15);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_remembered() {
    let calls = AtomicUsize::new(0);
    let fake = Fake::new(move |_, _| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Err(failure(ProviderErrorKind::Overloaded)),
        _ => Ok(reply("1")),
    });
    let models = [model("a")];
    let judges = Judges::new(&fake, &models, None);
    let checks = [asks("polite?")];
    let first = judge(&checks, &output_text("hello"), None, &judges).await;
    assert_eq!(first.results[0].verdict.code().unwrap().as_str(), "PROVIDER_ERROR");
    assert_eq!(first.results[0].verdict.message(), Some("openai: it broke"));
    assert_eq!(judge(&checks, &output_text("hello"), None, &judges).await.outcome, Outcome::Passed);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_answer_is_not_remembered() {
    let calls = AtomicUsize::new(0);
    // The check asks twice, and the second execution gets a readable answer.
    let fake = Fake::new(move |_, _| {
        Ok(reply(if calls.fetch_add(1, Ordering::SeqCst) < 2 { "no number" } else { "1" }))
    });
    let models = [model("a")];
    let judges = Judges::new(&fake, &models, None);
    let checks = [asks("polite?")];
    let first = judge(&checks, &output_text("hello"), None, &judges).await;
    assert_eq!(first.results[0].verdict.code().unwrap().as_str(), "JUDGE_PARSE_ERROR");
    assert_eq!(judge(&checks, &output_text("hello"), None, &judges).await.outcome, Outcome::Passed);
    assert_eq!(fake.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_judge_is_the_named_one_then_the_default_then_the_first() {
    let models = [model("a"), model("b"), model("c")];
    for (named, default, expected) in
        [(Some("c"), Some("b"), "c-name"), (None, Some("b"), "b-name"), (None, None, "a-name")]
    {
        let fake = Fake::saying("1");
        let check = named.map_or_else(|| asks("q"), |named| asks_model("q", named));
        let judges = Judges::new(&fake, &models, default);
        assert_eq!(judge(&[check], &output_text(""), None, &judges).await.outcome, Outcome::Passed);
        assert_eq!(fake.prompts.lock().unwrap()[0].model, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_a_judge_is_errored() {
    let some = [model("judge")];
    for (models, check, message) in [
        (
            &[][..],
            asks("q"),
            "there is no model to ask: configure one under `models`, or name a judge",
        ),
        (
            &some[..],
            asks_model("q", "jugde"),
            "the model `jugde` that should answer is not configured: did you mean `judge`?",
        ),
    ] {
        let fake = Fake::saying("1");
        let judges = Judges::new(&fake, models, None);
        let found = judge(&[check], &output_text(""), None, &judges).await;
        assert_eq!(found.results[0].verdict.message(), Some(message));
        assert_eq!(found.outcome, Outcome::Errored);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_price_of_a_judge_makes_its_cost_unknown() {
    let fake = Fake::saying("1");
    let models = [Model { price: None, ..model("a") }];
    let judged =
        judge(&[asks("q")], &output_text(""), None, &Judges::new(&fake, &models, None)).await;
    assert_eq!((judged.cost_usd, judged.usage.total().total_tokens), (None, 15));
}

#[tokio::test(start_paused = true)]
async fn no_more_questions_are_in_flight_than_allowed() {
    let fake = Fake::saying("1");
    let models = [model("a")];
    let judges = Judges::new(&fake, &models, None).with_concurrency(2);
    let checks: Vec<Check> = ["a", "b", "c", "d", "e"].map(asks).into();
    judge(&checks, &output_text(""), None, &judges).await;
    assert_eq!(fake.most_in_flight.load(Ordering::SeqCst), 2);
    assert_eq!(fake.asked().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_hangs_is_given_up() {
    let fake = Fake::new(|_, _| Ok(kindlm_types::Reply { latency_ms: 1e12, ..reply("1") }));
    let models = [model("a")];
    let judges = Judges::new(&fake, &models, None).with_timeout(Duration::from_secs(1));
    let found = judge(&[asks("q")], &output_text(""), None, &judges).await;
    assert_eq!(found.results[0].verdict.code().unwrap().as_str(), "PROVIDER_TIMEOUT");
    assert_eq!(
        found.results[0].verdict.message(),
        Some("openai: no answer and no error within 910 s")
    );
}

/// A check that embeds a text and reports the length of the vector.
#[derive(Debug)]
struct Embeds(Option<&'static str>);

static EMBEDS: Meta = Meta {
    id: "embeds",
    path: None,
    summary: "For tests.",
    since: "0.1.0",
    class: Class::Probabilistic,
    severity: kindlm_types::Severity::Gate,
    codes: &[],
    docs: "",
};

impl Embeds {
    fn question(&self) -> Question {
        let model = self.0.map(str::to_owned);
        Question::Embedding(EmbeddingQuestion::new(model, "text"))
    }
}

impl Assertion for Embeds {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn questions(&self, _evidence: &Evidence<'_>) -> Vec<Question> {
        vec![self.question()]
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let verdict = match evidence.answers.get(&self.question()).unwrap() {
            Ok(Answer::Vector { vector, .. }) => {
                return vec![AssertionResult::pass("embeds", format!("{vector:?}"))];
            }
            Ok(_) => unreachable!("an embedding is a vector"),
            Err(err) => Verdict::Errored { code: err.failure_code(), message: err.to_string() },
        };
        vec![AssertionResult::new("embeds", "none", verdict)]
    }
}

#[tokio::test(start_paused = true)]
async fn vectors_come_from_the_named_or_first_embedding_model() {
    let at = |id: &str, provider: &str| Model { provider: provider.to_owned(), ..model(id) };
    let models = [at("chat", "anthropic"), at("small", "openai"), at("other", "gemini")];
    for (named, default, expected) in [
        (None, None, "[5.0]"),
        (None, Some("other"), "[6.0]"),
        (Some("small"), Some("other"), "[5.0]"),
        (Some("chat"), None, "anthropic: no embeddings here"),
    ] {
        let fake = Fake::saying("").embedding(|provider, model, text| {
            assert!(model.ends_with("-name") && text == "text");
            match provider {
                "openai" => Ok(vec![5.0]),
                "gemini" => Ok(vec![6.0]),
                _ => Err(unsupported(provider)),
            }
        });
        let judges = Judges::new(&fake, &models, default);
        let check = Check::new(&EMBEDS, Arc::new(Embeds(named)));
        let found = judge(&[check], &output_text(""), None, &judges).await;
        let result = &found.results[0];
        assert_eq!(result.verdict.message().unwrap_or(&result.label), expected, "{named:?}");
        // 100 tokens at one dollar for a million.
        let cost = if found.results[0].verdict.message().is_some() { 0.0 } else { 0.0001 };
        assert_eq!(found.cost_usd, Some(cost), "{named:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn embeddings_count_in_the_budget() {
    let fake = Fake::saying("").embedding(|_, _, _| Ok(vec![1.0]));
    let models = [model("a")];
    let judges = Judges::new(&fake, &models, None).with_budget(Some(0.00055));
    let found =
        judge(&[Check::new(&EMBEDS, Arc::new(Nags))], &output_text(""), None, &judges).await;
    // The sixth embedding exceeds the budget, so no further one is requested.
    assert_eq!(fake.embeddings.load(Ordering::SeqCst), 6);
    assert!((found.known_cost_usd - 0.0006).abs() < 1e-12, "{}", found.known_cost_usd);
    assert_eq!(found.usage.total().input_tokens, 600);
}

#[tokio::test(start_paused = true)]
async fn an_embedding_without_a_price_has_an_unknown_cost() {
    let fake = Fake::saying("").embedding(|_, _, _| Ok(vec![1.0]));
    let models = [Model { price: None, ..model("a") }];
    let judges = Judges::new(&fake, &models, None);
    let found =
        judge(&[Check::new(&EMBEDS, Arc::new(Embeds(None)))], &output_text(""), None, &judges)
            .await;
    assert_eq!((found.cost_usd, found.known_cost_usd.to_bits()), (None, 0.0_f64.to_bits()));
}

#[tokio::test(start_paused = true)]
async fn results_are_observed_when_their_questions_are_answered() {
    // The second question is answered first.
    let fake = Fake::new(|_, prompt| {
        let (latency_ms, text) =
            if last_user(prompt).contains("slow") { (50.0, "1") } else { (10.0, "0.5") };
        Ok(Reply { latency_ms, ..reply(text) })
    });
    let models = [model("a")];
    let judges = Judges::new(&fake, &models, None);
    let checks = [asks("slow"), asks("fast"), says("hello")];
    let observed = Mutex::new(Vec::new());
    let observe = |results: &[AssertionResult]| observed.lock().unwrap().extend(results.to_vec());
    let found = judge_observed(&checks, &output_text("hello"), None, &judges, &observe).await;
    let observed = observed.into_inner().unwrap();
    let order: Vec<usize> = observed
        .iter()
        .map(|it| found.results.iter().position(|other| other == it).unwrap())
        .collect();
    assert_eq!(order, [2, 1, 0], "{observed:?}");
}

/// A check that asks new questions forever.
#[derive(Debug)]
struct Nags;

impl Assertion for Nags {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let text = evidence.answers.len().to_string();
        vec![Question::Embedding(EmbeddingQuestion::new(None, text))]
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        vec![AssertionResult::pass("nags", evidence.answers.len().to_string())]
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_never_stops_asking_is_stopped() {
    let fake = Fake::saying("").embedding(|_, _, _| Ok(vec![1.0]));
    let judged = judged(&[Check::new(&EMBEDS, Arc::new(Nags))], &fake).await;
    assert_eq!(judged.results[0].label, "16");
    assert_eq!(fake.embeddings.load(Ordering::SeqCst), 16);
}
