//! The services behind the routes: [`App`].

use std::sync::Arc;

use kindlm_assertions::Redactor;
use kindlm_run::evaluate::service::RecordService;
use tokio::sync::Notify;

use crate::alerts::Alerts;
use crate::embed_origin::EmbedOrigin;
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
    /// The origins whose pages may show the panel in a frame.
    pub(crate) embed_origins: Arc<[EmbedOrigin]>,
    /// The settings of alerts.
    pub(crate) alerts: Arc<Alerts>,
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
        let (redactor, embed_origins) = (redactor.map(Arc::new), Arc::default());
        let alerts = Arc::default();
        Self { records, runs, store, redactor, embed_origins, alerts, metrics, wake }
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
