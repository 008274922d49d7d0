//! Requests and responses of HTTP, as codecs write and read them.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

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
    /// Sent as it is, and kept out of everything that is shown: the transport's own, made where a mark stood.
    Secret(String),
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
            // A literal in a config file may be a secret that should not be there.
            Self::Literal(_) => f.write_str("Literal(…)"),
            Self::Secret(_) => f.write_str("Secret(…)"),
            Self::FromEnv { prefix, variable } => write!(f, "FromEnv({prefix}${variable})"),
        }
    }
}

/// A request, without secrets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpRequest {
    /// How.
    pub method: Method,
    /// Where. Never contains a key.
    pub url: String,
    /// Headers, in order.
    pub headers: Vec<(String, HeaderValue)>,
    /// The body; `Null` for none.
    pub body: Value,
    /// True if a body that is a text is sent as it is, and not as JSON.
    pub is_text: bool,
    /// What stands for the values of environment variables in the URL, in literal headers and in the body.
    pub marks: Vec<EnvMark>,
    /// The key of the provider's settings that holds the address, for messages. `None` means `baseUrl`.
    pub address_key: Option<&'static str>,
}

impl HttpRequest {
    /// The key of the provider's settings that holds the address, for messages.
    pub fn address_key(&self) -> &'static str {
        self.address_key.unwrap_or("baseUrl")
    }

    /// What the body says, however it is sent: the JSON of a text that is some, or the body as it is.
    pub fn json(&self) -> Cow<'_, Value> {
        let written = self.body.as_str().filter(|_| self.is_text);
        let read = written.and_then(|text| serde_json::from_str(text).ok());
        read.map_or(Cow::Borrowed(&self.body), Cow::Owned)
    }
}

/// A text in a request that stands for the value of an environment variable, and for nothing else there. Only the
/// transport knows the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvMark {
    /// The text.
    pub mark: String,
    /// The variable's name.
    pub variable: String,
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
