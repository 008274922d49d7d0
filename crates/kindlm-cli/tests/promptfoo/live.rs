//! Models that are asked over a websocket, with a server on this machine.
//!
//! The expected messages and outputs are those of promptfoo 0.123.1 with the same server, except for default values that
//! change nothing.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

use crate::ran::{folder, rows};

/// Starts a server of the Realtime API. It answers the first request of a websocket with a call, and the second request
/// with the result of the call.
fn serve() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut socket) = accept(stream.unwrap()) else { continue };
            let mut result = None;
            while let Ok(Message::Text(text)) = socket.read() {
                let message: Value = serde_json::from_str(&text).unwrap();
                if let Some(output) = message["item"]["output"].as_str() {
                    result = Some(output.to_owned());
                }
                if message["type"] == "response.create" {
                    let _ = socket.send(Message::text(answer(result.as_deref()).to_string()));
                }
                let _ = sender.send(message);
            }
        }
    });
    (url, received)
}

fn answer(result: Option<&str>) -> Value {
    let item = match result {
        None => {
            json!({"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{\"location\":\"Paris\"}"})
        }
        Some(result) => {
            json!({"type": "message", "content": [{"type": "output_text", "text": format!("I see {result}")}]})
        }
    };
    let usage = json!({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7});
    json!({"type": "response.done", "response": {"status": "completed", "output": [item], "usage": usage}})
}

const TOOLS: &str = "[{ type: 'function', name: 'get_weather', parameters: { type: 'object', properties: { location: { type: 'string' } } } }]";

#[test]
fn a_handler_answers_the_calls_of_a_realtime_model() {
    let (url, received) = serve();
    let config = format!(
        "module.exports = {{
  prompts: ['Weather in {{{{city}}}}?'],
  providers: [{{
    id: 'openai:realtime:gpt-realtime-1.5',
    config: {{
      apiBaseUrl: '{url}', apiKeyEnvar: 'KEY', modalities: ['text'], instructions: 'Be brief.', websocketTimeout: 60000, tools: {TOOLS},
      functionCallHandler: async (name, args) => JSON.stringify({{ name, where: JSON.parse(args).location }}),
    }},
  }}],
  tests: [{{ vars: {{ city: 'Paris' }}, assert: [{{ type: 'contains', value: 'Paris' }}] }}],
}};
"
    );
    let folder = folder(&[("promptfooconfig.js", &config)]);
    let (ran, rows) = rows(folder.path(), "promptfooconfig.js", &[("KEY", "k")]);
    assert_eq!(rows.len(), 1, "{ran:?}");
    let expected = "I see {\"name\":\"get_weather\",\"where\":\"Paris\"}\n\n[Function calls were made during processing]";
    assert_eq!(rows[0]["output"], expected, "{ran:?}");
    assert_eq!(rows[0]["status"], "passed", "{ran:?}");
    let session = &received.recv().unwrap()["session"];
    assert_eq!(session["instructions"], "Be brief.");
    assert_eq!(session["output_modalities"], json!(["text"]));
    assert_eq!(session["tool_choice"], "auto");
    assert_eq!(session["audio"]["output"]["voice"], "alloy");
    let content = json!([{"type": "input_text", "text": "Weather in Paris?"}]);
    assert_eq!(received.recv().unwrap()["item"]["content"], content);
}

#[test]
fn calls_of_a_voice_model_of_xai_are_in_its_output() {
    let (url, received) = serve();
    let config = format!(
        "prompts: ['[{{\"role\": \"user\", \"content\": \"Weather in {{{{city}}}}?\"}}]']
providers: [{{ id: 'xai:voice:grok-3', config: {{ apiBaseUrl: '{url}', apiKeyEnvar: KEY, tools: {TOOLS} }} }}]
tests: [{{ vars: {{ city: Paris }}, assert: [{{ type: javascript, value: 'output.functionCalls[0].arguments.location === \"Paris\"' }}] }}]
"
    );
    let folder = folder(&[(crate::ran::CONFIG, &config)]);
    let (ran, rows) = rows(folder.path(), crate::ran::CONFIG, &[("KEY", "k")]);
    assert_eq!(rows.len(), 1, "{ran:?}");
    assert_eq!(rows[0]["status"], "passed", "{:#} {ran:?}", rows[0]);
    let session = &received.recv().unwrap()["session"];
    assert_eq!((&session["voice"], &session["type"]), (&json!("Ara"), &Value::Null));
    // promptfoo sends a chat to this API as one text of JSON.
    let said = received.recv().unwrap()["item"]["content"][0]["text"].clone();
    assert_eq!(said, "Weather in Paris?");
    assert_eq!(received.recv().unwrap()["response"], json!({"modalities": ["text", "audio"]}));
}
