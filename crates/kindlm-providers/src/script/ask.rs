//! A program as a model: what is asked, and what its answer means.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kindlm_types::script::{
    ExportUse, ScriptAnswer, ScriptError, ScriptErrorKind, ScriptOutcome, ScriptPermissions,
    ScriptQuestion, ScriptRunner, ScriptRuntime, ScriptSource, ScriptValue,
};
use kindlm_types::{FinishReason, Prompt, ProviderError, ProviderErrorKind, Reply, Usage, ecma};
use serde_json::{Value, json};

use super::{Config, said};

/// Who runs programs, and what they may do.
#[derive(Clone)]
pub struct Scripts {
    /// Runs them.
    pub runner: Arc<dyn ScriptRunner>,
    /// Who runs JavaScript.
    pub runtime: ScriptRuntime,
    /// What programs may do beyond computing.
    pub permissions: Arc<ScriptPermissions>,
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runtime, permissions, .. } = self;
        let mut shown = f.debug_struct("Scripts");
        shown.field("runtime", runtime).field("permissions", permissions).finish_non_exhaustive()
    }
}

/// Asks the program once.
pub(crate) async fn ask(
    config: &Config,
    scripts: &Scripts,
    prompt: &Prompt,
    timeout: Duration,
) -> Result<Reply, ProviderError> {
    let question = ScriptQuestion { timeout: Some(timeout), ..config.question(prompt, scripts) };
    let started = Instant::now();
    let answer = scripts.runner.run(&question).await.map_err(|err| error(&err, config))?;
    let latency_ms = started.elapsed().as_secs_f64() * 1000.0;
    Ok(Reply { latency_ms, ..config.reply(prompt, &answer)? })
}

impl Config {
    /// What is run to answer a prompt.
    fn question(&self, prompt: &Prompt, scripts: &Scripts) -> ScriptQuestion {
        let options = json!({"id": format!("file://{}", self.file), "config": self.config});
        let said = json!(said(prompt));
        let context = json!({
            "vars": prompt.vars,
            "prompt": {"raw": said, "label": said, "config": self.config},
        });
        let (runtime, source, args) = if self.ending() == "py" {
            let function = self.function.clone().or_else(|| Some("call_api".to_owned()));
            let source = ScriptSource::File { path: self.file.clone(), function };
            (ScriptRuntime::Python, source, vec![said, options, context])
        } else {
            let (path, name) = (self.file.clone(), self.function.clone());
            let source = ScriptSource::Export { path, name, usage: ExportUse::Provider };
            (scripts.runtime, source, vec![options, said, context, json!({})])
        };
        ScriptQuestion {
            runtime,
            source,
            args: args.iter().map(|it| ecma::stringify(it).into()).collect(),
            permissions: Arc::clone(&scripts.permissions),
            timeout: None,
        }
    }

