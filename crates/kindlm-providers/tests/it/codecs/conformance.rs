//! Compares the codecs with the results of the original KindLM on the same input. Intended differences are listed.

use std::collections::BTreeMap;

use kindlm_providers::command::protocol;
use kindlm_providers::{HeaderValue, HttpRequest, pricing};
use kindlm_types::{FinishReason, ProviderError, ProviderErrorKind as Kind, Usage};
use serde_json::{Value, json};

use super::{codec, fixture, normal, prompt, raw, response};

const CONFLICT: &str = "409 is a lock that another request holds: it is worth a retry";
const FILTERED: &str = "the kind is more precise: the prompt is too long for the model";
const ONE_TURN: &str =
    "results of parallel calls belong into one turn, as the vendor's own guide has it";
const NO_ANSWER: &str =
    "a response without a message of the model is an error, not an empty answer";

/// The vectors with intentionally different results, and the reasons.
const DIFFERENT: &[(&str, &str)] = &[
    // Differences in requests.
    ("anthropic-req-toolloopempty", ONE_TURN),
    (
        "gemini-req-toolloop",
        "Gemini refuses results that are no objects, and fewer results in a turn than calls",
    ),
    (
        "mistral-req-prefill",
        "Mistral refuses a last message of the assistant that is not marked `prefix`",
    ),
    ("cohere-req-toolchoice", "Cohere's choices are written in capitals"),
    ("http-req-toolloop", "answers of tools keep the id of their call, and calls are not lost"),
    ("req-http-template-unescaped", "values are escaped: no text breaks the JSON around it"),
    (
        "http-missing-env-header",
        "a codec sees no environment: it names the variable, and the transport says that it is missing",
    ),
    // Differences in responses.
    ("openai-res-empty", NO_ANSWER),
    ("openai-res-no-choices", NO_ANSWER),
    ("cohere-res-empty", NO_ANSWER),
    ("ollama-res-empty", NO_ANSWER),
    ("openai-res-refusal", "a refusal is not an ordinary end"),
    (
        "openai-res-tool-bad-json",
        "malformed arguments are kept beside the arguments, not as one of them",
    ),
    ("openai-res-content-parts", "a text is a text: parts are joined"),
    (
        "cohere-res-text",
        "a part of an unsupported type is an error: its text or call would be lost",
    ),
    ("anthropic-res-cache-usage", "tokens read from the cache are a part of the prompt"),
    ("http-res-object-text", "an object is shown as JSON, not as `[object Object]`"),
    ("http-res-path-root", "an object is shown as JSON, not as `[object Object]`"),
    (
        "http-res-path-bracket-bad",
        "a path that is none is a problem of the configuration, found before anything is sent",
    ),
    // Differences in errors.
    ("openai-err-409", CONFLICT),
    ("anthropic-err-409", CONFLICT),
    ("gemini-err-409", CONFLICT),
    ("mistral-err-409", CONFLICT),
    ("ollama-err-409", CONFLICT),
    ("ollama-err-401", "a proxy in front of the server refused the key"),
    ("gemini-err-ctx", FILTERED),
    ("http-err-ctx", FILTERED),
    ("openai-err-no-json", "the message shows the body"),
    ("gemini-err-no-json-400", "the message shows the body"),
    ("http-err-no-json-400", "the message shows the body"),
    ("openai-err-string-body", "a body that is a text is the message"),
    ("gemini-err-error-null", "the message shows the body"),
];

/// Returns true for vectors without a codec. The tests of the transport and of the MCP client cover them.
fn is_elsewhere(vector: &Value) -> bool {
    let op = vector["input"]["op"].as_str().unwrap();
    vector["input"]["provider"] == "mcp" || op == "transport-error" || op == "retry"
}

