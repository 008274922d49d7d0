//! The items of an answer as one text, in promptfoo's format.

use kindlm_types::ecma::stringify;
use serde_json::Value;

/// Returns the texts of all items, one below the other. Items without a text are left out.
///
/// The form is that of promptfoo 0.123.1 (`providers/responses/processor.ts`): messages, calls of functions as their
/// JSON, summaries of reasoning, and a line for each call of a tool that OpenAI ran.
pub(super) fn text(items: &[Value]) -> String {
    let texts: Vec<String> = items.iter().map(item).filter(|it| !it.is_empty()).collect();
    texts.join("\n")
}

fn item(item: &Value) -> String {
    let str = |key: &str| item[key].as_str().unwrap_or_default();
    match str("type") {
        "message" => {
            let parts = item["content"].as_array().into_iter().flatten();
            parts.filter_map(|it| it["text"].as_str()).collect()
        }
        "function_call" if item["arguments"] == "{}" && item["status"] == "completed" => {
            stringify(&serde_json::json!({
                "type": "function_call", "name": item["name"], "status": "no_arguments_provided",
                "note": "Function called but no arguments were extracted. Consider using the correct Responses API tool format.",
            }))
        }
        "function_call" => stringify(item),
        "reasoning" => {
            let parts = item["summary"].as_array().into_iter().flatten();
            let lines: Vec<&str> = parts.filter_map(|it| it["text"].as_str()).collect();
            if lines.is_empty() {
                String::new()
            } else {
                format!("Reasoning: {}", lines.join("\n"))
            }
        }
        "web_search_call" => with_error(web_search(item), item),
        "code_interpreter_call" => {
            let code = Some(str("code")).filter(|it| !it.is_empty()).unwrap_or("Running code...");
            with_error(format!("Code Interpreter: {code}"), item)
        }
        "mcp_list_tools" => {
            let tools = serde_json::to_string_pretty(&item["tools"]).unwrap_or_default();
            format!("MCP Tools from {}: {tools}", str("server_label"))
        }
        "mcp_call" if !str("error").is_empty() => {
            format!("MCP Tool Error ({}): {}", str("name"), str("error"))
        }
        "mcp_call" => format!("MCP Tool Result ({}): {}", str("name"), str("output")),
        _ => String::new(),
    }
}

fn web_search(item: &Value) -> String {
    let action = &item["action"];
    let str = |key: &str| action[key].as_str().unwrap_or("undefined");
    match action["type"].as_str() {
        _ if action.is_null() => {
            format!("Web Search Call (status: {})", item["status"].as_str().unwrap_or("unknown"))
        }
        Some("search") => format!("Web Search: \"{}\"", str("query")),
        Some("open_page") => format!("Opening page: {}", str("url")),
        Some("find_in_page") => format!("Finding in page: \"{}\"", str("query")),
        other => format!("Web action: {}", other.unwrap_or("undefined")),
    }
}

fn with_error(text: String, item: &Value) -> String {
    match item["error"].as_str().filter(|it| !it.is_empty() && item["status"] == "failed") {
        Some(error) => format!("{text} (Error: {error})"),
        None => text,
    }
}
