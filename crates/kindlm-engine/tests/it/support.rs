//! An implementation of the ports that answers from closures (the backend), and simple checks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kindlm_assertions::{Assertion, Check, Evidence, Meta, Traits};
use kindlm_engine::{CaseBody, Model, Suite, TestCase};
use kindlm_types::ask::JudgeQuestion;
use kindlm_types::ask::with_mark;
use kindlm_types::{
    Answer, AssertionResult, Class, Embedding, FailureCode, Limits, Params, Price, Prompt,
    ProviderError, ProviderErrorKind, Question, Reply, Score, Usage,
};
use kindlm_types::{AttemptBudget, BoxFuture, CommandOutput, CommandSpec, Commands, Models, Ports};

type Answering = dyn Fn(&str, &Prompt) -> Result<Reply, ProviderError> + Send + Sync;
type Running = dyn Fn(&CommandSpec) -> Result<CommandOutput, ProviderError> + Send + Sync;
type Embedder = dyn Fn(&str, &str, &str) -> Result<Vec<f64>, ProviderError> + Send + Sync;

/// A backend: an implementation of the ports in memory. An answer arrives after the reply's `latency_ms`.
pub(crate) struct Fake {
    complete: Box<Answering>,
    run: Box<Running>,
    embed: Box<Embedder>,
    /// All prompts, in order.
    pub(crate) prompts: Mutex<Vec<Prompt>>,
    /// The number of calls of `embed`.
    pub(crate) embeddings: AtomicUsize,
    in_flight: AtomicUsize,
    /// The maximum number of concurrent calls.
    pub(crate) most_in_flight: AtomicUsize,
}

impl Fake {
    pub(crate) fn new(
        complete: impl Fn(&str, &Prompt) -> Result<Reply, ProviderError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            complete: Box::new(complete),
            run: Box::new(|_| Ok(CommandOutput::default())),
            embed: Box::new(|provider, _, _| Err(unsupported(provider))),
            prompts: Mutex::default(),
            embeddings: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
        }
    }

    /// Builds a backend that gives the same answer to every prompt.
    pub(crate) fn saying(text: &str) -> Self {
        let text = text.to_owned();
        Self::new(move |_, _| Ok(reply(&text)))
    }

    pub(crate) fn running(
        mut self,
        run: impl Fn(&CommandSpec) -> Result<CommandOutput, ProviderError> + Send + Sync + 'static,
    ) -> Self {
        self.run = Box::new(run);
        self
    }

    pub(crate) fn embedding(
        mut self,
        embed: impl Fn(&str, &str, &str) -> Result<Vec<f64>, ProviderError> + Send + Sync + 'static,
    ) -> Self {
        self.embed = Box::new(embed);
        self
    }

    /// Returns the last user messages of all prompts, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.prompts.lock().unwrap().iter().map(|it| last_user(it).to_owned()).collect()
    }

    async fn counted<T>(
        &self,
        answer: Result<T, ProviderError>,
        wait_ms: f64,
    ) -> Result<T, ProviderError> {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(now, Ordering::SeqCst);
        if wait_ms > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(wait_ms / 1000.0)).await;
        } else {
            tokio::task::yield_now().await;
        }
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

impl<'a> From<&'a Fake> for Ports<'a> {
    fn from(fake: &'a Fake) -> Self {
        Self::new(fake).with_commands(fake)
    }
}

impl Models for Fake {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        _timeout: Duration,
        _budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            self.prompts.lock().unwrap().push(prompt.clone());
            let answer = (self.complete)(provider, prompt).map(|reply| {
                let question = prompt.messages.last().map_or("", |it| &it.content);
                Reply { text: with_mark(&reply.text, question), ..reply }
            });
            let wait = answer.as_ref().map_or(0.0, |it| it.latency_ms);
            self.counted(answer, wait).await
        })
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        self.embeddings.fetch_add(1, Ordering::SeqCst);
        let answer = (self.embed)(provider, model, text)
            .map(|it| Embedding::new(it, Usage::counted(Some(100), Some(0), None, None)));
        Box::pin(self.counted(answer, 0.0))
    }

    fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    fn limits_calls(&self) -> bool {
        false
    }
}

impl Commands for Fake {
    fn run_command<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        let answer = (self.run)(command);
        let wait = answer.as_ref().map_or(0.0, |it| it.latency_ms);
        Box::pin(self.counted(answer, wait))
    }
}

/// Builds a reply with 15 tokens and a latency of 10 ms.
pub(crate) fn reply(text: &str) -> Reply {
    let usage = Usage { input_tokens: 10, output_tokens: 5, total_tokens: 15, ..Usage::default() };
    Reply { usage, latency_ms: 10.0, ..Reply::text(text) }
}

pub(crate) fn unsupported(provider: &str) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Unsupported, provider, "no embeddings here")
}

pub(crate) fn failure(kind: ProviderErrorKind) -> ProviderError {
    ProviderError::new(kind, "openai", "it broke")
}

pub(crate) fn last_user(prompt: &Prompt) -> &str {
    prompt
        .messages
        .iter()
        .rfind(|it| it.role == kindlm_types::Role::User)
        .map_or("", |it| &it.content)
}

