//! A custom provider: a codec for one vendor's API. It is configured in `providers` like a built-in provider.
//!
//! `cargo run -p kindlm-providers --example own_provider`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use kindlm_providers::{
    Codec, HttpRequest, HttpResponse, Kind, Meta, Registration, built_in, configured,
};
use kindlm_types::{Problem, Prompt, ProviderError, ProviderErrorKind, Reply};
use serde_json::{Value, json};

/// The provider `oracle`: an API that answers a question with `{"answer": …}`.
pub(crate) static ORACLE: Registration = Registration::new(
    Meta {
        id: "oracle",
        summary: "An API that answers one question.",
        since: "1.0",
        key_variable: None,
        shorthand: false,
        wraps_agent: false,
        docs: "",
    },
    |_| {
        serde_json::json!({
            "type": "object",
            "properties": { "url": { "type": "string" } },
            "required": ["url"],
            "additionalProperties": false,
        })
    },
    Kind::Http(make),
);

#[derive(Debug)]
struct Oracle {
    url: String,
}

fn make(config: &Value) -> Result<Box<dyn Codec>, Vec<Problem>> {
    let url = config.get("url").and_then(Value::as_str);
    let url = url.ok_or_else(|| vec![Problem::new("/url", "`url` is required")])?;
    Ok(Box::new(Oracle { url: url.to_owned() }))
}

impl Codec for Oracle {
    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let question = prompt.messages.last().map(|it| it.content.clone()).unwrap_or_default();
        Ok(HttpRequest {
            url: self.url.clone(),
            body: json!({ "question": question }),
            ..HttpRequest::default()
        })
    }

    fn decode(&self, _prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let Some(answer) = body.get("answer").and_then(Value::as_str) else {
            let message = format!("no `answer` in the response with status {}", response.status);
            let kind = ProviderErrorKind::MalformedResponse;
            return Err(ProviderError::new(kind, self.provider(), message));
        };
        Ok(Reply::text(answer))
    }

    fn provider(&self) -> &'static str {
        ORACLE.meta.id
    }
}

/// Encodes a prompt, decodes a prepared answer, and returns its text. Uses no network.
pub(crate) fn answer() -> Result<String, Box<dyn std::error::Error>> {
    let registry = built_in().with([&ORACLE])?;
    let config = json!({ "type": "oracle", "url": "http://127.0.0.1:1/ask" });
    let (registration, config) = configured(&registry, "mine", &config).ok_or("it was added")?;
    let Kind::Http(make) = registration.kind else { return Err("it is reached by HTTP".into()) };
    let codec = make(&config).map_err(|it| format!("{it:?}"))?;
    let prompt = Prompt::default();
    codec.encode(&prompt)?;
    let body = r#"{"answer": "It has shipped."}"#;
    Ok(codec.decode(&prompt, &HttpResponse::new(200, body))?.text)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", answer()?);
    Ok(())
}
