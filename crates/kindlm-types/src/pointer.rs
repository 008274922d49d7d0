//! JSON pointers (RFC 6901), which give the location of problems.

/// Escapes a key for use as one part of a JSON pointer.
///
/// ```
/// assert_eq!(kindlm_types::pointer::segment("and/or~"), "and~1or~0");
/// ```
pub fn segment(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Unescapes one part of a JSON pointer: the inverse of [`segment`].
///
/// ```
/// assert_eq!(kindlm_types::pointer::key("and~1or~0"), "and/or~");
/// ```
pub fn key(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}
