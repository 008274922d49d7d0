//! Valid answers in the formats of the vendors' APIs.

use serde_json::{Value, json};

use super::head::head;

/// A vendor's API, detected by the path of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `…/chat/completions`, for `OpenAI`, Mistral and compatible APIs.
    OpenAi,
    /// `…/embeddings`.
    Embeddings,
    /// `…/messages`.
    Anthropic,
    /// `…:generateContent`.
    Gemini,
    /// `…/v2/chat`.
    Cohere,
    /// `…/api/chat`.
    Ollama,
}

impl Dialect {
    /// Returns the dialect of a path; [`Self::OpenAi`] for an unknown path.
    pub fn at(path: &str) -> Self {
        let path = path.split('?').next().unwrap_or(path);
        let known = [
            ("/embeddings", Self::Embeddings),
            ("/messages", Self::Anthropic),
            (":generateContent", Self::Gemini),
            ("/v2/chat", Self::Cohere),
            ("/api/chat", Self::Ollama),
        ];
        known
            .iter()
            .find(|(ending, _)| path.ends_with(ending))
            .map_or(Self::OpenAi, |(_, dialect)| *dialect)
    }

    const ALL: [Self; 6] =
        [Self::OpenAi, Self::Embeddings, Self::Anthropic, Self::Gemini, Self::Cohere, Self::Ollama];
}

/// Returns an answer with this text, 10 input tokens and 5 output tokens. An embedding is always `[1, 0, 0]`, without
/// output tokens.
pub fn body(dialect: Dialect, text: &str) -> Value {
    match dialect {
        Dialect::OpenAi => json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "mock-1",
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": text, "refusal": null}}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        }),
        Dialect::Embeddings => json!({
            "object": "list", "model": "mock-1",
            "data": [{"object": "embedding", "index": 0, "embedding": [1.0, 0.0, 0.0]}],
            "usage": {"prompt_tokens": 10, "total_tokens": 10}
        }),
        Dialect::Anthropic => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "mock-1",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 5}
        }),
        Dialect::Gemini => json!({
            "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
            "modelVersion": "mock-1"
        }),
        Dialect::Cohere => json!({
            "id": "c-1", "finish_reason": "COMPLETE",
            "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
            "usage": {"tokens": {"input_tokens": 10, "output_tokens": 5}}
        }),
        Dialect::Ollama => json!({
            "model": "mock-1", "message": {"role": "assistant", "content": text}, "done": true,
            "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 5
        }),
    }
}

/// The complete responses of a benchmark server by dialect, built only once.
pub(super) struct FixedReplies(Vec<(Dialect, Vec<u8>)>);

impl FixedReplies {
    pub(super) fn new() -> Self {
        let whole = |dialect| {
            let body = body(dialect, "ok").to_string();
            let start = head(200, &[], Some(body.len()), true);
            (dialect, [start.into_bytes(), body.into_bytes()].concat())
        };
        Self(Dialect::ALL.into_iter().map(whole).collect())
    }

    pub(super) fn at(&self, path: &str) -> &[u8] {
        let dialect = Dialect::at(path);
        self.0.iter().find(|(it, _)| *it == dialect).map_or(&[], |(_, whole)| whole)
    }
}
