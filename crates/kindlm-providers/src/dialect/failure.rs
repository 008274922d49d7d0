//! What an error response means: a kind, whether to try again, and the vendor's own words.

use kindlm_types::{ProviderError, ProviderErrorKind as Kind, ecma};
use serde_json::Value;

use super::text::excerpt;

/// How many characters of a vendor's message are kept.
const KEPT: usize = 1000;

/// Reads the responses of one provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// The provider's id.
    pub(crate) provider: &'static str,
    /// The variable that holds the key, for messages.
    pub(crate) key: Option<&'a str>,
    /// The kinds of errors for which this vendor differs from the others.
    pub(crate) rule: Rule,
}

/// The meaning of an error of one vendor, where it differs from the common one; `None` for the common reading.
pub(crate) type Rule = fn(&Facts) -> Option<Kind>;

/// An error response, as far as its meaning depends on it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The status.
    pub(crate) status: u16,
    /// The vendor's codes and types, in lower case.
    words: Vec<String>,
    /// The vendor's message, in lower case.
    message: String,
}

impl Facts {
    /// True if a code or a type of the error is this one.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }

    /// True if the message contains one of these, which are in lower case.
    pub(crate) fn says(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.message.contains(text))
    }

    fn is_client_error(&self) -> bool {
        (400..500).contains(&self.status)
    }
}

/// The error of a response whose body is JSON.
pub(crate) fn of_body(reader: &Reader<'_>, status: u16, body: &Value) -> ProviderError {
    let message = message(body).unwrap_or_else(|| {
        format!("status {status} without a message: `{}`", excerpt(&ecma::stringify(body)))
    });
    let words = ["/error/code", "/error/type", "/error/status", "/code", "/type", "/status"]
        .into_iter()
        .filter_map(|pointer| body.pointer(pointer).and_then(Value::as_str))
        .map(str::to_lowercase)
        .collect();
    error(reader, &Facts { status, words, message: message.to_lowercase() }, message)
}

/// The error of a response whose body says nothing.
pub(crate) fn of_status(reader: &Reader<'_>, status: u16, message: &str) -> ProviderError {
    let facts = Facts { status, words: Vec::new(), message: message.to_lowercase() };
    error(reader, &facts, message.to_owned())
}

fn error(reader: &Reader<'_>, facts: &Facts, message: String) -> ProviderError {
    let kind = (reader.rule)(facts).unwrap_or_else(|| kind(facts));
    let message = match (kind, reader.key) {
        (Kind::Auth, Some(variable)) => format!("{message} (the key was read from `{variable}`)"),
        _ => message,
    };
    let err = ProviderError::new(kind, reader.provider, message).with_status(facts.status);
    if is_retryable(facts.status, kind) { err.retryable() } else { err }
}

/// True if the same request may succeed later.
fn is_retryable(status: u16, kind: Kind) -> bool {
    let hopeless = matches!(
        kind,
        Kind::QuotaExhausted
            | Kind::ContentFilter
            | Kind::ContextLength
            | Kind::ModelNotFound
            | Kind::Auth
    );
    !hopeless && matches!(status, 408 | 409 | 429 | 500..=599)
}

/// The common meaning of an error.
fn kind(facts: &Facts) -> Kind {
    if let Some(kind) = refused(facts) {
        return kind;
    }
    match facts.status {
        401 => Kind::Auth,
        402 => Kind::QuotaExhausted,
        403 if is_forbidden(facts) => Kind::Auth,
        404 => Kind::ModelNotFound,
        408 => Kind::Timeout,
        429 => Kind::RateLimited,
        503 | 529 => Kind::Overloaded,
        // A conflict is a lock that another request holds: the server's state, not the request, is at fault.
        // Below 400 it is an answer of 200 that is an error, from a gateway that does not say more.
        409 | 500..=599 | 0..=399 => Kind::Server,
        _ => Kind::InvalidRequest,
    }
}

/// Refusals that no repetition cures, whatever their status.
fn refused(facts: &Facts) -> Option<Kind> {
    if !facts.is_client_error() {
        return None;
    }
    if facts.is("insufficient_quota")
        || facts.is("billing_error")
        || facts.is("billing_hard_limit_reached")
        || facts.says(&[
            "credit balance is too low",
            "insufficient balance",
            "insufficient credits",
        ])
    {
        return Some(Kind::QuotaExhausted);
    }
    if facts.status == 429 || facts.status == 401 {
        return None;
    }
    if facts.is("content_filter")
        || facts.is("content_policy_violation")
        || facts.says(&[
            "content management policy",
            "content filtering policy",
            "violating our usage policy",
        ])
    {
        return Some(Kind::ContentFilter);
    }
    if facts.is("context_length_exceeded")
        || facts.says(&[
            "context length",
            "maximum context",
            "context window",
            "prompt is too long",
            "too many tokens",
            "input token count",
        ])
    {
        return Some(Kind::ContextLength);
    }
    if facts.is("model_not_found") {
        return Some(Kind::ModelNotFound);
    }
    facts.is("invalid_api_key").then_some(Kind::Auth)
}

fn is_forbidden(facts: &Facts) -> bool {
    [
        "permission_error",
        "permission_denied",
        "insufficient_permissions",
        "forbidden",
        "access_denied",
    ]
    .iter()
    .any(|word| facts.is(word))
        || facts.says(&["api key", "permission", "not authorized", "unauthorized"])
}

/// The vendor's own message, wherever it keeps it.
fn message(body: &Value) -> Option<String> {
    let found = [
        body.pointer("/error/message"),
        body.get("error"),
        body.pointer("/message/detail").or_else(|| body.get("message")),
        body.get("detail"),
        body.pointer("/errors/0/message"),
        Some(body),
    ];
    found.into_iter().flatten().find_map(words).map(|text| text.chars().take(KEPT).collect())
}

/// A message in words: a text, or a list of complaints about fields (`[{loc, msg}]`).
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(list) => {
            let all: Vec<String> = list.iter().filter_map(complaint).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        _ => None,
    }
}

fn complaint(value: &Value) -> Option<String> {
    let text = value["msg"].as_str().or_else(|| value["message"].as_str())?;
    let place: Vec<String> = value["loc"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned))
        .collect();
    Some(if place.is_empty() { text.to_owned() } else { format!("{}: {text}", place.join(".")) })
}
