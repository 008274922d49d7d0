//! HTTP requests of scripts, checked against their permissions.

use std::time::Duration;

use kindlm_types::script::ScriptPermissions;
use kindlm_types::{BoxFuture, HostPattern};
use serde_json::Value;
use url::Url;

use super::Shared;
use crate::frame::{Fetched, Refusal};
use crate::limits;

/// The maximum number of redirects for one request.
const REDIRECTS: usize = 10;

/// A client that sends HTTP requests for scripts.
///
/// Implementations must not follow redirects, because each redirect is checked against the script's permissions first.
/// Implementations must not add credentials, and must respect the request's timeout.
pub trait Fetch: Send + Sync {
    /// Sends the request. The error is a message for the script's author.
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, String>>;
}

/// An HTTP request of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchRequest {
    /// The address, with `http` or `https`.
    pub url: String,
    /// The method, in upper case.
    pub method: String,
    /// The headers, in order.
    pub headers: Vec<(String, String)>,
    /// The request body; empty if the request has no body.
    pub body: Vec<u8>,
    /// The time limit of the whole request, including the response body.
    pub timeout: Duration,
    /// The maximum size of the response body, in bytes.
    pub max_body: usize,
}

/// The response to an HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchResponse {
    /// The status code.
    pub status: u16,
    /// The headers in order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed.
    pub body: Vec<u8>,
}

pub(crate) struct Request {
    pub(crate) url: String,
    pub(crate) method: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

pub(crate) async fn send(
    shared: &Shared,
    permissions: &ScriptPermissions,
    request: Request,
    timeout: Duration,
) -> Result<(Value, Vec<u8>), Refusal> {
    let refuse = |message: String| Refusal::new("ERR_FETCH", message);
    let Some(fetch) = &shared.options.fetch else {
        return Err(refuse("fetch failed: this program gives scripts no network".to_owned()));
    };
    let Request { url, mut method, mut headers, mut body } = request;
    let mut url = Url::parse(&url)
        .map_err(|err| refuse(format!("fetch failed: '{url}' is not a URL: {err}")))?;
    for redirects in 0..=REDIRECTS {
        permitted(&url, &permissions.net)?;
        let request = FetchRequest {
            url: url.to_string(),
            method: method.clone(),
            headers: headers.clone(),
            body: body.clone(),
            timeout,
            max_body: limits::CONTENT,
        };
        let response = fetch
            .fetch(request)
            .await
            .map_err(|err| refuse(format!("fetch failed: {}: {err}", origin(&url))))?;
        let location =
            response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        if let (301 | 302 | 303 | 307 | 308, Some((_, location))) = (response.status, location) {
            let next = url.join(location).map_err(|err| {
                refuse(format!(
                    "fetch failed: redirected to '{location}', which is not a URL: {err}"
                ))
            })?;
            // As in the Fetch standard, a `POST` becomes a `GET` after the status 301 or 302. After 303, every method
            // except `HEAD` becomes a `GET`. Credentials are dropped if the origin changes.
            let is_read = matches!(method.as_str(), "GET" | "HEAD");
            if (response.status == 303 && !is_read) || (response.status <= 302 && method == "POST")
            {
                "GET".clone_into(&mut method);
                body.clear();
                headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
            }
            if next.origin() != url.origin() {
                headers.retain(|(name, _)| {
                    !["authorization", "cookie", "proxy-authorization"]
                        .contains(&name.to_ascii_lowercase().as_str())
                });
            }
            url = next;
            continue;
        }
        let facts = Fetched {
            status: response.status,
            status_text: reason(response.status).to_owned(),
            url: url.to_string(),
            redirected: redirects > 0,
            headers: response.headers,
        };
        let facts = serde_json::to_value(facts).map_err(|err| refuse(err.to_string()))?;
        return Ok((facts, response.body));
    }
    Err(refuse(format!("fetch failed: more than {REDIRECTS} redirects")))
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Fails unless the address is an HTTP address of a permitted host.
fn permitted(url: &Url, hosts: &[String]) -> Result<(), Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        let message = format!("fetch failed: `{}:` is neither `http:` nor `https:`", url.scheme());
        return Err(Refusal::new("ERR_FETCH", message));
    }
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default();
    // Invalid patterns were reported when the config was read, and permit nothing.
    let mut patterns = hosts.iter().filter_map(|it| HostPattern::parse(it).ok());
    if patterns.any(|it| it.matches(host, port)) {
        return Ok(());
    }
    let with_port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    let host = format!("{host}{with_port}");
    let message = format!("fetch of {host} is not permitted: add `{host}` to `scripts.net`");
    Err(Refusal { host: Some(host), ..Refusal::new("ERR_ACCESS_DENIED", message) })
}

/// Returns the standard reason phrase of a status; empty for an uncommon status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_must_be_named() {
        for (pattern, url, expected) in [
            ("example.com", "https://example.com/x", true),
            ("example.com", "https://EXAMPLE.com:8443/", true),
            ("example.com", "https://api.example.com/", false),
            ("example.com", "https://example.com.evil.org/", false),
            ("*.example.com", "https://api.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://evilexample.com/", false),
            ("localhost:8080", "http://localhost:8080/", true),
            ("localhost:8080", "http://localhost:8081/", false),
            ("example.com:443", "https://example.com/", true),
            ("127.0.0.1", "http://127.0.0.1:1/", true),
            ("127.0.0.1:99999", "http://127.0.0.1:1/", false),
            ("[::1]:80", "http://[::1]/", true),
            ("[0:0:0:0:0:0:0:1]", "http://[::1]/", true),
            ("[::ffff:127.0.0.1]", "http://[::ffff:127.0.0.1]/", true),
            ("EXAMPLE.com", "https://example.com/", true),
            ("xn--bcher-kva.de", "https://bücher.de/", true),
            ("my_service:8080", "http://my_service:8080/", true),
            ("example.com", "https://example.com@evil.org/", false),
            ("example.com", "ftp://example.com/", false),
            ("example.com", "file:///etc/passwd", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(permitted(&url, &[pattern.to_owned()]).is_ok(), expected, "{pattern} {url}");
        }
    }
}
