//! Resolution of secrets in requests, and their redaction in responses and errors.

use std::borrow::Cow;

use kindlm_redact::is_secret_header;
use kindlm_types::{ProviderError, ProviderErrorKind, ecma};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue as RawValue};
use serde_json::Value;

use crate::message::{SIGNATURE, SIGNATURE_TIMESTAMP};
use crate::{EnvMark, HeaderValue, HttpRequest, HttpResponse};

/// The secrets of one request. They are never shown.
#[derive(Clone, Debug, Default)]
pub struct Secrets(kindlm_redact::Secrets);

impl Secrets {
    /// Redacts the secrets in an error message. Some providers repeat the key that they refuse.
    pub fn redact(&self, mut err: ProviderError) -> ProviderError {
        self.0.redact_text(&mut err.message);
        err
    }

    /// Returns the response with a redacted body; `None` if the body contains no secret. Call this function before
    /// excerpts are cut, because redaction would not find a part of a secret.
    pub fn without(&self, response: &HttpResponse) -> Option<HttpResponse> {
        let clean = self.0.redact(&String::from_utf8_lossy(&response.body))?;
        let (status, headers) = (response.status, response.headers.clone());
        Some(HttpResponse { status, headers, body: clean.into_bytes(), arrivals: Vec::new() })
    }

    /// Returns a text without the secrets.
    #[cfg(feature = "websocket")]
    pub(crate) fn clean(&self, mut text: String) -> String {
        self.0.redact_text(&mut text);
        text
    }

    /// Adds a text that later redactions mask.
    pub(crate) fn add(&mut self, value: &str) {
        self.0.add(value);
    }
}

/// Resolves headers, and collects their secrets. Fails, before anything is sent, if a variable is unset or empty, or a
/// header is invalid.
pub fn resolve(
    provider: &str,
    headers: &[(String, HeaderValue)],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(HeaderMap, Secrets), ProviderError> {
    let mut resolved = HeaderMap::with_capacity(headers.len());
    let mut secrets = Secrets::default();
    for (name, value) in headers {
        let (text, sensitive) = match value {
            HeaderValue::Literal(text) => {
                if is_secret_header(name) {
                    // In `Bearer abc`, `abc` alone is a secret, too.
                    text.split_whitespace().for_each(|word| secrets.add(word));
                }
                (text.clone(), is_secret_header(name))
            }
            HeaderValue::Secret(text) => (text.clone(), true),
            HeaderValue::FromEnv { prefix, variable } => {
                let secret = env(variable).unwrap_or_default();
                // A key that was read from a file often ends with a line break.
                let secret = secret.trim();
                if secret.is_empty() {
                    return Err(missing(provider, name, variable));
                }
                secrets.add(secret);
                (format!("{prefix}{secret}"), true)
            }
        };
        let header = HeaderName::try_from(name.as_str())
            .map_err(|_| unusable(provider, format!("`{name}` cannot be the name of a header")))?;
        let mut raw =
            RawValue::try_from(text).map_err(|_| unusable(provider, unprintable(name, value)))?;
        raw.set_sensitive(sensitive);
        resolved.append(header, raw);
    }
    Ok((resolved, secrets))
}

/// Replaces the marks in a request by the values of environment variables. Collects the secret values.
///
/// Fails, before anything is sent, if a variable is unset or empty. An environment variable at the beginning of the
/// address is the destination, and may be shown. Environment variables elsewhere are secret.
pub(crate) fn filled<'r>(
    provider: &str,
    request: &'r HttpRequest,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(Cow<'r, HttpRequest>, Secrets), ProviderError> {
    let mut secrets = Secrets::default();
    if request.marks.is_empty() {
        return Ok((Cow::Borrowed(request), secrets));
    }
    let mut request = request.clone();
    for EnvMark { mark, variable } in std::mem::take(&mut request.marks) {
        let value = env(variable.as_str()).unwrap_or_default();
        let value = value.trim();
        if value.is_empty() {
            let message = format!(
                "environment variable `{variable}` is not set or empty (the request needs it): set it, or name another one in the config"
            );
            return Err(not_sent(ProviderErrorKind::Auth, provider, message));
        }
        let is_address = request.url.starts_with(&mark);
        let is_signature = matches!(&*variable, SIGNATURE | SIGNATURE_TIMESTAMP);
        if !is_address && !is_signature {
            secrets.add(value);
        }
        request.url = in_address(&request.url, &mark, value);
        for (_, header) in &mut request.headers {
            if let HeaderValue::Literal(text) = header
                && text.contains(&mark)
            {
                *header = HeaderValue::Secret(text.replace(&mark, value));
            } else if let HeaderValue::Secret(text) = header {
                *text = text.replace(&mark, value);
            }
        }
        put_in(&mut request.body, &mark, value);
    }
    Ok((Cow::Owned(request), secrets))
}

/// Replaces a mark in an address by a value. The value is percent-encoded within the query.
fn in_address(url: &str, mark: &str, value: &str) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let path = path.replace(mark, value);
    if query.is_empty() {
        return path;
    }
    format!("{path}?{}", query.replace(mark, &ecma::encode_uri_component(value)))
}

/// Replaces a mark by a value in all texts of a body. Keys stay unchanged.
fn put_in(body: &mut Value, mark: &str, value: &str) {
    match body {
        Value::String(text) if text.contains(mark) => *text = text.replace(mark, value),
        Value::Array(items) => items.iter_mut().for_each(|it| put_in(it, mark, value)),
        Value::Object(entries) => entries.values_mut().for_each(|it| put_in(it, mark, value)),
        _ => {}
    }
}

fn unprintable(name: &str, value: &HeaderValue) -> String {
    let whose = match value {
        HeaderValue::Literal(_) | HeaderValue::Secret(_) => {
            format!("the value of header `{name}`")
        }
        HeaderValue::FromEnv { variable, .. } => format!("the value of `{variable}`"),
    };
    format!("{whose} has characters that a header cannot carry, such as a line break")
}

fn missing(provider: &str, name: &str, variable: &str) -> ProviderError {
    let message = format!(
        "environment variable `{variable}` is not set or empty (header `{name}` needs it): set it, or name another one in the config"
    );
    not_sent(ProviderErrorKind::Auth, provider, message)
}

fn unusable(provider: &str, message: String) -> ProviderError {
    not_sent(ProviderErrorKind::InvalidRequest, provider, message)
}

fn not_sent(kind: ProviderErrorKind, provider: &str, message: String) -> ProviderError {
    let mut err = ProviderError::new(kind, provider, message);
    err.attempts = 0;
    err
}