    /// What an answer says.
    fn reply(&self, prompt: &Prompt, answer: &ScriptAnswer) -> Result<Reply, ProviderError> {
        let failed =
            |message: String| ProviderError::new(ProviderErrorKind::Command, "script", message);
        let value = match &answer.outcome {
            ScriptOutcome::Returned(ScriptValue::Json(value)) => value.clone(),
            ScriptOutcome::Returned(ScriptValue::Number(number)) => json!(number),
            ScriptOutcome::Returned(ScriptValue::Undefined) => Value::Null,
            ScriptOutcome::Returned(ScriptValue::Opaque { type_name, .. }) => {
                return Err(failed(format!("`{}` answered with a {type_name}", self.file)));
            }
            ScriptOutcome::Threw { message, thrown, .. } => {
                let what = message.as_ref().unwrap_or(thrown);
                return Err(failed(format!("`{}` threw: {what}", self.file)));
            }
        };
        let Value::Object(answer) = value else {
            return match value {
                Value::Null => Err(failed(format!("`{}` answered with nothing", self.file))),
                value => Ok(Reply { model: prompt.model.clone(), ..output(&value) }),
            };
        };
        match answer.get("error") {
            None | Some(Value::Null) => {}
            Some(error) => {
                return Err(failed(format!("`{}`: {}", self.file, text(error))));
            }
        }
        let Some(said) = answer.get("output") else {
            return Err(failed(format!("`{}` answered without an `output`", self.file)));
        };
        let number = |keys: [&str; 2]| {
            let [outer, inner] = keys;
            answer.get(outer).and_then(|it| it.get(inner)).and_then(Value::as_u64).unwrap_or(0)
        };
        let mut metadata =
            answer.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(flags) = answer.get("guardrails") {
            metadata.insert("guardrails".to_owned(), flags.clone());
        }
        let log_probs = answer.get("logProbs").and_then(Value::as_array);
        let finish_reason = answer.get("finishReason").and_then(Value::as_str);
        Ok(Reply {
            usage: Usage {
                input_tokens: number(["tokenUsage", "prompt"]),
                output_tokens: number(["tokenUsage", "completion"]),
                total_tokens: number(["tokenUsage", "total"]),
                cached_input_tokens: number(["tokenUsage", "cached"]),
            },
            finish_reason: finish_reason
                .map_or(FinishReason::Stop, |it| FinishReason::from(it.to_owned())),
            log_probs: log_probs.and_then(|it| it.iter().map(Value::as_f64).collect()),
            model: prompt.model.clone(),
            metadata,
            ..output(said)
        })
    }
}

/// Why a program was not run to its end.
fn error(err: &ScriptError, config: &Config) -> ProviderError {
    let kind = match err.kind {
        ScriptErrorKind::Timeout => ProviderErrorKind::Timeout,
        _ => ProviderErrorKind::Command,
    };
    ProviderError::new(kind, "script", format!("`{}`: {}", config.file, err.message))
}

/// A reply that says a value: a text as it is, anything else as JSON beside the value itself.
fn output(value: &Value) -> Reply {
    match value {
        Value::String(text) => Reply::text(text.as_str()),
        value => Reply { output_json: Some(value.clone()), ..Reply::text(ecma::stringify(value)) },
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| ecma::stringify(value), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(value: Value) -> Result<Reply, String> {
        let config = Config::read(&json!({"file": "p.js"})).unwrap();
        let prompt = serde_json::from_value(json!({"model": "p.js", "messages": []})).unwrap();
        let outcome = ScriptOutcome::Returned(value.into());
        let answer = ScriptAnswer { outcome, console: Vec::new() };
        config.reply(&prompt, &answer).map_err(|it| it.message)
    }

    #[test]
    fn reads_what_programs_answer() {
        for (answer, text, value) in [
            (json!("hi"), "hi", None),
            (json!({"output": "hi", "error": null}), "hi", None),
            (json!({"output": {"a": 1}}), r#"{"a":1}"#, Some(json!({"a": 1}))),
            (json!(2), "2", Some(json!(2.0))),
        ] {
            let reply = reply(answer.clone()).unwrap();
            assert_eq!(reply.text, text, "{answer}");
            assert_eq!(reply.output_json, value, "{answer}");
        }
        let full = reply(json!({
            "output": "hi", "tokenUsage": {"total": 3, "prompt": 1, "completion": 2},
            "finishReason": "length", "metadata": {"a": 1}, "guardrails": {"flagged": true},
        }))
        .unwrap();
        assert_eq!(full.usage.total_tokens, 3);
        assert_eq!(full.finish_reason, FinishReason::Length);
        assert_eq!(full.metadata["guardrails"]["flagged"], true);
    }

    #[test]
    fn says_what_an_answer_lacks() {
        for (answer, message) in [
            (json!({"error": "no luck"}), "`p.js`: no luck"),
            (json!({}), "`p.js` answered without an `output`"),
            (Value::Null, "`p.js` answered with nothing"),
        ] {
            assert_eq!(reply(answer.clone()).unwrap_err(), message, "{answer}");
        }
        let read = Config::read(&json!({"file": "p.exe"}));
        assert_eq!(read.unwrap_err()[0].pointer, "/file");
    }
}
