//! The reader of responses. It returns the expected JSON, or a typed error that shows the response.

use kindlm_types::{
    Embedding, FinishReason, Prompt, ProviderError, ProviderErrorKind, ToolCall, Usage,
    duplicate_key_among,
};
use serde_json::Value;

use super::failure;
pub(crate) use super::failure::Reader;
use super::part::{self, Malformed};
pub(crate) use super::text::{excerpt, non_empty};
use crate::HttpResponse;

impl Reader<'_> {
    /// Returns the JSON object of a successful response. Fails for an error status, and for a body that is not a JSON
    /// object.
    ///
    /// Some gateways answer with status 200 and only an `error`. Such a response is an error, too.
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
            return Err(self.reported_error(&value, response));
        }
        Ok(value)
    }

    /// Returns the error in the key `error` of a successful response. A status code in `error` replaces that of the
    /// response.
    pub(crate) fn reported_error(&self, value: &Value, response: &HttpResponse) -> ProviderError {
        let code = value["error"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let status = code.filter(|code| (400..600).contains(code)).unwrap_or(response.status);
        failure::of_body(self, status, value)
    }

    /// Returns the JSON of a successful response. Fails for an error status, for a body that is not JSON, and for a
    /// duplicate of a key in `SAID`.
    pub(crate) fn json(&self, response: &HttpResponse) -> Result<Value, ProviderError> {
        let value = parse(&response.body);
        if !(200..300).contains(&response.status) {
            return Err(match value {
                Ok(value) => failure::of_body(self, response.status, &value),
                Err(_) => failure::of_status(self, response.status, &describe(response)),
            });
        }
        self.read_part(value, response)
    }

    /// Returns the error for an unexpected answer. The message contains the beginning of the body.
    pub(crate) fn malformed(&self, what: &str, response: &HttpResponse) -> ProviderError {
        let text = String::from_utf8_lossy(&response.body);
        let message =
            if text.is_empty() { what.to_owned() } else { format!("{what}: `{}`", excerpt(&text)) };
        ProviderError::new(ProviderErrorKind::MalformedResponse, self.provider, message)
            .with_status(response.status)
    }

    /// Returns the part of an answer that holds the model's message. A missing message is an error, because an empty
    /// text would pass every `not-contains` check.
    pub(crate) fn message_part<'v>(
        &self,
        part: &'v Value,
        response: &HttpResponse,
    ) -> Result<&'v Value, ProviderError> {
        if part.is_null() {
            let what = "the answer has no message of a model: check the address";
            return Err(self.malformed(what, response));
        }
        Ok(part)
    }

    /// Returns the text of a message. A message without content is an error, unless it was cut or filtered, or has a
    /// call, a refusal or audio.
    pub(crate) fn text_of(
        &self,
        message: &Value,
        finish: &FinishReason,
        response: &HttpResponse,
    ) -> Result<String, ProviderError> {
        let is_cut = matches!(finish, FinishReason::Length | FinishReason::ContentFilter);
        let has_value = |key: &str| match &message[key] {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        let others = ["tool_calls", "function_call", "refusal", "audio"];
        if message["content"].is_null() && !is_cut && !others.into_iter().any(has_value) {
            return Err(self.malformed("the message of the model has no content", response));
        }
        self.read_part(part::text(&message["content"]), response)
    }

    /// Returns the content of a part, or an error if the part is malformed.
    pub(crate) fn read_part<T>(
        &self,
        part: Result<T, Malformed>,
        response: &HttpResponse,
    ) -> Result<T, ProviderError> {
        part.map_err(|it| self.malformed(&it.why, response).with_malformed(it.kind))
    }

    /// Returns the tool calls of a message in the chat dialect. A call without an id gets the id `<made_up><n>`. `n` is
    /// the number of the call in the conversation.
    pub(crate) fn tool_calls(
        &self,
        prompt: &Prompt,
        message: &Value,
        made_up: &str,
        response: &HttpResponse,
    ) -> Result<Vec<ToolCall>, ProviderError> {
        self.read_part(part::tool_calls(prompt, &message["tool_calls"], made_up), response)
    }

    /// Returns the embedding with this vector. `tokens` is the reported token count of the text. Fails unless the
    /// vector is a non-empty list of finite numbers.
    pub(crate) fn embedding(
        &self,
        value: &Value,
        tokens: &Value,
        response: &HttpResponse,
    ) -> Result<Embedding, ProviderError> {
        let vector: Option<Vec<f64>> = value.as_array().and_then(|list| {
            list.iter().map(|it| it.as_f64().filter(|it| it.is_finite())).collect()
        });
        let usage = counted(tokens).map(|it| Usage::counted(Some(it), Some(0), None, None));
        vector
            .filter(|it| !it.is_empty())
            .map(|it| Embedding::new(it, usage.unwrap_or_default()))
            .ok_or_else(|| self.malformed("there is no vector in the answer", response))
    }
}

