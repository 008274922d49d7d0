//! Percent-encoding of texts in URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that are encoded: all except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a text for a part of a URL.
pub(crate) fn in_url(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Encodes a path for a URL. Slashes stay unchanged.
pub(crate) fn path_in_url(path: &str) -> String {
    const IN_PATHS: &AsciiSet = &RESERVED.remove(b'/');
    utf8_percent_encode(path, IN_PATHS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreserved_characters_stay() {
        assert_eq!(in_url("a b&c=é#/~"), "a%20b%26c%3D%C3%A9%23%2F~");
        assert_eq!(path_in_url("a b/c"), "a%20b/c");
    }
}
