//! The numbers that `GET /metrics` shows to Prometheus.

use std::sync::Arc;

use kindlm_types::Outcome;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::store::queue::StateCount;

/// The names and values of labels.
type Labels = Vec<(&'static str, String)>;

/// Counters since the start of the process, and numbers of the database. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    requests: Family<Labels, Counter>,
    evaluations: Family<Labels, Counter>,
    stored: Counter,
    samples: Family<Labels, Gauge>,
    alerts: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("kindlm");
        let (requests, evaluations) = (Family::default(), Family::default());
        let (stored, samples) = (Counter::default(), Family::default());
        registry.register("requests", "Requests by status", Family::clone(&requests));
        let help = "Evaluated records and samples by source and outcome";
        registry.register("evaluations", help, Family::clone(&evaluations));
        registry.register("samples_stored", "Samples stored", Counter::clone(&stored));
        let help = "Samples in the database by state";
        registry.register("samples", help, Family::clone(&samples));
        let alerts = Gauge::default();
        registry.register("alerts_standing", "Alerts that stand", Gauge::clone(&alerts));
        Self { registry: Arc::new(registry), requests, evaluations, stored, samples, alerts }
    }

    /// Counts a response.
    pub(crate) fn add_request(&self, status: u16) {
        self.requests.get_or_create(&vec![("status", status.to_string())]).inc();
    }

    /// Counts an evaluation: its source (`request`, `page` or `sample`) and its outcome.
    pub(crate) fn add_evaluation(&self, source: &str, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Passed => "passed",
            Outcome::Scored => "scored",
            Outcome::Failed => "failed",
            Outcome::Errored => "errored",
            Outcome::Skipped => "skipped",
        };
        let labels = vec![("source", source.to_owned()), ("outcome", outcome.to_owned())];
        self.evaluations.get_or_create(&labels).inc();
    }

    /// Counts stored samples.
    pub(crate) fn add_samples(&self, samples: u64) {
        self.stored.inc_by(samples);
    }

    /// Returns all numbers in the text format of `OpenMetrics`. `alerts` is the number of alerts that stand.
    ///
    /// # Errors
    ///
    /// Fails if a number cannot be written, which is a bug.
    pub(crate) fn text(
        &self,
        states: &[StateCount],
        alerts: i64,
    ) -> Result<String, std::fmt::Error> {
        for name in ["pending", "done", "failed", "skipped", "over-budget"] {
            let count = states.iter().find(|it| it.state == name).map_or(0, |it| it.samples);
            self.samples.get_or_create(&vec![("state", name.to_owned())]).set(count);
        }
        self.alerts.set(alerts);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
