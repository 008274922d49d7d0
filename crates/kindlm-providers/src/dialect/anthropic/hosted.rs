//! The tools of the Messages API that have a `type` of their own, and their calls in answers.

use kindlm_types::{Problem, ToolCall};
use serde_json::{Map, Value};

use crate::dialect::part::{self, Malformed};
use crate::dialect::settings;

/// The tools that the API accepts only with a header, which names a beta feature.
const BETAS: [(&str, &str); 6] = [
    ("web_fetch_20250910", "web-fetch-2025-09-10"),
    ("code_execution_20250522", "code-execution-2025-05-22"),
    ("code_execution_20250825", "code-execution-2025-08-25"),
    ("computer_20250124", "computer-use-2025-01-24"),
    ("computer_20251124", "computer-use-2025-11-24"),
    ("memory_20250818", "context-management-2025-06-27"),
];

/// Checks tools. Fails with a problem for each tool without a `type` of the API, and for each tool with a secret.
pub(super) fn check(tools: &[Map<String, Value>]) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let at = format!("/hostedTools/{at}");
        let kind = tool.get("type").and_then(Value::as_str);
        if !kind.is_some_and(is_dated) {
            let problem = Problem::new(at.clone(), "this is no tool of Anthropic");
            problems.push(problem.with_help(
                "its `type` ends with a date, such as `web_search_20250305`; a tool of your own belongs to the test, \
                 in `tools`",
            ));
        }
        let help = "give no secret to a tool: it would be in every report";
        problems.extend(settings::check_secrets(&at, tool, help).err().into_iter().flatten());
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Returns true for a type that ends with a date. The types of all tools of the API end with a date.
fn is_dated(kind: &str) -> bool {
    let date = kind.rsplit_once('_').map_or("", |(_, date)| date);
    date.len() == 8 && date.bytes().all(|it| it.is_ascii_digit())
}

/// Returns the beta features that these tools need, comma-separated; `None` if they need none.
pub(super) fn betas(tools: &[Map<String, Value>]) -> Option<String> {
    let kinds = tools.iter().filter_map(|it| it.get("type").and_then(Value::as_str));
    let needed = kinds.filter_map(|kind| BETAS.iter().find(|(it, _)| *it == kind));
    let mut names: Vec<&str> = needed.map(|(_, beta)| *beta).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.join(","))
}

/// Reads a block about a tool that Anthropic ran: a call, or the result of an earlier call. Returns false for other
/// blocks. Fails for a call without a name.
pub(super) fn read_block(block: &Value, calls: &mut Vec<ToolCall>) -> Result<bool, Malformed> {
    let kind = block["type"].as_str().unwrap_or_default();
    if matches!(kind, "server_tool_use" | "mcp_tool_use") {
        let call = part::called(block, "input", &block["id"], kind)?;
        // A call of a tool that Anthropic runs is always answered, so it never waits for the caller.
        calls.push(ToolCall { response: Some(Value::Null), ..call });
        return Ok(true);
    }
    if !kind.ends_with("_tool_result") {
        return Ok(false);
    }
    let of = block["tool_use_id"].as_str().unwrap_or_default();
    if let Some(call) = calls.iter_mut().find(|it| it.id == of) {
        call.response = Some(block["content"].clone());
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_name_their_beta_features_once() {
        for (kinds, expected) in [
            (&["computer_20250124"][..], Some("computer-use-2025-01-24")),
            (
                &["computer_20251124", "memory_20250818", "memory_20250818"],
                Some("computer-use-2025-11-24,context-management-2025-06-27"),
            ),
            (&["web_search_20250305"], None),
        ] {
            let tools = kinds.iter().map(|kind| Map::from_iter([("type".to_owned(), json!(kind))]));
            let tools: Vec<Map<String, Value>> = tools.collect();
            assert_eq!(betas(&tools).as_deref(), expected, "{kinds:?}");
        }
    }
}
