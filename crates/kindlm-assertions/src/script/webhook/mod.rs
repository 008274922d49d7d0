//! `webhook`: a service of the user decides.

mod reply;

use std::sync::Arc;
use std::time::Duration;

use kindlm_types::script::ScriptErrorKind;
use kindlm_types::{
    Answer, AskError, AssertionResult, Class, FailureCode, Problem, Question, Severity, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config::parse_config;
use crate::core::output::{output_value, prompt};
use crate::core::scripting::{ScriptSettings, ScriptsBlock};
use crate::core::service::{self, TIMEOUT};
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "webhook";
const WEBHOOK_FAILED: FailureCode = FailureCode::new("WEBHOOK_FAILED");

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Your own service gets the output, and answers with a verdict.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "The service rejects the output." },
            Code {
                code: WEBHOOK_FAILED,
                summary: "The service could not be reached, or its answer has no verdict.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// A service that decides whether the output is right.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebhookConfig")]
struct Config {
    /// The URL that receives the output with `POST`; `http` or `https`.
    value: String,
    /// The permitted hosts, if they differ from those of the suite, and the time limit.
    #[serde(default)]
    scripts: Option<Block>,
}

/// The permissions of a webhook.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebhookScripts")]
struct Block {
    /// The hosts that may be reached.
    ///
    /// Examples: `example.com`, `*.example.com`, `localhost:8080`.
    #[schemars(inner(length(min = 1)))]
    #[serde(default)]
    net: Option<Vec<String>>,
    /// The time limit of the service, in milliseconds: 5000 by default.
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
    own: EntryOptions,
}

fn build(
    config: &Value,
    own: EntryOptions,
    setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    setup.refuse_in_sandbox("the network")?;
    let config: Config = parse_config(config)?;
    let url = config.value;
    let Some(host) = service::host(&url) else {
        let problem = Problem::new("/value", "a webhook needs the URL of a service")
            .with_help("such as `https://checks.example.com/refunds`");
        return Err(vec![problem]);
    };
    let (net, timeout_ms) = config.scripts.map_or((None, None), |it| (it.net, it.timeout_ms));
    let block = ScriptsBlock { net, ..ScriptsBlock::default() };
    let settings = setup.script_settings(Some(&block))?;
    let net = &settings.permissions.net;
    if let Some(problem) = service::not_permitted("/value", &url, host, net) {
        return Err(vec![problem]);
    }
    let label = own.label(&format!("Webhook: {host}"));
    let timeout = timeout_ms.map_or(TIMEOUT, Duration::from_millis);
    Ok(Arc::new(Webhook { url, label, settings, timeout, own }))
}

impl Webhook {
    fn question(&self, evidence: &Evidence<'_>) -> Question {
        let execution = evidence.execution;
        let body = json!({
            "output": output_value(execution),
            "context": {"prompt": prompt(&execution.input), "vars": execution.vars},
        });
        service::question(&self.url, &body, None, &self.settings, self.timeout)
    }

    fn failed(&self, message: impl Into<String>) -> AssertionResult {
        AssertionResult::errored(ID, &self.label, WEBHOOK_FAILED, message)
    }
}

impl Assertion for Webhook {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            hides_value: true,
            names_scores: true,
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        vec![self.question(evidence)]
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        vec![match evidence.answers.get(&self.question(evidence)) {
            Some(Ok(Answer::Script(answer))) => match service::body(&answer.outcome) {
                Ok(body) => self.grade(&body),
                Err(why) => self.failed(format!("the webhook {why}")),
            },
            Some(Err(AskError::Script(err))) if err.kind == ScriptErrorKind::Timeout => {
                let message = format!(
                    "the webhook did not answer within {} s: raise its time limit with `scripts: {{ timeoutMs: … }}`",
                    self.timeout.as_secs_f64()
                );
                self.failed(message)
            }
            Some(Err(err)) => self.failed(format!("the webhook could not be called: {err}")),
            Some(Ok(Answer::Text { .. } | Answer::Vector { .. })) | None => {
                let message = "the webhook was not called";
                AssertionResult::errored(ID, &self.label, FailureCode::INTERNAL_ERROR, message)
            }
        }]
    }
}
