//! `functionToolCallbacks` of each vendor: the results of the functions are the output.

use kindlm_testing::mock::MockRequest;
use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::ran::{CONFIG, folder, rows};

/// Answers with two calls, in the form of the API that is asked.
fn answer(request: &MockRequest) -> MockReply {
    let chat = |name: &str, args: &str| json!({"id": name, "type": "function", "function": {"name": name, "arguments": args}});
    let item = |name: &str, args: &str| json!({"type": "function_call", "call_id": name, "name": name, "arguments": args, "status": "completed"});
    let body = if request.path.contains("generateContent") {
        let parts = json!([{"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}, {"functionCall": {"name": "name", "args": {}}}]);
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
    } else if request.path.contains("/responses") {
        let message = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Two calls:"}]});
        json!({"id": "r", "status": "completed", "output": [message, item("add", "{\"a\":1,\"b\":2}"), item("name", "{\"x\":1}"), item("other", "{\"x\":1}")]})
    } else {
        let calls = [chat("add", "{\"a\":1,\"b\":2}"), chat("name", "{}"), chat("other", "{}")];
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    };
    MockReply::json(&body)
}

const FILE: &str = "export function add(args) { const { a, b } = JSON.parse(args); return a + b; }
export default () => 'the default';
";

#[test]
fn callbacks_answer_the_calls_of_each_vendor() {
    let server = MockServer::answering(answer).unwrap();
    let url = server.url();
    let callbacks =
        "functionToolCallbacks: { add: 'file://calls/add.mjs:add', name: 'file://calls/add.mjs' }";
    let tools = "[{ type: function, function: { name: add, parameters: { type: object, properties: {} } } }]";
    let config = format!(
        "prompts: ['go']
providers:
  - {{ id: 'openai:gpt-4o', label: chat, config: {{ apiBaseUrl: '{url}/v1', apiKeyEnvar: KEY, tools: {tools}, {callbacks} }} }}
  - {{ id: 'azure:chat:gpt-4o', label: azure, config: {{ apiBaseUrl: '{url}/v1', apiKeyEnvar: KEY, tools: {tools}, {callbacks} }} }}
  - {{ id: 'openai:responses:gpt-4o', label: responses, config: {{ apiBaseUrl: '{url}/v1', apiKeyEnvar: KEY, tools: {tools}, {callbacks} }} }}
  - {{ id: 'google:gemini-2.5-flash', label: gemini, config: {{ apiBaseUrl: '{url}', apiKeyEnvar: KEY, tools: {tools}, {callbacks} }} }}
  - {{ id: 'google:gemini-2.5-flash', label: one, config: {{ apiBaseUrl: '{url}', apiKeyEnvar: KEY, tools: {tools}, functionToolCallbacks: {{ add: '() => 1' }} }} }}
tests: [{{ assert: [{{ type: javascript, value: 'output !== undefined' }}] }}]
"
    );
    let folder = folder(&[(CONFIG, &config), ("calls/add.mjs", FILE)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[("KEY", "k")]);
    let output = |model: &str| -> &Value {
        let row = rows.iter().find(|it| it["model"] == model);
        &row.unwrap_or_else(|| panic!("{model}: {ran:?}"))["results"]
    };
    for model in ["chat", "azure", "responses", "gemini", "one"] {
        assert_eq!(output(model)[0]["status"], "passed", "{model}: {ran:?}");
    }
    // The report has the output of the provider. Only a check sees what the callbacks made of this output.
    let other = r#"{"id":"other","type":"function","function":{"name":"other","arguments":"{}"}}"#;
    let item = r#"{"type":"function_call","call_id":"other","name":"other","arguments":"{\"x\":1}","status":"completed"}"#;
    for (model, expected) in [
        ("chat", "3\nthe default".to_owned()),
        ("azure", format!("3\nthe default\n{other}")),
        ("responses", format!("Two calls:\n3\nthe default\n{item}")),
        ("gemini", "3\nthe default".to_owned()),
    ] {
        let check = format!("output === {}", json!(expected));
        let changed = config.replace("output !== undefined", &check.replace('\'', "''"));
        std::fs::write(folder.path().join(CONFIG), changed).unwrap();
        let (ran, rows) = crate::ran::rows(folder.path(), CONFIG, &[("KEY", "k")]);
        let row = rows.iter().find(|it| it["model"] == model).unwrap();
        assert_eq!(row["status"], "passed", "{model}: {row:#} {ran:?}");
    }
    // Without a callback for each call, Gemini's output stays.
    let changed = config.replace("output !== undefined", "output[0].functionCall.name === \"add\"");
    std::fs::write(folder.path().join(CONFIG), changed).unwrap();
    let (_, rows) = crate::ran::rows(folder.path(), CONFIG, &[("KEY", "k")]);
    let row = rows.iter().find(|it| it["model"] == "one").unwrap();
    assert_eq!(row["status"], "passed", "{row:#}");
}
