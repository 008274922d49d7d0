//! Formats the head of an HTTP/1.1 response.

use std::fmt::Write as _;

/// Returns the status line and the headers. Without a length, the headers announce a chunked body.
pub(super) fn head(
    status: u16,
    headers: &[(String, String)],
    length: Option<usize>,
    is_json: bool,
) -> String {
    let mut head = format!("HTTP/1.1 {status} Mock\r\n");
    if is_json {
        head.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    match length {
        Some(length) => {
            let _ = write!(head, "content-length: {length}\r\n\r\n");
        }
        None => head.push_str("transfer-encoding: chunked\r\n\r\n"),
    }
    head
}
