//! Compares the transport with the test vectors of the original KindLM.

use kindlm_providers::mcp;
use kindlm_testing::mock::{MockReply, closed_address};
use kindlm_types::ProviderErrorKind as Kind;

use super::*;

const VECTORS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/conformance/kindlm-core/providers.jsonl"
));

/// The vectors with intentionally different results, and the reasons.
const DIFFERENT: [(&str, &str); 1] = [(
    "openai-err-network",
    "ours says what is wrong with the connection, and tries again: networks recover more often than servers",
)];

/// The result of a vector, in the original's terms.
#[derive(Debug, PartialEq)]
struct Outcome {
    code: Option<&'static str>,
    text: Option<String>,
    attempts: u64,
}

async fn run(input: &Value) -> Outcome {
    let server = server();
    let mut url = server.url();
    let mut timeout = LONG;
    match (input["op"].as_str().unwrap(), input["kind"].as_str()) {
        ("transport-error", Some("network")) => {
            url = format!("http://{}", closed_address().unwrap());
        }
        ("transport-error", Some("timeout")) => {
            timeout = Duration::from_millis(50);
            let late = MockReply::text("ok").after(LONG);
            server.push_all([late.clone(), late.clone(), late]);
        }
        ("retry", None) => {
            for status in input["statuses"].as_array().unwrap() {
                let status = u16::try_from(status.as_u64().unwrap()).unwrap();
                server.push(match status {
                    200 => MockReply::text("ok"),
                    _ => MockReply::error(status, "no"),
                });
            }
        }
        other => panic!("unknown operation {other:?}"),
    }
    match call(&url, timeout).await {
        Ok(called) => {
            Outcome { code: None, text: Some(called.value), attempts: called.attempts.into() }
        }
        Err(err) => Outcome {
            code: match err.kind {
                Kind::Timeout => Some("TIMEOUT"),
                Kind::RateLimited => Some("RATE_LIMITED"),
                Kind::Server => Some("PROVIDER_ERROR"),
                // The original has no code for a broken connection.
                _ => None,
            },
            text: None,
            attempts: err.attempts.into(),
        },
    }
}

#[tokio::test]
async fn transport_vectors_agree() {
    let mut ran = 0;
    let mut differing = Vec::new();
    for line in VECTORS.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        if !matches!(vector["input"]["op"].as_str(), Some("transport-error" | "retry")) {
            continue;
        }
        ran += 1;
        let expect = &vector["expect"];
        let found = run(&vector["input"]).await;
        let agrees = found.code == expect["code"].as_str()
            && found.text.as_deref() == expect["text"].as_str()
            && Some(found.attempts) == expect["attempts"].as_u64();
        if !agrees {
            differing.push(vector["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ran, 3);
    assert_eq!(differing, DIFFERENT.map(|(id, _)| id));
}

/// The original posts the arguments in its own format. The client sends the same arguments in an MCP call.
#[test]
fn mcp_vectors_agree_on_the_arguments() {
    let mut ran = 0;
    for line in VECTORS.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let input = &vector["input"];
        if input["op"] != "request" || input["provider"] != "mcp" {
            continue;
        }
        ran += 1;
        let mut prompt = input["request"].clone();
        prompt["tools"] = json!([]);
        prompt["toolChoice"] = Value::Null;
        let prompt: Prompt = serde_json::from_value(prompt).unwrap();
        let mut expected = vector["expect"]["body"]["arguments"].clone();
        // The original adds an index that only repeats the order of the calls.
        for message in expected["messages"].as_array_mut().unwrap() {
            for call in
                message.get_mut("toolCalls").and_then(Value::as_array_mut).into_iter().flatten()
            {
                call.as_object_mut().unwrap().remove("index");
            }
        }
        let arguments = mcp::arguments(&mcp::Config::default(), &prompt);
        assert_eq!(Value::Object(arguments), expected, "{}", vector["id"]);
    }
    assert_eq!(ran, 3);
}
