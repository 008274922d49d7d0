//! The replies and faults of the mock server.

use std::time::Duration;

use kindlm_types::ask::{mark_in, with_mark};
use serde_json::{Value, json};

use super::gzip;

/// A reply or a fault.
#[derive(Clone, Debug)]
pub struct MockReply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
    /// The name of the model that answers, for a reply with a text; `None` for the default name.
    pub(super) model: Option<String>,
    /// The fingerprint of the model's configuration, for a reply with a text; `None` for no fingerprint.
    pub(super) fingerprint: Option<String>,
    pub(super) delay: Duration,
    pub(super) body_delay: Duration,
    /// The pause before each piece of the body.
    pub(super) drip: Duration,
    pub(super) ending: Ending,
}

/// The body of a reply.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// An answer with this text, in the dialect of the path.
    Says(String),
    /// A fixed body.
    Bytes(Vec<u8>),
    /// An endless body of spaces.
    Endless,
}

/// The way in which the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The connection stays open.
    KeepAlive,
    /// The connection is reset before the response.
    ResetAtOnce,
    /// The connection is closed before the response.
    CloseAtOnce,
    /// The connection is reset after half of the body.
    ResetInBody,
    /// The connection is closed after half of the body.
    CloseInBody,
}

/// Returns the first question to a judge in a request; `None` if there is no such question.
///
/// A text is such a question if it contains a mark, which is a token that the judge must repeat.
fn question(request: &Value) -> Option<&str> {
    match request {
        Value::String(text) => mark_in(text).map(|_| text.as_str()),
        Value::Array(items) => items.iter().find_map(question),
        Value::Object(entries) => entries.values().find_map(question),
        _ => None,
    }
}

impl MockReply {
    fn new(status: u16, body: Body) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
            model: None,
            fingerprint: None,
            delay: Duration::ZERO,
            body_delay: Duration::ZERO,
            drip: Duration::ZERO,
            ending: Ending::KeepAlive,
        }
    }

    /// Adds the mark of a judge's question to a reply that is a JSON object.
    ///
    /// A mark is a token in a question that the judge must repeat. A test that writes a reply in advance does not know
    /// the mark.
    pub(super) fn marked(mut self, request: &[u8]) -> Self {
        if let Body::Says(text) = &self.body
            && let Ok(request) = serde_json::from_slice(request)
            && let Some(question) = question(&request)
        {
            self.body = Body::Says(with_mark(text, question));
        }
        self
    }

    /// Replies with this text, in the dialect of the path.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(200, Body::Says(text.into()))
    }

    /// Replies with status 200 and this JSON.
    pub fn json(body: &Value) -> Self {
        Self::raw(200, "application/json", body.to_string())
    }

    /// Replies with an error message in the format of the `OpenAI` API.
    pub fn error(status: u16, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": "mock_error", "code": null}});
        Self { status, ..Self::json(&body) }
    }

    /// Returns the body if it is fixed, otherwise no bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::Bytes(bytes) => bytes.clone(),
            _ => Vec::new(),
        }
    }

    /// Replies with these bytes.
    pub fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, Body::Bytes(body.into())).with_header("content-type", content_type)
    }

    /// Replies with status 200 and an HTML page, like a misconfigured proxy.
    pub fn html() -> Self {
        Self::raw(200, "text/html", "<!doctype html><title>Sign in</title><p>Please sign in.")
    }

    /// Replies with status 200 and an empty body.
    pub fn empty() -> Self {
        Self::raw(200, "application/json", "")
    }

    /// Replies with status 200 and incomplete JSON. The HTTP response itself is complete.
    pub fn truncated_json() -> Self {
        Self::raw(200, "application/json", r#"{"choices":[{"message":{"role":"assistant","cont"#)
    }

    /// Replies with status 200 and a small gzip body that decompresses to at least `bytes` bytes.
    pub fn gzip_bomb(bytes: u64) -> Self {
        Self::raw(200, "application/json", gzip::bomb(bytes))
            .with_header("content-encoding", "gzip")
    }

    /// Replies with status 200 and an endless body.
    pub fn endless() -> Self {
        Self::new(200, Body::Endless)
    }

    /// Replies with a redirect.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::raw(status, "text/plain", "").with_header("location", location)
    }

    /// Resets the connection before the response.
    pub fn reset() -> Self {
        Self { ending: Ending::ResetAtOnce, ..Self::text("ok") }
    }

    /// Closes the connection before the response.
    pub fn hang_up() -> Self {
        Self { ending: Ending::CloseAtOnce, ..Self::text("ok") }
    }

    /// Resets the connection after half of the body.
    #[must_use]
    pub fn reset_in_body(self) -> Self {
        Self { ending: Ending::ResetInBody, ..self }
    }

    /// Closes the connection after half of the body.
    #[must_use]
    pub fn close_in_body(self) -> Self {
        Self { ending: Ending::CloseInBody, ..self }
    }

    /// Replaces the status of the reply.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Sets the name of the model that answers; without it, the name is `mock-1`.
    #[must_use]
    pub fn from_model(self, name: &str) -> Self {
        Self { model: Some(name.to_owned()), ..self }
    }

    /// Sets the fingerprint of the model's configuration, as the `OpenAI` API reports it.
    #[must_use]
    pub fn with_fingerprint(self, fingerprint: &str) -> Self {
        Self { fingerprint: Some(fingerprint.to_owned()), ..self }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits before the response.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Waits between the headers and the body.
    #[must_use]
    pub fn body_after(self, body_delay: Duration) -> Self {
        Self { body_delay, ..self }
    }

    /// Sends the body in at most eight pieces, with this pause before each piece.
    #[must_use]
    pub fn dripping(self, pause: Duration) -> Self {
        Self { drip: pause, ..self }
    }
}
