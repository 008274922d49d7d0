//! Models that answer prompts and embed texts.

use std::sync::Arc;
use std::time::Duration;

use crate::{BoxFuture, Prompt, ProviderError, Reply, Usage};

/// The budget for the attempts of one request.
pub trait AttemptBudget: Send + Sync {
    /// Reserves money for one more attempt: the same amount as for the first attempt.
    ///
    /// The provider may also charge for an attempt whose answer was lost. Fails with the reason if the budget does not
    /// allow another attempt.
    fn reserve(&self) -> Result<(), String>;

    /// Releases the last reservation, because its attempt was not made.
    fn release(&self);
}

/// A budget without a limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl AttemptBudget for Unlimited {
    fn reserve(&self) -> Result<(), String> {
        Ok(())
    }

    fn release(&self) {}
}

/// The embedding vector of a text, with its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The vector.
    pub vector: Arc<[f64]>,
    /// The tokens of the text. A usage without tokens means that the provider did not report them.
    pub usage: Usage,
    /// True if the provider used its own embedding model, because the requested model has no embeddings.
    ///
    /// The price of the requested model does not apply then.
    pub substituted: bool,
    /// The cost in US dollars, if the provider reported it, or if the price of a substituted model is known.
    pub cost_usd: Option<f64>,
    /// True if the vector comes from the response store, so that it cost nothing.
    pub cached: bool,
}

impl Embedding {
    /// Creates an embedding that the requested model computed, without a reported cost.
    pub fn new(vector: impl Into<Arc<[f64]>>, usage: Usage) -> Self {
        Self { vector: vector.into(), usage, substituted: false, cost_usd: None, cached: false }
    }
}

/// Models that answer prompts and embed texts.
///
/// `provider` is a key of the suite's `providers`. Implementations retry if a retry may help. `timeout` limits one
/// attempt, from sending to the last byte of the answer.
pub trait Models: Send + Sync {
    /// Sends one request to a model. Fails if no attempt gives a usable answer.
    ///
    /// The first attempt is already reserved in the budget. Before a retry after a lost answer, the implementation
    /// reserves money in `budget`. An implementation that never retries can ignore `budget`.
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>>;

    /// Converts a text into an embedding vector. Fails if no attempt gives a usable answer.
    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>>;

    /// Returns true if the answer to this request is stored. Then no request is sent, and nothing is paid.
    fn has_answer(&self, provider: &str, prompt: &Prompt) -> bool;

    /// Returns true if the vector of this text is stored. Then no request is sent, and nothing is paid.
    ///
    /// False by default.
    fn has_vector(&self, provider: &str, model: &str, text: &str) -> bool {
        let _ = (provider, model, text);
        false
    }

    /// Returns true if the ports limit concurrent calls, including the calls of commands and agents.
    ///
    /// The engine then sets no limit of its own, and starts the executions of each model independently. So calls that
    /// wait for one model do not block calls of other models.
    fn limits_calls(&self) -> bool;
}

/// A reference to an implementation is itself an implementation.
impl<M: Models + ?Sized> Models for &M {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        (**self).complete(provider, prompt, timeout, budget)
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        (**self).embed(provider, model, text, timeout)
    }

    fn has_answer(&self, provider: &str, prompt: &Prompt) -> bool {
        (**self).has_answer(provider, prompt)
    }

    fn has_vector(&self, provider: &str, model: &str, text: &str) -> bool {
        (**self).has_vector(provider, model, text)
    }

    fn limits_calls(&self) -> bool {
        (**self).limits_calls()
    }
}