#[test]
fn providers_agree_but_where_they_differ_on_purpose() {
    let vectors = fixture("providers.jsonl");
    let (elsewhere, ours): (Vec<&Value>, Vec<&Value>) =
        vectors.iter().partition(|it| is_elsewhere(it));
    assert_eq!((vectors.len(), elsewhere.len(), ours.len()), (130, 18, 112));
    let mut expected: BTreeMap<&str, &str> = DIFFERENT.iter().copied().collect();
    let mut unexpected = Vec::new();
    for vector in ours {
        let id = vector["id"].as_str().unwrap();
        let differences = run(vector);
        match (differences.is_empty(), expected.remove(id)) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(why)) => unexpected.push(format!("{id}: agrees after all ({why})")),
            (false, None) => unexpected.push(format!("{id}: {}", differences.join("\n  "))),
        }
    }
    let unknown: Vec<&str> = expected.into_keys().collect();
    assert!(
        unexpected.is_empty() && unknown.is_empty(),
        "{}\nno such vector: {unknown:?}",
        unexpected.join("\n")
    );
}

/// Runs a vector, and returns the differences from the expected result.
fn run(vector: &Value) -> Vec<String> {
    let (input, expect) = (&vector["input"], &vector["expect"]);
    let provider = input["provider"].as_str().unwrap();
    let config = match (input["config"].get(provider), provider) {
        (Some(config), _) => config.clone(),
        (None, "http") => json!({"url": "http://h/api"}),
        (None, "ollama") => json!({}),
        (None, _) => json!({"apiKeyEnv": "KEY"}),
    };
    let kindlm_providers::Kind::Http(make) = kindlm_providers::find(provider).unwrap().kind else {
        panic!("`{provider}` has no codec");
    };
    let codec = match make(&config) {
        Ok(codec) => codec,
        Err(problems) => return vec![format!("the configuration is refused: {problems:?}")],
    };
    let body = &input["body"];
    match input["op"].as_str().unwrap() {
        "request" => {
            let request = codec.encode(&prompt(input["request"].clone()));
            compare(&request.map_or_else(|err| json!(err.to_string()), |it| sent(&it)), expect)
        }
        "response" => {
            let reply =
                codec.decode(&super::hi(), &response(200, body)).map(|it| to_original_format(&it));
            compare(&reply.unwrap_or_else(|err| json!(err.to_string())), expect)
        }
        "error" => {
            let status = u16::try_from(input["status"].as_u64().unwrap()).unwrap();
            let response =
                if body.is_null() { raw(status, "<html>") } else { response(status, body) };
            let err = codec.decode(&super::hi(), &response).expect_err("an error");
            compare_error(&err, expect)
        }
        other => panic!("unknown op `{other}`"),
    }
}

fn compare(ours: &Value, theirs: &Value) -> Vec<String> {
    let (ours, theirs) = (normal(ours), normal(theirs));
    if ours == theirs {
        Vec::new()
    } else {
        vec![format!("ours:   {ours}"), format!("theirs: {theirs}")]
    }
}

/// Returns a request with the values of the vector's environment variables.
fn sent(request: &HttpRequest) -> Value {
    let headers: BTreeMap<&str, String> = request
        .headers
        .iter()
        .map(|(name, value)| {
            let value = match value {
                HeaderValue::Literal(value) | HeaderValue::Secret(value) => value.clone(),
                HeaderValue::FromEnv { prefix, variable } => match variable.as_str() {
                    "KEY" => format!("{prefix}sk-test"),
                    "TOK" => format!("{prefix}tok-1"),
                    other => format!("{prefix}${other}"),
                },
            };
            (name.as_str(), value)
        })
        .collect();
    let method = format!("{:?}", request.method).to_uppercase();
    json!({"method": method, "url": request.url, "headers": headers, "body": request.json()})
}

/// Returns a reply in the original's format.
fn to_original_format(reply: &kindlm_types::Reply) -> Value {
    let finish = match reply.finish_reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "max_tokens",
        FinishReason::ToolCalls => "tool_calls",
        _ => "unknown",
    };
    let calls: Vec<Value> = reply
        .tool_calls
        .iter()
        .map(|it| json!({"id": it.id, "name": it.name, "arguments": it.arguments, "index": 0}))
        .collect();
    let Usage { input_tokens, output_tokens, total_tokens, .. } = reply.usage;
    json!({
        "text": reply.text, "toolCalls": calls, "modelId": reply.model, "finishReason": finish,
        "usage": {"inputTokens": input_tokens, "outputTokens": output_tokens, "totalTokens": total_tokens},
    })
}

