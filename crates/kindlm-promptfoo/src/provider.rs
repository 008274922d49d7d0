//! Provider ids of promptfoo.

use super::agents::AgentProvider;
use super::gateways::{self, Server};
use super::vendors::{self, Vendor};

/// The meaning of a provider id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Provider<'a> {
    /// A built-in provider, and the name of the model in the provider's API.
    Known { kind: &'static str, model: &'a str },
    /// A built-in provider, and the name of an embedding model.
    Embedding { kind: &'static str, model: &'a str },
    /// A server with an API compatible to OpenAI's.
    Compatible { server: Server, model: &'a str },
    /// An embedding model of a server with an API compatible to OpenAI's.
    CompatibleEmbedding { server: Server, model: &'a str },
    /// A deployment at Azure, and the provider of its API.
    Azure { kind: &'static str, deployment: &'a str },
    /// A server of llama.cpp.
    Llama,
    /// An endpoint of Amazon `SageMaker`, and the kind of its model.
    SageMaker { kind: &'a str, endpoint: &'a str },
    /// An endpoint of Amazon `SageMaker` for embeddings.
    SageMakerEmbedding(&'a str),
    /// A task of Hugging Face's inference API.
    HuggingFace { task: &'static str, model: &'a str },
    /// An agent, and the name of its model, which may be empty.
    Agent { kind: AgentProvider, model: &'a str },
    /// A model of Imagen, which makes images.
    Imagen(&'a str),
    /// The URL of an HTTP request; only its scheme if the `config` has the URL.
    Http(&'a str),
    /// A command line to run.
    Exec(&'a str),
    /// A program in JavaScript, TypeScript, Python or Ruby, with its function to call.
    Script { runtime: Runtime, path: &'a str, function: Option<&'a str> },
    /// A file in Go, which promptfoo compiles.
    Go(&'a str),
    /// A vendor whose API has a special form of request.
    Vendor(Vendor<'a>),
    /// An unsupported id, as a description for error messages.
    Unknown(String),
}

/// The language of a provider that is a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    JavaScript,
    Python,
    Ruby,
}

/// Kinds of endpoints other than chats, in the ids of compatible servers.
const NO_CHAT: [&str; 16] = [
    "audio",
    "completion",
    "completions",
    "embedding",
    "embeddings",
    "image",
    "moderation",
    "realtime",
    "rerank",
    "responses",
    "speech",
    "stt",
    "transcription",
    "tts",
    "video",
    "voice",
];

/// The tasks of Hugging Face's inference API.
const TASKS: [&str; 5] = [
    "text-generation",
    "text-classification",
    "token-classification",
    "feature-extraction",
    "sentence-similarity",
];

impl Provider<'_> {
    /// True for a model that makes embeddings, and no texts.
    pub(super) fn is_embedding(&self) -> bool {
        matches!(
            self,
            Self::Embedding { .. }
                | Self::CompatibleEmbedding { .. }
                | Self::SageMakerEmbedding(_)
                | Self::Azure { kind: AZURE_EMBEDDING, .. }
                | Self::HuggingFace { task: "feature-extraction" | "sentence-similarity", .. }
        )
    }
}

/// Parses a provider id. Returns [`Provider::Unknown`] for an unsupported id.
pub(super) fn parse_provider_id(id: &str) -> Provider<'_> {
    if id.starts_with("http://") || id.starts_with("https://") {
        return Provider::Http(id);
    }
    if id.starts_with("ws://") || id.starts_with("wss://") {
        return Provider::Vendor(Vendor::WebSocket(id));
    }
    if matches!(id, "ws" | "wss" | "websocket") {
        return Provider::Vendor(Vendor::WebSocket(""));
    }
    if let Some(path) = id.strip_prefix("file://") {
        return script(path);
    }
    // promptfoo treats an id with a JavaScript or TypeScript extension as the path of a script, even without `file://`.
    let is_file = !id.contains(':') && !matches!(super::files::extension(id).as_str(), "py" | "rb");
    if is_file && super::files::is_script(&super::files::extension(id)) {
        return script(id);
    }
    let (prefix, rest) = id.split_once(':').unwrap_or((id, ""));
    if let Some(vendor) = vendors::parse_vendor(prefix, rest) {
        return Provider::Vendor(vendor);
    }
    model_of_vendor(id, prefix, rest)
}

/// Parses the id of a model, of an agent, or of a program.
fn model_of_vendor<'a>(id: &'a str, prefix: &'a str, rest: &'a str) -> Provider<'a> {
    let known = |kind, model| Provider::Known { kind, model };
    let (part, model) = rest.split_once(':').unwrap_or((rest, ""));
    match (prefix, part) {
        ("echo", _) => known("echo", "echo"),
        ("golang", _) if !rest.is_empty() => Provider::Go(super::programs::split(rest).0),
        ("http" | "https", _) if rest.is_empty() => Provider::Http(prefix),
        ("exec", _) if !rest.is_empty() => Provider::Exec(rest.trim()),
        ("python", _) if !rest.is_empty() => script_of(Runtime::Python, rest),
        ("openai", "chat") if !model.is_empty() => known("openai", model),
        ("openai", "responses") if !model.is_empty() => known("openai-responses", model),
        ("google" | "palm" | "gemini", "embedding" | "embeddings") if !model.is_empty() => {
            Provider::Embedding { kind: "gemini", model }
        }
        (
            "openai" | "mistral" | "cohere" | "ollama" | "bedrock" | "vertex",
            "embedding" | "embeddings",
        ) if !model.is_empty() => {
            let kinds = ["openai", "mistral", "cohere", "ollama", "bedrock", "vertex"];
            let kind = kinds.into_iter().find(|it| *it == prefix).unwrap_or("openai");
            Provider::Embedding { kind, model }
        }
        ("openai", "codex-sdk" | "codex") => Provider::Agent { kind: AgentProvider::Codex, model },
        ("openai", "codex-app-server" | "codex-desktop") => {
            Provider::Agent { kind: AgentProvider::CodexServer, model }
        }
        ("anthropic", "claude-agent-sdk" | "claude-code") => {
            Provider::Agent { kind: AgentProvider::Claude, model: "" }
        }
        (
            "openai",
            "completion" | "embedding" | "embeddings" | "responses" | "assistant" | "image"
            | "moderation" | "agents" | "chat" | "video" | "transcription" | "chatkit" | "speech"
            | "tts",
        ) => Provider::Unknown(format!("`openai:{part}`")),
        ("openai", _) if !rest.is_empty() => known("openai", rest),
        ("anthropic", "messages") if !model.is_empty() => known("anthropic", model),
        ("anthropic", "completion" | "messages") => {
            Provider::Unknown(format!("`anthropic:{part}`"))
        }
        ("anthropic", _) if !rest.is_empty() => known("anthropic", rest),
        ("ollama", "chat") if !model.is_empty() => known("ollama", model),
        ("ollama", "completion" | "embeddings" | "embedding") => {
            Provider::Unknown(format!("`ollama:{part}`"))
        }
        ("ollama", _) if !rest.is_empty() => known("ollama", rest),
        ("mistral", _) if !rest.is_empty() => known("mistral", rest),
        ("cohere", _) if !rest.is_empty() => known("cohere", rest),
        ("google" | "palm", "image") if !model.is_empty() => Provider::Imagen(model),
        ("google" | "palm" | "gemini", _) if !rest.is_empty() && model.is_empty() => {
            known("gemini", rest)
        }
        ("azure" | "azureopenai", "chat") if !model.is_empty() => {
            Provider::Azure { kind: "openai", deployment: model }
        }
        ("azure" | "azureopenai", "responses") if !model.is_empty() => {
            Provider::Azure { kind: "openai-responses", deployment: model }
        }
        ("azure" | "azureopenai", "embedding" | "embeddings") if !model.is_empty() => {
            Provider::Azure { kind: AZURE_EMBEDDING, deployment: model }
        }
        ("bedrock", _) if !rest.is_empty() => bedrock(rest),
        _ => hosted(id, prefix, rest),
    }
}

/// Parses the id of a model at a cloud vendor, or of a server.
fn hosted<'a>(id: &'a str, prefix: &str, rest: &'a str) -> Provider<'a> {
    let known = |kind, model| Provider::Known { kind, model };
    let (part, model) = rest.split_once(':').unwrap_or((rest, ""));
    match (prefix, part) {
        ("vertex", "chat") if !model.is_empty() => known("vertex", model),
        ("vertex", "live" | "video") => Provider::Unknown(format!("`vertex:{part}`")),
        ("vertex", _) if !rest.is_empty() => known("vertex", rest),
        // Llama Guard is a language model, which the check `moderation` asks.
        ("replicate", "moderation") if !model.is_empty() => known("replicate", model),
        ("replicate", _) if !rest.is_empty() => known("replicate", rest),
        ("sagemaker", "embedding" | "embeddings") if !model.is_empty() => {
            Provider::SageMakerEmbedding(model)
        }
        ("sagemaker", _) if !model.is_empty() => {
            let kind = if model.contains("jumpstart") { "jumpstart" } else { part };
            Provider::SageMaker { kind, endpoint: model }
        }
        ("sagemaker", _) if !rest.is_empty() => Provider::SageMaker { kind: "", endpoint: rest },
        ("llama", _) => Provider::Llama,
        ("huggingface" | "hf", _) if !model.is_empty() && part != "chat" => {
            match TASKS.iter().find(|it| **it == part) {
                Some(task) => Provider::HuggingFace { task, model },
                None => Provider::Unknown(format!("`huggingface:{part}`")),
            }
        }
        ("huggingface" | "hf", _) if part != "chat" => {
            Provider::Unknown(format!("`huggingface:{part}`"))
        }
        ("openclaw", "agent" | "tools") => Provider::Unknown(format!("`openclaw:{part}`")),
        ("openclaw", _) if part != "responses" => openclaw(id, rest),
        _ => compatible(id, prefix, rest),
    }
}

/// Parses the id of an agent of `OpenClaw`, without its prefix. Its gateway has the API of OpenAI.
fn openclaw<'a>(id: &str, rest: &'a str) -> Provider<'a> {
    let (part, agent) = rest.split_once(':').unwrap_or((rest, ""));
    match gateways::find("openclaw") {
        Some(server) if matches!(part, "embedding" | "embeddings") => {
            Provider::CompatibleEmbedding { server, model: vendors::agent_of(agent) }
        }
        Some(server) => Provider::Compatible { server, model: vendors::agent_of(rest) },
        None => Provider::Unknown(format!("the provider `{id}`")),
    }
}

/// The kind of an embedding model at Azure.
pub(super) const AZURE_EMBEDDING: &str = "azure-embedding";

/// Parses the id of a server with an API compatible to OpenAI's.
fn compatible<'a>(id: &'a str, prefix: &str, rest: &'a str) -> Provider<'a> {
    let (part, model) = rest.split_once(':').unwrap_or((rest, ""));
    match gateways::find(prefix) {
        Some(_) if prefix == "xai" && matches!(part, "embedding" | "embeddings" | "responses") => {
            Provider::Unknown(format!("`{prefix}:{part}`"))
        }
        Some(server) if !model.is_empty() && matches!(part, "embedding" | "embeddings") => {
            Provider::CompatibleEmbedding { server, model }
        }
        Some(_) if !model.is_empty() && NO_CHAT.contains(&part) => {
            Provider::Unknown(format!("`{prefix}:{part}`"))
        }
        Some(server) if !rest.is_empty() => {
            // Some ids also contain the kind of endpoint, such as `chat:`.
            let model = rest.strip_prefix("chat:").unwrap_or(rest);
            Provider::Compatible { server, model }
        }
        _ => Provider::Unknown(format!("the provider `{id}`")),
    }
}

/// Parses an id of Amazon Bedrock, without its prefix. KindLM uses the Converse API in place of every other text API.
fn bedrock(rest: &str) -> Provider<'_> {
    const OTHERS: [&str; 8] =
        ["agents", "api", "image", "mantle", "messages", "nova-sonic", "responses", "video"];
    // Models that make speech and videos.
    const MEDIA: [&str; 3] = ["amazon.nova-sonic", "amazon.nova-reel", "luma.ray"];
    let (part, model) = rest.split_once(':').unwrap_or((rest, ""));
    if OTHERS.contains(&part) || MEDIA.iter().any(|it| rest.contains(it)) {
        return Provider::Unknown(format!("`bedrock:{part}`"));
    }
    let is_api = matches!(part, "converse" | "completion") && !model.is_empty();
    Provider::Known { kind: "bedrock", model: if is_api { model } else { rest } }
}

