//! `webhook`: a service of the user decides.

mod reply;

use std::sync::Arc;
use std::time::Duration;

use kindlm_types::script::{
    ScriptErrorKind, ScriptOutcome, ScriptQuestion, ScriptRuntime, ScriptSource, ScriptValue,
};
use kindlm_types::{
    Answer, AskError, AssertionResult, Class, FailureCode, Problem, Question, ecma,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::codes::ASSERTION_FAILED;
use crate::config::read;
use crate::scripting::{ScriptSettings, ScriptsBlock, output_value, prompt};
use crate::{Assertion, Build, Code, Evidence, Meta, Own, Registration, Setup};

const ID: &str = "webhook";
const WEBHOOK_FAILED: FailureCode = FailureCode::new("WEBHOOK_FAILED");

/// How long the service may take where the check does not say.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the request. It runs in the sandbox, so it reaches the hosts that are permitted and nothing else, by our own
/// client, without our keys.
const SEND: &str = "const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body }); \
     return { status: answer.status, body: await answer.text() }";

/// Asks a service of the user.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A service of yours decides: it is sent the output, and answers with a verdict.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The service says that the output is not right.",
            },
            Code {
                code: WEBHOOK_FAILED,
                summary: "The service could not be asked, or its answer has no verdict.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Own(build),
};

/// A service that says whether the output is right.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebhookConfig")]
struct Config {
    /// Where the output is sent with `POST`; `http` or `https`.
    value: String,
    /// Which hosts may be reached, and how long the service may take, where that is not what the suite says.
    #[serde(default)]
    scripts: Option<Block>,
}

/// What a webhook may do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebhookScripts")]
struct Block {
    /// Hosts that may be reached, such as `example.com`, `*.example.com` or `localhost:8080`.
    #[schemars(inner(length(min = 1)))]
    #[serde(default)]
    net: Option<Vec<String>>,
    /// How long the service may take, in milliseconds: 5000 by default.
    #[schemars(range(min = 1, max = 3_600_000))]
    #[serde(default)]
    timeout_ms: Option<u64>,
}

#[derive(Debug)]
struct Webhook {
    url: String,
    label: String,
    settings: ScriptSettings,
    timeout: Duration,
    own: Own,
}

fn build(config: &Value, own: Own, setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config: Config = read(config)?;
    let url = config.value;
    let Some(host) = host(&url) else {
        let problem = Problem::new("/value", "a webhook needs the URL of a service")
            .with_help("such as `https://checks.example.com/refunds`");
        return Err(vec![problem]);
    };
    let (net, timeout_ms) = config.scripts.map_or((None, None), |it| (it.net, it.timeout_ms));
    let settings = setup.scripts.with(&ScriptsBlock { net, ..ScriptsBlock::default() });
    if settings.permissions.net.is_empty() {
        let problem = Problem::new("/value", "the network is not permitted to this check")
            .with_help(format!(
                "add `scripts: {{ net: [\"{host}\"] }}` to the suite or to the check"
            ));
        return Err(vec![problem]);
    }
    let label = own.label(&format!("Webhook: {host}"));
    let timeout = timeout_ms.map_or(TIMEOUT, Duration::from_millis);
    Ok(Arc::new(Webhook { url, label, settings, timeout, own }))
}

/// The host of a URL, with its port; the rest may hold a secret.
fn host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then_some(host)
}

impl Webhook {
    fn question(&self, evidence: &Evidence<'_>) -> Question {
        let execution = evidence.execution;
        let body = json!({
            "output": output_value(execution),
            "context": {"prompt": prompt(&execution.input), "vars": execution.vars},
        });
        let url = ecma::stringify(&json!(self.url));
        let body = ecma::stringify(&json!(ecma::stringify(&body)));
        Question::Script(ScriptQuestion {
            runtime: ScriptRuntime::QuickJs,
            source: ScriptSource::Body {
                params: vec!["url".to_owned(), "body".to_owned()],
                code: SEND.into(),
            },
            args: vec![url.into(), body.into()],
            permissions: Arc::clone(&self.settings.permissions),
            timeout: Some(self.timeout),
        })
    }

    fn failed(&self, message: impl Into<String>) -> AssertionResult {
        AssertionResult::errored(ID, &self.label, WEBHOOK_FAILED, message)
    }

    fn answered(&self, outcome: &ScriptOutcome) -> AssertionResult {
        match outcome {
            ScriptOutcome::Returned(ScriptValue::Json(answer)) => self.grade(answer),
            ScriptOutcome::Returned(_) => self.failed("The webhook gave no answer"),
            ScriptOutcome::Threw { message, thrown, .. } => {
                let why = message.as_ref().unwrap_or(thrown);
                self.failed(format!("The webhook could not be asked: {why}"))
            }
        }
    }
}

impl Assertion for Webhook {
    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        vec![self.question(evidence)]
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        vec![match evidence.answers.get(&self.question(evidence)) {
            Some(Ok(Answer::Script(answer))) => self.answered(&answer.outcome),
            Some(Err(AskError::Script(err))) if err.kind == ScriptErrorKind::Timeout => {
                let message = format!(
                    "The webhook did not answer within {} s: give it more time with `scripts: {{ timeoutMs: … }}`",
                    self.timeout.as_secs_f64()
                );
                self.failed(message)
            }
            Some(Err(err)) => self.failed(format!("The webhook could not be asked: {err}")),
            Some(Ok(Answer::Text { .. } | Answer::Vector(_))) | None => {
                let message = "The webhook has not been asked";
                AssertionResult::errored(ID, &self.label, FailureCode::INTERNAL_ERROR, message)
            }
        }]
    }

    fn hides_its_value(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn only_the_host_of_a_url_is_shown() {
        for (url, expected) in [
            ("https://a.example/x?token=y", Some("a.example")),
            ("http://me:word@a.example:8080/x", Some("a.example:8080")),
            ("https://a.example?x", Some("a.example")),
            ("https://", None),
            ("https:///x", None),
            ("ftp://a.example", None),
            ("a.example/x", None),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
