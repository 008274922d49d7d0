//! The websocket client: it opens a websocket, sends messages, and reads messages.

use std::fmt;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use kindlm_types::{ProviderError, ProviderErrorKind};
use reqwest::header::{
    CONNECTION, HeaderMap, HeaderValue as RawValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{Method, Request, StatusCode, Upgraded};
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use crate::HttpRequest;
use crate::client::HttpTransport;
use crate::credential::IssuedCredential;
use crate::fault::Fault;
use crate::prepared::Prepared;
use crate::secret::{Secrets, filled};

/// The maximum number of characters of a server's refusal that an error message shows.
const SHOWN: usize = 200;

/// The failure of a message that cannot be sent.
const UNSENT: &str = "the message cannot be sent";

/// The failure of a websocket that ends with an error.
const BROKE_OFF: &str = "the websocket broke off";

/// An open websocket of a provider.
#[derive(Debug)]
pub struct Socket {
    stream: WebSocketStream<Upgraded>,
    provider: String,
    /// The secrets of the request, which messages may repeat.
    secrets: [Secrets; 2],
    /// The number of bytes that the server may still send.
    left: usize,
    opened: Instant,
}

impl HttpTransport {
    /// Opens a websocket at the address of a request, and sends the body of the request as a text message.
    ///
    /// If the server refuses a credential of a command, the request is sent again with a newer one. `timeout` covers
    /// each of these requests, but not the command. Fails if the command fails, if the websocket cannot be opened in
    /// time, or if the message cannot be sent.
    pub async fn open_socket(
        &self,
        provider: &str,
        request: &HttpRequest,
        timeout: Duration,
    ) -> Result<Socket, ProviderError> {
        let asked = (provider, request);
        let issued = self.issued(provider).await?;
        let err = match self.open_within(timeout, asked, issued.as_ref()).await {
            Ok(socket) => return Ok(socket),
            Err(err) => err,
        };
        match self.newer(provider, issued.as_ref(), &err).await? {
            Some(newer) => Box::pin(self.open_within(timeout, asked, Some(&newer))).await,
            None => Err(err),
        }
    }

    /// Opens a websocket. Fails if that is impossible, or takes longer than `timeout`.
    async fn open_within(
        &self,
        timeout: Duration,
        (provider, request): (&str, &HttpRequest),
        issued: Option<&IssuedCredential>,
    ) -> Result<Socket, ProviderError> {
        let opening = self.open_with(provider, request, issued);
        tokio::time::timeout(timeout, opening).await.unwrap_or_else(|_| {
            let message = format!("the websocket was not open within {} ms", timeout.as_millis());
            Err(ProviderError::new(ProviderErrorKind::Timeout, provider, message).retryable())
        })
    }

    /// Opens a websocket with a credential that a command has printed, or with none.
    async fn open_with(
        &self,
        provider: &str,
        request: &HttpRequest,
        issued: Option<&IssuedCredential>,
    ) -> Result<Socket, ProviderError> {
        let opened = Instant::now();
        let env = self.env_of(provider, issued)?;
        let (request, secrets) = filled(provider, request, &*env)?;
        let prepared = self.prepared(provider, &request, &env, issued)?;
        let opening = self.upgraded(provider, &request, (prepared.as_ref(), &secrets));
        let upgraded = opening.await.map_err(|err| secrets.redact(prepared.secrets.redact(err)))?;
        let limit = usize::try_from(self.options().max_body).unwrap_or(usize::MAX);
        let config =
            WebSocketConfig::default().max_message_size(Some(limit)).max_frame_size(Some(limit));
        let mut stream =
            WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        let message = match &request.body {
            Value::String(text) if request.is_text => text.clone(),
            body => body.to_string(),
        };
        let sent = stream.send(Message::text(message)).await;
        let secrets = [prepared.secrets.clone(), secrets];
        sent.map_err(|err| broken_by(provider, UNSENT, &err, &secrets))?;
        Ok(Socket { stream, provider: provider.to_owned(), secrets, left: limit, opened })
    }

    /// Asks the server for a websocket. Fails if the server cannot be reached, or does not open a websocket.
    async fn upgraded(
        &self,
        provider: &str,
        request: &HttpRequest,
        (prepared, secrets): (&Prepared, &Secrets),
    ) -> Result<Upgraded, ProviderError> {
        let fault = Fault::new(provider, request.address_key(), &prepared.url);
        let key = generate_key();
        let mut handshake = Request::new(Method::GET, prepared.url.clone());
        *handshake.headers_mut() = upgrade_headers(prepared.headers(), &key);
        let client = self.socket_client(provider)?;
        let response = client.execute(handshake).await.map_err(|err| fault.connection(&err))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status().as_u16();
            // If the body cannot be read, the error shows only the status.
            let body = self
                .read_response(response, &fault, Instant::now())
                .await
                .map(|it| it.body)
                .unwrap_or_default();
            let text = String::from_utf8_lossy(&body).into_owned();
            return Err(refused(provider, status, text, [&prepared.secrets, secrets]));
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT).map(RawValue::as_bytes);
        if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(broken(
                provider,
                "the server answers the handshake of a websocket wrongly",
            ));
        }
        response.upgrade().await.map_err(|err| fault.connection(&err))
    }
}

impl Socket {
    /// Sends a text message. Fails if the websocket is closed.
    pub async fn send(&mut self, message: &str) -> Result<(), ProviderError> {
        let sent = self.stream.send(Message::text(message)).await;
        sent.map_err(|err| broken_by(&self.provider, UNSENT, &err, &self.secrets).lost())
    }

