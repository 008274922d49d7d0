//! A backend that stores answers and returns stored answers.

use std::sync::Arc;
use std::time::Duration;

use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use kindlm_types::{
    AgentSession, AgentStart, Backend, BoxFuture, CommandOutput, CommandSpec, Prompt,
    ProviderError, ProviderErrorKind, Purse, Reply,
};

use super::{Mode, Responses};

/// A backend with a response store. Commands and scripts are not stored but run each time.
///
/// Agents are not stored either. As they send requests of their own, [`Mode::Replay`] refuses them.
///
/// A stored reply is marked as [`cached`](Reply::cached), counts as 0 requests, and has the latency of its recording.
/// Checks use that latency; statistics leave it out.
#[derive(Debug)]
pub struct Recorded<B> {
    inner: B,
    responses: Responses,
}

impl<B: Backend> Recorded<B> {
    /// Adds a response store to a backend.
    pub fn new(inner: B, responses: Responses) -> Self {
        Self { inner, responses }
    }

    /// Returns the stored reply, or else the reply of the call. The call starts only after the store was searched.
    fn through<'a>(
        &'a self,
        (provider, prompt): (&'a str, &'a Prompt),
        call: impl FnOnce() -> BoxFuture<'a, Result<Reply, ProviderError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        if self.responses.mode() == Mode::Live {
            return call();
        }
        Box::pin(async move {
            let request = self.responses.completion(provider, prompt)?;
            if let Some(reply) = self.responses.recall::<Reply>(provider, &request)? {
                return Ok(self.responses.vouched(provider, reply));
            }
            let reply = call().await?;
            self.responses.keep(&request, &reply);
            Ok(reply)
        })
    }

    /// Returns the response store.
    pub fn responses(&self) -> &Responses {
        &self.responses
    }
}

impl<B: Backend> Backend for Recorded<B> {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        self.through((provider, prompt), move || self.inner.complete(provider, prompt, timeout))
    }

    fn complete_paid<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        purse: &'a dyn Purse,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        self.through((provider, prompt), move || {
            self.inner.complete_paid(provider, prompt, timeout, purse)
        })
    }

    fn bounds_itself(&self) -> bool {
        self.inner.bounds_itself()
    }

    fn recalls(&self, provider: &str, prompt: &Prompt) -> bool {
        self.responses.has(provider, prompt) || self.inner.recalls(provider, prompt)
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Arc<[f64]>, ProviderError>> {
        if self.responses.mode() == Mode::Live {
            return self.inner.embed(provider, model, text, timeout);
        }
        Box::pin(async move {
            let request = self.responses.embedding(provider, model, text);
            if let Some(vector) = self.responses.recall(provider, &request)? {
                return Ok(vector);
            }
            let vector = self.inner.embed(provider, model, text, timeout).await?;
            self.responses.keep(&request, &vector);
            Ok(vector)
        })
    }

    fn run<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        self.inner.run(command)
    }

    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        if self.responses.mode() != Mode::Replay {
            return self.inner.start_agent(start);
        }
        let message = "what agents do is not recorded, so it cannot be replayed; leave its tests out, with tags for example, \
                       or give another mode: `--responses cache` runs it and asks models only for what is new";
        let mut err = ProviderError::new(ProviderErrorKind::NotRecorded, &*start.id, message);
        err.attempts = 0;
        Box::pin(std::future::ready(Err(err)))
    }

    fn script<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        self.inner.script(question)
    }
}
