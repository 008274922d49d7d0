//! Runs a program as a model, once for each prompt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kindlm_types::script::{
    ExportUse, ScriptError, ScriptErrorKind, ScriptQuestion, ScriptRuntime, ScriptSource,
};
use kindlm_types::{Prompt, ProviderError, ProviderErrorKind, Reply, ecma};
use serde_json::{Map, Value, json};

use super::Config;
use crate::dialect::prompt::prompt_text;
use crate::dialect::script_reply::reply_of;
use crate::dialect::scripts::Scripts;

/// Runs the program once for a prompt, and returns its reply with the latency. Fails if the program cannot be run to
/// its end, or if its answer is not a reply.
pub(crate) async fn ask(
    config: &Config,
    scripts: &Scripts,
    prompt: &Prompt,
    timeout: Duration,
) -> Result<Reply, ProviderError> {
    let question = config.question(prompt, scripts).with_timeout(timeout);
    let started = Instant::now();
    let answer = scripts.runner.run(&question).await.map_err(|err| error(&err, config))?;
    let latency_ms = started.elapsed().as_secs_f64() * 1000.0;
    let reply = reply_of(&config.file, prompt, &answer)
        .map_err(|message| ProviderError::new(ProviderErrorKind::Command, "script", message))?;
    Ok(Reply { latency_ms, ..reply })
}

impl Config {
    /// Returns the script call that answers a prompt.
    fn question(&self, prompt: &Prompt, scripts: &Scripts) -> ScriptQuestion {
        let options = json!({"id": format!("file://{}", self.file), "config": self.config});
        let text = json!(prompt_text(prompt));
        let context = context(prompt, &self.config);
        let interpreter = match self.ending().as_str() {
            "py" => Some(ScriptRuntime::Python),
            "rb" => Some(ScriptRuntime::Ruby),
            _ => None,
        };
        let (runtime, source, args) = if let Some(runtime) = interpreter {
            let function = self.function.clone().or_else(|| Some("call_api".to_owned()));
            let source = ScriptSource::File { path: self.file.clone(), function };
            (runtime, source, vec![text, options, context])
        } else {
            let (path, name) = (self.file.clone(), self.function.clone());
            let source = ScriptSource::Export { path, name, usage: ExportUse::Provider };
            let call = json!({"includeLogProbs": false});
            (scripts.runtime, source, vec![options, text, context, call])
        };
        ScriptQuestion::new(runtime, source)
            .with_args(args.iter().map(|it| ecma::stringify(it).into()).collect())
            .with_permissions(Arc::clone(&scripts.permissions))
    }
}

/// Returns the context of a call, with promptfoo's keys.
fn context(prompt: &Prompt, config: &Map<String, Value>) -> Value {
    let mut test = prompt.test.clone();
    let label = test.shift_remove("prompt").unwrap_or_else(|| json!(prompt_text(prompt)));
    test.insert("vars".to_owned(), Value::Object(prompt.vars.clone()));
    json!({
        "vars": prompt.vars,
        "prompt": {"raw": prompt_text(prompt), "label": label, "config": config},
        "test": test,
        "repeatIndex": prompt.sample,
    })
}

/// Converts the error of a program that did not finish.
fn error(err: &ScriptError, config: &Config) -> ProviderError {
    let kind = match err.kind {
        ScriptErrorKind::Timeout => ProviderErrorKind::Timeout,
        _ => ProviderErrorKind::Command,
    };
    ProviderError::new(kind, "script", format!("`{}`: {}", config.file, err.message))
}
