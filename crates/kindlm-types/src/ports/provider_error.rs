//! Errors of providers.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::FailureCode;

/// The kind of a provider error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderErrorKind {
    /// The credentials are missing or were rejected.
    Auth,
    /// The rate limit for requests or tokens was exceeded.
    RateLimited,
    /// The account's quota or credit is used up.
    QuotaExhausted,
    /// The provider did not answer within the time limit.
    Timeout,
    /// The provider has no model with this name.
    ModelNotFound,
    /// The prompt exceeds the model's context length.
    ContextLength,
    /// The provider's filter rejected the prompt.
    ContentFilter,
    /// The provider rejects the request as invalid.
    InvalidRequest,
    /// The provider is overloaded.
    Overloaded,
    /// The provider reported an internal error.
    Server,
    /// The provider could not be reached, or the connection was lost.
    Connection,
    /// The response could not be parsed.
    MalformedResponse,
    /// A command could not be started, or was aborted.
    Command,
    /// The provider does not support the request, such as embeddings.
    Unsupported,
    /// The response store does not have the answer, or cannot store it. No request was sent.
    NotRecorded,
}

impl ProviderErrorKind {
    /// Returns the failure code for reports.
    pub fn failure_code(self) -> FailureCode {
        match self {
            Self::Auth => FailureCode::PROVIDER_AUTH_FAILED,
            Self::Timeout => FailureCode::PROVIDER_TIMEOUT,
            _ => FailureCode::PROVIDER_ERROR,
        }
    }
}

/// The fault of a response that could not be parsed. It decides the advice to the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MalformedKind {
    /// The response may not come from the API of a model, so the configured address may be wrong.
    #[default]
    Unknown,
    /// The response comes from the API of a model, but breaks the format of that API.
    Faulty,
    /// The response comes from the API of a model, but the connection was cut before its end.
    Incomplete,
    /// The response comes from the API of a model, but KindLM does not support a part of it.
    Unsupported,
}

/// An error of a provider. It never contains a key or a header value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {message}")]
pub struct ProviderError {
    /// The kind of error.
    pub kind: ProviderErrorKind,
    /// The provider's key in the suite, such as `openai`.
    pub provider: String,
    /// The error message with the advice, and with the provider's own message if any.
    pub message: String,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// True if the same request may succeed later.
    pub retryable: bool,
    /// The time to wait before a retry, if the provider reports it.
    pub retry_after: Option<Duration>,
    /// The number of attempts, 1 without retries; 0 if nothing was sent.
    pub attempts: u32,
    /// True if the answer to the last request was lost. The provider may still charge for the request.
    pub lost: bool,
    /// True if the last request was not sent. `attempts` then counts only the earlier attempts.
    pub not_sent: bool,
    /// The fault of the response, for [`MalformedResponse`](ProviderErrorKind::MalformedResponse).
    pub malformed: MalformedKind,
}

impl ProviderError {
    /// Returns an error that is not retryable.
    pub fn new(
        kind: ProviderErrorKind,
        provider: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            provider: provider.into(),
            message: message.into(),
            status: None,
            retryable: false,
            retry_after: None,
            attempts: 1,
            lost: false,
            not_sent: false,
            malformed: MalformedKind::Unknown,
        }
    }

    /// Marks the error as retryable.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Marks the answer as lost.
    #[must_use]
    pub fn lost(mut self) -> Self {
        self.lost = true;
        self
    }

    /// Returns true if the provider may charge for the last request, although it gave no usable answer.
    pub fn may_be_charged(&self) -> bool {
        let kind = self.kind;
        let worked =
            matches!(kind, ProviderErrorKind::Timeout | ProviderErrorKind::MalformedResponse);
        self.lost || (self.attempts > 0 && !self.not_sent && worked)
    }

    /// Sets the fault of a response that could not be parsed.
    #[must_use]
    pub fn with_malformed(mut self, kind: MalformedKind) -> Self {
        self.malformed = kind;
        self
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}
