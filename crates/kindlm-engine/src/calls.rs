//! Every call of the backend: bounded in number, guarded against one that never returns.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use kindlm_types::{
    Backend, CommandOutput, CommandSpec, Prompt, ProviderError, ProviderErrorKind, Reply,
};
use tokio::sync::Semaphore;

/// A backend of which at most so many calls are in flight.
pub(crate) struct Calls<'a> {
    backend: &'a dyn Backend,
    limit: Semaphore,
}

impl<'a> Calls<'a> {
    pub(crate) fn new(backend: &'a dyn Backend, concurrency: usize) -> Self {
        let permits = concurrency.clamp(1, Semaphore::MAX_PERMITS);
        Self { backend, limit: Semaphore::new(permits) }
    }

    pub(crate) fn with_concurrency(self, concurrency: usize) -> Self {
        Self::new(self.backend, concurrency)
    }

    pub(crate) async fn complete(
        &self,
        provider: &str,
        prompt: &Prompt,
        timeout: Duration,
    ) -> Result<Reply, ProviderError> {
        let call = self.backend.complete(provider, prompt, timeout);
        self.guarded(provider, patience(timeout), call).await
    }

    pub(crate) async fn embed(
        &self,
        provider: &str,
        model: &str,
        text: &str,
        timeout: Duration,
    ) -> Result<Arc<[f32]>, ProviderError> {
        let call = self.backend.embed(provider, model, text, timeout);
        self.guarded(provider, patience(timeout), call).await
    }

    pub(crate) async fn run(&self, command: &CommandSpec) -> Result<CommandOutput, ProviderError> {
        // A command is run once; what is added is time to end its process group.
        let patience = command.timeout.saturating_add(Duration::from_secs(30));
        self.guarded(crate::COMMAND, patience, self.backend.run(command)).await
    }

    /// Runs a script. The host bounds its number and its time, and no provider is waited for.
    pub(crate) async fn script(
        &self,
        question: &ScriptQuestion,
    ) -> Result<ScriptAnswer, ScriptError> {
        self.backend.script(question).await
    }

    async fn guarded<T>(
        &self,
        provider: &str,
        patience: Duration,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        // The semaphore is never closed, so a missing permit cannot happen; it would only lift the bound.
        let _permit = self.limit.acquire().await.ok();
        match tokio::time::timeout(patience, call).await {
            Ok(result) => result,
            Err(_) => Err(ProviderError::new(
                ProviderErrorKind::Timeout,
                provider,
                format!("neither an answer nor an error within {} s; gave up", patience.as_secs()),
            )),
        }
    }
}

/// How long a backend may take that keeps its own `timeout` for each attempt, retries and waits between them
/// as the provider asks. Only one that hangs reaches it.
fn patience(timeout: Duration) -> Duration {
    timeout.saturating_mul(10).saturating_add(Duration::from_mins(15))
}
