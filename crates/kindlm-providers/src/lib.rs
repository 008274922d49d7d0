//! Codecs for the APIs of language models, and the client that uses them.
//!
//! [`REGISTRY`] lists the providers; each has its own folder. Each row of [`servers`] is a provider too. A [`Codec`]
//! turns a [`Prompt`](kindlm_types::Prompt) into an [`HttpRequest`] and an [`HttpResponse`] into a
//! [`Reply`](kindlm_types::Reply), and does no I/O. The `http` feature adds the transport. Codecs never see keys: a
//! request names the environment variable ([`HeaderValue::FromEnv`]), and the transport resolves it. Token prices are
//! in [`pricing`].
//!
//! ```
//! use kindlm_providers::{HttpResponse, Kind, built_in, shorthand};
//! use kindlm_types::{Message, Params, Prompt, Role};
//!
//! let (provider, model) = shorthand(&built_in(), "openai:gpt-4o-mini").unwrap();
//! let Kind::Http(codec) = provider.kind else { unreachable!("OpenAI is reached by HTTP") };
//! let codec = codec(&provider.default_config().unwrap()).unwrap();
//!
//! let prompt = Prompt {
//!     model: model.to_owned(),
//!     messages: vec![Message::new(Role::User, "Where is order 12345?")],
//!     params: Params { temperature: Some(0.2), ..Params::default() },
//!     tools: Vec::new(),
//!     tool_choice: None,
//!     response_format: None,
//!     sample: 0,
//!     ..Prompt::default()
//! };
//! let request = codec.encode(&prompt).unwrap();
//! assert_eq!(request.url, "https://api.openai.com/v1/chat/completions");
//! assert_eq!(request.json()["messages"][0]["content"], "Where is order 12345?");
//!
//! // Send the request with any HTTP client. This is the body of its response.
//! let body = r#"{"choices":[{"message":{"content":"On its way."},"finish_reason":"stop"}],
//!                "usage":{"prompt_tokens":12,"completion_tokens":4,"total_tokens":16}}"#;
//! let response = HttpResponse::new(200, body);
//! let reply = codec.decode(&prompt, &response).unwrap();
//! assert_eq!(reply.text, "On its way.");
//!
//! let price = kindlm_providers::pricing::price("openai", model).unwrap();
//! assert!(price.cost(&reply.usage) > 0.0);
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;

use kindlm_types::{Channel, DeclaredEvidence, Registered, Registry};
use serde_json::Value;

#[cfg(feature = "http")]
mod client;
mod codec;
mod deciding;
mod dialect;
mod form;
pub mod pricing;
mod registry;
pub mod servers;
mod socket;

#[cfg(feature = "http")]
pub use client::{Client, ClientOptions};
pub use codec::Codec;
pub use deciding::{Deciding, runs_scripts, without_free};
#[cfg(feature = "http")]
pub use dialect::scripts::Scripts;
pub use form::FormChoice;
#[cfg(feature = "process")]
pub use kindlm_agents::agent;
pub use kindlm_agents::transcript;
#[cfg(feature = "http")]
pub use kindlm_transport::install_tls;
pub use kindlm_transport::limit::{self, Limits};
pub use kindlm_transport::{
    self as transport, Arrival, AwsAuth, EnvMark, HeaderValue, HttpRequest, HttpResponse, Method,
    StructuredOutput,
};
pub use registry::{Kind, MakeCodec, MakeSocketCodec, Meta, Registration, shorthand};
pub use socket::{Opening, SocketCodec, SocketExchange, Step};

// To add a provider, add its folder, a `mod` line, and a line in the slice below. A server with an API compatible to
// OpenAI's is a row in `servers.rs` instead.

mod anthropic;
mod bedrock;
mod cohere;
pub mod command;
pub mod echo;
mod gemini;
mod google_live;
mod http;
pub mod mcp;
mod mistral;
mod ollama;
mod openai;
mod openai_realtime;
mod openai_responses;
mod replicate;
mod script;
pub mod scripted;
mod vertex;
mod websocket;

/// The providers of this crate with a folder of their own, sorted by id.
pub static REGISTRY: &[&Registration] = &[
    &anthropic::REGISTRATION,
    &bedrock::REGISTRATION,
    &cohere::REGISTRATION,
    &command::REGISTRATION,
    &echo::REGISTRATION,
    &gemini::REGISTRATION,
    &google_live::REGISTRATION,
    &http::REGISTRATION,
    &mcp::REGISTRATION,
    &mistral::REGISTRATION,
    &ollama::REGISTRATION,
    &openai::REGISTRATION,
    &openai_realtime::REGISTRATION,
    &openai_responses::REGISTRATION,
    &replicate::REGISTRATION,
    &script::REGISTRATION,
    &scripted::REGISTRATION,
    &vertex::REGISTRATION,
    &websocket::REGISTRATION,
];

/// The set of providers that a suite may configure.
pub type Providers = Registry<Registration>;

