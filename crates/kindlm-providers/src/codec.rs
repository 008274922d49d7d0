//! What a codec is: prompt in, HTTP request out; HTTP response in, reply out.

use std::fmt;

use kindlm_types::script::ScriptSource;
use kindlm_types::{Prompt, ProviderError, ProviderErrorKind, Reply};

use crate::form::FormChoice;
use crate::{HttpRequest, HttpResponse, StructuredOutput};

/// One vendor's API.
pub trait Codec: fmt::Debug + Send + Sync {
    /// Writes a prompt in the vendor's dialect.
    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError>;

    /// Reads a response, whatever its status. `latency_ms`, `attempts` and `cached` are the transport's.
    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError>;

    /// The script that reads responses in the place of [`decode`](Self::decode), if there is one.
    fn reading(&self) -> Option<&ScriptSource> {
        None
    }

    /// Whether a response is one that a script may read, or the error that it is.
    fn accept(&self, response: &HttpResponse) -> Result<(), ProviderError> {
        let _ = response;
        Ok(())
    }

    /// Writes a request for the vector of a text.
    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        let _ = text;
        Err(ProviderError::new(
            ProviderErrorKind::Unsupported,
            self.provider(),
            format!("`{model}` cannot make embeddings: this provider has none"),
        ))
    }

    /// Reads a vector.
    fn decode_embedding(&self, response: &HttpResponse) -> Result<Vec<f64>, ProviderError> {
        let _ = response;
        Err(ProviderError::new(
            ProviderErrorKind::Unsupported,
            self.provider(),
            "embeddings are not supported",
        ))
    }

    /// In which form answers of a certain form are asked for. A codec that has its own way takes the schema.
    fn form(&self) -> FormChoice {
        FormChoice::Fixed(StructuredOutput::Schema)
    }

    /// The provider's id, for messages.
    fn provider(&self) -> &'static str;
}
