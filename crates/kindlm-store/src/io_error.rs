//! Error messages of the operating system.

use std::io;

/// Returns true if the error means that the file does not exist.
///
/// Also returns true for a path in which a parent is a file, not a folder.
pub(crate) fn is_absent(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the system's error message with a lower-case first letter, and with advice for some errors.
///
/// The error number is removed.
///
/// ```
/// let err = std::fs::read("no such file").unwrap_err();
/// assert_eq!(kindlm_store::describe_io_error(&err), "no such file or directory");
/// ```
pub fn describe_io_error(err: &io::Error) -> String {
    let text = err.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let text = text.strip_prefix("failed to persist temporary file: ").unwrap_or(text);
    let advice = match err.kind() {
        io::ErrorKind::PermissionDenied => {
            ": this user has no permission; check the owner and mode"
        }
        io::ErrorKind::ReadOnlyFilesystem => ": it is mounted read-only; choose another folder",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": make room, then try again",
        _ => "",
    };
    let mut words = text.to_owned();
    if let Some(first) = words.get_mut(0..1) {
        first.make_ascii_lowercase();
    }
    words + advice
}
