//! The options of the transport.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kindlm_types::BoxFuture;

use crate::retry::RetryPolicy;
use crate::waits::Waits;

/// A function that looks up an environment variable.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The default size limit of a response body, in bytes: 32 MiB.
pub const MAX_BODY: u64 = 32 * 1024 * 1024;

/// The default timeout for connecting, including TLS: 30 seconds.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The default maximum time between two chunks of a response: 1 minute.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// A function that runs a command line with a time limit, and returns its stdout. The error is the reason, with masked
/// secrets.
pub type RunCommand =
    Arc<dyn Fn(String, Duration) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// The options of the transport.
#[derive(Clone)]
pub struct TransportOptions {
    /// The look-up of the environment variables in requests.
    pub env: Env,
    /// The rules for retries of a request.
    pub retry: RetryPolicy,
    /// The certificates to trust in addition to the system's, in PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// The size limit of a response body, in bytes after decompression.
    pub max_body: u64,
    /// The timeout for connecting, independent of the request timeout.
    pub connect_timeout: Duration,
    /// The maximum time between two chunks of a response, independent of the request timeout.
    pub idle_timeout: Duration,
    /// True to use the proxies of `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`, or else of the operating system.
    ///
    /// Hosts in `NO_PROXY` are reached without a proxy.
    pub system_proxy: bool,
    /// The handle that ends waits for rate limiters and retries, and reports long waits.
    pub waits: Waits,
    /// The maximum number of concurrent requests to all providers; `None` for no limit.
    pub concurrency: Option<usize>,
    /// The runner of commands that print credentials; `None` if no such command can run.
    pub run_command: Option<RunCommand>,
    /// The secrets of the caller. The transport adds every printed credential by
    /// [`learn`](kindlm_redact::Secrets::learn).
    pub secrets: kindlm_redact::Secrets,
}

impl TransportOptions {
    /// Creates default options with this look-up of environment variables.
    pub fn new(env: Env) -> Self {
        Self {
            env,
            retry: RetryPolicy::default(),
            ca_pem: None,
            max_body: MAX_BODY,
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            system_proxy: true,
            waits: Waits::default(),
            concurrency: None,
            run_command: None,
            secrets: kindlm_redact::Secrets::default(),
        }
    }
}

impl fmt::Debug for TransportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportOptions")
            .field("retry", &self.retry)
            .field("max_body", &self.max_body)
            .field("system_proxy", &self.system_proxy)
            .finish_non_exhaustive()
    }
}
