//! The reactions of the mock server to a request.

use std::time::Duration;

use kindlm_types::ask::{mark_in, with_mark};
use serde_json::{Value, json};

use super::gzip;

/// One reply, good or bad.
#[derive(Clone, Debug)]
pub struct MockReply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
    pub(super) delay: Duration,
    pub(super) body_delay: Duration,
    /// Between two pieces of the body.
    pub(super) drip: Duration,
    pub(super) ending: Ending,
}

/// The data after the headers.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// An answer in the dialect of the path that says this.
    Says(String),
    /// These bytes.
    Bytes(Vec<u8>),
    /// Spaces, until the client hangs up.
    Endless,
}

/// The ending of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It stays open for the next request.
    KeepAlive,
    /// It is reset before anything is sent.
    ResetAtOnce,
    /// It is closed without an answer.
    CloseAtOnce,
    /// It is reset after half of the body.
    ResetInBody,
    /// It is closed after half of the body.
    CloseInBody,
}

/// The text of a request that asks for a mark.
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
            delay: Duration::ZERO,
            body_delay: Duration::ZERO,
            drip: Duration::ZERO,
            ending: Ending::KeepAlive,
        }
    }

    /// The reply with the mark that the request asks for, if it asks a judge and the reply says a JSON object: what a
    /// judge says that follows its instructions.
    pub(super) fn marked(mut self, request: &[u8]) -> Self {
        if let Body::Says(text) = &self.body
            && let Ok(request) = serde_json::from_slice(request)
            && let Some(question) = question(&request)
        {
            self.body = Body::Says(with_mark(text, question));
        }
        self
    }

    /// Says something, in the dialect of the path.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(200, Body::Says(text.into()))
    }

    /// Answers 200 with this JSON.
    pub fn json(body: &Value) -> Self {
        Self::raw(200, "application/json", body.to_string())
    }

    /// Answers with an error that has a message, in the form of `OpenAI`'s API.
    pub fn error(status: u16, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": "mock_error", "code": null}});
        Self { status, ..Self::json(&body) }
    }

    /// The bytes that it answers with, if they are fixed.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::Bytes(bytes) => bytes.clone(),
            _ => Vec::new(),
        }
    }

    /// Answers with these bytes.
    pub fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, Body::Bytes(body.into())).with_header("content-type", content_type)
    }

    /// Answers 200 with a page for people, as a misconfigured proxy does.
    pub fn html() -> Self {
        Self::raw(200, "text/html", "<!doctype html><title>Sign in</title><p>Please sign in.")
    }

    /// Answers 200 with nothing.
    pub fn empty() -> Self {
        Self::raw(200, "application/json", "")
    }

    /// Answers 200 with JSON that stops in the middle, though the response is whole.
    pub fn truncated_json() -> Self {
        Self::raw(200, "application/json", r#"{"choices":[{"message":{"role":"assistant","cont"#)
    }

    /// Answers 200 with a small body that unpacks into `bytes` bytes.
    pub fn gzip_bomb(bytes: u64) -> Self {
        Self::raw(200, "application/json", gzip::bomb(bytes))
            .with_header("content-encoding", "gzip")
    }

    /// Answers 200 with a body that never ends.
    pub fn endless() -> Self {
        Self::new(200, Body::Endless)
    }

    /// Sends the client elsewhere.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::raw(status, "text/plain", "").with_header("location", location)
    }

    /// Resets the connection instead of answering.
    pub fn reset() -> Self {
        Self { ending: Ending::ResetAtOnce, ..Self::text("ok") }
    }

    /// Closes the connection instead of answering.
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

    /// Answers with another status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits before it sends anything.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Waits between the headers and the body.
    #[must_use]
    pub fn body_after(self, body_delay: Duration) -> Self {
        Self { body_delay, ..self }
    }
    /// Sends the body in eight pieces, with this pause before each.
    #[must_use]
    pub fn dripping(self, pause: Duration) -> Self {
        Self { drip: pause, ..self }
    }
}
