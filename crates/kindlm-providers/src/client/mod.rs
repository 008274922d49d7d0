//! The client: [`Models`] that sends requests to every provider of a suite.

mod credentials;
mod forms;
mod provider;
#[cfg(feature = "websocket")]
mod socket;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kindlm_types::{
    AttemptBudget, BoxFuture, Embedding, Files, Models, Ports, Problem, Prompt, ProviderError,
    ProviderErrorKind, Reply, ToolCall, Usage, pointer, suggest,
};
use serde_json::{Map, Value};

use crate::dialect::content;
use crate::dialect::scripts::Scripts;
use crate::form::FormChoice;
use crate::scripted::Answer;
use crate::{Codec, HttpRequest, HttpResponse, Limits, Providers};
use forms::InForm as _;
#[cfg(feature = "process")]
use kindlm_agents::agent::Surroundings;
#[cfg(feature = "process")]
use kindlm_process::Guard;
use kindlm_transport::limit::{self, QueuedCall};
use kindlm_transport::{
    Env, HttpTransport, Notice, RetryPolicy, TransportOptions, Waits, with_retries,
};
#[cfg(feature = "process")]
use kindlm_types::{AgentSession, AgentStart, Agents, CommandOutput, CommandSpec, Commands};
use provider::{Provider, Via, connect, open, security_of};

/// The options of a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The options of the HTTP transport.
    pub transport: TransportOptions,
    /// The working directory of commands: the folder of the config file.
    pub working_dir: PathBuf,
    /// The rate limits, by provider and model.
    pub limits: HashMap<(String, String), Limits>,
    /// The runner of the programs of `script` providers. Without a runner, these providers fail.
    pub scripts: Option<Scripts>,
    /// The registered providers.
    pub known: Providers,
}

impl ClientOptions {
    /// Creates default options with this environment and this folder for commands.
    pub fn new(env: Env, working_dir: impl Into<PathBuf>) -> Self {
        Self {
            transport: TransportOptions::new(env),
            working_dir: working_dir.into(),
            limits: HashMap::new(),
            scripts: None,
            known: crate::built_in(),
        }
    }

    /// Sets the runner for the programs of `script` providers.
    #[must_use]
    pub fn with_scripts(mut self, scripts: Scripts) -> Self {
        self.scripts = Some(scripts);
        self
    }

    /// Replaces the registered providers.
    #[must_use]
    pub fn with_providers(mut self, known: Providers) -> Self {
        self.known = known;
        self
    }

    /// Sets the retry policy.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.transport.retry = retry;
        self
    }

    /// Sets the maximum number of concurrent requests and commands; at least 1. A request that waits for the rate
    /// limiter of one model takes no slot from requests to other models.
    #[must_use]
    pub fn with_concurrency(mut self, concurrency: usize) -> Self {
        self.transport.concurrency = Some(concurrency);
        self
    }

    /// Sets the handle that ends waits before requests, and reports long waits.
    #[must_use]
    pub fn with_waits(mut self, waits: Waits) -> Self {
        self.transport.waits = waits;
        self
    }

    /// Sets the secrets that are masked in the messages of commands. The set
    /// [learns](kindlm_redact::Secrets::learn) the credentials that commands print.
    #[must_use]
    pub fn with_secrets(mut self, secrets: kindlm_redact::Secrets) -> Self {
        self.transport.secrets = secrets;
        self
    }

    /// Adds limits for one model of a provider. After several calls, the lowest value of each limit counts.
    #[must_use]
    pub fn with_limits(mut self, provider: &str, model: &str, limits: Limits) -> Self {
        let before = self.limits.entry((provider.to_owned(), model.to_owned())).or_default();
        *before = before.and(limits);
        self
    }
}

