//! `pi`: a scoring service scores the output.

use std::sync::Arc;
use std::time::Duration;

use kindlm_types::{
    Answer, AssertionResult, Bound, Class, FailureCode, Problem, Question, Severity, ecma,
    schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::check::TOLERANCE;
use crate::core::codes::ASSERTION_FAILED;
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::judging::{asked, short};
use crate::core::result_evidence::measure;
use crate::core::scripting::{ScriptSettings, ScriptsBlock};
use crate::core::service::{self, Key, TIMEOUT};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "pi";
const SCORER_FAILED: FailureCode = FailureCode::new("SCORER_FAILED");

/// The default URL: the service of Pi Labs.
const URL: &str = "https://api.withpi.ai/v1/scoring_system/score";
const KEY_ENV: &str = "WITHPI_API_KEY";
const KEY_HEADER: &str = "x-api-key";
const THRESHOLD: f64 = 0.5;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A scoring service (that of Pi Labs, or one with the same interface) gives a score that reaches a threshold.",
        since: "0.1.0",
        class: Class::Probabilistic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "The score is below the threshold." },
            Code {
                code: SCORER_FAILED,
                summary: "The service could not be reached, or its answer has no score from 0 to 1.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The questions for a scoring service, and its address.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PiConfig")]
struct Config {
    /// The questions by which the output is scored.
    value: Questions,
    /// The URL of the service; `http` or `https`.
    #[serde(default = "default_url")]
    url: String,
    /// The environment variable with the API key, which `scripts.env` must permit. The key is sent as `x-api-key`.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1))]
    api_key_env: String,
    /// The permitted hosts and variables, and the time limit.
    ///
    /// By default, the hosts and variables of the suite apply.
    #[serde(default)]
    scripts: Option<Block>,
}

/// One question, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PiQuestions")]
enum Questions {
    /// One question.
    One(#[schemars(length(min = 1))] String),
    /// Several questions, whose scores the service combines.
    Several(#[schemars(length(min = 1), inner(length(min = 1)))] Vec<String>),
}

/// The permissions of the request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PiScripts")]
struct Block {
    /// The hosts that may be reached.
    #[schemars(inner(length(min = 1)))]
    #[serde(default)]
    net: Option<Vec<String>>,
    /// The environment variables that may be read.
    #[schemars(inner(length(min = 1)))]
    #[serde(default)]
    env: Option<Vec<String>>,
    /// The time limit of the service, in milliseconds: 5000 by default.
    #[schemars(range(min = 1, max = 3_600_000))]
    #[serde(default)]
    timeout_ms: Option<u64>,
}

fn default_url() -> String {
    URL.to_owned()
}

fn default_key() -> String {
    KEY_ENV.to_owned()
}

#[derive(Debug)]
struct Pi {
    url: String,
    key: Key,
    questions: Vec<String>,
    label: String,
    settings: ScriptSettings,
    timeout: Duration,
    own: EntryOptions,
}

fn build(config: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    setup.refuse_in_sandbox("the network")?;
    let config: Config = parse_config(config)?;
    let url = config.url;
    let Some(host) = service::host(&url) else {
        let problem = Problem::new("/url", "expected the URL of a scoring service")
            .with_help(format!("such as `{URL}`"));
        return Err(vec![problem]);
    };
    let timeout_ms = config.scripts.as_ref().and_then(|it| it.timeout_ms);
    let (net, env) = config.scripts.map_or((None, None), |it| (it.net, it.env));
    let block = ScriptsBlock { net, env, ..ScriptsBlock::default() };
    let settings = setup.script_settings(Some(&block))?;
    let net = &settings.permissions.net;
    let mut problems = Vec::from_iter(service::not_permitted("", &url, host, net));
    let variable = config.api_key_env;
    if !settings.permissions.env.contains(&variable) {
        let problem = Problem::new("", format!("this check may not read the variable `{variable}`"))
            .with_help(format!(
                "add `scripts: {{ env: [{variable}] }}` to the suite or to the check, or name another with `apiKeyEnv`"
            ));
        problems.push(problem);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let questions = match config.value {
        Questions::One(question) => vec![question],
        Questions::Several(questions) => questions,
    };
    let about = short(&Value::String(questions.join("; ")), 80);
    let label = format!("{}: {about}", own.label("Pi score"));
    let timeout = timeout_ms.map_or(TIMEOUT, Duration::from_millis);
    let key = Key { header: KEY_HEADER, variable };
    Ok(Arc::new(Pi { url, key, questions, label, settings, timeout, own }))
}

impl Pi {
    fn question(&self, evidence: &Evidence<'_>) -> Question {
        let spec: Vec<Value> = self.questions.iter().map(|it| json!({"question": it})).collect();
        let body = json!({
            "llm_input": asked(evidence.execution),
            "llm_output": evidence.execution.output,
            "scoring_spec": spec,
        });
        service::question(&self.url, &body, Some(&self.key), &self.settings, self.timeout)
    }

    fn failed(&self, message: impl Into<String>) -> AssertionResult {
        AssertionResult::errored(ID, &self.label, SCORER_FAILED, message)
    }

    fn grade(&self, body: &str) -> Result<AssertionResult, String> {
        let reply: Value =
            serde_json::from_str(body).map_err(|err| format!("did not answer with JSON: {err}"))?;
        let score = service::score(reply.get("total_score").ok_or("returned no `total_score`")?)?;
        let threshold = self.own.threshold.unwrap_or(THRESHOLD);
        let held = score >= threshold - TOLERANCE;
        let sign = if held { ">=" } else { "<" };
        let (shown, limit) = (ecma::to_fixed(score, 2), ecma::number(threshold));
        let reason = format!("Pi score {shown} {sign} {limit}");
        let pass = held != self.own.negate;
        let bound = if self.own.negate { Bound::LessThan } else { Bound::AtLeast };
        let evidence = measure("score", score, (threshold, bound), None);
        let score = if self.own.negate { 1.0 - score } else { score };
        let result = Grade { pass, score, reason }.result(ID, &self.label);
        let mut result = result.with_failure_evidence(|| [evidence]);
        if let Some(scores) = reply.get("question_scores") {
            result.metadata.insert("questionScores".to_owned(), scores.clone());
        }
        Ok(result)
    }
}

impl Assertion for Pi {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        vec![self.question(evidence)]
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        vec![match evidence.answers.get(&self.question(evidence)) {
            Some(Ok(Answer::Script(answer))) => match service::body(&answer.outcome) {
                Ok(body) => self.grade(&body).unwrap_or_else(|why| {
                    let shown = service::shown(&body);
                    let message = format!("the scoring service {why}. It replied: {shown:?}");
                    self.failed(message).with_metadata("reply", shown)
                }),
                Err(why) => self.failed(format!("the scoring service {why}")),
            },
            Some(Err(err)) => {
                self.failed(format!("the scoring service could not be called: {err}"))
            }
            Some(Ok(Answer::Text { .. } | Answer::Vector { .. })) | None => {
                let message = "the scoring service was not called";
                AssertionResult::errored(ID, &self.label, FailureCode::INTERNAL_ERROR, message)
            }
        }]
    }
}
