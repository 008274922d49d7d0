//! The interpretation of error responses. It finds the kind, the vendor's message, and whether a retry may help.

use kindlm_types::{ProviderError, ProviderErrorKind as Kind, ecma};
use serde_json::Value;

use super::text::excerpt;

/// The maximum length of a vendor's message, in characters.
const KEPT: usize = 1000;

/// The reader of the responses of one provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// The provider's id.
    pub(crate) provider: &'static str,
    /// The environment variable of the key, for error messages.
    pub(crate) key: Option<&'a str>,
    /// The error kinds that differ for this vendor.
    pub(crate) rule: Rule,
}

/// A vendor-specific rule for the kind of an error; `None` applies the common rule.
pub(crate) type Rule = fn(&Facts) -> Option<Kind>;

/// The facts of an error response that determine its kind.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The vendor's error codes, types and status names, in lower case.
    words: Vec<String>,
    /// The vendor's message, in lower case.
    message: String,
}

impl Facts {
    /// Returns true if a code, type or status name of the error equals this lower-case word.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }

    /// Returns true if the message contains one of these lower-case texts.
    pub(crate) fn message_contains(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.message.contains(text))
    }

    fn is_client_error(&self) -> bool {
        (400..500).contains(&self.status)
    }
}

/// Returns the error of a response with a JSON body.
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

/// Returns the error of a response without a readable body.
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

/// Returns true if the same request may succeed later. The status and the kind of the error decide.
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

/// Returns the kind of an error by the common rules.
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
        // Status 409 means that another request holds a lock, so the request itself has no fault. A status below 400
        // comes from a gateway that reports errors with status 200.
        409 | 500..=599 | 0..=399 => Kind::Server,
        _ => Kind::InvalidRequest,
    }
}

/// Returns the kind of a client error that no retry can fix, by its code or its message. Returns `None` for any other
/// error.
fn refused(facts: &Facts) -> Option<Kind> {
    if !facts.is_client_error() {
        return None;
    }
    if facts.is("insufficient_quota")
        || facts.is("billing_error")
        || facts.is("billing_hard_limit_reached")
        || facts.message_contains(&[
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
        || facts.message_contains(&[
            "content management policy",
            "content filtering policy",
            "violating our usage policy",
        ])
    {
        return Some(Kind::ContentFilter);
    }
    if facts.is("context_length_exceeded")
        || facts.message_contains(&[
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
        || facts.message_contains(&["api key", "permission", "not authorized", "unauthorized"])
}

/// Returns the vendor's message, truncated. Vendors use different keys, and the first key with a message counts.
/// Returns `None` if no key has a message.
fn message(body: &Value) -> Option<String> {
    let found = [
        body.pointer("/error/message"),
        body.get("error"),
        body.pointer("/message/detail").or_else(|| body.get("message")),
        body.get("detail"),
        body.pointer("/errors/0/message"),
        Some(body),
    ];
    found.into_iter().flatten().find_map(message_text).map(|text| text.chars().take(KEPT).collect())
}

/// Returns a message as text; `None` if it is empty or of another type. A message is a text, or a list of errors about
/// fields (`[{loc, msg}]`).
fn message_text(value: &Value) -> Option<String> {
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