fn compare_error(err: &ProviderError, expect: &Value) -> Vec<String> {
    let kinds: &[Kind] = match expect["code"].as_str().unwrap() {
        "AUTH_FAILED" => &[Kind::Auth],
        "RATE_LIMITED" => &[Kind::RateLimited],
        "TIMEOUT" => &[Kind::Timeout],
        "MODEL_NOT_FOUND" => &[Kind::ModelNotFound],
        "CONTEXT_LENGTH" => &[Kind::ContextLength],
        "PROVIDER_ERROR" => &[Kind::Server, Kind::Overloaded, Kind::InvalidRequest],
        "UNKNOWN" => &[Kind::InvalidRequest],
        other => panic!("unknown code `{other}`"),
    };
    let mut differences = Vec::new();
    if !kinds.contains(&err.kind) {
        differences.push(format!("kind {:?} for {}", err.kind, expect["code"]));
    }
    // Our message may add advice after the vendor's message.
    if !err.message.starts_with(expect["message"].as_str().unwrap()) {
        differences.push(format!("message `{}` for {}", err.message, expect["message"]));
    }
    if expect["retryable"] != err.retryable {
        differences.push(format!("retryable {}", err.retryable));
    }
    if let Some(status) = expect["statusCode"].as_u64()
        && err.status.map(u64::from) != Some(status)
    {
        differences.push(format!("status {:?}", err.status));
    }
    differences
}

#[test]
fn a_header_names_its_variable_and_never_holds_its_value() {
    let config = json!({"url": "http://h", "headers": {"A": "env:NOPE"}});
    let request = codec("http", &config).encode(&super::hi()).unwrap();
    let expected = HeaderValue::FromEnv { prefix: "", variable: "NOPE".to_owned() };
    assert_eq!(request.headers[1], ("A".to_owned(), expected));
}

#[test]
fn commands_speak_the_same_protocol() {
    let vectors = fixture("command.jsonl");
    assert_eq!(vectors.len(), 28);
    for vector in vectors {
        let output = protocol::parse(vector["input"]["stdout"].as_str().unwrap());
        let calls: Vec<Value> = output
            .tool_calls
            .iter()
            .map(|it| json!({"id": it.id, "name": it.name, "arguments": it.arguments, "index": 0}))
            .collect();
        let expect = &vector["expect"];
        let ours = (json!(output.text), json!(calls), output.output_json.as_ref());
        let theirs =
            (expect["outputText"].clone(), expect["toolCalls"].clone(), expect.get("outputJson"));
        assert_eq!(ours, theirs, "{}", vector["id"]);
    }
}

const KNOWN: &str = "the price is known";

/// The models whose price KindLM knows but the original does not.
const PRICED: &[(&str, &str)] = &[
    ("openai-gpt-4", KNOWN),
    ("openai-gpt-5", KNOWN),
    ("openai-o1", KNOWN),
    ("anthropic-claude-sonnet-4-5", KNOWN),
    ("mistral-mistral-large-latest", KNOWN),
    ("gemini-gemini-2.5-pro", KNOWN),
];

#[test]
fn shared_prices_agree_with_the_reference() {
    let vectors = fixture("pricing.jsonl");
    assert_eq!(vectors.len(), 16);
    let mut expected: BTreeMap<&str, &str> = PRICED.iter().copied().collect();
    for vector in &vectors {
        let (id, input) = (vector["id"].as_str().unwrap(), &vector["input"]);
        let usage: Usage = serde_json::from_value(input["usage"].clone()).unwrap();
        let price =
            pricing::price(input["provider"].as_str().unwrap(), input["model"].as_str().unwrap());
        let (ours, theirs) =
            (price.map(|it| it.cost(&usage)), vector["expect"]["costUsd"].as_f64());
        let agrees = match (ours, theirs) {
            (Some(ours), Some(theirs)) => (ours - theirs).abs() < 1e-9,
            (ours, theirs) => ours.is_none() && theirs.is_none(),
        };
        let differs_on_purpose = expected.remove(id).is_some();
        assert_eq!(agrees, !differs_on_purpose, "{id}: {ours:?} and {theirs:?}");
        assert!(agrees || theirs.is_none(), "{id}: a price that the original knows is different");
    }
    assert!(expected.is_empty(), "no such vector: {expected:?}");
}