    /// Returns the next text message, without secrets. Fails if the websocket ends first, the size limit is exceeded,
    /// or the message is not text.
    pub async fn next_text(&mut self) -> Result<String, ProviderError> {
        let message = self.next().await?;
        let Message::Text(text) = message else {
            return Err(broken(&self.provider, "the server sent a message that is not text"));
        };
        Ok(self.cleaned(text.to_string()))
    }

    /// Returns the text of the next message, without secrets. Some servers send texts as binary messages. Fails if the
    /// websocket ends first, the size limit is exceeded, or the message is not UTF-8.
    pub async fn next_message(&mut self) -> Result<String, ProviderError> {
        let message = self.next().await?;
        let text = String::from_utf8(message.into_data().to_vec())
            .map_err(|_| broken(&self.provider, "the server sent a message that is not text"))?;
        Ok(self.cleaned(text))
    }

    /// Returns the next message with content. Fails if the websocket ends first, or the server exceeds the size limit.
    async fn next(&mut self) -> Result<Message, ProviderError> {
        loop {
            match self.stream.next().await {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    let Some(left) = self.left.checked_sub(message.len()) else {
                        let why = "the server sends more than the size limit of an answer";
                        let kind = ProviderErrorKind::MalformedResponse;
                        return Err(ProviderError::new(kind, &self.provider, why));
                    };
                    self.left = left;
                    return Ok(message);
                }
                Some(Ok(Message::Close(frame))) => return Err(self.closed(frame.as_ref())),
                None => return Err(self.closed(None)),
                Some(Ok(_)) => {}
                Some(Err(err)) => {
                    return Err(broken_by(&self.provider, BROKE_OFF, &err, &self.secrets));
                }
            }
        }
    }

    fn cleaned(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, it| it.clean(text))
    }

    /// Returns the error of a server that closes the websocket before the answer is complete.
    fn closed(&self, frame: Option<&CloseFrame>) -> ProviderError {
        const WHY: &str = "the server closed the websocket before the answer";
        let Some(frame) = frame.filter(|it| !it.reason.is_empty()) else {
            return broken(&self.provider, WHY);
        };
        let code = u16::from(frame.code);
        let shown: String = frame.reason.chars().take(SHOWN).collect();
        let message = self.cleaned(format!("{WHY}: {shown} (code {code})"));
        let words = frame.reason.to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|it| words.contains(it));
        let kind = match code {
            _ if has(&["api key", "api_key", "unauthenticated", "permission"]) => {
                ProviderErrorKind::Auth
            }
            _ if has(&["quota"]) => ProviderErrorKind::QuotaExhausted,
            1008 if has(&["not found", "not supported"]) => ProviderErrorKind::ModelNotFound,
            // These codes mean that the message has a wrong form, or breaks a rule of the server.
            1002 | 1003 | 1007..=1010 => ProviderErrorKind::InvalidRequest,
            _ => return broken(&self.provider, &message),
        };
        ProviderError::new(kind, &self.provider, message)
    }

    /// Returns the time since the request that opened the websocket.
    pub fn elapsed(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Closes the websocket, and returns the time since it was opened, in milliseconds.
    pub async fn close(mut self) -> f64 {
        let latency_ms = self.elapsed().as_secs_f64() * 1000.0;
        // The answer is complete, so a failure to close the websocket has no effect.
        let _ = self.stream.close(None).await;
        latency_ms
    }
}

/// Returns the headers of a request for a websocket.
fn upgrade_headers(own: &HeaderMap, key: &str) -> HeaderMap {
    let mut headers = own.clone();
    headers.insert(CONNECTION, RawValue::from_static("Upgrade"));
    headers.insert(UPGRADE, RawValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, RawValue::from_static("13"));
    if let Ok(key) = RawValue::from_str(key) {
        headers.insert(SEC_WEBSOCKET_KEY, key);
    }
    headers
}

/// Returns the error of a server that answers without a websocket.
fn refused(provider: &str, status: u16, text: String, secrets: [&Secrets; 2]) -> ProviderError {
    // The whole text is redacted, because redaction would not find a part of a secret after the cut.
    let text = secrets.iter().fold(text, |text, it| it.clean(text));
    let shown: String = text.trim().chars().take(SHOWN).collect();
    let kind = match status {
        401 | 403 => ProviderErrorKind::Auth,
        429 => ProviderErrorKind::RateLimited,
        500.. => ProviderErrorKind::Server,
        _ => ProviderErrorKind::InvalidRequest,
    };
    let message = format!("the server refused the websocket: status {status} {shown}");
    let mut err = ProviderError::new(kind, provider, message.trim_end()).with_status(status);
    err.retryable = matches!(status, 429 | 500..);
    err
}

/// Returns the error of a failed websocket, without secrets. `failure` is [`UNSENT`] or [`BROKE_OFF`].
fn broken_by(
    provider: &str,
    failure: &str,
    err: &impl fmt::Display,
    secrets: &[Secrets; 2],
) -> ProviderError {
    let err = broken(provider, &format!("{failure}: {err}"));
    secrets.iter().fold(err, |err, it| it.redact(err))
}

fn broken(provider: &str, message: &str) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Connection, provider, message).retryable()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_failed_websockets_have_no_secrets() {
        const KEY: &str = "sk-test-4f9a8c1d";
        let mut secrets = Secrets::default();
        secrets.add(KEY);
        let reason = format!("bad frame: {KEY}");
        for secrets in [[secrets.clone(), Secrets::default()], [Secrets::default(), secrets]] {
            for failure in [UNSENT, BROKE_OFF] {
                let message = broken_by("p", failure, &reason, &secrets).message;
                assert!(message.starts_with(&format!("{failure}: bad frame: ")), "{message}");
                assert!(!message.contains(KEY), "{message}");
            }
        }
    }
}