/// The client for all providers of a suite. It connects on the first request.
///
/// A rate limiter for each model keeps requests within the model's [`Limits`]. After errors that later calls would get again, the circuit opens:
/// later calls fail at once, with an error of the same kind and 0 attempts. The circuit opens for all models of a
/// provider if:
///
/// - the provider refuses the key with another status than 403, or its account has no credit left;
/// - three calls in a row cannot reach the provider (over at least 3 minutes, if it has answered before).
///
/// The circuit opens for one model if:
///
/// - the provider refuses the key with status 403;
/// - the model has never answered, three of its calls failed, and the last one was refused (403, 404, 405) or names an
///   unknown model;
/// - the model has never answered, ten of its calls failed, and the last one ended with a server error, a timeout or an
///   unreadable answer.
///
/// To try again, create a new client. [`with_circuits_closed_after`](Self::with_circuits_closed_after) sets a time
/// after which circuits close.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use kindlm_providers::{Client, ClientOptions};
/// use kindlm_types::{Message, Models, NoFiles, Prompt, Role, Unlimited};
/// use serde_json::{from_value, json};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let providers = from_value(json!({"scripted": {"replies": [
///     {"when": {"contains": "order"}, "text": "It has been shipped."},
/// ]}}))?;
/// let options = ClientOptions::new(Arc::new(|name| std::env::var(name).ok()), ".");
/// let client = Client::new(&providers, &NoFiles, options).expect("a valid configuration");
///
/// let prompt: Prompt = from_value(json!({
///     "model": "any", "messages": [Message::new(Role::User, "Where is my order?")],
/// }))?;
/// let reply = Models::complete(&client, "scripted", &prompt, Duration::from_secs(60), &Unlimited).await?;
/// assert_eq!(reply.text, "It has been shipped.");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Client {
    providers: HashMap<String, Provider>,
    transport: HttpTransport,
    working_dir: PathBuf,
    scripts: Option<Scripts>,
    #[cfg(feature = "process")]
    guard: Guard,
}

/// An answer that the server has not finished.
struct Unfinished {
    /// The request for the rest of the answer.
    next: Box<HttpRequest>,
    /// The latency of the request that began the answer, in milliseconds.
    latency_ms: f64,
    /// The number of attempts of that request.
    attempts: u32,
}

impl Client {
    /// Sets the time after which a provider's open circuits close, so that requests are sent again. The time starts
    /// when the first of these circuits opens. By default, circuits stay open.
    #[must_use]
    pub fn with_circuits_closed_after(mut self, time: Duration) -> Self {
        self.providers.values_mut().for_each(|it| it.limiters.close_circuits_after(time));
        self
    }

    /// Sets up the providers of a suite. `providers` is the map of the same name in its config.
    ///
    /// Providers that need no configuration (for example `openai`, with its default key variable) are available even if
    /// the map does not name them. `files` loads the replies of `scripted`. Fails with all problems; their pointers are
    /// relative to this map.
    pub fn new(
        providers: &Map<String, Value>,
        files: &dyn Files,
        options: ClientOptions,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut ready = HashMap::new();
        let mut secured = Vec::new();
        let mut commands = Vec::new();
        for (name, config) in providers {
            let connected = connect(&options.known, name, config, files)
                .and_then(|via| Ok((via, security_of(&options.known, name, config, files)?)));
            match connected {
                Ok((via, security)) => {
                    secured.extend(security.map(|it| (name, it)));
                    commands.extend(credentials::command_of(config).map(|it| (name, it)));
                    ready.insert(name.clone(), Provider::new(via, name, &options));
                }
                Err(found) => {
                    let at = format!("/{}", pointer::segment(name));
                    problems.extend(found.into_iter().map(|it| it.under(&at)));
                }
            }
        }
        for registration in options.known.iter() {
            let name = registration.meta.id;
            if !providers.contains_key(name)
                && let Some(config) = registration.default_config()
                && let Ok(via) = open(registration, &config, files)
            {
                ready.insert(name.to_owned(), Provider::new(via, name, &options));
            }
        }
        let ClientOptions { transport, working_dir, scripts, .. } = options;
        #[cfg(feature = "process")]
        let guard = Guard::default();
        #[cfg(feature = "process")]
        let transport = {
            let secrets = transport.secrets.clone();
            let run = credentials::runner(working_dir.clone(), guard.clone(), secrets);
            TransportOptions { run_command: Some(run), ..transport }
        };
        let transport = HttpTransport::new(transport)
            .map_err(|err| problems.push(Problem::new("", err.to_string())));
        match transport {
            Ok(mut transport) if problems.is_empty() => {
                for (name, security) in secured {
                    transport = transport.with_security(name, security);
                }
                for (name, command) in commands {
                    transport = transport.with_credential(name, command);
                }
                Ok(Self {
                    providers: ready,
                    transport,
                    working_dir,
                    scripts,
                    #[cfg(feature = "process")]
                    guard,
                })
            }
            _ => Err(problems),
        }
    }