/// The keys for the content, calls and counts of an answer. Duplicates of these keys are errors, because JSON parsers
/// would only keep the last value.
const SAID: [&str; 20] = [
    "arguments",
    "candidates",
    "choices",
    "content",
    "finishReason",
    "finish_reason",
    "function",
    "functionCall",
    "input",
    "message",
    "name",
    "output",
    "parts",
    "refusal",
    "stop_reason",
    "text",
    "tool_calls",
    "type",
    "usage",
    "usageMetadata",
];

/// Parses the JSON of a body. Fails with the reason if the body is not JSON, or has a duplicate of a key in `SAID`.
pub(crate) fn parse(body: &[u8]) -> Result<Value, Malformed> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let value = serde_json::from_slice(body).map_err(|err| not_json(body, &err))?;
    let duplicate =
        str::from_utf8(body).ok().and_then(|it| duplicate_key_among(it, |key| SAID.contains(&key)));
    match duplicate {
        Some(key) => {
            let why = format!("the answer has the duplicate key \"{key}\" in one object");
            Err(Malformed::faulty(why))
        }
        None => Ok(value),
    }
}

/// Returns the reason why a body is not JSON. The reason includes the parser's message only for a syntax error in a
/// body that begins like an object or a list.
fn not_json(body: &[u8], err: &serde_json::Error) -> Malformed {
    if body.is_empty() {
        return Malformed::unknown("the answer is empty");
    }
    let words = err.to_string();
    let is_surrogate = ["surrogate", "hex escape"].iter().any(|it| words.contains(it));
    if is_surrogate && err.is_syntax() {
        return Malformed::faulty(format!(
            "the answer holds half of a surrogate pair (`\\ud800` to `\\udfff` alone) at line {} column {}, which is not \
             valid Unicode",
            err.line(),
            err.column()
        ));
    }
    match body.trim_ascii_start().first() {
        Some(b'{' | b'[') if err.is_syntax() => {
            Malformed::unknown(format!("the answer is not valid JSON ({err})"))
        }
        _ => Malformed::unknown("the answer is not JSON"),
    }
}

fn describe(response: &HttpResponse) -> String {
    let text = String::from_utf8_lossy(&response.body);
    if text.trim().is_empty() {
        format!("status {} and an empty body", response.status)
    } else {
        format!("status {} and a body that is not JSON: `{}`", response.status, excerpt(&text))
    }
}

/// The upper limit of a plausible token count. A higher count is a fault of the server.
pub(crate) const MOST_TOKENS: u64 = 1_000_000_000_000;

/// Returns a token count, from a number or a text. Returns `None` if the count is absent, not a number, negative or
/// implausibly large. A missing count is not 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the number is in the range of a count"
)]
pub(crate) fn counted(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            let limit = MOST_TOKENS as f64;
            number.as_f64().filter(|it| (0.0..=limit).contains(it)).map(|it| it as u64)
        }
        Value::String(text) => text.trim().parse().ok().filter(|it| *it <= MOST_TOKENS),
        _ => None,
    }
}