fn script(path: &str) -> Provider<'_> {
    let extension = super::files::extension(path);
    match extension.as_str() {
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => script_of(Runtime::JavaScript, path),
        "py" => script_of(Runtime::Python, path),
        "rb" => script_of(Runtime::Ruby, path),
        "go" => Provider::Go(super::programs::split(path).0),
        _ => Provider::Unknown(format!("a provider in a `.{extension}` file")),
    }
}

fn script_of(runtime: Runtime, path: &str) -> Provider<'_> {
    let (path, function) = super::programs::split(path);
    Provider::Script { runtime, path, function }
}

/// Returns the advice for an id that is not supported; `None` for ids without special advice.
pub(super) fn advice(id: &str) -> Option<&'static str> {
    let (vendor, rest) = id.split_once(':').unwrap_or((id, ""));
    if vendor == "opencode" {
        return Some(
            "run it in a test of a `kindlm.yaml`: `command: opencode run --model anthropic/claude-sonnet-4-6 '…'`",
        );
    }
    if !matches!(vendor, "google" | "vertex" | "palm" | "gemini") {
        return None;
    }
    match rest.split(':').next() {
        Some("live") => Some(
            "KindLM reaches the Live API with a key of Google AI Studio: write `google:live:MODEL`",
        ),
        Some("video") => {
            Some("KindLM has no checks of videos: write a `file://` provider that asks the API")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ids() {
        let known = |kind, model| Provider::Known { kind, model };
        let node =
            |path, function| Provider::Script { runtime: Runtime::JavaScript, path, function };
        for (id, expected) in [
            ("echo", known("echo", "echo")),
            ("openai:gpt-4o", known("openai", "gpt-4o")),
            ("openai:chat:ft:gpt-4o:mine", known("openai", "ft:gpt-4o:mine")),
            ("openai:responses:gpt-5", known("openai-responses", "gpt-5")),
            ("openai:responses", Provider::Unknown("`openai:responses`".to_owned())),
            ("anthropic:messages:claude-sonnet-4-5", known("anthropic", "claude-sonnet-4-5")),
            ("ollama:chat:llama3.2:1b", known("ollama", "llama3.2:1b")),
            (
                "openai:embedding:text-embedding-3-small",
                Provider::Embedding { kind: "openai", model: "text-embedding-3-small" },
            ),
            (
                "ollama:embeddings:nomic:latest",
                Provider::Embedding { kind: "ollama", model: "nomic:latest" },
            ),
            (
                "openai:codex-sdk:gpt-5.4",
                Provider::Agent { kind: AgentProvider::Codex, model: "gpt-5.4" },
            ),
            (
                "anthropic:claude-agent-sdk",
                Provider::Agent { kind: AgentProvider::Claude, model: "" },
            ),
            ("openai:embeddings", Provider::Unknown("`openai:embeddings`".to_owned())),
            ("google:gemini-2.5-flash", known("gemini", "gemini-2.5-flash")),
            ("https://a.example/x", Provider::Http("https://a.example/x")),
            ("http", Provider::Http("http")),
            ("exec: ./run.sh -q", Provider::Exec("./run.sh -q")),
            ("file://p/a.mjs", node("p/a.mjs", None)),
            ("file://a.ts:callIt", node("a.ts", Some("callIt"))),
            ("azure:chat:mine", Provider::Azure { kind: "openai", deployment: "mine" }),
            ("azure:assistant:a", Provider::Unknown("the provider `azure:assistant:a`".to_owned())),
            (
                "bedrock:meta.llama3-1-8b-instruct-v1:0",
                known("bedrock", "meta.llama3-1-8b-instruct-v1:0"),
            ),
            ("bedrock:converse:amazon.nova-lite-v1:0", known("bedrock", "amazon.nova-lite-v1:0")),
            ("bedrock:kb:x", Provider::Vendor(Vendor::KnowledgeBase("x"))),
            ("bedrock:video:x", Provider::Unknown("`bedrock:video`".to_owned())),
            ("vertex:chat:gemini-2.5-pro", known("vertex", "gemini-2.5-pro")),
            ("replicate:a/b:1f", known("replicate", "a/b:1f")),
            ("replicate:image:a/b", Provider::Vendor(Vendor::Image("replicate", "a/b"))),
            ("sagemaker:llama:e", Provider::SageMaker { kind: "llama", endpoint: "e" }),
            ("sagemaker:e", Provider::SageMaker { kind: "", endpoint: "e" }),
            ("sagemaker:embedding:e", Provider::SageMakerEmbedding("e")),
            (
                "huggingface:text-generation:g",
                Provider::HuggingFace { task: "text-generation", model: "g" },
            ),
            ("huggingface:fill-mask:g", Provider::Unknown("`huggingface:fill-mask`".to_owned())),
            ("google:image:imagen-4.0-generate-001", Provider::Imagen("imagen-4.0-generate-001")),
            ("google:embedding:e", Provider::Embedding { kind: "gemini", model: "e" }),
            ("n8n:https://a.example/b", Provider::Vendor(Vendor::N8n("https://a.example/b"))),
            ("watsonx:ibm/granite", Provider::Vendor(Vendor::WatsonX("ibm/granite"))),
            ("openclaw:responses", Provider::Vendor(Vendor::OpenClawResponses(""))),
            ("openclaw:agent:x", Provider::Unknown("`openclaw:agent`".to_owned())),
            (
                "openclaw:agent-x",
                Provider::Compatible {
                    server: gateways::find("openclaw").unwrap(),
                    model: "agent-x",
                },
            ),
            ("./a.js", node("./a.js", None)),
            ("golang:p.go", Provider::Go("p.go")),
            ("file://p/main.go:CallApi", Provider::Go("p/main.go")),
            ("a.py", Provider::Unknown("the provider `a.py`".to_owned())),
            ("xai:image:grok-2-image", Provider::Vendor(Vendor::Image("xai", "grok-2-image"))),
            ("browser", Provider::Unknown("the provider `browser`".to_owned())),
        ] {
            assert_eq!(parse_provider_id(id), expected, "{id}");
        }
    }

    #[test]
    fn reads_ids_of_vendors() {
        let vendor = Provider::Vendor;
        let unknown = "the provider `cloudflare-gateway:bedrock:m`".to_owned();
        for (id, expected) in [
            ("cloudflare-gateway:groq:m", vendor(Vendor::CloudflareGateway("groq", "m"))),
            (
                "cloudflare-gateway:workers-ai:@cf/a:b",
                vendor(Vendor::CloudflareGateway("workers-ai", "@cf/a:b")),
            ),
            ("cloudflare-gateway:bedrock:m", Provider::Unknown(unknown)),
            ("fal:image:fal-ai/flux/dev", vendor(Vendor::Image("fal", "fal-ai/flux/dev"))),
            ("quiverai:vectorize:m", vendor(Vendor::QuiverAi("vectorize:m"))),
            ("xai:responses:grok-4.3", vendor(Vendor::XaiResponses("grok-4.3"))),
        ] {
            assert_eq!(parse_provider_id(id), expected, "{id}");
        }
    }

    #[test]
    fn reads_ids_of_websockets() {
        for (id, expected) in [
            ("google:live:m", Provider::Vendor(Vendor::GoogleLive("m"))),
            ("vertex:live:m", Provider::Unknown("`vertex:live`".to_owned())),
            ("openai:realtime:m", Provider::Vendor(Vendor::Realtime("m"))),
            ("xai:voice:m", Provider::Vendor(Vendor::XaiVoice("m"))),
            ("wss://a.example/b", Provider::Vendor(Vendor::WebSocket("wss://a.example/b"))),
            ("websocket", Provider::Vendor(Vendor::WebSocket(""))),
        ] {
            assert_eq!(parse_provider_id(id), expected, "{id}");
        }
    }
}
