//! Finds requests that a page of another site sends to a server on this machine (DNS rebinding, cross-site requests).

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName};

/// Returns the reason to refuse a request: its `Host` is not this machine, or its `Origin` is not this server.
///
/// Returns `None` if there is no such reason.
pub(crate) fn refusal(headers: &HeaderMap) -> Option<&'static str> {
    let host = single(headers, HOST).and_then(|it| it.parse::<Authority>().ok());
    let Some(host) = host.filter(|it| is_loopback(it.host())) else {
        return Some(
            "the `Host` of the request is not this machine; use `127.0.0.1` or `localhost`",
        );
    };
    if !headers.contains_key(ORIGIN) {
        return None;
    }
    let origin = single(headers, ORIGIN).and_then(|it| it.strip_prefix("http://"));
    if origin.is_some_and(|it| it.eq_ignore_ascii_case(host.as_str())) {
        return None;
    }
    Some("the `Origin` of the request is another site; pages of other sites cannot use this server")
}

/// Returns the value of a header; `None` if the header is missing, is repeated or is not a text.
pub(crate) fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Returns true if a host, with or without the brackets of IPv6, is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_of_this_machine_pass() {
        for (host, origin, expected) in [
            (Some("127.0.0.1:8477"), None, true),
            (Some("localhost"), None, true),
            (Some("[::1]:8477"), None, true),
            (Some("127.0.0.1:8477"), Some("http://127.0.0.1:8477"), true),
            (None, None, false),
            (Some("evil.test:8477"), None, false),
            (Some("localhost.evil.test"), None, false),
            (Some("evil@127.0.0.2.test"), None, false),
            (Some("0.0.0.0"), None, false),
            (Some("169.254.169.254"), None, false),
            (Some("127.0.0.1:8477"), Some("http://127.0.0.1:9999"), false),
            (Some("127.0.0.1:8477"), Some("https://evil.test"), false),
            (Some("127.0.0.1:8477"), Some("null"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(host.map(|it| (HOST, it.parse().unwrap())));
            headers.extend(origin.map(|it| (ORIGIN, it.parse().unwrap())));
            assert_eq!(refusal(&headers).is_none(), expected, "{host:?} {origin:?}");
        }
    }
}
