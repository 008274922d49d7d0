//! A parser of MCP tool results, which promptfoo's providers write into the output as text.

const SUCCEEDED: &str = "MCP Tool Result (";
const FAILED: &str = "MCP Tool Error (";

/// The outcome of an MCP tool call, and the reason that the check reports.
#[derive(Debug, PartialEq)]
pub(super) struct CallOutcome {
    pub(super) succeeded: bool,
    pub(super) reason: String,
}

/// Parses the outcome of an MCP call; `None` if the text reports no outcome.
///
/// A failure takes precedence over a success.
pub(super) fn parse_outcome(output: &str) -> Option<CallOutcome> {
    let after = |mark: &str| {
        let (_, rest) = output.split_once(mark)?;
        let (name, rest) = rest.split_once(')')?;
        Some((name, rest.strip_prefix(':').unwrap_or(rest).trim()))
    };
    if let Some((name, error)) = after(FAILED) {
        let reason = format!("MCP tool call failed for {name}: {error}");
        return Some(CallOutcome { succeeded: false, reason });
    }
    let (name, _) = after(SUCCEEDED)?;
    Some(CallOutcome { succeeded: true, reason: format!("MCP tool call succeeded for {name}") })
}
