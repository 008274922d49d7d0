//! What promptfoo's providers say of a tool of an MCP server that was called: a text that begins so.

const SUCCEEDED: &str = "MCP Tool Result (";
const FAILED: &str = "MCP Tool Error (";

/// What came of the call.
#[derive(Debug, PartialEq)]
pub(super) struct Told {
    pub(super) succeeded: bool,
    pub(super) reason: String,
}

/// What a text says of a call of an MCP tool; `None` if it says nothing. A failure counts before a success.
pub(super) fn told(output: &str) -> Option<Told> {
    let after = |mark: &str| {
        let (_, rest) = output.split_once(mark)?;
        let (name, rest) = rest.split_once(')')?;
        Some((name, rest.strip_prefix(':').unwrap_or(rest).trim()))
    };
    if let Some((name, error)) = after(FAILED) {
        let reason = format!("MCP tool call failed for {name}: {error}");
        return Some(Told { succeeded: false, reason });
    }
    let (name, _) = after(SUCCEEDED)?;
    Some(Told { succeeded: true, reason: format!("MCP tool call succeeded for {name}") })
}
