//! JSON pointers (RFC 6901), by which problems say where they are.

/// One part of a JSON pointer: a key, so that nothing in it is taken for the end of the part.
///
/// ```
/// assert_eq!(kindlm_types::pointer::segment("and/or~"), "and~1or~0");
/// ```
pub fn segment(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The key that a part of a JSON pointer denotes: the reverse of [`segment`].
///
/// ```
/// assert_eq!(kindlm_types::pointer::key("and~1or~0"), "and/or~");
/// ```
pub fn key(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}