impl Registered for Registration {
    fn id(&self) -> &'static str {
        self.meta.id
    }
}

/// Returns the providers of this crate. [`Registry::with`] adds your own; see `examples/own_provider.rs`.
pub fn built_in() -> Providers {
    Registry::new(&all().collect::<Vec<_>>())
}

/// Returns all providers of this crate: those of [`REGISTRY`], and then the [`servers`].
pub fn all() -> impl Iterator<Item = &'static Registration> + Clone {
    REGISTRY.iter().copied().chain(servers::registrations())
}

/// Returns the provider of this crate with this id; `None` if the id is unknown.
pub fn find(id: &str) -> Option<&'static Registration> {
    all().find(|it| it.meta.id == id)
}

/// The key that names the provider of an entry of `providers`. Without it, the entry's own name names the provider.
pub const TYPE: &str = "type";

/// Returns true if a provider receives the test variables with the prompt. This holds for `script`, for `command` with
/// `input: argument`, for `echo` with `whole`, for `http` with templates, and for `websocket`.
pub fn wants_vars(known: &Providers, name: &str, config: &Value) -> bool {
    let Some((registration, config)) = configured(known, name, config) else { return false };
    match registration.meta.id {
        "script" | "websocket" => true,
        "command" => config.get("input").is_some_and(|it| it == "argument"),
        "echo" => config.get("whole").is_some_and(|it| *it == true),
        "http" => http::wants_vars(&config),
        _ => false,
    }
}

/// Returns the functions that a provider offers with every request, in addition to the tools of the test. Only `openai`
/// and compatible servers have them, as `functions` in their `body`.
pub fn offered(known: &Providers, name: &str, config: &Value) -> Vec<kindlm_types::ToolSpec> {
    let functions = match configured(known, name, config) {
        Some((registration, config)) if speaks_openai(registration.meta.id) => {
            config.pointer("/body/functions").and_then(Value::as_array).cloned()
        }
        _ => None,
    };
    let read = |it: Value| serde_json::from_value(it).ok();
    functions.into_iter().flatten().filter_map(read).collect()
}

fn speaks_openai(id: &str) -> bool {
    id == "openai" || servers::find(id).is_some()
}

/// Returns the evidence that the suite declares complete for a provider. The set is empty if no agent can run behind
/// the provider.
pub fn declared(known: &Providers, name: &str, config: &Value) -> BTreeSet<Channel> {
    let Some((registration, config)) = configured(known, name, config) else {
        return BTreeSet::new();
    };
    let evidence = config.get("evidence").filter(|_| registration.meta.wraps_agent);
    let read = |it: &Value| serde_json::from_value::<DeclaredEvidence>(it.clone()).ok();
    evidence.and_then(read).unwrap_or_default().complete
}

/// Returns true if an agent may run behind a provider; see [`Meta::wraps_agent`].
pub fn wraps_agent(known: &Providers, name: &str, config: &Value) -> bool {
    configured(known, name, config).is_some_and(|(registration, _)| registration.meta.wraps_agent)
}

/// Returns true if a provider of the suite is a model's API. A model calls only the tools that a request offers.
pub fn is_model_api(known: &Providers, name: &str, config: &Value) -> bool {
    configured(known, name, config).is_some_and(|(registration, _)| {
        matches!(registration.kind, Kind::Http(_) | Kind::Socket(_))
            && !registration.meta.wraps_agent
    })
}

/// Returns the test variables in the requests of a provider; empty except for `http` and `websocket`. The problem is
/// reported if no test defines the variable.
pub fn named_vars(
    known: &Providers,
    name: &str,
    config: &Value,
) -> Vec<(String, kindlm_types::Problem)> {
    match configured(known, name, config) {
        Some((registration, config)) if registration.meta.id == "http" => http::named_vars(&config),
        Some((registration, config)) if registration.meta.id == "websocket" => {
            websocket::named_vars(&config)
        }
        _ => Vec::new(),
    }
}

/// Returns the provider of an entry of `providers`, with its configuration. The `type` key names the provider; by
/// default, the entry's own name does. So a suite can have two entries of the same provider. Returns `None` if the
/// provider is unknown.
///
/// ```
/// let config = serde_json::json!({"type": "http", "url": "http://localhost:8080/chat"});
/// let (registration, config) = kindlm_providers::configured(&kindlm_providers::built_in(), "staging", &config).unwrap();
/// assert_eq!(registration.meta.id, "http");
/// assert!(config.get("type").is_none());
/// ```
pub fn configured<'c>(
    known: &Providers,
    name: &str,
    config: &'c Value,
) -> Option<(&'static Registration, Cow<'c, Value>)> {
    let Some(kind) = config.get(TYPE) else {
        return Some((known.find(name)?, Cow::Borrowed(config)));
    };
    let mut config = config.clone();
    if let Some(map) = config.as_object_mut() {
        map.shift_remove(TYPE);
    }
    Some((known.find(kind.as_str()?)?, Cow::Owned(config)))
}
