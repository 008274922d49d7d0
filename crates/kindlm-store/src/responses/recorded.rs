//! Models whose answers are stored and loaded.

use std::time::Duration;

use kindlm_types::{
    AgentSession, AgentStart, Agents, AttemptBudget, BoxFuture, Embedding, Models, Prompt,
    ProviderError, ProviderErrorKind, Reply,
};

use super::{Mode, Responses};

/// Models with a response store.
///
/// The answers of agents are not stored, because agents send requests themselves. In [`Mode::Replay`], agents are
/// refused: see [`agents`](Self::agents).
///
/// A stored reply is marked as [`cached`](Reply::cached), has 0 attempts, and has the latency of the recorded request.
/// Checks use this latency; statistics leave it out.
#[derive(Debug)]
pub struct Recorded<M> {
    inner: M,
    responses: Responses,
}

impl<M> Recorded<M> {
    /// Wraps models with a response store.
    pub fn new(inner: M, responses: Responses) -> Self {
        Self { inner, responses }
    }

    /// Returns the response store that wraps the models.
    pub fn responses(&self) -> &Responses {
        &self.responses
    }

    /// Returns `agents`. In [`Mode::Replay`], returns an implementation that starts no agent instead.
    pub fn agents<'a>(&self, agents: &'a dyn Agents) -> &'a dyn Agents {
        if self.responses.mode() == Mode::Replay { &NoReplay } else { agents }
    }
}

impl<M: Models> Models for Recorded<M> {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        if self.responses.mode() == Mode::Live {
            return self.inner.complete(provider, prompt, timeout, budget);
        }
        Box::pin(async move {
            let request = self.responses.completion(provider, prompt)?;
            if let Some(reply) = self.responses.recall::<Reply>(provider, &request)? {
                return Ok(self.responses.vouched(provider, reply));
            }
            let reply = self.inner.complete(provider, prompt, timeout, budget).await?;
            self.responses.keep(&request, &reply);
            Ok(reply)
        })
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        if self.responses.mode() == Mode::Live {
            return self.inner.embed(provider, model, text, timeout);
        }
        Box::pin(async move {
            let request = self.responses.embedding(provider, model, text);
            if let Some(stored) = self.responses.recall(provider, &request)? {
                return Ok(stored);
            }
            let embedding = self.inner.embed(provider, model, text, timeout).await?;
            self.responses.keep(&request, &embedding);
            Ok(embedding)
        })
    }

    fn has_answer(&self, provider: &str, prompt: &Prompt) -> bool {
        self.responses.has(provider, prompt) || self.inner.has_answer(provider, prompt)
    }

    fn has_vector(&self, provider: &str, model: &str, text: &str) -> bool {
        self.responses.has_vector(provider, model, text)
            || self.inner.has_vector(provider, model, text)
    }

    fn limits_calls(&self) -> bool {
        self.inner.limits_calls()
    }
}

/// An implementation of [`Agents`] that starts no agent, for [`Mode::Replay`].
struct NoReplay;

impl Agents for NoReplay {
    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        let message = "agent runs are not recorded, so they cannot be replayed; exclude its tests, for example with \
            tags, or use another mode: `--responses cache` runs it and requests only new answers";
        let err = ProviderError::new(ProviderErrorKind::NotRecorded, &*start.id, message);
        Box::pin(std::future::ready(Err(ProviderError { attempts: 0, ..err })))
    }
}
