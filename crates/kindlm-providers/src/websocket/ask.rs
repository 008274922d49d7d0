//! The exchange over a websocket, and the scripts that read the server's messages.

use std::sync::Arc;
use std::time::Duration;

use kindlm_transport::{HttpTransport, Socket};
use kindlm_types::script::{
    ScriptAnswer, ScriptOutcome, ScriptQuestion, ScriptSource, ScriptValue,
};
use kindlm_types::{Prompt, ProviderError, ProviderErrorKind, Reply, ecma};
use serde_json::{Value, json};

use super::{Script, WebSocket};
use crate::dialect::media::label_media;
use crate::dialect::prompt::prompt_text;
use crate::dialect::script_reply::{is_true, reply_of};
use crate::dialect::scripts::Scripts;

/// Asks the server once, and returns its reply. Fails at the timeout, or if the exchange or a script fails.
pub(crate) async fn ask(
    socket: &WebSocket,
    (transport, scripts): (&HttpTransport, &Scripts),
    provider: &str,
    prompt: &Prompt,
    timeout: Duration,
) -> Result<Reply, ProviderError> {
    let exchange = exchange(socket, (transport, scripts), provider, prompt, timeout);
    tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| {
        let message = format!("no whole answer within {} ms", timeout.as_millis());
        Err(ProviderError::new(ProviderErrorKind::Timeout, provider, message).retryable())
    })
}

async fn exchange(
    socket: &WebSocket,
    (transport, scripts): (&HttpTransport, &Scripts),
    provider: &str,
    prompt: &Prompt,
    timeout: Duration,
) -> Result<Reply, ProviderError> {
    let failed = |message: String| {
        ProviderError::new(ProviderErrorKind::MalformedResponse, provider, message)
    };
    let request = socket.request(prompt)?;
    let mut open = transport.open_socket(provider, &request, timeout).await?;
    let run = |code: &str, params: &[&str], args: &[Value]| {
        let source = ScriptSource::Body {
            params: params.iter().map(|&it| it.to_owned()).collect(),
            code: code.into(),
        };
        ScriptQuestion::new(scripts.runtime, source)
            .with_args(args.iter().map(|it| ecma::stringify(it).into()).collect())
            .with_permissions(Arc::clone(&scripts.permissions))
            .with_timeout(timeout)
    };
    let (name, answer) = match &socket.reading {
        Script::First(code) => {
            let text = open.next_text().await.map_err(ProviderError::lost)?;
            let data = serde_json::from_str(&text).unwrap_or(Value::String(text));
            let question = run(code, &["data"], &[data]);
            let answer = scripts.runner.run(&question).await;
            ("transformResponse", answer.map_err(|err| failed(err.message))?)
        }
        Script::Each(code) => {
            let params = ["accumulator", "event", "context"];
            let context = json!({"vars": prompt.vars, "prompt": {"raw": prompt_text(prompt)}});
            let mut accumulator = json!({"error": "unknown error occurred"});
            loop {
                let data = open.next_text().await.map_err(ProviderError::lost)?;
                let event = json!({"data": data, "type": "message"});
                let question = run(code, &params, &[accumulator, event, context.clone()]);
                let answer = scripts.runner.run(&question).await;
                let answer = answer.map_err(|err| failed(err.message))?;
                let (next, is_complete) = accumulated(answer).map_err(failed)?;
                if is_complete {
                    let outcome = ScriptOutcome::Returned(ScriptValue::Json(next));
                    break ("streamResponse", ScriptAnswer::new(outcome));
                }
                accumulator = next;
            }
        }
    };
    let latency_ms = Socket::close(open).await;
    let mut reply = reply_of(name, prompt, &answer).map_err(failed)?;
    label_media(&mut reply);
    Ok(Reply { latency_ms, ..reply })
}

/// Returns the new accumulator, and true if the answer is complete. Fails if the script threw, or returned no list with
/// an item.
fn accumulated(answer: ScriptAnswer) -> Result<(Value, bool), String> {
    match answer.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(Value::Array(pair))) if !pair.is_empty() => {
            let mut pair = pair.into_iter();
            let next = pair.next().unwrap_or_default();
            Ok((next, pair.next().is_some_and(|it| is_true(&it))))
        }
        ScriptOutcome::Threw { message, thrown, .. } => {
            Err(format!("`streamResponse` threw: {}", message.unwrap_or(thrown)))
        }
        ScriptOutcome::Returned(_) => {
            Err("`streamResponse` returned no list of the accumulator and `true` or `false`"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_if_the_second_item_is_true() {
        for (pair, expected) in [
            (json!(["a", true]), true),
            (json!(["a", 1]), true),
            (json!(["a", {"done": 1}]), true),
            (json!(["a", 0]), false),
            (json!(["a", ""]), false),
            (json!(["a", null]), false),
            (json!(["a"]), false),
        ] {
            let outcome = ScriptOutcome::Returned(ScriptValue::Json(pair.clone()));
            let found = accumulated(ScriptAnswer::new(outcome));
            assert_eq!(found, Ok((json!("a"), expected)), "{pair}");
        }
    }
}
