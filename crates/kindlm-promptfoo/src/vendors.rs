//! Vendors whose APIs have special forms of requests. This module parses their ids, and translates `n8n`, `watsonx`,
//! websockets, `OpenClaw`, and version 1 of Cohere's API.

use kindlm_source::{Key, Node, Span};
use serde_json::{Map, Value, json};

use super::Translator;
use super::build::{entries, map, node, text};
use super::cloudflare;
use super::gateways;
use super::settings::{Found, Settings, or_else, variable_of};

/// A vendor whose API has a special form of request, and its part of the provider id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor<'a> {
    /// A webhook of n8n; empty if the `config` has its address.
    N8n(&'a str),
    /// A model of IBM watsonx.ai.
    WatsonX(&'a str),
    /// An agent of `OpenClaw`, by its Responses API; empty for the default agent.
    OpenClawResponses(&'a str),
    /// A server that is asked over a websocket; empty if the `config` has its address.
    WebSocket(&'a str),
    /// The vendor of a model that makes images, and the name of the model.
    Image(&'static str, &'a str),
    /// A model of Google's Live API.
    GoogleLive(&'a str),
    /// A model of OpenAI's Realtime API.
    Realtime(&'a str),
    /// A model of xAI's voice API.
    XaiVoice(&'a str),
    /// A model of xAI's Responses API.
    XaiResponses(&'a str),
    /// A model of `QuiverAI`, with an optional mode as prefix, such as `vectorize:`.
    QuiverAi(&'a str),
    /// A model of Bedrock that answers with a knowledge base; empty if the `config` has its ARN.
    KnowledgeBase(&'a str),
    /// An agent of Azure AI Foundry.
    FoundryAgent(&'a str),
    /// The name of a moderation model of OpenAI; empty for the default model.
    Moderation(&'a str),
    /// The vendor and the name of a model behind Cloudflare's AI Gateway.
    CloudflareGateway(&'static str, &'a str),
}

const NO_SPEECH: &str =
    "KindLM has no audio: call the API with a provider in a file, `file://speech.js`";
const NO_VIDEOS: &str =
    "KindLM has no checks of videos: ask the API with a provider in a file, `file://video.js`";

/// The providers of promptfoo that KindLM rejects: the beginning of the id, and the advice.
const REFUSED: [(&str, &str); 26] = [
    (
        "adaline:",
        "promptfoo 0.123 has no such provider either: name the vendor itself, such as `openai:chat:gpt-4.1-mini`, with \
         its form of messages and tools",
    ),
    (
        "azure:assistant",
        "Azure's assistants need several requests for an answer: name the model, `azure:chat:DEPLOYMENT` or \
         `azure:responses:DEPLOYMENT`, or write a provider in a file, `file://assistant.js`",
    ),
    (
        "bedrock-agent",
        "an agent of Bedrock answers in a stream of AWS: call `invoke_agent` in a provider in a file, `file://agent.py`",
    ),
    ("bedrock:amazon.nova-sonic", NO_SPEECH),
    ("bedrock:nova-sonic", NO_SPEECH),
    ("bedrock:video", NO_VIDEOS),
    (
        "browser",
        "KindLM opens no browser: call the server behind the page with an `https://` provider",
    ),
    (
        "cheaperinference:",
        "promptfoo 0.123 has no such provider either: write `openai:MODEL` with `config: { apiBaseUrl: …, apiKeyEnvar: … }`",
    ),
    (
        "cloudflare-gateway:",
        "write `cloudflare-gateway:VENDOR:MODEL`; the vendors are openai, anthropic, groq, perplexity-ai, \
         google-ai-studio, mistral, cohere, azure-openai, workers-ai, huggingface, replicate and grok",
    ),
    (
        "edenai:",
        "promptfoo 0.123 has no such provider either: write `openai:MODEL` with `config: { apiBaseUrl: …, apiKeyEnvar: … }`",
    ),
    ("elevenlabs:", NO_SPEECH),
    (
        "google:interactions:",
        "write `google:MODEL`, which has the same functions and tools, or ask the API in a provider in a file, \
         `file://interactions.js`",
    ),
    (
        "helicone-",
        "promptfoo 0.123 has no such provider either: write `id: helicone:openai/gpt-4o-mini`, and the settings below \
         `config`",
    ),
    (
        "github:",
        "GitHub has closed its API of models: name another vendor of the model, such as `openai:gpt-4.1`",
    ),
    ("hyperbolic:audio", NO_SPEECH),
    (
        "hyperbolic:image",
        "ask the API with an `https://` provider, whose `transformResponse` makes the output",
    ),
    (
        "huggingface:",
        "supported tasks are chat, text-generation, text-classification, token-classification, feature-extraction and \
         sentence-similarity",
    ),
    (
        "lambdalabs:",
        "promptfoo 0.123 has no such provider either, and Lambda has closed its API: name another vendor of the model, \
         such as `groq:…` or `togetherai:…`",
    ),
    (
        "openai:agents",
        "the SDK of OpenAI's agents runs in Node.js: write a program that runs the agent, and name it: `exec: node agent.mjs`",
    ),
    (
        "openai:chatkit",
        "KindLM opens no browser: ask the model of the workflow with `openai:responses:MODEL`",
    ),
    ("openai:video", NO_VIDEOS),
    (
        "openclaw:agent",
        "its protocol is a session over a websocket: `openclaw:NAME` asks the same agent over HTTP",
    ),
    (
        "openclaw:tools",
        "a tool of OpenClaw is called by no model: call it with an `https://` provider",
    ),
    ("slack", "KindLM asks no people: give the answers as `providerOutput` of the tests"),
    (
        "xai:embedding",
        "xAI has no public embeddings: name a model of another vendor, such as `openai:embedding:text-embedding-3-large`",
    ),
    ("xai:responses", "write `xai:responses:MODEL`"),
];

/// Returns the advice for a provider that is refused. Returns `None` without specific advice.
pub(super) fn advice(id: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(start, _)| id.starts_with(start)).map(|(_, help)| *help)
}

/// Parses the id of a vendor whose API has a special form of request. Returns `None` for any other id.
pub(super) fn parse_vendor<'a>(prefix: &str, rest: &'a str) -> Option<Vendor<'a>> {
    let (part, model) = rest.split_once(':').unwrap_or((rest, ""));
    match (prefix, part) {
        ("openai", "moderation") => Some(Vendor::Moderation(model)),
        ("openai", "image") if !model.is_empty() => Some(Vendor::Image("openai", model)),
        ("replicate", "image") if !model.is_empty() => Some(Vendor::Image("replicate", model)),
        ("xai", "image") if !model.is_empty() => Some(Vendor::Image("xai", model)),
        ("fal", "image") if !model.is_empty() => Some(Vendor::Image("fal", model)),
        ("google" | "palm", "live") if !model.is_empty() => Some(Vendor::GoogleLive(model)),
        ("openai", "realtime") => Some(Vendor::Realtime(model)),
        ("xai", "voice") => Some(Vendor::XaiVoice(model)),
        ("xai", "responses") if !model.is_empty() => Some(Vendor::XaiResponses(model)),
        ("bedrock", "kb" | "knowledge-base") => Some(Vendor::KnowledgeBase(model)),
        ("azure" | "azureopenai", "foundry-agent") if !model.is_empty() => {
            Some(Vendor::FoundryAgent(model))
        }
        ("cloudflare-gateway", _) if !model.is_empty() => {
            cloudflare::find(part).map(|it| Vendor::CloudflareGateway(it, model))
        }
        ("n8n", _) => Some(Vendor::N8n(rest)),
        ("quiverai", _) if !rest.is_empty() => Some(Vendor::QuiverAi(rest)),
        ("watsonx", it) if it != "chat" && !rest.is_empty() => Some(Vendor::WatsonX(rest)),
        ("openclaw", "responses") => Some(Vendor::OpenClawResponses(agent_of(model))),
        _ => None,
    }
}

/// Returns the id of an agent of `OpenClaw`, which is empty for the default agent.
pub(super) fn agent_of(written: &str) -> &str {
    let agent = written.trim();
    let lower = agent.to_ascii_lowercase();
    if lower == "openclaw/default" {
        return "";
    }
    let prefix = ["openclaw/", "openclaw:", "agent:"].into_iter().find(|it| lower.starts_with(it));
    let rest = prefix.and_then(|it| agent.get(it.len()..)).map(str::trim);
    rest.filter(|it| !it.is_empty()).unwrap_or(agent)
}

/// Returns the name of an agent of `OpenClaw` in requests.
pub(super) fn openclaw_model(agent: &str) -> String {
    if agent.is_empty() { "openclaw".to_owned() } else { format!("openclaw/{agent}") }
}

/// The settings that version 2 of Cohere's API does not have. For a model with one of these settings, KindLM uses
/// version 1.
const COHERE_V1: [&str; 9] = [
    "chatHistory",
    "chat_history",
    "connectors",
    "documents",
    "preamble_override",
    "prompt_truncation",
    "search_queries_only",
    "showDocuments",
    "showSearchQueries",
];

/// True if a model of Cohere has a setting that only version 1 of its API has.
pub(super) fn is_cohere_v1(config: &[(Key, Node)]) -> bool {
    config.iter().any(|(key, _)| COHERE_V1.contains(&&*key.name))
}

impl Translator<'_> {
    /// Translates a vendor's `config`. Returns `None` after an error, which is reported.
    pub(super) fn vendor(
        &mut self,
        span: Span,
        vendor: Vendor<'_>,
        config: &[(Key, Node)],
    ) -> Option<Found> {
        match vendor {
            Vendor::N8n(url) => {
                let settings = self.n8n(span, url, config)?;
                Some(("http", "n8n".to_owned(), "n8n".to_owned(), settings))
            }
            Vendor::WatsonX(model) => {
                let (model, settings) = self.watsonx(span, model, config);
                Some(("http", "watsonx".to_owned(), model, settings))
            }
            Vendor::OpenClawResponses(agent) => {
                let settings = self.openclaw_responses(span, agent, config)?;
                let kind = "openai-responses";
                Some((kind, "openclaw".to_owned(), openclaw_model(agent), settings))
            }
            Vendor::WebSocket(url) => {
                let settings = self.websocket(span, url, config)?;
                Some(("websocket", "websocket".to_owned(), "websocket".to_owned(), settings))
            }
            Vendor::GoogleLive(model) => self.google_live(span, model, config),
            Vendor::Realtime(model) => self.realtime(span, model, config),
            Vendor::XaiVoice(model) => Some(self.xai_voice(span, model, config)),
            Vendor::QuiverAi(model) => Some(self.quiverai(span, model, config)),
            Vendor::XaiResponses(model) => {
                let settings = self.xai_responses(span, model, config)?;
                Some(("openai-responses", "xai".to_owned(), model.to_owned(), settings))
            }
            Vendor::KnowledgeBase(model) => self.knowledge_base(span, model, config),
            Vendor::FoundryAgent(agent) => self.foundry_agent(span, agent, config),
            Vendor::CloudflareGateway(vendor, model) => {
                self.cloudflare_gateway(span, (vendor, model), config)
            }
            Vendor::Image(vendor, model) => {
                let (kind, settings) = self.image_model(span, (vendor, model), config);
                Some((kind, format!("{vendor}-image"), model.to_owned(), settings))
            }
            Vendor::Moderation(model) => {
                let (model, settings) = self.openai_moderation(span, model, config);
                Some(("http", "openai-moderation".to_owned(), model, settings))
            }
        }
    }

    /// Returns the address of the gateway of `OpenClaw`.
    pub(super) fn openclaw_address(&self, own: &[(&str, String)]) -> String {
        let set = own.iter().find(|(it, _)| *it == "gateway_url").map(|(_, it)| it.clone());
        let env = || {
            ["OPENCLAW_GATEWAY_URL", "CLAWDBOT_GATEWAY_URL"]
                .iter()
                .find_map(|it| self.env_value(it))
        };
        let port = || {
            let port = self.env_value("OPENCLAW_GATEWAY_PORT");
            format!("http://127.0.0.1:{}", port.as_deref().unwrap_or("18789"))
        };
        let url = set.or_else(env).unwrap_or_else(port);
        let url = match url.trim().strip_prefix("ws") {
            Some(rest) => format!("http{rest}"),
            None => url.trim().to_owned(),
        };
        format!("{url}/v1")
    }

    /// Adds the headers of `OpenClaw`, and the variable of its secret.
    pub(super) fn openclaw(
        &mut self,
        span: Span,
        agent: &str,
        own: &[(&str, String)],
        settings: &mut Settings,
    ) {
        let set = |name: &str| own.iter().find(|(it, _)| *it == name).map(|(_, it)| it.trim());
        let mut headers = Vec::new();
        let mut header = |name: &str, value: &str| {
            headers.push((name.to_owned(), text(span, value)));
        };
        if !agent.is_empty() {
            header("x-openclaw-agent-id", agent);
        }
        if let Some(key) = set("session_key").filter(|it| !it.is_empty()) {
            let lower = key.to_lowercase();
            let is_whole = lower.starts_with("agent:") || matches!(&*lower, "global" | "unknown");
            let key = if is_whole || agent.is_empty() {
                key.to_owned()
            } else {
                format!("agent:{agent}:{key}")
            };
            header("x-openclaw-session-key", &key);
        }
        let scopes = set("scopes").and_then(|it| serde_json::from_str::<Vec<String>>(it).ok());
        let scopes = scopes.map(|it| it.join(","));
        for (name, value) in [
            ("x-openclaw-model", set("backend_model").or_else(|| set("model_override"))),
            ("x-openclaw-message-channel", set("message_channel")),
            ("x-openclaw-account-id", set("account_id")),
            ("x-openclaw-scopes", scopes.as_deref()),
        ] {
            if let Some(value) = value.filter(|it| !it.is_empty()) {
                header(name, value);
            }
        }
        if !headers.is_empty() {
            settings.provider.push(("headers", entries(span, headers)));
        }
        let written = set("auth_token").or_else(|| set("auth_password"));
        if written.is_some_and(|it| variable_of(it).is_none()) {
            let help = "put it into the environment variable `OPENCLAW_GATEWAY_TOKEN`";
            self.error(span, "a key must not be in a file", Some(help));
        }
        let named = written.and_then(variable_of).map(str::to_owned);
        let known =
            ["OPENCLAW_GATEWAY_TOKEN", "CLAWDBOT_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_PASSWORD"];
        let known = known.into_iter().find(|it| self.env_value(it).is_some());
        let key = match named.as_deref().or(known) {
            Some(variable) => text(span, variable),
            None => node(span, kindlm_source::Kind::Null),
        };
        or_else(&mut settings.provider, "apiKeyEnv", || key);
    }

    /// Translates an agent of `OpenClaw` that is asked by its Responses API.
    fn openclaw_responses(
        &mut self,
        span: Span,
        agent: &str,
        config: &[(Key, Node)],
    ) -> Option<Settings> {
        let server = gateways::find("openclaw")?;
        let (config, own) = self.server_config(span, (server, agent), config)?;
        let mut settings = self.settings("openai-responses", &config);
        settings.add_server(own);
        // promptfoo removes `text`, the format of the answer, from these requests.
        for (_, body) in settings.provider.iter_mut().filter(|(name, _)| *name == "body") {
            let rest = body.entries().iter().filter(|(key, _)| &*key.name != "text");
            let rest: Vec<_> = rest.map(|(key, it)| (key.name.to_string(), it.clone())).collect();
            *body = entries(span, rest);
        }
        Some(settings)
    }

    /// Translates a webhook of n8n. Returns `None` after an error, which is reported.
    fn n8n(&mut self, span: Span, url: &str, config: &[(Key, Node)]) -> Option<Settings> {
        let mut url = (!url.is_empty()).then(|| text(span, &self.with_env(url)));
        let mut headers = vec![("Content-Type".to_owned(), text(span, "application/json"))];
        let mut method = text(span, "POST");
        let mut body = None;
        let mut reading = N8N.to_owned();
        for (key, value) in config {
            match &*key.name {
                "url" => url = Some(self.texts_with_env(value)),
                "method" => {
                    method = text(value.span, &value.text().unwrap_or_default().to_uppercase());
                    if !matches!(method.text(), Some("POST" | "PUT" | "PATCH")) {
                        let help = "use an `https://` provider with `queryParams`";
                        self.unsupported(key.span, "this `method` of `n8n`", Some(help));
                    }
                }
                "headers" => {
                    for (name, value) in self.own_headers(value) {
                        headers.retain(|(it, _)| !it.eq_ignore_ascii_case(&name));
                        headers.push((name, value));
                    }
                }
                "body" => body = Some(self.texts_with_env(value)),
                "transformResponse" => value.text().unwrap_or_default().clone_into(&mut reading),
                "timeout" => {
                    let help = "write `evaluateOptions: { timeoutMs: … }`";
                    self.unsupported(key.span, "`config.timeout` of `n8n`", Some(help));
                }
                name => {
                    let help = "write the session into `body` or `headers`, as `{{sessionId}}`";
                    let what = format!("`config.{name}` of `n8n`");
                    self.unsupported(key.span, &what, Some(help));
                }
            }
        }
        let Some(url) = url else {
            let help = "write it into the id: `n8n:https://example.com/webhook/ID`";
            self.error(span, "the address of the webhook is missing", Some(help));
            return None;
        };
        let body = match &body {
            None => format!("{{\"prompt\": {{{{ prompt | dump }}}}{SESSION}}}"),
            Some(body) if body.text().is_some() => body.text().unwrap_or_default().to_owned(),
            Some(body) => with_session(&exact(&body.to_json())),
        };
        let provider = vec![
            ("url", url),
            ("method", method),
            ("headers", entries(span, headers)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, &reading)),
        ];
        Some(Settings { provider, ..Settings::default() })
    }

    /// Translates a server that is asked over a websocket. Returns `None` after an error, which is reported.
    fn websocket(&mut self, span: Span, url: &str, config: &[(Key, Node)]) -> Option<Settings> {
        let mut provider = Vec::new();
        if !url.is_empty() {
            provider.push(("url", text(span, &self.with_env(url))));
        }
        let mut headers = Vec::new();
        for (key, value) in config {
            match &*key.name {
                "url" => {
                    provider.retain(|(name, _)| *name != "url");
                    provider.push(("url", self.texts_with_env(value)));
                }
                "messageTemplate" => provider.push(("message", self.texts_with_env(value))),
                "transformResponse" | "responseParser" => {
                    or_else(&mut provider, "transformResponse", || value.clone());
                }
                "streamResponse" if value.text().is_some_and(|it| it.starts_with("file://")) => {
                    let help =
                        "write the function itself: `streamResponse: '(accumulator, event) => …'`";
                    self.unsupported(key.span, "a file in `streamResponse`", Some(help));
                }
                "streamResponse" => provider.push(("streamResponse", value.clone())),
                "headers" => headers.extend(self.own_headers(value)),
                "protocols" => {
                    let names = super::build::texts(value).join(", ");
                    headers.push(("Sec-WebSocket-Protocol".to_owned(), text(value.span, &names)));
                }
                "timeoutMs" => {
                    let help = "write `evaluateOptions: { timeoutMs: … }`";
                    self.unsupported(key.span, "`config.timeoutMs` of a websocket", Some(help));
                }
                name => {
                    let message = format!("`config.{name}` has no effect on a websocket");
                    self.warn(key.span, message, Some("promptfoo ignores it too; remove it"));
                }
            }
        }
        // promptfoo ignores `transformResponse` beside `streamResponse`.
        if provider.iter().any(|(name, _)| *name == "streamResponse") {
            provider.retain(|(name, _)| *name != "transformResponse");
        }
        for (key, help) in [
            ("url", "write it as the id: `wss://example.com/chat`"),
            ("message", "add `config: { messageTemplate: '{\"question\": {{ prompt | dump }}}' }`"),
        ] {
            if !provider.iter().any(|(name, _)| *name == key) {
                let written = if key == "message" { "messageTemplate" } else { key };
                self.error(span, format!("the websocket has no `{written}`"), Some(help));
                return None;
            }
        }
        if !headers.is_empty() {
            provider.push(("headers", entries(span, headers)));
        }
        Some(Settings { provider, ..Settings::default() })
    }

    /// Returns the headers of a request. A value that is only `{{env.NAME}}` becomes `env:NAME`.
    pub(super) fn own_headers(&self, headers: &Node) -> Vec<(String, Node)> {
        let header = |(name, value): &(Key, Node)| {
            let alone = value.text().and_then(variable_of).map(|it| format!("env:{it}"));
            let value =
                alone.map_or_else(|| self.texts_with_env(value), |it| text(value.span, &it));
            (name.name.to_string(), value)
        };
        headers.entries().iter().map(header).collect()
    }

    /// Translates a model of watsonx.ai. Returns the name of the model, and the settings.
    fn watsonx(&mut self, span: Span, model: &str, config: &[(Key, Node)]) -> (String, Settings) {
        let mut name = model.split(':').nth(1).filter(|it| !it.is_empty()).unwrap_or(model);
        let mut host = "https://us-south.ml.cloud.ibm.com".to_owned();
        let mut version = "2023-05-29".to_owned();
        let mut project = "{{env.WATSONX_AI_PROJECT_ID}}".to_owned();
        let mut token = "WATSONX_AI_BEARER_TOKEN".to_owned();
        let mut settings = Settings::default();
        let mut parameters = Map::from_iter([("max_new_tokens".to_owned(), json!(100))]);
        for (key, value) in config {
            let said = value.text().map(|it| self.with_env(it)).unwrap_or_default();
            match &*key.name {
                "serviceUrl" => said.trim_end_matches('/').clone_into(&mut host),
                "version" => version = said,
                "projectId" => project = said,
                "projectIdEnvar" => project = format!("{{{{env.{said}}}}}"),
                "apiBearerTokenEnvar" => token = said,
                "apiBearerToken" if variable_of(&said).is_some() => {
                    variable_of(&said).unwrap_or_default().clone_into(&mut token);
                }
                "modelId" => {
                    if let Some(written) = value.text().filter(|_| !model.contains(':')) {
                        name = written;
                    }
                }
                "cost" => settings.price = super::settings::price(value),
                "apiKey" | "apiKeyEnvar" | "apiBearerToken" => {
                    let help = "remove it, and put an access token into `WATSONX_AI_BEARER_TOKEN`; `ibmcloud iam \
                        oauth-tokens` prints one";
                    let what = format!("`config.{}` of `watsonx`", key.name);
                    self.unsupported(key.span, &what, Some(help));
                }
                written => {
                    if let Some((_, name)) = WATSONX.iter().find(|(it, _)| *it == written) {
                        if let Some(value) = self.without_templates(key, value) {
                            parameters.insert((*name).to_owned(), snake(&value.to_json()));
                        }
                    } else {
                        let message = format!("`config.{written}` has no effect on `watsonx`");
                        self.warn(key.span, message, Some("promptfoo ignores it too; remove it"));
                    }
                }
            }
        }
        let body = format!(
            "{{\"input\": {{{{ prompt | dump }}}}, \"model_id\": {}, \"project_id\": \"{project}\", \"parameters\": {}}}",
            Value::from(name),
            Value::Object(parameters)
        );
        let url = format!("{host}/ml/v1/text/generation?version={version}");
        let counts = [
            ("inputTokens", text(span, "results.0.input_token_count")),
            ("outputTokens", text(span, "results.0.generated_token_count")),
        ];
        settings.provider = vec![
            ("url", text(span, &url)),
            ("apiKeyEnv", text(span, &token)),
            ("headers", json_header(span)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("responsePath", text(span, "results.0.generated_text")),
            ("usagePaths", map(span, counts)),
            ("modelIdPath", text(span, "model_id")),
        ];
        (name.to_owned(), settings)
    }

    /// Translates a model of Cohere with settings that only version 1 of its API has.
    pub(super) fn cohere_v1(
        &mut self,
        span: Span,
        model: &str,
        config: &[(Key, Node)],
    ) -> Settings {
        let mut settings = Settings::default();
        let mut body = json!({
            "chatHistory": [], "connectors": [], "prompt_truncation": "OFF", "search_queries_only": false,
            "documents": [], "temperature": 0.3, "k": 0, "p": 0.75, "frequency_penalty": 0, "presence_penalty": 0,
        });
        let mut shown = String::new();
        for (key, value) in config {
            match &*key.name {
                "apiKey" => self.key_of(key, value, &mut settings),
                "apiKeyEnvar" => settings.provider.push(("apiKeyEnv", value.clone())),
                "cost" => settings.price = super::settings::price(value),
                name @ ("showSearchQueries" | "showDocuments") => {
                    if value.to_json() == Value::Bool(true) {
                        shown.push_str(if name == "showDocuments" { DOCUMENTS } else { QUERIES });
                    }
                    body[name] = value.to_json();
                }
                name => {
                    if let Some(value) = self.without_templates(key, value) {
                        body[name] = value.to_json();
                    }
                }
            }
        }
        body["model"] = json!(model);
        let rest = body.to_string();
        let body = format!(
            "{{\"message\": {{{{ prompt | dump }}}}, {}",
            rest.strip_prefix('{').unwrap_or(&rest)
        );
        let reading = format!(
            "json.message ? {{ error: json.message }} : {{ output: json.text{shown}, tokenUsage: {{ total: \
             json.token_count?.total_tokens, prompt: json.token_count?.prompt_tokens, completion: \
             json.token_count?.response_tokens }} }}"
        );
        or_else(&mut settings.provider, "apiKeyEnv", || text(span, "COHERE_API_KEY"));
        settings.provider.extend([
            ("url", text(span, "https://api.cohere.com/v1/chat")),
            ("headers", json_header(span)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, &reading)),
        ]);
        settings
    }
}

/// Returns the header for a JSON body that is written as a text.
pub(super) fn json_header(span: Span) -> Node {
    map(span, [("Content-Type", text(span, "application/json"))])
}

/// The part of a request to n8n with the session id of a test; empty without a session id.
const SESSION: &str =
    "{% if sessionId is defined and sessionId %}, \"sessionId\": {{ sessionId | dump }}{% endif %}";

/// Adds the session id of a test to a JSON object without `sessionId`.
fn with_session(body: &str) -> String {
    match body.strip_suffix('}') {
        Some(rest) if !body.contains("\"sessionId\"") => {
            let comma = if rest.trim() == "{" { "" } else { ", " };
            format!("{rest}{}}}", SESSION.replacen(", ", comma, 1))
        }
        _ => body.to_owned(),
    }
}

/// Writes a value as a template of JSON. The template renders each text, and the result stays a text.
///
/// Without this, a body that is an object would insert rendered JSON as a value, not as a text.
pub(super) fn exact(value: &Value) -> String {
    match value {
        Value::String(written) if kindlm_template::is_template(written) => {
            format!("{{% set made %}}{written}{{% endset %}}{{{{ made | dump }}}}")
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(exact).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(pairs) => {
            let pairs = pairs.iter().map(|(key, it)| format!("{}: {}", json!(key), exact(it)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The parameters of watsonx.ai, by promptfoo's name.
const WATSONX: [(&str, &str); 12] = [
    ("decodingMethod", "decoding_method"),
    ("includeStopSequence", "include_stop_sequence"),
    ("lengthPenalty", "length_penalty"),
    ("maxNewTokens", "max_new_tokens"),
    ("minNewTokens", "min_new_tokens"),
    ("randomSeed", "random_seed"),
    ("repetitionPenalty", "repetition_penalty"),
    ("stopSequences", "stop_sequences"),
    ("temperature", "temperature"),
    ("timeLimit", "time_limit"),
    ("topK", "top_k"),
    ("topP", "top_p"),
];

/// Renames the keys of `lengthPenalty` to the API's names, such as `decay_factor`.
fn snake(value: &Value) -> Value {
    let Value::Object(pairs) = value else { return value.clone() };
    let renamed = pairs.iter().map(|(key, it)| {
        let key = match key.as_str() {
            "decayFactor" => "decay_factor",
            "startIndex" => "start_index",
            other => other,
        };
        (key.to_owned(), it.clone())
    });
    Value::Object(renamed.collect())
}

/// The lines that promptfoo adds to the text of an answer of Cohere.
const QUERIES: &str = " + (json.search_queries ? '\\n\\nSearch Queries:\\n' + json.search_queries.map(it => \
     it.text).join('\\n') : '')";
const DOCUMENTS: &str = " + (json.documents ? '\\n\\nDocuments:\\n' + json.documents.map(it => \
     JSON.stringify(it)).join('\\n') : '')";

/// The script that reads an answer of n8n: its error, its text, and the calls of tools.
const N8N: &str = r#"(function () {
  const error = it => Array.isArray(it) ? it.map(error).find(e => e !== undefined)
    : !it || typeof it !== "object" ? undefined : it.error ? it.error : error(it.json);
  const first = it => Array.isArray(it) && it.length > 0 ? it[0] : undefined;
  const output = it => {
    if (!it) return "";
    if (typeof it === "string") return it;
    const item = first(it);
    const found = [it.output, it.response];
    if (item) found.push(item.output, item.response, item.text, item.message, item.json === undefined ? undefined : output(item.json));
    found.push(it.json === undefined ? undefined : output(it.json), it.message?.content, it.text, it.content, it);
    return found.find(value => value !== undefined);
  };
  const calls = it => {
    if (!it || typeof it !== "object") return undefined;
    const item = first(it);
    const list = [it.tool_calls, it.response?.tool_calls].find(Array.isArray);
    if (list) return list;
    if (Array.isArray(it.actions)) {
      return it.actions.map(a => ({ name: a.tool || a.name || a.action, arguments: a.input || a.arguments || a.params }));
    }
    return item?.tool_calls ?? calls(item?.json) ?? calls(it.json);
  };
  const data = json ?? text;
  const why = error(data);
  if (why !== undefined) {
    return { error: "n8n webhook response error: " + (typeof why === "string" ? why : JSON.stringify(why)) };
  }
  const toolCalls = calls(data);
  const answer = { output: output(data), raw: data };
  if (toolCalls && toolCalls.length > 0) answer.metadata = { toolCalls };
  return answer;
})()"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_named_as_in_promptfoo() {
        for (written, expected) in [
            ("", "openclaw"),
            ("openclaw/default", "openclaw"),
            ("main", "openclaw/main"),
            ("openclaw/main", "openclaw/main"),
            ("agent:main", "openclaw/main"),
            ("openclaw:default", "openclaw/default"),
        ] {
            assert_eq!(openclaw_model(agent_of(written)), expected, "{written}");
        }
    }

    #[test]
    fn the_session_is_added_to_an_empty_object_too() {
        let key = "\"sessionId\": {{ sessionId | dump }}{% endif %}}";
        assert!(with_session("{}").ends_with(&format!("%}}{key}")));
        assert!(with_session("{\"a\": 1}").ends_with(&format!("%}}, {key}")));
    }

    #[test]
    fn templates_of_exact_json_stay_texts() {
        for (value, expected) in [
            (json!({"a": 1, "b": ["x"]}), r#"{"a": 1, "b": ["x"]}"#),
            (
                json!({"a": "{{prompt}}!"}),
                r#"{"a": {% set made %}{{prompt}}!{% endset %}{{ made | dump }}}"#,
            ),
        ] {
            assert_eq!(exact(&value), expected);
        }
    }

    #[test]
    fn refused_providers_have_advice() {
        for id in [
            "adaline:openai:chat:gpt-5",
            "azure:assistant:a",
            "bedrock-agent:A",
            "bedrock:video:luma.ray",
            "cheaperinference:m",
            "cloudflare-gateway:bedrock:m",
            "edenai:openai/m",
            "elevenlabs:stt:basic",
            "github:m",
            "google:interactions:m",
            "hyperbolic:audio:m",
            "openai:agents:a",
            "openai:chatkit:w",
            "openai:video:sora",
            "xai:embedding:v1",
        ] {
            assert!(advice(id).is_some(), "{id}");
        }
        assert_eq!(advice("openai:image:x"), None);
    }
}
