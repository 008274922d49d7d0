//! Tests of OpenAI's built-in tools.

use kindlm_types::{ActionStatus, Channel, Event, ToolKind};
use serde_json::{Value, json};

use super::{event_lines, text};

#[test]
fn tools_of_openai_are_calls_with_their_results() {
    let shell = json!({"commands": ["ls"]});
    let patch = json!({"type": "create_file", "path": "a"});
    for (items, lines) in [
        (
            json!([{"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}}]),
            vec![r#"w web_search({"type":"search","query":"q"})"#, "w Completed null"],
        ),
        (
            json!([{"type": "file_search_call", "id": "f", "status": "completed", "queries": ["q"], "results": [{"text": "t"}]}]),
            vec![r#"f file_search({"queries":["q"]})"#, r#"f Completed [{"text":"t"}]"#],
        ),
        (
            json!([{"type": "code_interpreter_call", "id": "c", "status": "failed", "code": "1/0", "outputs": null}]),
            vec![r#"c code_interpreter({"code":"1/0"})"#, "c Failed null"],
        ),
        (
            json!([{"type": "image_generation_call", "id": "i", "status": "completed", "result": "aGk="}]),
            vec!["i image_generation({})", "i Completed null"],
        ),
        (
            json!([{"type": "computer_call", "id": "x", "call_id": "c", "status": "completed", "action": {"type": "click"}},
                {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "data:"}}]),
            vec![r#"c computer({"action":{"type":"click"}})"#, "c Completed null"],
        ),
        (
            json!([{"type": "local_shell_call", "id": "x", "call_id": "c", "status": "completed", "action": shell},
                {"type": "local_shell_call_output", "id": "c", "output": "a.txt"}]),
            vec![r#"c local_shell({"commands":["ls"]})"#, r#"c Completed "a.txt""#],
        ),
        (
            json!([{"type": "shell_call", "id": "x", "call_id": "c", "status": "completed", "action": shell},
                {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 2}}]}]),
            vec![
                r#"c shell({"commands":["ls"]})"#,
                r#"c Failed [{"stdout":"","stderr":"no","outcome":{"type":"exit","exit_code":2}}]"#,
            ],
        ),
        (
            json!([{"type": "apply_patch_call", "id": "x", "call_id": "c", "status": "completed", "operation": patch},
                {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"}]),
            vec![r#"c apply_patch({"type":"create_file","path":"a"})"#, r#"c Failed "no""#],
        ),
        (json!([{"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": []}]), vec![]),
    ] {
        let answer = json!({"type": "message", "role": "assistant", "content": "Done."});
        let all: Vec<Value> = items.as_array().unwrap().iter().cloned().chain([answer]).collect();
        let it = text(&json!(all));
        let expected: Vec<&str> = lines.into_iter().chain(["Assistant: Done."]).collect();
        assert_eq!(event_lines(&it), expected, "{items}");
        assert!(
            it.gaps.is_empty() && it.coverage.includes(Channel::Actions),
            "{items}: {:?}",
            it.gaps
        );
    }
}

#[test]
fn failed_commands_have_the_status_failed() {
    let local = json!({"type": "local_shell_call", "id": "x", "call_id": "c", "status": "completed", "action": {}});
    let shell = json!({"type": "shell_call", "id": "x", "call_id": "c", "status": "completed", "action": {}});
    let claude = |kind: &str, code: u8| {
        let name = kind.trim_end_matches("_result");
        json!([{"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "c", "name": name, "input": {"command": "ls"}},
            {"type": format!("{name}_tool_result"), "tool_use_id": "c",
             "content": {"type": kind, "stdout": "", "stderr": "", "return_code": code}},
        ]}])
    };
    for (value, failed) in [
        (
            json!([local, {"type": "local_shell_call_output", "id": "c", "output": "{\"exit_code\": 1}"}]),
            true,
        ),
        (
            json!([local, {"type": "local_shell_call_output", "id": "c", "output": "{\"output\": \"\", \"metadata\": {\"exit_code\": 2}}"}]),
            true,
        ),
        (
            json!([local, {"type": "local_shell_call_output", "id": "c", "output": "{\"exit_code\": 0}"}]),
            false,
        ),
        (
            json!([shell, {"type": "shell_call_output", "call_id": "c", "output": [
                {"outcome": {"type": "exit", "exit_code": 0}}, {"outcome": {"type": "timeout"}}]}]),
            true,
        ),
        (claude("bash_code_execution_result", 1), true),
        (claude("code_execution_result", 1), true),
        (claude("bash_code_execution_result", 0), false),
    ] {
        let it = text(&value);
        let ended = it.events.iter().find_map(|it| match it {
            Event::ActionResult { status, .. } => Some(*status),
            _ => None,
        });
        let expected = if failed { ActionStatus::Failed } else { ActionStatus::Completed };
        assert_eq!(ended, Some(expected), "{value}");
    }
}

#[test]
fn tool_results_are_unknown_if_the_item_lacks_them() {
    let call = json!({"type": "web_search_call", "id": "w", "status": "completed", "action": {}});
    let it = text(&json!([call, {"type": "message", "role": "assistant", "content": "Done."}]));
    assert_eq!((it.requests, it.tool_calls[0].response.as_ref()), (1, None));
    let ended = Event::ActionResult {
        call_id: "w".to_owned(),
        output: None,
        status: ActionStatus::Completed,
    };
    assert!(it.events.contains(&ended));
    assert_eq!(ToolKind::of_name(&it.tool_calls[0].name), ToolKind::WebSearch);
}

#[test]
fn calls_in_progress_are_open() {
    let call = json!({"type": "web_search_call", "id": "w", "status": "searching", "action": {}});
    let it = text(&json!([call]));
    assert_eq!(
        it.gaps,
        [
            "`web_search_call` at /0 has the status `searching`",
            "the transcript ends with a call of `web_search`, which has no result"
        ]
    );
}
