//! The HTTP transport of model APIs: an HTTP client, timeouts, rate limits, retries.
//!
//! Codecs build requests and decode responses. Only the transport reads environment variables, and only the transport
//! waits for rate limits and retries. The HTTP client is built on the first request. Without the feature `http`, the
//! crate has only the types of [requests](HttpRequest) and [responses](HttpResponse), [`StructuredOutput`] and
//! [`Limits`](limit::Limits). Without the feature `aws`, the client cannot sign requests to AWS, and needs a bearer
//! token. Without the feature `http2`, the client speaks HTTP/1.1.

#[cfg(feature = "http")]
mod advice;
#[cfg(feature = "http")]
mod aws;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod credential;
#[cfg(feature = "http")]
mod fault;
#[cfg(feature = "http")]
mod fetch;
mod form;
pub mod limit;
mod message;
#[cfg(feature = "http")]
mod options;
#[cfg(feature = "http")]
mod own_tls;
#[cfg(feature = "http")]
mod prepared;
#[cfg(feature = "http")]
mod redirect;
#[cfg(feature = "http")]
mod retry;
#[cfg(feature = "http")]
mod secret;
#[cfg(feature = "http")]
mod security;
#[cfg(feature = "websocket")]
mod socket;
#[cfg(feature = "http")]
mod tls;
#[cfg(feature = "http")]
mod waits;

pub use form::StructuredOutput;
pub use message::{
    Arrival, AwsAuth, EnvMark, HeaderValue, HttpRequest, HttpResponse, KEY_COMMAND, Method,
    SIGNATURE, SIGNATURE_TIMESTAMP,
};
#[cfg(feature = "websocket")]
pub use socket::Socket;
#[cfg(feature = "http")]
pub use {
    client::{Called, HttpTransport},
    credential::{CredentialCommand, CredentialForm},
    fault::{Fault, address, causes},
    fetch::Fetched,
    options::{CONNECT_TIMEOUT, Env, IDLE_TIMEOUT, MAX_BODY, RunCommand, TransportOptions},
    own_tls::ProviderTls,
    retry::{RetryPolicy, Way, is_worth_it, wait_of, with_retries},
    secret::{Secrets, resolve},
    security::{ProviderSecurity, RequestSigner, SignatureHash},
    tls::{CaError, install_tls},
    waits::{BackOff, Notice, WaitReason, Waits},
};
