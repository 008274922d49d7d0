//! How the transport behaves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::retry::RetryPolicy;
use crate::waits::Waits;

/// Looks up an environment variable.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The largest answer that is read, in bytes, unless set otherwise: 32 MiB.
pub const MAX_BODY: u64 = 32 * 1024 * 1024;

/// How long a connection may take to be made, unless set otherwise, with TLS and all.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an answer that has begun may pause, unless set otherwise.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// How the transport behaves.
#[derive(Clone)]
pub struct TransportOptions {
    /// Looks up the environment variables that requests name.
    pub env: Env,
    /// When to send again.
    pub retry: RetryPolicy,
    /// Certificates to trust besides the system's, in PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// The largest answer that is read, in bytes after decompression.
    pub max_body: u64,
    /// How long a connection may take to be made, however long the request may take.
    pub connect_timeout: Duration,
    /// How long an answer that has begun may pause, however long the request may take.
    pub idle_timeout: Duration,
    /// True if `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured.
    pub system_proxy: bool,
    /// Ends the waits for turns and retries, and hears of long ones.
    pub waits: Waits,
    /// How many requests may be on their way at once, to all providers together; any number if absent.
    pub concurrency: Option<usize>,
}

impl TransportOptions {
    /// The usual behaviour, with this environment.
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
