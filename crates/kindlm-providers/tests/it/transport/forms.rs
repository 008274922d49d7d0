//! Tests of structured-output forms. After a refusal, the client uses the next form, and remembers it.

use kindlm_providers::transport::Waits;
use kindlm_testing::mock::{MockReply, MockRequest};
use kindlm_types::{FinishReason, Models, ProviderErrorKind as Kind, ResponseFormat, Unlimited};

use super::*;

const VERDICT: &str = r#"{"score":1}"#;

/// Returns the structured-output form of a request.
fn form(request: &MockRequest) -> &'static str {
    let body = request.json();
    match (&body["response_format"]["type"], &body["tools"][0]["function"]["name"]) {
        (Value::String(it), Value::Null) if it == "json_schema" => "schema",
        (Value::Null, Value::String(it)) if it == "score" && body["tool_choice"] == "required" => {
            "tool"
        }
        (Value::Null, Value::Null) => "none",
        _ => "another form",
    }
}

/// Returns a server that refuses requests with these forms.
fn refusing(refused: &'static [(&'static str, u16, &'static str)]) -> MockServer {
    MockServer::answering(move |request| {
        let form = form(request);
        if let Some((_, status, message)) = refused.iter().find(|it| it.0 == form) {
            return MockReply::error(*status, message);
        }
        let call = json!({"id": "c", "type": "function", "function": {"name": "score", "arguments": VERDICT}});
        let message = match form {
            "tool" => json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            _ => json!({"role": "assistant", "content": VERDICT}),
        };
        let finish = if form == "tool" { "tool_calls" } else { "stop" };
        MockReply::json(&json!({
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        }))
    })
    .unwrap()
}

fn judged(model: &str) -> Prompt {
    let schema = json!({"type": "object", "properties": {"score": {"type": "number"}}});
    let response_format = Some(ResponseFormat::new("score", schema));
    Prompt { model: model.to_owned(), response_format, ..prompt("hi") }
}

const DEEPSEEK: (&str, u16, &str) = ("schema", 400, "This response_format type is unavailable now");
const NO_TOOLS: (&str, u16, &str) = ("tool", 404, "No endpoints found that support tool use.");

#[tokio::test]
async fn the_form_that_a_server_refuses_is_asked_for_once() {
    for (refused, sent, notices) in [
        (&[][..], &["schema", "schema"][..], 0),
        (&[DEEPSEEK], &["schema", "tool", "tool"], 1),
        (&[DEEPSEEK, NO_TOOLS], &["schema", "tool", "none", "none"], 2),
    ] {
        let (server, waits) = (refusing(refused), Waits::default());
        let config = json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}});
        let options = client_options().with_waits(waits.clone());
        let client = Client::new(&providers(config), &Memory(&[]), options).unwrap();
        for _ in 0..2 {
            let reply =
                Models::complete(&client, "openai", &judged("m"), LONG, &Unlimited).await.unwrap();
            assert_eq!((reply.text.as_str(), reply.tool_calls.len()), (VERDICT, 0));
            assert_eq!(reply.finish_reason, FinishReason::Stop);
        }
        let found: Vec<&str> = server.requests().iter().map(form).collect();
        assert_eq!(found, sent);
        let told: Vec<String> =
            std::iter::from_fn(|| waits.try_next()).map(|it| it.in_words()).collect();
        assert_eq!(told.len(), notices, "{told:?}");
        for (told, word) in told.iter().zip(["tool", "none"]) {
            assert!(told.starts_with("openai:m rejects"), "{told}");
            assert!(told.contains(&format!("`structuredOutput: {word}`")), "{told}");
        }
        // Another model may support the form.
        let other =
            Models::complete(&client, "openai", &judged("other"), LONG, &Unlimited).await.unwrap();
        assert_eq!(other.attempts as usize, sent.len() - 1);
    }
}

#[tokio::test]
async fn a_form_that_the_suite_names_is_the_only_one() {
    for pinned in ["schema", "tool", "none"] {
        let server = refusing(&[DEEPSEEK]);
        let client = client(json!({"openai": {
            "apiKeyEnv": "TOKEN", "baseUrl": server.url(), "structuredOutput": pinned,
        }}));
        let result = client.complete("openai", &judged("m"), LONG, &Unlimited).await;
        assert_eq!(result.is_err(), pinned == "schema", "{result:?}");
        let found: Vec<&str> = server.requests().iter().map(form).collect();
        assert_eq!(found, [pinned]);
    }
}

#[tokio::test]
async fn other_errors_and_other_questions_change_no_form() {
    let refused = &[("schema", 400, "Unknown parameter: seed"), ("none", 400, "response_format")];
    let server = refusing(refused);
    let client = client(json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}}));
    for prompt in [judged("m"), prompt("hi")] {
        let err = client.complete("openai", &prompt, LONG, &Unlimited).await.unwrap_err();
        assert_eq!((err.kind, err.attempts), (Kind::InvalidRequest, 1));
    }
    assert_eq!(server.count(), 2);
}
