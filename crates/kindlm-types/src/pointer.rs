//! JSON pointers (RFC 6901), by which problems say where they are.

/// One part of a JSON pointer: a key, so that nothing in it is taken for the end of the part.
///
/// ```
/// assert_eq!(kindlm_types::pointer::segment("and/or~"), "and~1or~0");
/// ```
pub fn segment(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
