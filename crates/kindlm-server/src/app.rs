//! The services behind the routes: [`App`].

use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::Redactor;
use kindlm_run::TracePrices;
use kindlm_run::evaluate::service::RecordService;
use tokio::sync::{Mutex, Notify};

use crate::alerts::Alerts;
use crate::embed_origin::EmbedOrigin;
use crate::metrics::Metrics;
use crate::runs::RunService;
use crate::store::Store;

/// The default time after which the sample of a trace is evaluated. By default, OpenTelemetry SDKs send a span within 5
/// seconds after its end.
pub const TRACE_DELAY: Duration = Duration::from_secs(10);

/// The default lease: after this time without a heartbeat of a process, its unfinished samples return to the queue.
pub const LEASE: Duration = Duration::from_mins(1);

/// The default number of samples that are evaluated at once.
pub const WORKERS: usize = 4;

/// The services behind the routes. Clones share them.
#[derive(Clone, Debug)]
pub struct App {
    /// The service that evaluates records.
    pub records: RecordService,
    /// The service that runs suites.
    pub runs: RunService,
    /// The database.
    pub store: Store,
    /// Masks personal data in samples before they are stored. With `None`, samples are stored unchanged.
    pub redactor: Option<Arc<Redactor>>,
    /// The origins whose pages may show the panel in a frame.
    pub(crate) embed_origins: Arc<[EmbedOrigin]>,
    /// The settings of alerts.
    pub(crate) alerts: Arc<Alerts>,
    /// The time after which the sample of a trace is evaluated. Spans that arrive earlier change the sample.
    pub(crate) trace_delay: Duration,
    /// The prices of the models in traces.
    pub(crate) trace_prices: Arc<TracePrices>,
    /// The age in days at which samples are deleted; `None` if they are never deleted.
    pub(crate) keep_days: Option<u32>,
    /// The number of samples that are evaluated at once; at least 1.
    pub(crate) workers: usize,
    /// The lease: after this time without a heartbeat of a process, its unfinished samples return to the queue.
    pub(crate) lease: Duration,
    /// Counts requests and evaluations.
    pub(crate) metrics: Metrics,
    /// Notified when samples are stored, so that the worker that evaluates samples looks into the queue.
    pub(crate) wake: Arc<Notify>,
    /// Locked while a request changes the file of a suite and stores the versions of the file.
    pub(crate) suite_edits: Arc<Mutex<()>>,
}

impl App {
    /// Creates the services with the default settings. `redactor` masks personal data in samples; with `None`, samples
    /// are stored unchanged.
    pub fn new(
        records: RecordService,
        runs: RunService,
        store: Store,
        redactor: Option<Redactor>,
    ) -> Self {
        let (metrics, wake) = (Metrics::new(), Arc::default());
        let (redactor, embed_origins) = (redactor.map(Arc::new), Arc::default());
        let alerts = Arc::default();
        let trace_prices = Arc::default();
        let (trace_delay, workers) = (TRACE_DELAY, WORKERS);
        Self {
            records,
            runs,
            store,
            redactor,
            embed_origins,
            alerts,
            trace_delay,
            trace_prices,
            keep_days: None,
            workers,
            lease: LEASE,
            metrics,
            wake,
            suite_edits: Arc::default(),
        }
    }

    /// Sets the time after which the sample of a trace is evaluated ([`TRACE_DELAY`] by default), and the prices of the
    /// models in traces.
    #[must_use]
    pub fn with_traces(self, trace_delay: Duration, prices: TracePrices) -> Self {
        Self { trace_delay, trace_prices: Arc::new(prices), ..self }
    }

    /// Changes the number of samples that are evaluated at once: [`WORKERS`] by default, and at least 1.
    #[must_use]
    pub fn with_workers(self, workers: usize) -> Self {
        Self { workers: workers.max(1), ..self }
    }

    /// Changes the lease, which is [`LEASE`] by default: after this time without a heartbeat of a process, its
    /// unfinished samples return to the queue. All servers that share a database need the same lease.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Sets the age in days at which samples are deleted, with their results and feedback; `None` to delete none.
    #[must_use]
    pub fn with_keep_days(self, keep_days: Option<u32>) -> Self {
        Self { keep_days, ..self }
    }

    /// Changes the settings of alerts.
    #[must_use]
    pub fn with_alerts(self, alerts: Alerts) -> Self {
        Self { alerts: Arc::new(alerts), ..self }
    }

    /// Permits pages of these origins to show the panel in a frame.
    #[must_use]
    pub fn with_embed_origins(self, origins: Vec<EmbedOrigin>) -> Self {
        Self { embed_origins: origins.into(), ..self }
    }
}