    /// Returns the provider with this name, or an error that suggests similar names.
    fn provider(&self, name: &str) -> Result<&Provider, ProviderError> {
        self.providers.get(name).ok_or_else(|| {
            let mut known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            known.sort_unstable();
            let help = suggest(name, "providers that are set up", known);
            let message = format!("provider `{name}` is not set up: {help}");
            not_sent(ProviderErrorKind::InvalidRequest, name, message)
        })
    }

    /// Returns the interface to the models of this client. With the feature `process`, it includes commands and agents.
    pub fn ports(&self) -> Ports<'_> {
        let ports = Ports::new(self);
        #[cfg(feature = "process")]
        let ports = ports.with_commands(self).with_agents(self);
        ports
    }

    async fn complete(
        &self,
        name: &str,
        prompt: &Prompt,
        timeout: Duration,
        budget: &dyn AttemptBudget,
    ) -> Result<Reply, ProviderError> {
        let provider = self.provider(name)?;
        let limiter = provider.limiters.to(&prompt.model);
        let tokens = if limiter.counts_tokens() { limit::estimate(prompt) } else { 0 };
        let queued = limiter.enqueue(tokens).paid_by(budget);
        let result = self.ask_in_form(name, provider, prompt, timeout, &queued).await;
        let result = result.map_err(|err| with_window(name, &prompt.model, err));
        provider.record_result(&limiter, &result);
        let mut reply = provider.vouched(result?);
        make_ids_unique(&mut reply.tool_calls);
        Ok(reply)
    }

    /// Sends a prompt in the form that the model is known to accept. If the choice is automatic and the server does not
    /// support the form, sends the prompt in the next form.
    async fn ask_in_form(
        &self,
        name: &str,
        provider: &Provider,
        prompt: &Prompt,
        timeout: Duration,
        queued: &QueuedCall<'_>,
    ) -> Result<Reply, ProviderError> {
        let mut refused = 0;
        loop {
            let choice = provider.form(&prompt.model);
            let form = provider.forms.for_model(choice, &prompt.model);
            let in_form = form.asked(prompt);
            let err = match self.ask(name, &provider.via, &in_form, timeout, queued).await {
                Ok(reply) => {
                    let attempts = reply.attempts.saturating_add(refused);
                    return Ok(form.read_reply(prompt, Reply { attempts, ..reply }));
                }
                Err(err) => err,
            };
            let next = form.after(&err);
            let is_free = choice == FormChoice::Automatic && prompt.response_format.is_some();
            let Some(next) = next.filter(|_| is_free) else { return Err(err) };
            refused += err.attempts;
            if provider.forms.learn(&prompt.model, next) {
                let (target, why) = (queued.target(), err.message);
                self.transport.options().waits.report(Notice::Form { target, form: next, why });
            }
        }
    }

    async fn ask(
        &self,
        name: &str,
        via: &Via,
        prompt: &Prompt,
        timeout: Duration,
        queued: &QueuedCall<'_>,
    ) -> Result<Reply, ProviderError> {
        if let Via::Http(codec) = via {
            // The provider may charge for an answer, so a missing runner is reported before the first request.
            let reading = match codec.reading() {
                Some(source) => {
                    Some((source, self.scripts.as_ref().ok_or_else(|| no_scripts(name))?))
                }
                None => None,
            };
            let opening = codec.session(prompt).map_err(|err| before_sending(name, err))?;
            let in_session;
            let prompt = match opening {
                None => prompt,
                Some(request) => {
                    let decode = |response: &_| codec.in_session(prompt, response);
                    let queued = queued.poll();
                    let called = self.transport.call(name, &request, timeout, &queued, decode);
                    in_session = Box::pin(called).await?.value;
                    &in_session
                }
            };
            let request = codec.encode(prompt).map_err(|err| before_sending(name, err))?;
            if let Some((source, scripts)) = reading {
                let accept = |response: &HttpResponse| {
                    codec.accept(response)?;
                    Ok(response.clone())
                };
                let called = self.transport.call(name, &request, timeout, queued, accept).await?;
                let script = crate::http::ScriptRead { name, source, prompt, timeout };
                let reply = Box::pin(script.read_reply(scripts, &called)).await?;
                // The rate limiter counted estimated tokens. The reported tokens replace them.
                queued.used_after_all(reply.usage.total_tokens);
                return Ok(reply);
            }
            let decode = |response: &_| {
                let decoded = reply_or_next(&**codec, prompt, response);
                if let Ok(Ok(reply)) = &decoded {
                    queued.used(reply.usage.total_tokens);
                }
                decoded
            };
            let called = self.transport.call(name, &request, timeout, queued, decode).await?;
            let (latency_ms, attempts) = (called.latency_ms, called.attempts);
            return match called.value {
                Ok(reply) => Ok(Reply { latency_ms, attempts, ..reply }),
                Err(next) => {
                    let rest = Unfinished { next, latency_ms, attempts };
                    Box::pin(self.finish(name, &**codec, prompt, timeout, queued, rest)).await
                }
            };
        }
        // The future of a program is large. It is boxed to keep the future of every HTTP request small.
        Box::pin(self.ask_elsewhere(name, via, prompt, timeout, queued)).await
    }

    /// Asks for an unfinished answer again, after pauses, until it is finished. Fails at the timeout, which covers the
    /// successful attempt of the first request and everything after it. Every error counts as a lost answer, because
    /// the provider may charge for the answer.
    async fn finish(
        &self,
        name: &str,
        codec: &dyn Codec,
        prompt: &Prompt,
        timeout: Duration,
        queued: &QueuedCall<'_>,
        rest: Unfinished,
    ) -> Result<Reply, ProviderError> {
        let before = Duration::try_from_secs_f64(rest.latency_ms / 1000.0).unwrap_or_default();
        let (started, attempts) = (Instant::now(), rest.attempts);
        let left = timeout.saturating_sub(before);
        let queued_poll = queued.poll();
        let polls = self.poll(name, codec, prompt, left, &queued_poll, rest.next);
        // The timeout of a poll covers one attempt; this timeout also covers the retries and the waits between them.
        let polled = tokio::time::timeout(left, polls).await.unwrap_or(Ok(None));
        let finished = polled.and_then(|reply| {
            reply.ok_or_else(|| {
                let message = format!(
                    "the answer is not finished after {} ms: set a longer `timeoutMs`",
                    timeout.as_millis()
                );
                ProviderError::new(ProviderErrorKind::Timeout, name, message)
            })
        });
        let reply = finished.map_err(|err| ProviderError { attempts, ..err.lost() })?;
        queued.used_after_all(reply.usage.total_tokens);
        let latency_ms = (before + started.elapsed()).as_secs_f64() * 1000.0;
        Ok(Reply { latency_ms, attempts, ..reply })
    }

    /// Asks for an unfinished answer again, after pauses. Returns `None` if the timeout ends before the next request.
    async fn poll(
        &self,
        name: &str,
        codec: &dyn Codec,
        prompt: &Prompt,
        timeout: Duration,
        queued: &QueuedCall<'_>,
        mut next: Box<HttpRequest>,
    ) -> Result<Option<Reply>, ProviderError> {
        let started = Instant::now();
        let pause = self.transport.options().retry.base_delay;
        loop {
            let left = timeout.saturating_sub(started.elapsed() + pause);
            if left.is_zero() {
                return Ok(None);
            }
            tokio::time::sleep(pause).await;
            let decode = |response: &_| reply_or_next(codec, prompt, response);
            match self.transport.call(name, &next, left, queued, decode).await?.value {
                Ok(reply) => return Ok(Some(reply)),
                Err(unfinished) => next = unfinished,
            }
        }
    }

    /// Sends a prompt to a provider without a codec, with retries.
    async fn ask_elsewhere(
        &self,
        name: &str,
        via: &Via,
        prompt: &Prompt,
        timeout: Duration,
        queued: &QueuedCall<'_>,
    ) -> Result<Reply, ProviderError> {
        let reads_media = match via {
            Via::Scripted(_) | Via::Echo(_) => true,
            #[cfg(feature = "websocket")]
            Via::Socket(_) => true,
            _ => false,
        };
        if !reads_media {
            content::texts_or_raw(name, prompt).map_err(|err| before_sending(name, err))?;
        }
        let attempt = || async {
            match via {
                Via::Scripted(script) => wait(name, script.reply(name, prompt), timeout).await,
                Via::Echo(echo) => Ok(echo.reply(prompt)),
                Via::Script(script) => self.run_script(script, prompt, timeout).await,
                #[cfg(feature = "mcp")]
                Via::Mcp(mcp) => mcp.ask(&self.transport, name, prompt, timeout).await,
                #[cfg(feature = "websocket")]
                Via::WebSocket(socket) => {
                    let scripts = self.scripts.as_ref().ok_or_else(|| no_scripts(name))?;
                    let tools = (&self.transport, scripts);
                    crate::websocket::ask(socket, tools, name, prompt, timeout).await
                }
                #[cfg(feature = "websocket")]
                Via::Socket(codec) => {
                    let (codec, provider) = (&**codec, name);
                    let request = socket::SocketRequest { provider, codec, prompt, timeout };
                    request.ask(&self.transport, self.scripts.as_ref()).await
                }
                #[cfg(feature = "process")]
                Via::Command(command) => {
                    let place = (&*self.working_dir, &self.guard);
                    crate::command::ask(command, place, name, prompt, timeout).await
                }
                Via::Http(_) => Err(not_compiled_in(name, "http")),
            }
        };
        let (reply, attempts) =
            with_retries(self.transport.way(), queued, attempt).await.map_err(named(name))?;
        queued.used(reply.usage.total_tokens);
        Ok(Reply { attempts, ..reply })
    }

    async fn run_script(
        &self,
        script: &crate::script::Config,
        prompt: &Prompt,
        timeout: Duration,
    ) -> Result<Reply, ProviderError> {
        let scripts = self.scripts.as_ref().ok_or_else(|| no_scripts("script"))?;
        crate::script::ask(script, scripts, prompt, timeout).await
    }

    async fn embed(
        &self,
        name: &str,
        model: &str,
        text: &str,
        timeout: Duration,
    ) -> Result<Embedding, ProviderError> {
        let provider = self.provider(name)?;
        let limiter = provider.limiters.to(model);
        let queued = limiter.enqueue(limit::tokens_of(text));
        match &provider.via {
            Via::Http(codec) => {
                let request =
                    codec.encode_embedding(model, text).map_err(|err| before_sending(name, err))?;
                let decode = |response: &_| codec.decode_embedding(response);
                let called = self.transport.call(name, &request, timeout, &queued, decode).await;
                provider.record_result(&limiter, &called);
                let embedding = called?.value;
                let made_by = codec.embedding_model(model);
                if made_by == model {
                    return Ok(embedding);
                }
                let price = crate::pricing::price(name, made_by);
                let cost_usd = price.and_then(|it| it.cost_if_counted(&embedding.usage));
                Ok(Embedding { substituted: true, cost_usd, ..embedding })
            }
            Via::Scripted(script) => {
                let attempt = || wait(name, script.embedding(name, model, text), timeout);
                let reply = with_retries(self.transport.way(), &queued, attempt).await;
                Ok(Embedding::new(reply.map_err(named(name))?.0, Usage::default()))
            }
            _ => {
                let message = "this provider cannot make embeddings; name a model of another one";
                Err(not_sent(ProviderErrorKind::Unsupported, name, message.to_owned()))
            }
        }
    }
}

