//! The HTTP requests and responses of codecs.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// An HTTP method.
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

/// The value of a header. A codec stores a secret by the name of its environment variable. Only the transport reads the
/// variable.
#[derive(Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// A value that is sent unchanged.
    Literal(String),
    /// A value that is sent unchanged and never shown. The transport creates this variant when it replaces an
    /// [`EnvMark`].
    Secret(String),
    /// A `prefix` followed by the value of an environment variable.
    FromEnv {
        /// The text before the value, such as `Bearer `.
        prefix: &'static str,
        /// The name of the environment variable.
        variable: String,
    },
}

impl fmt::Debug for HeaderValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A literal in a config file may be a misplaced secret.
            Self::Literal(_) => f.write_str("Literal(…)"),
            Self::Secret(_) => f.write_str("Secret(…)"),
            Self::FromEnv { prefix, variable } => write!(f, "FromEnv({prefix}${variable})"),
        }
    }
}

/// The authorization of a request to AWS. The transport reads the credentials from the environment, or from the output
/// of the provider's command. Then the transport adds the authorization to the request.
///
/// The value of the environment variable `key` is sent as a bearer token. If this variable is not set, the request is
/// signed with the credentials in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, if set, `AWS_SESSION_TOKEN`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsAuth {
    /// The service in the signature, such as `bedrock`.
    pub service: String,
    /// The region in the signature, such as `us-east-1`.
    pub region: String,
    /// The name of an environment variable with a bearer token, which replaces the signature. `None` if the service
    /// accepts no bearer tokens.
    pub key: Option<String>,
}

impl AwsAuth {
    /// Creates an authorization for a service in a region.
    ///
    /// `key` is the name of an environment variable with a bearer token, which replaces the signature.
    pub fn new(service: impl Into<String>, region: impl Into<String>, key: Option<String>) -> Self {
        Self { service: service.into(), region: region.into(), key }
    }
}

/// An HTTP request of a codec, with placeholders instead of secrets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpRequest {
    /// The method; `POST` by default.
    pub method: Method,
    /// The address. A placeholder of `marks` stands for a key in the address.
    pub url: String,
    /// The names and values of the headers, in order.
    pub headers: Vec<(String, HeaderValue)>,
    /// The body; `Null` if the request has no body.
    pub body: Value,
    /// True if a text body is sent unchanged, not as JSON.
    pub is_text: bool,
    /// The placeholders of environment variables in URL, literal headers and body.
    pub marks: Vec<EnvMark>,
    /// The provider's setting that holds the address, for error messages. `None` means `baseUrl`.
    pub address_key: Option<&'static str>,
    /// The authorization at AWS. `None` for other vendors.
    pub aws: Option<AwsAuth>,
}

impl HttpRequest {
    /// Returns the provider's setting that holds the address, for error messages.
    pub fn address_key(&self) -> &'static str {
        self.address_key.unwrap_or("baseUrl")
    }

    /// Returns the body. A text body that contains JSON is parsed.
    pub fn json(&self) -> Cow<'_, Value> {
        let written = self.body.as_str().filter(|_| self.is_text);
        let read = written.and_then(|text| serde_json::from_str(text).ok());
        read.map_or(Cow::Borrowed(&self.body), Cow::Owned)
    }
}

/// A unique placeholder in a request for the value of an environment variable. Only the transport knows the value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvMark {
    /// The text of the placeholder in the request.
    pub mark: String,
    /// The name of the environment variable, or [`SIGNATURE`] or [`SIGNATURE_TIMESTAMP`].
    pub variable: String,
}

impl EnvMark {
    /// Creates a placeholder with this text for the value of an environment variable.
    pub fn new(mark: impl Into<String>, variable: impl Into<String>) -> Self {
        Self { mark: mark.into(), variable: variable.into() }
    }
}

/// The variable of an [`EnvMark`] that stands for the signature of the request. No environment variable has this name.
pub const SIGNATURE: &str = "signature()";
/// The variable of an [`EnvMark`] that stands for the time of the signature, in milliseconds since 1970.
pub const SIGNATURE_TIMESTAMP: &str = "signatureTimestamp()";

/// The provider's setting with a command that prints the key. In a request, the variable of this name holds the key
/// that the command printed. It is no environment variable.
pub const KEY_COMMAND: &str = "apiKeyCommand";

/// A complete HTTP response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpResponse {
    /// The HTTP status, such as 200.
    pub status: u16,
    /// The headers with lower-case names, in order.
    pub headers: Vec<(String, String)>,
    /// The whole body, after decompression.
    pub body: Vec<u8>,
    /// The arrivals of the pieces of the body, in order; empty unless the body is a stream of events.
    pub arrivals: Vec<Arrival>,
}

/// The arrival of a piece of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The number of bytes of the body that had arrived, including this piece.
    pub end: usize,
    /// The time since the request was sent.
    pub after: Duration,
}

impl HttpResponse {
    /// Creates a response without headers.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    /// Returns the value of the first header with this lower-case name. Returns `None` without such a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
