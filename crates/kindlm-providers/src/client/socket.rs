//! Exchanges with a vendor's API over a websocket.

use std::sync::Arc;
use std::time::Duration;

use kindlm_transport::{HttpTransport, Socket};
use kindlm_types::script::{ScriptOutcome, ScriptQuestion, ScriptSource, ScriptValue};
use kindlm_types::{Prompt, ProviderError, ProviderErrorKind, Reply, ToolCall, ecma};
use serde_json::{Value, json};

use super::{before_sending, no_scripts};
use crate::dialect::answer::{excerpt, parse};
use crate::dialect::scripts::Scripts;
use crate::{Opening, SocketCodec, Step};

/// The maximum number of rounds of tool calls in one exchange.
const MOST_ROUNDS: usize = 8;

/// One request to a vendor's API over a websocket.
pub(super) struct SocketRequest<'r> {
    /// The name of the provider in the suite.
    pub(super) provider: &'r str,
    pub(super) codec: &'r dyn SocketCodec,
    pub(super) prompt: &'r Prompt,
    pub(super) timeout: Duration,
}

impl SocketRequest<'_> {
    /// Asks the server once, and returns its reply. Fails if the answers of tool calls need a script and `scripts` is
    /// `None`, if the exchange fails, or at the timeout. The timeout does not include the runs of the command that
    /// prints the credential.
    pub(super) async fn ask(
        &self,
        transport: &HttpTransport,
        scripts: Option<&Scripts>,
    ) -> Result<Reply, ProviderError> {
        // The provider may charge for an answer, so a missing runner is reported before the websocket is opened.
        let answering = match self.codec.answer_script() {
            Some(code) => Some((code, scripts.ok_or_else(|| no_scripts(self.provider))?)),
            None => None,
        };
        let opening = self.codec.open(self.prompt);
        let opening = opening.map_err(|err| before_sending(self.provider, err))?;
        let socket = transport.open_socket(self.provider, &opening.request, self.timeout).await?;
        let left = self.timeout.saturating_sub(socket.elapsed());
        let idle = self.codec.idle_timeout().unwrap_or(transport.options().idle_timeout);
        let exchange = self.exchange(socket, opening, idle, answering);
        tokio::time::timeout(left, exchange).await.unwrap_or_else(|_| {
            let message = format!("no whole answer within {} ms", self.timeout.as_millis());
            Err(self.error(ProviderErrorKind::Timeout, message).retryable())
        })
    }

    /// Exchanges messages until the answer is complete.
    ///
    /// Fails in these cases:
    ///
    /// - The server sends nothing for longer than `idle`.
    /// - The connection breaks, or a message is an error or malformed.
    /// - A tool call cannot be answered, or there are more than [`MOST_ROUNDS`] rounds of calls.
    async fn exchange(
        &self,
        mut socket: Socket,
        Opening { messages, mut exchange, .. }: Opening<'_>,
        idle: Duration,
        answering: Option<(&str, &Scripts)>,
    ) -> Result<Reply, ProviderError> {
        send(&mut socket, &messages).await?;
        let mut rounds = 0;
        let reply = loop {
            let message = self.next(&mut socket, idle).await?;
            let step = exchange.receive(&message);
            // The provider may charge for the rounds before the error.
            match step.map_err(|err| if rounds > 0 { err.lost() } else { err })? {
                Step::Send(messages) => send(&mut socket, &messages).await?,
                Step::Answer(mut calls) => {
                    rounds += 1;
                    if rounds > MOST_ROUNDS {
                        let message = format!(
                            "the model called tools in more than {MOST_ROUNDS} rounds of one answer"
                        );
                        return Err(self.error(ProviderErrorKind::InvalidRequest, message).lost());
                    }
                    for call in &mut calls {
                        call.response = Some(self.answer(call, answering).await?);
                    }
                    send(&mut socket, &exchange.respond(calls)).await?;
                }
                Step::Done(reply) => break *reply,
            }
        };
        let latency_ms = Socket::close(socket).await;
        Ok(Reply { latency_ms, ..reply })
    }

    /// Returns the next message of the server as JSON. Fails if the server sends nothing for longer than `idle`, if the
    /// connection breaks, or if the message is not JSON.
    async fn next(&self, socket: &mut Socket, idle: Duration) -> Result<Value, ProviderError> {
        let waited = tokio::time::timeout(idle, socket.next_message()).await;
        let text = waited.map_err(|_| {
            let message = format!("the server sent nothing for {} ms", idle.as_millis());
            self.error(ProviderErrorKind::Timeout, message).retryable()
        })?;
        let text = text.map_err(ProviderError::lost)?;
        parse(text.as_bytes()).map_err(|it| {
            let message = format!("{}: `{}`", it.why, excerpt(&text));
            self.error(ProviderErrorKind::MalformedResponse, message).with_malformed(it.kind)
        })
    }

    /// Runs the script that answers a tool call, and returns its result; `null` without a script. Fails if the script
    /// fails or returns a value that is not JSON.
    async fn answer(
        &self,
        call: &ToolCall,
        answering: Option<(&str, &Scripts)>,
    ) -> Result<Value, ProviderError> {
        let Some((code, scripts)) = answering else { return Ok(Value::Null) };
        let source = ScriptSource::Body {
            params: ["name", "args"].map(str::to_owned).to_vec(),
            code: code.into(),
        };
        let args = vec![
            ecma::stringify(&json!(call.name)).into(),
            ecma::stringify(&call.arguments).into(),
        ];
        let question = ScriptQuestion::new(scripts.runtime, source)
            .with_args(args)
            .with_permissions(Arc::clone(&scripts.permissions))
            .with_timeout(self.timeout);
        let failed = |why: String| {
            let message = format!("`answerCalls` failed for the tool `{}`: {why}", call.name);
            self.error(ProviderErrorKind::Command, message).lost()
        };
        let answer = scripts.runner.run(&question).await.map_err(|err| failed(err.message))?;
        match answer.outcome {
            ScriptOutcome::Returned(ScriptValue::Json(value)) => Ok(value),
            ScriptOutcome::Returned(ScriptValue::Number(number)) => Ok(json!(number)),
            ScriptOutcome::Returned(ScriptValue::Undefined) => Ok(Value::Null),
            ScriptOutcome::Returned(ScriptValue::Opaque { type_name, .. }) => {
                Err(failed(format!("it returned a {type_name}")))
            }
            ScriptOutcome::Threw { message, thrown, .. } => {
                Err(failed(format!("it threw: {}", message.unwrap_or(thrown))))
            }
        }
    }

    fn error(&self, kind: ProviderErrorKind, message: impl Into<String>) -> ProviderError {
        ProviderError::new(kind, self.provider, message)
    }
}

async fn send(socket: &mut Socket, messages: &[Value]) -> Result<(), ProviderError> {
    for message in messages {
        socket.send(&message.to_string()).await?;
    }
    Ok(())
}
