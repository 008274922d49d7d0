//! The HTTP client: sends requests, with limits and retries, and reads responses.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kindlm_types::{ProviderError, ProviderErrorKind};
use reqwest::header::CONTENT_TYPE;
use tokio::sync::Semaphore;

use crate::credential::{Credential, CredentialCommand, IssuedCredential};
use crate::fault::Fault;
use crate::limit::QueuedCall;
use crate::options::{Env, TransportOptions};
use crate::prepared::{Preparations, Prepared};
use crate::retry::{self, Awaited, NotBegun, Way, is_worth_it, with_prepared_retries};
use crate::secret::{Secrets, filled};
use crate::security::ProviderSecurity;
use crate::tls::{self, CaError};
use crate::{Arrival, HttpRequest, HttpResponse, redirect};

/// The HTTP transport: one shared client, its options and its concurrency limit.
#[derive(Debug)]
pub struct HttpTransport {
    options: TransportOptions,
    client: OnceLock<Result<reqwest::Client, String>>,
    slots: Option<Semaphore>,
    preparations: Preparations,
    /// The TLS settings and the signing keys, by provider name.
    own: HashMap<String, ProviderSecurity>,
    /// The credentials that commands print, by provider name.
    credentials: HashMap<String, Credential>,
    /// The client for websockets. A websocket needs HTTP/1.1.
    #[cfg(feature = "websocket")]
    sockets: OnceLock<Result<reqwest::Client, String>>,
}

/// A decoded response, with the latency and the number of attempts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Called<T> {
    /// The value that `decode` returned.
    pub value: T,
    /// The latency of the successful attempt, in milliseconds. It ends with the last byte of the response.
    pub latency_ms: f64,
    /// The number of attempts, including the successful attempt.
    pub attempts: u32,
}

/// A request whose variables are resolved.
struct ReadyRequest<'r> {
    client: &'r reqwest::Client,
    request: Cow<'r, HttpRequest>,
    /// The values of the variables in the request.
    secrets: Secrets,
    prepared: Arc<Prepared>,
}

impl ReadyRequest<'_> {
    /// Redacts the secrets of the request in an error message.
    fn redact(&self, err: ProviderError) -> ProviderError {
        self.secrets.redact(self.prepared.secrets.redact(err))
    }
}

impl HttpTransport {
    /// Creates a transport, but does not connect. Fails if `options.ca_pem` is invalid PEM or holds no certificate.
    pub fn new(options: TransportOptions) -> Result<Self, CaError> {
        tls::check(options.ca_pem.as_deref())?;
        let slots =
            options.concurrency.map(|it| Semaphore::new(it.clamp(1, Semaphore::MAX_PERMITS)));
        let preparations = Preparations::default();
        Ok(Self {
            options,
            client: OnceLock::new(),
            slots,
            preparations,
            own: HashMap::new(),
            credentials: HashMap::new(),
            #[cfg(feature = "websocket")]
            sockets: OnceLock::new(),
        })
    }

    /// Sets the TLS settings and the signing key of a provider.
    #[must_use]
    pub fn with_security(mut self, provider: &str, security: ProviderSecurity) -> Self {
        self.own.insert(provider.to_owned(), security);
        self
    }

    /// Sets the command that prints the credential of a provider. The command runs before the first request of the
    /// provider.
    #[must_use]
    pub fn with_credential(mut self, provider: &str, command: CredentialCommand) -> Self {
        self.credentials.insert(provider.to_owned(), Credential::new(command));
        self
    }

