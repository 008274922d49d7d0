//! The limits of names, texts and lists in the comment.

/// The maximum number of bytes that are shown of a name.
pub(super) const NAME: usize = 200;
/// The maximum number of bytes that are shown of a short text, such as a warning.
pub(super) const WORDS: usize = 300;
/// The maximum number of bytes that are shown of the message of a check.
pub(super) const MESSAGE: usize = 600;
/// The maximum number of cases, models or findings in an entry of a list.
pub(super) const NAMED: usize = 3;