/// Builds a model whose price is $1 per million tokens, for input and output.
pub(crate) fn model(id: &str) -> Model {
    Model {
        id: id.to_owned(),
        provider: "openai".to_owned(),
        name: format!("{id}-name"),
        params: Params::default(),
        price: Some(Price::new(1.0, 1.0)),
        limits: Limits::default(),
        tells_vars: false,
        offers: [].into(),
        declared: std::collections::BTreeSet::new(),
        agent: None,
    }
}

/// Builds a suite of prompt cases with the models `a` and `b`; each case runs on `a`.
pub(crate) fn suite(cases: &[&str]) -> Suite {
    Suite {
        models: vec![model("a"), model("b")],
        cases: cases.iter().map(|&name| TestCase::prompt(name, name, &["a"])).collect(),
        ..Suite::default()
    }
}

/// Changes the body of a case.
pub(crate) fn edit(case: &mut TestCase, change: impl FnOnce(&mut CaseBody)) {
    let mut body = case.body.body().unwrap().into_owned();
    change(&mut body);
    case.body = Arc::new(body);
}

/// A check that passes if the output contains the text. With the text `panic!`, it panics like a bug.
#[derive(Debug)]
struct Says(&'static str);

static SAYS: Meta = meta("says", Class::Deterministic);

const fn meta(id: &'static str, class: Class) -> Meta {
    Meta {
        id,
        path: None,
        summary: "For tests.",
        since: "0.1.0",
        class,
        severity: kindlm_types::Severity::Gate,
        codes: &[],
        docs: "",
    }
}

impl Assertion for Says {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        assert_ne!(self.0, "panic!", "a bug in a check");
        let label = format!("Says {}", self.0);
        vec![if evidence.execution.output.contains(self.0) {
            AssertionResult::pass("says", label)
        } else {
            AssertionResult::fail("says", label, FailureCode::new("NOT_SAID"), "not said")
        }]
    }
}

pub(crate) fn says(text: &'static str) -> Check {
    Check::new(&SAYS, Arc::new(Says(text)))
}

/// A check that asks a judge for a number.
///
/// If the first answer is not a number, the check asks again.
#[derive(Debug)]
pub(crate) struct Asks {
    pub(crate) question: &'static str,
    pub(crate) model: Option<&'static str>,
}

static JUDGE: Meta = meta("judge", Class::Probabilistic);

impl Asks {
    fn question(&self, evidence: &Evidence<'_>, sample: u32) -> Question {
        let user = format!("{} {}", self.question, evidence.execution.output);
        let mut question = JudgeQuestion::new("You judge.", user, 64);
        question.model = self.model.map(str::to_owned);
        question.sample = sample;
        Question::Judge(question)
    }
}

impl Assertion for Asks {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let first = self.question(evidence, 0);
        match evidence.answers.get(&first) {
            Some(Ok(Answer::Text { text, .. })) if text.parse::<f64>().is_err() => {
                vec![self.question(evidence, 1)]
            }
            Some(_) => Vec::new(),
            None => vec![first],
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let answers = [1, 0].map(|sample| evidence.answers.get(&self.question(evidence, sample)));
        let answer = answers.into_iter().flatten().next().unwrap();
        vec![match answer {
            Ok(Answer::Text { text, .. }) => {
                let code = FailureCode::new("JUDGE_PARSE_ERROR");
                let unreadable =
                    || AssertionResult::errored("judge", self.question, code, text.as_str());
                let read = |score| AssertionResult::pass("judge", self.question).with_score(score);
                text.parse().ok().and_then(Score::clamped).map_or_else(unreadable, read)
            }
            Ok(_) => unreachable!("a judge gives text"),
            Err(err) => AssertionResult::errored(
                "judge",
                self.question,
                err.failure_code(),
                err.to_string(),
            ),
        }]
    }
}

pub(crate) fn asks(question: &'static str) -> Check {
    Check::new(&JUDGE, Arc::new(Asks { question, model: None }))
}

pub(crate) fn asks_model(question: &'static str, model: &'static str) -> Check {
    Check::new(&JUDGE, Arc::new(Asks { question, model: Some(model) }))
}

/// A check that writes its evidence into the label of its result.
#[derive(Debug)]
struct Sees;

static SEES: Meta = meta("sees", Class::Deterministic);

impl Assertion for Sees {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let it = evidence.execution;
        let tools: Vec<&str> = it.tool_calls.iter().map(|call| call.name.as_str()).collect();
        vec![AssertionResult::pass(
            "sees",
            format!(
                "{:?} tools {tools:?} tokens {} in {} ms for {:?} baseline {:?}",
                it.output,
                it.usage.total_tokens,
                it.latency_ms.unwrap_or(-1.0),
                it.spend.cost_usd,
                evidence.baseline,
            ),
        )]
    }
}

pub(crate) fn sees() -> Check {
    Check::new(&SEES, Arc::new(Sees))
}

/// Parses the lines of a conformance file.
pub(crate) fn vectors(path: &str) -> Vec<serde_json::Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/conformance/");
    let text = std::fs::read_to_string(format!("{folder}{path}")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns true if two numbers differ by at most 1e-9.
pub(crate) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9
}