    /// Sends a request, with retries, and decodes the response with `decode`.
    ///
    /// `timeout` covers one attempt, from connecting to the last byte of the response. The wait for the rate limiter of
    /// `queued` is not included, nor is the wait for a slot of the concurrency limit. `decode` gets every response
    /// except redirects, with any status. Retryable errors of the transport and of `decode` lead to a retry.
    ///
    /// If a command prints the provider's credential, each attempt uses the current one. If the provider refuses the
    /// credential, and a newer credential is available, the request is sent again.
    ///
    /// Fails if the request cannot be sent, or if no attempt succeeds.
    pub async fn call<T>(
        &self,
        provider: &str,
        request: &HttpRequest,
        timeout: Duration,
        queued: &QueuedCall<'_>,
        decode: impl Fn(&HttpResponse) -> Result<T, ProviderError>,
    ) -> Result<Called<T>, ProviderError> {
        let (asked, used) = ((provider, request), Mutex::default());
        let err = match self.send(asked, &used, timeout, queued, &decode).await {
            Ok(called) => return Ok(called),
            Err(err) => err,
        };
        let before = err.attempts;
        let counted = |err: ProviderError| {
            let attempts = before.saturating_add(err.attempts);
            ProviderError { attempts, ..err }
        };
        let refused = used.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.newer(provider, refused.as_ref(), &err).await?.is_none() {
            return Err(err);
        }
        let again = Box::pin(self.send(asked, &used, timeout, queued, &decode));
        let Called { value, latency_ms, attempts } = again.await.map_err(counted)?;
        Ok(Called { value, latency_ms, attempts: before.saturating_add(attempts) })
    }

    /// Sends a request with the current credential of the provider, or with none. See [`call`](Self::call).
    ///
    /// `used` is set to the credential of the last attempt.
    async fn send<T>(
        &self,
        (provider, request): (&str, &HttpRequest),
        used: &Mutex<Option<IssuedCredential>>,
        timeout: Duration,
        queued: &QueuedCall<'_>,
        decode: &impl Fn(&HttpResponse) -> Result<T, ProviderError>,
    ) -> Result<Called<T>, ProviderError> {
        let prepare = || self.ready(provider, request, used);
        let attempt = |ready| self.attempt(provider, ready, timeout, decode);
        match with_prepared_retries(self.way(), queued, prepare, attempt).await {
            Ok(((value, latency_ms), attempts)) => Ok(Called { value, latency_ms, attempts }),
            Err(err) => Err(ProviderError { provider: provider.to_owned(), ..err }),
        }
    }

