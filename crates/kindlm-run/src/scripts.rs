//! Runs users' scripts for checks, with a backend that contains a script host.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kindlm_providers::transport::{HttpTransport, TransportOptions};
use kindlm_script::{Fetch, FetchRequest, FetchResponse, HostOptions, ScriptHost};
use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion, ScriptRunner};
use kindlm_types::{
    AgentSession, AgentStart, Backend, BoxFuture, CommandOutput, CommandSpec, Prompt,
    ProviderError, Purse, Reply,
};

use crate::{Failure, World};

/// A backend that runs scripts in worker processes of this program. The first script starts the first worker.
pub(crate) struct Scripted<'a> {
    inner: &'a dyn Backend,
    runner: Arc<Runner>,
}

/// The runner of scripts in worker processes.
pub(crate) struct Runner(ScriptHost);

impl Runner {
    /// Creates a runner for scripts whose files are below `root`.
    pub(crate) fn new(world: &World, root: &Path) -> Result<Arc<Self>, Failure> {
        Ok(Arc::new(Self(host(world, root)?)))
    }
}

impl ScriptRunner for Runner {
    fn run<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        Box::pin(self.0.run(question))
    }
}

/// Creates a script host for files below `root`. The first script starts the first worker.
pub(crate) fn host(world: &World, root: &Path) -> Result<ScriptHost, Failure> {
    let (program, args) = &world.script_worker;
    let transport = HttpTransport::new(TransportOptions::new(Arc::clone(&world.env)))
        .map_err(|err| Failure::internal(err.to_string()))?;
    let env = Arc::clone(&world.env);
    let options = HostOptions {
        env: Arc::new(move |name| env(name)),
        fetch: Some(Arc::new(Http(Arc::new(transport)))),
        ..HostOptions::new(program, args, root)
    };
    Ok(ScriptHost::new(options))
}

impl<'a> Scripted<'a> {
    /// Adds a script runner to a backend.
    pub(crate) fn new(inner: &'a dyn Backend, runner: Arc<Runner>) -> Self {
        Self { inner, runner }
    }
}

impl Backend for Scripted<'_> {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        self.inner.complete(provider, prompt, timeout)
    }

    fn complete_paid<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        purse: &'a dyn Purse,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        self.inner.complete_paid(provider, prompt, timeout, purse)
    }

    fn bounds_itself(&self) -> bool {
        self.inner.bounds_itself()
    }

    fn recalls(&self, provider: &str, prompt: &Prompt) -> bool {
        self.inner.recalls(provider, prompt)
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Arc<[f64]>, ProviderError>> {
        self.inner.embed(provider, model, text, timeout)
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
        self.inner.start_agent(start)
    }

    fn script<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        self.runner.run(question)
    }
}

/// The HTTP transport for requests of scripts.
struct Http(Arc<HttpTransport>);

impl Fetch for Http {
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, String>> {
        let transport = Arc::clone(&self.0);
        Box::pin(async move {
            let FetchRequest { url, method, headers, body, timeout, max_body } = request;
            let to = (method.as_str(), url.as_str());
            let answer = transport.fetch(to, &headers, body, timeout, max_body).await?;
            let (status, headers, body) = answer;
            Ok(FetchResponse { status, headers, body })
        })
    }
}
