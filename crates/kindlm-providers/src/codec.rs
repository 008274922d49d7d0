//! What a codec is: prompt in, HTTP request out; HTTP response in, reply out.

use std::fmt;

use kindlm_types::{Prompt, ProviderError, ProviderErrorKind, Reply};
use serde_json::Value;

/// One vendor's API.
pub trait Codec: fmt::Debug + Send + Sync {
    /// Writes a prompt in the vendor's dialect.
    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError>;

    /// Reads a response, whatever its status. `latency_ms`, `attempts` and `cached` are the transport's.
    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError>;

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
    fn decode_embedding(&self, response: &HttpResponse) -> Result<Vec<f32>, ProviderError> {
        let _ = response;
        Err(ProviderError::new(
            ProviderErrorKind::Unsupported,
            self.provider(),
            "embeddings are not supported",
        ))
    }

    /// The provider's id, for messages.
    fn provider(&self) -> &'static str;
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    #[default]
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

/// The value of a header. Secrets are named here and resolved by the transport only.
#[derive(Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// Sent as it is.
    Literal(String),
    /// `prefix` and the value of an environment variable.
    FromEnv {
        /// Such as `Bearer `.
        prefix: &'static str,
        /// The variable's name.
        variable: String,
    },
}

impl fmt::Debug for HeaderValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A literal may have been written into a config file by somebody who should not have.
            Self::Literal(_) => f.write_str("Literal(…)"),
            Self::FromEnv { prefix, variable } => write!(f, "FromEnv({prefix}${variable})"),
        }
    }
}

/// A request, without secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRequest {
    /// How.
    pub method: Method,
    /// Where. Never contains a key.
    pub url: String,
    /// Headers, in order.
    pub headers: Vec<(String, HeaderValue)>,
    /// The body; `Null` for none.
    pub body: Value,
}

/// A response, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Headers with lower-case names, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// The first header of that (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
