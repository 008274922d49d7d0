//! Models that answer nothing, so that no check can send a request.

use std::time::Duration;

use kindlm_types::{
    AttemptBudget, BoxFuture, Embedding, Models, Prompt, ProviderError, ProviderErrorKind, Reply,
};

/// Models that refuse every request.
pub(super) struct NoModels;

fn refused(provider: &str) -> ProviderError {
    let message = "mutants are judged without models, unless `--judges` is given";
    ProviderError::new(ProviderErrorKind::Unsupported, provider, message)
}

impl Models for NoModels {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        _prompt: &'a Prompt,
        _timeout: Duration,
        _budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async { Err(refused(provider)) })
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        _model: &'a str,
        _text: &'a str,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        Box::pin(async { Err(refused(provider)) })
    }

    fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    fn limits_calls(&self) -> bool {
        false
    }
}
