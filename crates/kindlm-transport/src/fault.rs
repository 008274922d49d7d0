//! Errors of the transport, with messages that include advice.

use std::error::Error;
use std::io;
use std::time::Duration;

use kindlm_types::{ProviderError, ProviderErrorKind};
use reqwest::{StatusCode, Url};

use super::advice;
use crate::HttpResponse;

/// A factory for the errors of one request. Messages name only the host, because the full address may contain a key.
#[derive(Debug)]
pub struct Fault<'a> {
    provider: &'a str,
    /// The address of the request.
    url: &'a Url,
    /// The provider's setting that holds the address, such as `baseUrl`.
    key: &'static str,
}

/// Parses the address of a request. Fails unless it is an `http` or `https` address with a host. `key` names the
/// provider's setting that holds the address, such as `baseUrl`.
pub fn address(provider: &str, key: &str, written: &str) -> Result<Url, ProviderError> {
    let problem = match Url::parse(written) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => return Ok(url),
        Ok(_) => "it is not an `http://` or `https://` address".to_owned(),
        Err(err) => err.to_string(),
    };
    let mut err = ProviderError::new(
        ProviderErrorKind::InvalidRequest,
        provider,
        format!("the address to send to is not valid: {problem}; check `{key}`"),
    );
    err.attempts = 0;
    Err(err)
}

impl<'a> Fault<'a> {
    /// Creates the factory for requests to `url`. `key` names the provider's setting that holds the address, such as
    /// `baseUrl`.
    pub fn new(provider: &'a str, key: &'static str, url: &'a Url) -> Self {
        Self { provider, url, key }
    }

