//! Reading a response: JSON of the right kind, or a typed error that says what came instead.

use kindlm_types::{FinishReason, ProviderError, ProviderErrorKind};
use serde_json::Value;

use super::chat;
use super::failure::{self, Rule};
use crate::HttpResponse;

/// How many characters of a body are shown.
const SHOWN: usize = 200;

/// Reads the responses of one provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// The provider's id.
    pub(crate) provider: &'static str,
    /// The variable that holds the key, for messages.
    pub(crate) key: Option<&'a str>,
    /// What the vendor means by its errors, where that is not what everybody means.
    pub(crate) rule: Rule,
}

impl Reader<'_> {
    /// The JSON object of a successful response.
    ///
    /// Some gateways answer 200 with an `error` and nothing else; that is an error as well.
    pub(crate) fn object(&self, response: &HttpResponse) -> Result<Value, ProviderError> {
        let value = self.json(response)?;
        if !value.is_object() {
            return Err(self.malformed("the answer is not a JSON object", response));
        }
        let error = &value["error"];
        let is_error = (error.is_object() || error.as_str().is_some_and(|it| !it.is_empty()))
            && ["choices", "message", "content", "candidates", "data"]
                .iter()
                .all(|key| value.get(key).is_none_or(Value::is_null));
        if is_error {
            let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            let status = code.filter(|code| (400..600).contains(code)).unwrap_or(response.status);
            return Err(failure::of_body(self, status, &value));
        }
        Ok(value)
    }

    /// The JSON of a successful response.
    pub(crate) fn json(&self, response: &HttpResponse) -> Result<Value, ProviderError> {
        let value = parse(&response.body);
        if !(200..300).contains(&response.status) {
            return Err(match value {
                Some(value) => failure::of_body(self, response.status, &value),
                None => failure::of_status(self, response.status, &describe(response)),
            });
        }
        value.ok_or_else(|| {
            let what = if response.body.is_empty() {
                "the answer is empty"
            } else {
                "the answer is not JSON"
            };
            self.malformed(what, response)
        })
    }

    /// An answer that cannot be read: what is wrong, and its beginning.
    pub(crate) fn malformed(&self, what: &str, response: &HttpResponse) -> ProviderError {
        let text = String::from_utf8_lossy(&response.body);
        let message =
            if text.is_empty() { what.to_owned() } else { format!("{what}: `{}`", excerpt(&text)) };
        ProviderError::new(ProviderErrorKind::MalformedResponse, self.provider, message)
            .with_status(response.status)
    }

    /// The part of an answer that holds what a model said. Without it nobody has answered; taken for an empty
    /// answer, it would keep every rule about what must not be said.
    pub(crate) fn said<'v>(
        &self,
        part: &'v Value,
        response: &HttpResponse,
    ) -> Result<&'v Value, ProviderError> {
        if part.is_null() {
            let what = "there is no message of a model in the answer, so check the address";
            return Err(self.malformed(what, response));
        }
        Ok(part)
    }

    /// The text of a message. A message that stopped by itself without one, and without anything else (a call, a refusal, a
    /// sound), says nothing that could be judged.
    pub(crate) fn text_of(
        &self,
        message: &Value,
        finish: &FinishReason,
        response: &HttpResponse,
    ) -> Result<String, ProviderError> {
        let is_cut = matches!(finish, FinishReason::Length | FinishReason::ContentFilter);
        let says = |key: &str| match &message[key] {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        let others = ["tool_calls", "function_call", "refusal", "audio"];
        if message["content"].is_null() && !is_cut && !others.into_iter().any(says) {
            return Err(self.malformed("the message of the model has no content", response));
        }
        Ok(chat::text(&message["content"]))
    }

    /// Reads the vector of an embedding.
    pub(crate) fn vector(
        &self,
        value: &Value,
        response: &HttpResponse,
    ) -> Result<Vec<f32>, ProviderError> {
        #[expect(clippy::cast_possible_truncation, reason = "vectors are 32-bit by design")]
        let vector: Option<Vec<f32>> = value.as_array().and_then(|list| {
            list.iter()
                .map(|it| it.as_f64().map(|it| it as f32).filter(|it| it.is_finite()))
                .collect()
        });
        vector
            .filter(|it| !it.is_empty())
            .ok_or_else(|| self.malformed("there is no vector in the answer", response))
    }
}

fn parse(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body)).ok()
}

fn describe(response: &HttpResponse) -> String {
    let text = String::from_utf8_lossy(&response.body);
    if text.trim().is_empty() {
        format!("status {} and an empty body", response.status)
    } else {
        format!("status {} and a body that is not JSON: `{}`", response.status, excerpt(&text))
    }
}

/// The first 200 characters of a text, on one line.
pub(crate) fn excerpt(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(SHOWN)
        .map(|it| if it.is_control() || it == '`' { ' ' } else { it })
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        out.push('…');
    }
    out.trim().to_owned()
}

/// A count of tokens: a whole number, whatever type the server gave it; 0 if there is none.
pub(crate) fn count(value: &Value) -> u64 {
    counted(value).unwrap_or(0)
}

/// The same, where it matters whether there is one: what is not counted is not 0.
pub(crate) fn counted(value: &Value) -> Option<u64> {
    match value {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates"
        )]
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().map(|it| it as u64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A text that is there and not empty.
pub(crate) fn non_empty(value: &Value) -> Option<&str> {
    value.as_str().filter(|it| !it.is_empty())
}
