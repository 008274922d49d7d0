//! The [`Codec`] trait: encodes prompts as HTTP requests, and decodes responses.

use std::fmt;

use kindlm_types::script::ScriptSource;
use kindlm_types::{Embedding, Prompt, ProviderError, ProviderErrorKind, Reply};

use crate::form::FormChoice;
use crate::{HttpRequest, HttpResponse, StructuredOutput};

/// The encoder and decoder for one vendor's API.
pub trait Codec: fmt::Debug + Send + Sync {
    /// Encodes a prompt as a request of the vendor's API. Fails if the API cannot express the prompt.
    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError>;

    /// Decodes a response with any status; an error status gives an error. The client sets `latency_ms` and `attempts`.
    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError>;

    /// Returns the request for the rest of an answer that the server has not finished. Returns `None` by default, and
    /// for a finished answer. The client sends this request, with pauses, until the answer is finished or the timeout
    /// ends.
    fn unfinished(&self, response: &HttpResponse) -> Option<HttpRequest> {
        let _ = response;
        None
    }

    /// Returns the request that opens a session for a prompt; `None` by default. The client sends this request before
    /// the prompt. Fails if a template of the request cannot be rendered.
    fn session(&self, prompt: &Prompt) -> Result<Option<HttpRequest>, ProviderError> {
        let _ = prompt;
        Ok(None)
    }

    /// Returns the prompt with the session that `response` has opened. By default, the prompt is unchanged. Fails if
    /// the response is a failure, or has no session id.
    fn in_session(
        &self,
        prompt: &Prompt,
        response: &HttpResponse,
    ) -> Result<Prompt, ProviderError> {
        let _ = response;
        Ok(prompt.clone())
    }

    /// Returns the script that reads responses; `None` by default. The script replaces [`decode`](Self::decode).
    fn reading(&self) -> Option<&ScriptSource> {
        None
    }

    /// Checks a response before the script reads it. Fails if the response is a failure; by default, accepts every
    /// response.
    fn accept(&self, response: &HttpResponse) -> Result<(), ProviderError> {
        let _ = response;
        Ok(())
    }

    /// Encodes a request for the embedding of a text. Fails if the provider has no embeddings, which is the default.
    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        let _ = text;
        Err(ProviderError::new(
            ProviderErrorKind::Unsupported,
            self.provider(),
            format!("`{model}` cannot make embeddings: this provider has none"),
        ))
    }

    /// Returns the model that embeds texts: `model`, or another model if `model` has no embeddings. By default, this is
    /// `model`.
    fn embedding_model<'m>(&self, model: &'m str) -> &'m str {
        model
    }

    /// Decodes an embedding. Fails if the response has no valid vector; always fails by default.
    fn decode_embedding(&self, response: &HttpResponse) -> Result<Embedding, ProviderError> {
        let _ = response;
        Err(ProviderError::new(
            ProviderErrorKind::Unsupported,
            self.provider(),
            "embeddings are not supported",
        ))
    }

    /// Returns the selection of the structured-output form of a model. By default, this is always a JSON Schema.
    fn form(&self, model: &str) -> FormChoice {
        let _ = model;
        FormChoice::Fixed(StructuredOutput::Schema)
    }

    /// Returns the provider's id, for error messages.
    fn provider(&self) -> &'static str;
}