    /// Returns the host and the port, if the port is known, as `host:port`.
    fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port_or_known_default().map_or(host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Creates an error of this provider.
    pub fn error(&self, kind: ProviderErrorKind, message: String) -> ProviderError {
        ProviderError::new(kind, self.provider, message)
    }

    /// Returns the error for an attempt that exceeded the timeout.
    pub fn timeout(&self, timeout: Duration) -> ProviderError {
        let message = format!(
            "no complete answer from `{}` within {} ms; if it needs longer, raise `defaults.timeoutMs` or `--timeout`",
            self.host(),
            timeout.as_millis(),
        );
        self.error(ProviderErrorKind::Timeout, message).retryable().lost()
    }

    /// Returns the error for a response body that stalled.
    pub(super) fn stalled(&self, idle: Duration, read: usize) -> ProviderError {
        let message = format!(
            "the answer of `{}` stalled: nothing came for {} ms after {read} bytes; the provider, or a proxy on the way, holds it back",
            self.host(),
            idle.as_millis(),
        );
        self.error(ProviderErrorKind::Timeout, message).retryable().lost()
    }

    /// Adds advice to an error that the provider's response reports.
    pub(super) fn answered(&self, err: ProviderError, response: &HttpResponse) -> ProviderError {
        let message = advice::explain(&self.host(), self.key, &err, response);
        ProviderError { message, ..err }
    }

    /// Returns the error for a request that could not be sent or got no response. The message has advice.
    pub fn connection(&self, err: &reqwest::Error) -> ProviderError {
        let (host, key) = (self.host(), self.key);
        let message = match Cause::from_error(err, key) {
            Cause::Refused => format!(
                "connection to `{host}` refused: nothing listens there; check that the server runs and that `{key}` is right"
            ),
            Cause::Dns => format!(
                "host `{}` not found; check `{key}` for a typing error, and the network",
                self.url.host_str().unwrap_or_default(),
            ),
            Cause::Tls(reason) => {
                let message = format!("no secure connection to `{host}`: {reason}");
                // A retry cannot fix a certificate.
                return self.error(ProviderErrorKind::Connection, message);
            }
            Cause::Other(_) if err.is_connect() && err.is_timeout() => format!(
                "no connection to `{host}` in time: it does not answer; check `{key}`, the network and the proxy"
            ),
            Cause::Other(reason) if err.is_connect() => {
                format!(
                    "cannot connect to `{host}`: {reason}; check `{key}`, the network and the proxy"
                )
            }
            Cause::Other(reason) => {
                format!(
                    "connection to `{host}` broke before an answer: {reason}; if that goes on, check the network and the proxy"
                )
            }
        };
        let error = self.error(ProviderErrorKind::Connection, message);
        match Cause::from_error(err, key) {
            _ if err.is_builder() => error,
            // The request was sent, at least in part, so the provider may charge for it.
            Cause::Other(_) if !err.is_connect() => error.retryable().lost(),
            _ => error.retryable(),
        }
    }

    /// Returns the error for a response that broke off or could not be decompressed.
    pub(super) fn body(&self, err: &reqwest::Error) -> ProviderError {
        let host = self.host();
        if chain(err)
            .any(|it| io_error(it).is_some_and(|io| io.kind() == io::ErrorKind::InvalidData))
        {
            return self.error(
                ProviderErrorKind::MalformedResponse,
                format!(
                    "the answer of `{host}` cannot be unpacked: {}; the server, or a proxy on the way, has damaged it",
                    root(err)
                ),
            );
        }
        let message = format!(
            "connection to `{host}` broke in the middle of the answer: {}; if that goes on, check the network and the proxy",
            root(err)
        );
        self.error(ProviderErrorKind::Connection, message).retryable().lost()
    }

    /// Returns the error for a response above the size limit.
    pub(super) fn too_large(&self, limit: u64) -> ProviderError {
        let message = format!(
            "the answer of `{}` is larger than {} MiB, the most that is read; check that `{}` leads to the API of a model",
            self.host(),
            // Rounded up for tests, which set limits below 1 MiB.
            limit.div_ceil(1024 * 1024),
            self.key,
        );
        self.error(ProviderErrorKind::MalformedResponse, message)
    }

    /// Returns the error for a redirect that is not followed.
    pub(super) fn redirect(&self, status: StatusCode, message: &str) -> ProviderError {
        let message = format!("`{}` {message}; set `{}` to the new address", self.host(), self.key);
        self.error(ProviderErrorKind::InvalidRequest, message).with_status(status.as_u16())
    }
}

/// The cause of a failed connection.
enum Cause {
    Refused,
    Dns,
    /// A TLS failure: the reason, with advice.
    Tls(String),
    Other(String),
}

impl Cause {
    fn from_error(err: &reqwest::Error, key: &str) -> Self {
        if err.is_dns() {
            return Self::Dns;
        }
        for it in chain(err) {
            let Some(io) = io_error(it) else { continue };
            if io.kind() == io::ErrorKind::ConnectionRefused {
                return Self::Refused;
            }
            if let Some(tls) = tls_error(io) {
                return Self::Tls(advice::on_tls(tls, key));
            }
        }
        Self::Other(root(err))
    }
}

/// Returns the causes of an error. The error itself is left out, because its text contains the full address.
fn chain<'a>(err: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    causes(err.source())
}

/// Returns an error and its causes; nothing for `None`.
pub fn causes<'a>(
    first: Option<&'a (dyn Error + 'static)>,
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(first, |it| {
        let it: &'a (dyn Error + 'static) = *it;
        it.source()
    })
}

fn io_error<'a>(err: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    err.downcast_ref::<io::Error>()
}

/// Returns the TLS error inside nested I/O errors; `None` without a TLS error. `Error::source` would skip the nested
/// errors.
fn tls_error(io: &io::Error) -> Option<&rustls::Error> {
    let inner = io.get_ref()?;
    inner.downcast_ref().or_else(|| tls_error(inner.downcast_ref()?))
}

/// Returns the text of the innermost cause. If there is no cause, returns a fixed text. Error numbers are removed,
/// because they differ between systems.
fn root(err: &reqwest::Error) -> String {
    match chain(err).last() {
        Some(it) => {
            let text = it.to_string();
            text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_lowercase())
        }
        None if err.is_builder() => "the request cannot be built".to_owned(),
        None => "no reason given".to_owned(),
    }
}
