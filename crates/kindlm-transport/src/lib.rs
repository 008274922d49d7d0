//! Carries requests to a model's API and answers back: one HTTP client, deadlines, limits and retries.
//!
//! Codecs say what to send and what an answer means; only the transport resolves the names of environment
//! variables, and only the transport waits. Nothing is built before the first request. Without the feature `http` there
//! are the types of [requests](HttpRequest) and [responses](HttpResponse) alone.

#[cfg(feature = "http")]
mod advice;
#[cfg(feature = "http")]
mod client;
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
mod prepared;
#[cfg(feature = "http")]
mod redirect;
#[cfg(feature = "http")]
mod retry;
#[cfg(feature = "http")]
mod secret;
#[cfg(feature = "http")]
mod tls;
#[cfg(feature = "http")]
mod waits;

pub use form::StructuredOutput;
pub use message::{EnvMark, HeaderValue, HttpRequest, HttpResponse, Method};
#[cfg(feature = "http")]
pub use {
    client::{Called, HttpTransport},
    fault::{Fault, address, causes},
    fetch::Fetched,
    options::{CONNECT_TIMEOUT, Env, IDLE_TIMEOUT, MAX_BODY, TransportOptions},
    retry::{RetryPolicy, Way, is_worth_it, wait_of, with_retries},
    secret::{Secrets, resolve},
    tls::{CaError, install_tls},
    waits::{Asked, Notice, WaitReason, Waits},
};
