//! Why a provider did not answer.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::FailureCode;

/// The kind of obstacle between the request and the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderErrorKind {
    /// The credentials are missing, or were refused.
    Auth,
    /// Too many requests or tokens per time.
    RateLimited,
    /// The account has nothing left to spend.
    QuotaExhausted,
    /// No answer in time.
    Timeout,
    /// The provider does not know the model.
    ModelNotFound,
    /// The prompt is longer than the model can read.
    ContextLength,
    /// The provider's filter refused the prompt.
    ContentFilter,
    /// The provider rejects the request as invalid.
    InvalidRequest,
    /// The provider has too much to do.
    Overloaded,
    /// The provider failed.
    Server,
    /// The provider could not be reached, or the connection broke.
    Connection,
    /// The answer could not be read.
    MalformedResponse,
    /// A command could not be started or did not end as it should.
    Command,
    /// The provider cannot do what was asked, embeddings for example.
    Unsupported,
    /// The answer should come from the response store, or go into it, and cannot; nothing was sent.
    NotRecorded,
}

impl ProviderErrorKind {
    /// The failure code under which reports show it.
    pub fn failure_code(self) -> FailureCode {
        match self {
            Self::Auth => FailureCode::PROVIDER_AUTH_FAILED,
            Self::Timeout => FailureCode::PROVIDER_TIMEOUT,
            _ => FailureCode::PROVIDER_ERROR,
        }
    }
}

/// Why a provider did not answer. Never contains a key or a header value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {message}")]
pub struct ProviderError {
    /// The kind of obstacle.
    pub kind: ProviderErrorKind,
    /// The provider's key in the suite, such as `openai`.
    pub provider: String,
    /// The description and the advice, in words; the provider's own message if there is one.
    pub message: String,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// True if the same request may succeed later.
    pub retryable: bool,
    /// The time that the provider asked to wait.
    pub retry_after: Option<Duration>,
    /// The number of times that it was sent, 1 without retries; 0 if nothing was sent.
    pub attempts: u32,
    /// True if the last request was on its way when its answer was lost: the provider may have done the work, and
    /// charge for it.
    pub lost: bool,
}

impl ProviderError {
    /// An error that is not worth a retry.
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
        }
    }

    /// Marks the error as worth a retry.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Marks the answer as lost on its way.
    #[must_use]
    pub fn lost(mut self) -> Self {
        self.lost = true;
        self
    }

    /// True if the provider may charge for the last request although there is no answer that could be used.
    pub fn may_be_charged(&self) -> bool {
        let kind = self.kind;
        let worked =
            matches!(kind, ProviderErrorKind::Timeout | ProviderErrorKind::MalformedResponse);
        self.lost || (self.attempts > 0 && worked)
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}