impl<'a> From<&'a Client> for Ports<'a> {
    fn from(client: &'a Client) -> Self {
        client.ports()
    }
}

impl Models for Client {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(self.complete(provider, prompt, timeout, budget))
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        Box::pin(self.embed(provider, model, text, timeout))
    }

    fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    fn limits_calls(&self) -> bool {
        self.transport.options().concurrency.is_some()
    }
}

#[cfg(feature = "process")]
impl Commands for Client {
    fn run_command<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        Box::pin(async move {
            let _slot = self.transport.slot().await;
            kindlm_agents::run_guarded(command, &self.working_dir, &self.guard).await
        })
    }
}

#[cfg(feature = "process")]
impl Agents for Client {
    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        Box::pin(async move {
            let slot = self.transport.slot_unless_stopped().await?;
            let surroundings =
                Surroundings::new(&self.working_dir, &*self.transport.options().env, &self.guard);
            kindlm_agents::agent::start(start, surroundings, slot).await
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&String> = self.providers.keys().collect();
        names.sort_unstable();
        f.debug_struct("Client").field("providers", &names).finish_non_exhaustive()
    }
}

/// Decodes a response. For an unfinished answer, the inner `Err` is the request that asks for the rest of the answer.
fn reply_or_next(
    codec: &dyn Codec,
    prompt: &Prompt,
    response: &HttpResponse,
) -> Result<Result<Reply, Box<HttpRequest>>, ProviderError> {
    if let Some(next) = codec.unfinished(response) {
        return Ok(Err(Box::new(next)));
    }
    codec.decode(prompt, response).map(Ok)
}

/// Makes the ids of the calls of one answer unique: `a`, `a_2`, `a_3`.
///
/// If two calls shared an id, their results could not be assigned to them.
fn make_ids_unique(calls: &mut [ToolCall]) {
    for at in 1..calls.len() {
        let (before, rest) = calls.split_at_mut(at);
        let Some(call) = rest.first_mut() else { return };
        let is_taken = |id: &str| before.iter().any(|it| it.id == id);
        if is_taken(&call.id) {
            let free = (2..=at + 1).map(|n| format!("{}_{n}", call.id)).find(|it| !is_taken(it));
            call.id = free.unwrap_or_default();
        }
    }
}

/// Adds the model's context window to the error of a prompt that is too long, if the window is known.
fn with_window(provider: &str, model: &str, err: ProviderError) -> ProviderError {
    match crate::pricing::max_input(provider, model) {
        Some(window) if err.kind == ProviderErrorKind::ContextLength => {
            let message = format!("{} (`{model}` reads at most {window} tokens)", err.message);
            ProviderError { message, ..err }
        }
        _ => err,
    }
}

/// Waits for the latency of a scripted answer, and returns its result. Fails at the timeout if the latency is longer.
async fn wait<T>(provider: &str, answer: Answer<T>, timeout: Duration) -> Result<T, ProviderError> {
    if answer.latency.is_zero() {
        return answer.result;
    }
    tokio::time::sleep(answer.latency.min(timeout)).await;
    if answer.latency <= timeout {
        return answer.result;
    }
    let message = format!(
        "the scripted reply takes {} ms, longer than the timeout of {} ms",
        answer.latency.as_millis(),
        timeout.as_millis(),
    );
    Err(ProviderError::new(ProviderErrorKind::Timeout, provider, message).retryable())
}

/// Returns a function that sets the provider's name in an error.
fn named(provider: &str) -> impl Fn(ProviderError) -> ProviderError {
    move |err| ProviderError { provider: provider.to_owned(), ..err }
}

/// Returns a codec's encoding error with the provider's name and 0 attempts.
fn before_sending(provider: &str, err: ProviderError) -> ProviderError {
    ProviderError { attempts: 0, provider: provider.to_owned(), ..err }
}

fn no_scripts(provider: &str) -> ProviderError {
    let message = "this provider needs a script, and scripts are not run here: set `ClientOptions::scripts`, or use \
                   another provider";
    not_sent(ProviderErrorKind::Unsupported, provider, message.to_owned())
}

fn not_compiled_in(provider: &str, feature: &str) -> ProviderError {
    let message = format!("this build of KindLM is without `{feature}`");
    not_sent(ProviderErrorKind::Unsupported, provider, message)
}

fn not_sent(kind: ProviderErrorKind, provider: &str, message: String) -> ProviderError {
    let mut err = ProviderError::new(kind, provider, message);
    err.attempts = 0;
    err
}