    /// Resolves the variables of a request with the provider's current credential. Sets `used` to this credential.
    /// Fails if the request cannot be prepared, or if the waits are stopped.
    async fn ready<'r>(
        &'r self,
        provider: &str,
        request: &'r HttpRequest,
        used: &Mutex<Option<IssuedCredential>>,
    ) -> Result<ReadyRequest<'r>, NotBegun> {
        let issued = self.issued(provider).await?;
        let env = self.env_of(provider, issued.as_ref())?;
        let (request, secrets) = filled(provider, request, &*env)?;
        let prepared = self.prepared(provider, &request, &env, issued.as_ref())?;
        let client = self.client(provider)?;
        *used.lock().unwrap_or_else(PoisonError::into_inner) = issued;
        Ok(ReadyRequest { client, request, secrets, prepared })
    }

    /// Sends a request once. Returns the decoded response with the latency in milliseconds.
    async fn attempt<T>(
        &self,
        provider: &str,
        ready: ReadyRequest<'_>,
        timeout: Duration,
        decode: &impl Fn(&HttpResponse) -> Result<T, ProviderError>,
    ) -> Result<(T, f64), ProviderError> {
        let answered = self.answered(provider, &ready, timeout, decode).await;
        answered.map_err(|err| ready.redact(err))
    }

    /// Sends a request once. Errors may contain secrets of the request.
    async fn answered<T>(
        &self,
        provider: &str,
        ready: &ReadyRequest<'_>,
        timeout: Duration,
        decode: &impl Fn(&HttpResponse) -> Result<T, ProviderError>,
    ) -> Result<(T, f64), ProviderError> {
        let (request, prepared) = (&*ready.request, &*ready.prepared);
        let fault = Fault::new(provider, request.address_key(), &prepared.url);
        let started = Instant::now();
        let exchange = self.exchange(ready.client, (provider, request), prepared, &fault, started);
        let response = tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(fault.timeout(timeout)))?;
        let latency_ms = started.elapsed().as_secs_f64() * 1000.0;
        let value = decode(&response).map_err(|err| {
            // Decode the redacted response again, because redaction of a truncated error message would miss a part of
            // a key.
            let again = |of: &Secrets| decode(&of.without(&response)?).err();
            let redacted = again(&prepared.secrets).or_else(|| again(&ready.secrets));
            let mut err = redacted.unwrap_or(err);
            err.status = err.status.or(Some(response.status));
            err.retry_after = err.retry_after.or_else(|| retry::retry_after(&response));
            err.retryable = is_worth_it(&err);
            fault.answered(err, &response)
        })?;
        Ok((value, latency_ms))
    }

    /// Sends the request, follows the allowed redirects, and reads the final response. Fails in these cases:
    /// - The request cannot be signed, or gets no response.
    /// - A redirect is not allowed.
    /// - The response cannot be read.
    async fn exchange(
        &self,
        client: &reqwest::Client,
        (provider, request): (&str, &HttpRequest),
        prepared: &Prepared,
        fault: &Fault<'_>,
        started: Instant,
    ) -> Result<HttpResponse, ProviderError> {
        let mut redirected = None;
        for _ in 0..=redirect::MOST {
            let url = redirected.as_ref().unwrap_or(&prepared.url);
            let response = client
                .execute(prepared.request(provider, url, request)?)
                .await
                .map_err(|err| fault.connection(&err))?;
            if !redirect::is_one(response.status()) {
                return self.read_response(response, fault, started).await;
            }
            let to = redirect::follow(url, request.method, &response)
                .map_err(|message| fault.redirect(response.status(), &message))?;
            redirected = Some(to);
        }
        Err(fault.redirect(
            reqwest::StatusCode::FOUND,
            &format!("redirected more than {} times", redirect::MOST),
        ))
    }

    /// Reads a response. `started` is the time of the request, for the arrivals of a stream.
    ///
    /// Fails if the body exceeds the size limit, stalls, breaks off or cannot be decompressed.
    pub(crate) async fn read_response(
        &self,
        mut response: reqwest::Response,
        fault: &Fault<'_>,
        started: Instant,
    ) -> Result<HttpResponse, ProviderError> {
        let limit = self.options.max_body;
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(fault.too_large(limit));
        }
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        let content_type = response.headers().get(CONTENT_TYPE);
        let is_stream =
            content_type.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
        let (mut body, mut arrivals) = (Vec::new(), Vec::new());
        while let Some(chunk) = self.chunk(&mut response, body.len(), fault).await? {
            let chunk = chunk.as_ref();
            if body.len() as u64 + chunk.len() as u64 > limit {
                return Err(fault.too_large(limit));
            }
            body.extend_from_slice(chunk);
            if is_stream {
                arrivals.push(Arrival { end: body.len(), after: started.elapsed() });
            }
        }
        Ok(HttpResponse { status, headers, body, arrivals })
    }

    /// Reads the next chunk of a response. Returns `None` at the end of the response. `read` is the number of bytes so
    /// far, for error messages.
    async fn chunk(
        &self,
        response: &mut reqwest::Response,
        read: usize,
        fault: &Fault<'_>,
    ) -> Result<Option<impl AsRef<[u8]>>, ProviderError> {
        let idle = self.options.idle_timeout;
        match tokio::time::timeout(idle, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|err| fault.body(&err)),
            Err(_) => Err(fault.stalled(idle, read)),
        }
    }

    /// Returns the credential that the command of a provider prints; `None` without such a command. Runs the command if
    /// necessary. Fails if the command fails, or the waits are stopped.
    pub(crate) async fn issued(
        &self,
        provider: &str,
    ) -> Result<Option<IssuedCredential>, NotBegun> {
        let Some(credential) = self.credentials.get(provider) else { return Ok(None) };
        match self.unless_stopped(credential.current(provider, &self.options)).await {
            Some(issued) => Ok(Some(issued?)),
            None => Err(NotBegun::Stopped(Awaited::Credential)),
        }
    }

    /// Returns a newer credential after a request failed with `err`. Returns `None` if the provider did not refuse the
    /// credential `used`, or if there is no newer one. Fails if the command fails, or if the waits are stopped. Either
    /// error has the attempts of `err`.
    pub(crate) async fn newer(
        &self,
        provider: &str,
        used: Option<&IssuedCredential>,
        err: &ProviderError,
    ) -> Result<Option<IssuedCredential>, ProviderError> {
        match (self.credentials.get(provider), used, err.status) {
            (Some(credential), Some(used), Some(401 | 403)) => {
                let newer = credential.after_refusal(used, provider, &self.options);
                let stopped = || Err(retry::stopped_instead(err.clone(), Awaited::Credential));
                let newer = self.unless_stopped(newer).await.unwrap_or_else(stopped);
                newer.map_err(|failure| ProviderError { attempts: err.attempts, ..failure })
            }
            _ => Ok(None),
        }
    }

    /// Waits for a credential. Returns `None` if the waits are stopped first.
    async fn unless_stopped<T>(&self, credential: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            credential = credential => Some(credential),
            () = self.options.waits.stopped() => None,
        }
    }

    /// Returns a look-up of variables for a request. It also resolves the variables of `issued`, and those of a new
    /// signature if the provider has a signing key. Fails if the key cannot sign.
    pub(crate) fn env_of(
        &self,
        provider: &str,
        issued: Option<&IssuedCredential>,
    ) -> Result<Env, ProviderError> {
        let env = &self.options.env;
        let env = issued.map_or_else(|| Arc::clone(env), |it| it.over(env));
        match self.own.get(provider).and_then(|it| it.signed(&env)) {
            None => Ok(env),
            Some(signed) => signed.map_err(|why| {
                let message = format!("the request cannot be signed: {why}");
                let err = ProviderError::new(ProviderErrorKind::InvalidRequest, provider, message);
                ProviderError { attempts: 0, ..err }
            }),
        }
    }

    /// Returns the prepared parts of a request. Fails if it cannot be prepared.
    pub(crate) fn prepared(
        &self,
        provider: &str,
        request: &HttpRequest,
        env: &Env,
        issued: Option<&IssuedCredential>,
    ) -> Result<Arc<Prepared>, ProviderError> {
        self.preparations.get_or_prepare(provider, request, (env, issued.map_or(0, |it| it.number)))
    }

    /// Returns the client of websockets, which is built on first use. Fails if it cannot be built.
    #[cfg(feature = "websocket")]
    pub(crate) fn socket_client(&self, provider: &str) -> Result<&reqwest::Client, ProviderError> {
        let built = self.sockets.get_or_init(|| tls::build_for_sockets(&self.options));
        built.as_ref().map_err(|message| not_set_up(provider, message))
    }

    /// Returns the HTTP client of a provider, which is built on first use. Providers without TLS settings of their own
    /// share one client. Fails if the client cannot be built.
    pub fn client(&self, provider: &str) -> Result<&reqwest::Client, ProviderError> {
        match self.own.get(provider).and_then(|it| it.client(&self.options)) {
            Some(built) => built.as_ref().map_err(|message| not_set_up(provider, message)),
            None => self.shared_client(provider),
        }
    }

    /// Returns the HTTP client that providers without TLS settings share. Builds the client on first use. Fails if it
    /// cannot be built. The error names `user` as the provider.
    pub(crate) fn shared_client(&self, user: &str) -> Result<&reqwest::Client, ProviderError> {
        let built = self.client.get_or_init(|| tls::build(&self.options));
        built.as_ref().map_err(|message| not_set_up(user, message))
    }

    /// Waits for a slot of the concurrency limit. Returns `None` if concurrency is unlimited.
    pub async fn slot(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        match &self.slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        }
    }

    /// Waits for a slot of the concurrency limit, before a first attempt. Returns `None` if concurrency is unlimited.
    /// Fails if the waits are stopped.
    pub async fn slot_unless_stopped(
        &self,
    ) -> Result<Option<tokio::sync::SemaphorePermit<'_>>, ProviderError> {
        tokio::select! {
            biased;
            () = self.options.waits.stopped() => Err(retry::stopped_before(Awaited::Permit)),
            slot = self.slot() => Ok(slot),
        }
    }

    /// Returns the retry policy, the stop handle and the concurrency limit of attempts.
    pub fn way(&self) -> Way<'_> {
        Way { retry: &self.options.retry, waits: &self.options.waits, slots: self.slots.as_ref() }
    }

    /// Returns the options with which the transport was created.
    pub fn options(&self) -> &TransportOptions {
        &self.options
    }
}

fn not_set_up(provider: &str, message: &str) -> ProviderError {
    let message = format!("the HTTP client cannot be set up: {message}");
    let err = ProviderError::new(ProviderErrorKind::Connection, provider, message);
    ProviderError { attempts: 0, ..err }
}
