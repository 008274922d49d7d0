//! The address of a request: a configured base address, and an endpoint below it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A normalized base address, to which endpoints are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    base: String,
    query: Option<String>,
}

impl Address {
    /// Normalizes a base address that a user has written.
    ///
    /// `root` is the path that all endpoints share, such as `/v1`; it is added unless the address ends with it.
    /// `endpoint` is an endpoint that users often paste by mistake, such as `/messages`; it is removed if it follows
    /// `root`. Slashes at the end are ignored. A query (`?api-version=…`) is moved behind the endpoint.
    pub(crate) fn new(written: &str, root: &str, endpoint: &str) -> Self {
        let (base, query) = match written.split_once('?') {
            Some((base, query)) => (base, Some(query.to_owned())),
            None => (written, None),
        };
        let base = base.trim_end_matches('/');
        let pasted = format!("{root}{endpoint}");
        let base = base.strip_suffix(&pasted).or_else(|| base.strip_suffix(root)).unwrap_or(base);
        Self { base: format!("{base}{root}"), query }
    }

    /// Returns the address of an endpoint, which starts with a slash.
    pub(crate) fn at(&self, endpoint: &str) -> String {
        match &self.query {
            Some(query) => format!("{}{endpoint}?{query}", self.base),
            None => format!("{}{endpoint}", self.base),
        }
    }

    /// Returns true if the address is a host without a path.
    pub(crate) fn is_bare(&self) -> bool {
        self.base.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'))
    }

    /// Returns the base address without its query.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }
}

/// Returns the HTTP address for the handshake of a websocket: `ws` becomes `http`, and `wss` becomes `https`.
pub(crate) fn web_address(url: &str) -> String {
    match url.strip_prefix("ws") {
        Some(rest) if rest.starts_with("://") || rest.starts_with("s://") => format!("http{rest}"),
        _ => url.to_owned(),
    }
}

/// Percent-encodes one segment of a path. Unreserved characters, `:` and `@` stay unchanged.
pub(crate) fn segment(text: &str) -> String {
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b':')
        .remove(b'@');
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_common_address_forms() {
        for (written, root, endpoint, expected) in [
            ("https://h/v1", "", "/chat/completions", "https://h/v1/chat/completions"),
            ("https://h/v1/", "", "/chat/completions", "https://h/v1/chat/completions"),
            ("https://h", "", "/chat/completions", "https://h/chat/completions"),
            (
                "https://h/v1/chat/completions",
                "",
                "/chat/completions",
                "https://h/v1/chat/completions",
            ),
            (
                "https://h/d/x?api-version=1",
                "",
                "/chat/completions",
                "https://h/d/x/chat/completions?api-version=1",
            ),
            ("https://h", "/v1", "/messages", "https://h/v1/messages"),
            ("https://h/v1//", "/v1", "/messages", "https://h/v1/messages"),
            ("https://h/v1/messages", "/v1", "/messages", "https://h/v1/messages"),
            ("https://h/proxy", "/v1", "/messages", "https://h/proxy/v1/messages"),
            ("http://h:1/api", "/api", "/chat", "http://h:1/api/chat"),
            ("http://h:1/chat", "/api", "/chat", "http://h:1/chat/api/chat"),
        ] {
            assert_eq!(Address::new(written, root, endpoint).at(endpoint), expected, "{written}");
        }
    }

    #[test]
    fn knows_a_bare_host() {
        for (written, bare) in
            [("http://h:8000", true), ("http://h/", true), ("http://h/v1", false)]
        {
            assert_eq!(Address::new(written, "", "/x").is_bare(), bare, "{written}");
        }
    }

    #[test]
    fn escapes_a_segment() {
        assert_eq!(segment("gemini-2.0-flash"), "gemini-2.0-flash");
        assert_eq!(segment("a/../b?c#d é"), "a%2F..%2Fb%3Fc%23d%20%C3%A9");
    }
}
