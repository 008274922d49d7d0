//! Tests of the transport, the client, and the providers without a codec.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod agent;
mod client;
mod clouds;
mod command;
mod conformance;
mod credentials;
mod docs;
mod faults;
mod forms;
mod live;
mod load;
mod mcp;
mod retries;
mod scripted;
mod secrets;
mod security;
mod sharing;
mod table;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use kindlm_providers::limit::RateLimiter;
use kindlm_providers::transport::{Called, Env, HttpTransport, RetryPolicy, TransportOptions};
use kindlm_providers::{Client, ClientOptions, HeaderValue, HttpRequest, HttpResponse, Method};
use kindlm_testing::MockServer;
use kindlm_types::{
    FileError, Files, Message, Params, Prompt, ProviderError, ProviderErrorKind, Role,
};
use serde_json::{Map, Value, json};

/// The key that must never appear in output.
const KEY: &str = "sk-test-4f9a8c1d";

/// A timeout that is long enough for a busy machine.
const LONG: Duration = Duration::from_mins(2);

/// The upper limit for every duration that a test measures.
const NEVER: Duration = Duration::from_mins(5);

/// Runs a test whose durations scale with a factor. If it fails on a slow machine, a larger factor is tried.
async fn at_some_pace(test: impl AsyncFn(u32) -> Result<(), String>) {
    let mut failure = String::new();
    for factor in [1, 5, 25] {
        match test(factor).await {
            Ok(()) => return,
            Err(message) => failure = message,
        }
    }
    panic!("{failure}");
}

fn env() -> Env {
    Arc::new(|name| match name {
        "OPENAI_API_KEY" | "TOKEN" => Some(KEY.to_owned()),
        "KEY_WITH_LINE_BREAK" => Some(format!("{KEY}\n")),
        "BROKEN_KEY" => Some(format!("{KEY}\nx")),
        _ => None,
    })
}

/// Returns a retry policy with almost no delay.
fn quick() -> RetryPolicy {
    RetryPolicy {
        min_delay: Duration::from_millis(1),
        base_delay: Duration::from_millis(1),
        ..RetryPolicy::default()
    }
}

fn options() -> TransportOptions {
    TransportOptions {
        retry: quick(),
        max_body: 64 * 1024,
        system_proxy: false,
        ..TransportOptions::new(env())
    }
}

fn transport() -> HttpTransport {
    HttpTransport::new(options()).unwrap()
}

/// Returns a request as a codec would encode it.
fn request(url: &str) -> HttpRequest {
    HttpRequest {
        method: Method::Post,
        url: format!("{url}/v1/chat/completions"),
        headers: vec![(
            "authorization".to_owned(),
            HeaderValue::FromEnv { prefix: "Bearer ", variable: "OPENAI_API_KEY".to_owned() },
        )],
        body: json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        ..HttpRequest::default()
    }
}

/// Decodes an answer as a codec would.
fn decode(response: &HttpResponse) -> Result<String, ProviderError> {
    let malformed = |what| ProviderError::new(ProviderErrorKind::MalformedResponse, "openai", what);
    let body: Value =
        serde_json::from_slice(&response.body).map_err(|_| malformed("the answer is not JSON"))?;
    if response.status != 200 {
        let kind = match response.status {
            401 => ProviderErrorKind::Auth,
            408 => ProviderErrorKind::Timeout,
            429 => ProviderErrorKind::RateLimited,
            500.. => ProviderErrorKind::Server,
            _ => ProviderErrorKind::InvalidRequest,
        };
        let message = body["error"]["message"].as_str().unwrap_or_default();
        return Err(ProviderError::new(kind, "openai", message).with_status(response.status));
    }
    let text = body["choices"][0]["message"]["content"].as_str();
    text.map(str::to_owned).ok_or_else(|| malformed("the answer has no text"))
}

async fn call(url: &str, timeout: Duration) -> Result<Called<String>, ProviderError> {
    transport()
        .call("openai", &request(url), timeout, &RateLimiter::default().enqueue(0), decode)
        .await
}

fn server() -> MockServer {
    MockServer::start().unwrap()
}

fn prompt(text: &str) -> Prompt {
    Prompt {
        model: "m-1".to_owned(),
        messages: vec![Message::new(Role::User, text)],
        params: Params::default(),
        tools: Vec::new(),
        tool_choice: None,
        response_format: None,
        sample: 0,
        ..Prompt::default()
    }
}

/// Files in memory: pairs of a path and its text.
struct Memory(&'static [(&'static str, &'static str)]);

impl Files for Memory {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| Arc::from(*text)).ok_or_else(|| FileError::NotFound {
            path: path.to_owned(),
            folder: "/suite".to_owned(),
        })
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }
}

fn client_options() -> ClientOptions {
    ClientOptions { transport: options(), ..ClientOptions::new(env(), std::env::temp_dir()) }
}

fn providers(config: Value) -> Map<String, Value> {
    serde_json::from_value(config).unwrap()
}

fn client(config: Value) -> Client {
    Client::new(&providers(config), &Memory(&[]), client_options()).unwrap()
}
