//! The services behind the routes: [`App`].

use std::sync::Arc;

use kindlm_assertions::Redactor;
use kindlm_run::evaluate::service::RecordService;
use tokio::sync::Notify;

use crate::metrics::Metrics;
use crate::runs::RunService;
use crate::store::Store;

/// The services behind the routes. Clones share them.
#[derive(Clone, Debug)]
pub struct App {
    /// The service that evaluates records.
    pub records: RecordService,
    /// The service that runs suites.
    pub runs: RunService,
    /// The database.
    pub store: Store,
    /// Masks personal data in samples before they are stored; `None` stores them as they are.
    pub redactor: Option<Arc<Redactor>>,
    /// Counts requests and evaluations.
    pub(crate) metrics: Metrics,
    /// Wakes a worker of the monitor after samples were stored.
    pub(crate) wake: Arc<Notify>,
}

impl App {
    /// Creates the services.
    pub fn new(
        records: RecordService,
        runs: RunService,
        store: Store,
        redactor: Option<Redactor>,
    ) -> Self {
        let (metrics, wake) = (Metrics::new(), Arc::default());
        Self { records, runs, store, redactor: redactor.map(Arc::new), metrics, wake }
    }
}
