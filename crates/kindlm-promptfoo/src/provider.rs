//! Provider ids of promptfoo.

/// The meaning of a provider id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Provider<'a> {
    /// A built-in provider, and the vendor's name of the model.
    Known { kind: &'static str, model: &'a str },
    /// A built-in provider, and the name of an embedding model.
    Embedding { kind: &'static str, model: &'a str },
    /// A server with an API compatible to OpenAI's.
    Compatible { name: &'static str, base_url: &'static str, key: &'static str, model: &'a str },
    /// A deployment at Azure.
    Azure { deployment: &'a str },
    /// The URL of an HTTP request; empty if the `config` has it.
    Http(&'a str),
    /// A command line to run.
    Exec(&'a str),
    /// A program in JavaScript, TypeScript or Python, with its function to call.
    Script { runtime: Runtime, path: &'a str, function: Option<&'a str> },
    /// An unsupported id, as a description for error messages.
    Unknown(String),
}

/// The language of a provider that is a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    JavaScript,
    Python,
}

/// Servers with an API compatible to OpenAI's.
///
/// The columns are the prefix in promptfoo, the base URL, and the environment variable of the API key.
const COMPATIBLE: [(&str, &str, &str); 12] = [
    ("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    ("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    ("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    ("togetherai", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    ("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    ("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    ("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    ("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    ("github", "https://models.github.ai/inference", "GITHUB_TOKEN"),
    ("hyperbolic", "https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY"),
    ("litellm", "http://0.0.0.0:4000", "LITELLM_API_KEY"),
    ("vllm", "http://localhost:8000/v1", "VLLM_API_KEY"),
];

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

/// Parses a provider id.
pub(super) fn read(id: &str) -> Provider<'_> {
    if id.starts_with("http://") || id.starts_with("https://") {
        return Provider::Http(id);
    }
    if let Some(path) = id.strip_prefix("file://") {
        return script(path);
    }
    let (prefix, rest) = id.split_once(':').unwrap_or((id, ""));
    let known = |kind, model| Provider::Known { kind, model };
    let (part, model) = rest.split_once(':').unwrap_or((rest, ""));
    match (prefix, part) {
        ("echo", _) => known("echo", "echo"),
        ("http" | "https", _) if rest.is_empty() => Provider::Http(""),
        ("exec", _) if !rest.is_empty() => Provider::Exec(rest.trim()),
        ("python", _) if !rest.is_empty() => script_of(Runtime::Python, rest),
        ("openai", "chat") if !model.is_empty() => known("openai", model),
        ("openai", "responses") if !model.is_empty() => known("openai-responses", model),
        ("openai" | "mistral" | "cohere" | "ollama", "embedding" | "embeddings")
            if !model.is_empty() =>
        {
            let kinds = ["openai", "mistral", "cohere", "ollama"];
            let kind = kinds.into_iter().find(|it| *it == prefix).unwrap_or("openai");
            Provider::Embedding { kind, model }
        }
        (
            "openai",
            "completion" | "embedding" | "embeddings" | "responses" | "assistant" | "image"
            | "moderation" | "realtime" | "agents" | "codex" | "chat" | "video" | "transcription",
        ) => Provider::Unknown(format!("`openai:{part}`")),
        ("openai", _) if !rest.is_empty() => known("openai", rest),
        ("anthropic", "messages") if !model.is_empty() => known("anthropic", model),
        ("anthropic", "completion" | "claude-agent-sdk" | "messages") => {
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
        ("google" | "gemini", _) if !rest.is_empty() && model.is_empty() => known("gemini", rest),
        ("azure" | "azureopenai", "chat") if !model.is_empty() => {
            Provider::Azure { deployment: model }
        }
        _ => match COMPATIBLE.iter().find(|(name, ..)| *name == prefix) {
            Some(_) if !model.is_empty() && NO_CHAT.contains(&part) => {
                Provider::Unknown(format!("`{prefix}:{part}`"))
            }
            Some(&(name, base_url, key)) if !rest.is_empty() => {
                // Some ids also contain the kind of endpoint, such as `chat:`.
                let model = rest.strip_prefix("chat:").unwrap_or(rest);
                Provider::Compatible { name, base_url, key, model }
            }
            _ => Provider::Unknown(format!("the provider `{id}`")),
        },
    }
}

fn script(path: &str) -> Provider<'_> {
    let extension = super::files::extension(path);
    match extension.as_str() {
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => script_of(Runtime::JavaScript, path),
        "py" => script_of(Runtime::Python, path),
        _ => Provider::Unknown(format!("a provider in a `.{extension}` file")),
    }
}

fn script_of(runtime: Runtime, path: &str) -> Provider<'_> {
    let (path, function) = super::programs::split(path);
    Provider::Script { runtime, path, function }
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
            ("openai:embeddings", Provider::Unknown("`openai:embeddings`".to_owned())),
            ("google:gemini-2.5-flash", known("gemini", "gemini-2.5-flash")),
            ("https://a.example/x", Provider::Http("https://a.example/x")),
            ("http", Provider::Http("")),
            ("exec: ./run.sh -q", Provider::Exec("./run.sh -q")),
            ("file://p/a.mjs", node("p/a.mjs", None)),
            ("file://a.ts:callIt", node("a.ts", Some("callIt"))),
            ("azure:chat:mine", Provider::Azure { deployment: "mine" }),
            ("xai:image:grok-2-image", Provider::Unknown("`xai:image`".to_owned())),
            ("bedrock:x", Provider::Unknown("the provider `bedrock:x`".to_owned())),
        ] {
            assert_eq!(read(id), expected, "{id}");
        }
    }
}
