//! Decodes the bytes of a file.

use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic};
use crate::source::{Source, Span};

/// The largest file that is read: 64 MiB.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The maximum number of bytes that the error message shows, starting at the invalid byte.
const AFTER_THE_BREAK: usize = 120;

/// Decodes bytes as UTF-8. Drops a byte order mark at the start.
///
/// # Errors
///
/// Returns a diagnostic if the file is too large, is UTF-16, is not valid UTF-8, or contains a NUL byte.
pub fn decode(name: &str, bytes: &[u8]) -> Result<Arc<Source>, Box<Diagnostic>> {
    if bytes.len() > MAX_BYTES {
        return Err(too_large(name, bytes.len()));
    }
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        let source = Arc::new(Source::new(name, ""));
        let message = "the file is UTF-16; only UTF-8 is read";
        return Err(Box::new(
            Diagnostic::error(Code::SYNTAX, message, &source, Span::default())
                .with_help("save the file as UTF-8"),
        ));
    }
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => match text.bytes().position(|it| it == 0) {
            None => Ok(Arc::new(Source::new(name, text))),
            Some(at) => Err(broken(name, bytes, at, "a NUL byte is not text")),
        },
        Err(err) => {
            let at = err.valid_up_to();
            let byte = bytes.get(at).copied().unwrap_or_default();
            Err(broken(name, bytes, at, &format!("the byte 0x{byte:02X} is not valid UTF-8")))
        }
    }
}

fn too_large(name: &str, bytes: usize) -> Box<Diagnostic> {
    let source = Arc::new(Source::new(name, ""));
    let message = format!("the file has {bytes} bytes, more than the {MAX_BYTES} that are allowed");
    let help = "keep the tests in datasets: `tests: file://cases-*.jsonl`";
    Box::new(Diagnostic::error(Code::TOO_LARGE, message, &source, Span::default()).with_help(help))
}

/// Makes the error for an invalid byte.
///
/// The source of the error is the text up to the end of the line with the invalid byte. At most [`AFTER_THE_BREAK`]
/// bytes from the invalid byte on are included.
fn broken(name: &str, bytes: &[u8], at: usize, message: &str) -> Box<Diagnostic> {
    let after = bytes.get(at..).unwrap_or_default();
    let after = after.get(..after.len().min(AFTER_THE_BREAK)).unwrap_or_default();
    let line = after.split(|it| *it == b'\n').next().unwrap_or_default();
    let mut text = String::from_utf8_lossy(bytes.get(..at).unwrap_or_default()).into_owned();
    text.push_str(&String::from_utf8_lossy(line));
    let width = text.get(at..).and_then(|it| it.chars().next()).map_or(0, char::len_utf8);
    let source = Arc::new(Source::new(name, text));
    Box::new(
        Diagnostic::error(Code::SYNTAX, message, &source, Span::new(at, at + width))
            .with_label("here")
            .with_help("save the file as UTF-8 text"),
    )
}
