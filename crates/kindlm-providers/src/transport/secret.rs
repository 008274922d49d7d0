//! Turns the names of secrets into header values, and keeps the values out of every message.

use kindlm_types::{ProviderError, ProviderErrorKind};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue as RawValue};

use crate::HeaderValue;

/// Shorter values would be found in innocent words.
const SHORTEST: usize = 5;

/// The secrets of one request. Never shown.
#[derive(Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Removes the secrets from an error: some providers repeat the key that they refuse.
    pub(crate) fn redact(&self, mut err: ProviderError) -> ProviderError {
        for secret in &self.0 {
            if err.message.contains(secret.as_str()) {
                err.message = err.message.replace(secret.as_str(), "[redacted]");
            }
        }
        err
    }

    fn add(&mut self, value: &str) {
        if value.len() >= SHORTEST {
            self.0.push(value.to_owned());
        }
    }
}

/// Resolves headers. Fails, before anything is sent, if a variable is not set.
pub(crate) fn resolve(
    provider: &str,
    headers: &[(String, HeaderValue)],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(HeaderMap, Secrets), ProviderError> {
    let mut resolved = HeaderMap::with_capacity(headers.len());
    let mut secrets = Secrets::default();
    for (name, value) in headers {
        let (text, sensitive) = match value {
            HeaderValue::Literal(text) => {
                if is_secretive(name) {
                    // `Bearer abc` is as secret as `abc`.
                    text.split_whitespace().for_each(|word| secrets.add(word));
                }
                (text.clone(), is_secretive(name))
            }
            HeaderValue::FromEnv { prefix, variable } => {
                let secret = env(variable).unwrap_or_default();
                // A key that was read from a file often ends with its line break.
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

/// Whether headers of this name tend to hold a secret.
fn is_secretive(name: &str) -> bool {
    let name = name.to_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|it| name.contains(it))
}

fn unprintable(name: &str, value: &HeaderValue) -> String {
    let whose = match value {
        HeaderValue::Literal(_) => format!("the value of header `{name}`"),
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
