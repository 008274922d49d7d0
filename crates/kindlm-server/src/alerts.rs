//! Alerts about fallen pass rates, as clients see them: [`Alerts`].

use std::collections::BTreeMap;

use kindlm_run::World;
use kindlm_run::calibrate::{JudgeState, JudgeWatches};
use kindlm_stats::{Confidence, Tally};
use kindlm_types::percent;
use serde::Serialize;
use url::Url;
use utoipa::ToSchema;

use crate::store::alerts::{AGENT_REMOVED, AlertFilter, RECOVERED, StoredAlert};
use crate::store::{Store, StoreError, time_text};

/// The default of [`Alerts::reference`].
pub const REFERENCE: u64 = 100;

/// The settings of alerts.
#[derive(Clone, Debug)]
pub struct Alerts {
    /// The size of the reference: the number of first results of an assertion with which later results are compared; at
    /// least 1.
    pub reference: u64,
    /// The stored results of `kindlm calibrate --watch` for the default judge; `None` without a judge.
    pub judge: Option<JudgeWatches>,
    /// The URL of the server for the links in messages; `None` for messages without links.
    pub link: Option<Url>,
}

impl Default for Alerts {
    fn default() -> Self {
        Self { reference: REFERENCE, judge: None, link: None }
    }
}

impl Alerts {
    /// Returns the alerts that match, the newest first, with the present state of their judge.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub(crate) async fn list(
        &self,
        store: &Store,
        filter: &AlertFilter,
        world: &World,
    ) -> Result<Vec<Alert>, StoreError> {
        let mut judges: BTreeMap<String, Option<AlertJudge>> = BTreeMap::new();
        let mut alerts = Vec::new();
        for stored in store.alerts(filter).await? {
            let judge = if let Some(known) = judges.get(&stored.judged) {
                known.clone()
            } else {
                let judge = self.judge(&stored.judged, world).await;
                judges.entry(stored.judged.clone()).or_insert(judge).clone()
            };
            alerts.push(Alert::new(stored, judge));
        }
        Ok(alerts)
    }

    /// Adds the present state of the judge to a stored alert.
    pub(crate) async fn describe(&self, stored: StoredAlert, world: &World) -> Alert {
        let judge = self.judge(&stored.judged, world).await;
        Alert::new(stored, judge)
    }

    /// Returns the state of the judge for a kind of check. Returns `None` if `check` is empty: no judge was asked. A
    /// read error is reported to the operator of the server, and the state is `Unreadable`.
    async fn judge(&self, check: &str, world: &World) -> Option<AlertJudge> {
        if check.is_empty() {
            return None;
        }
        let Some(watches) = self.judge.clone() else { return Some(AlertJudge::NotWatched) };
        let check = check.to_owned();
        let loaded = tokio::task::spawn_blocking(move || watches.state(&check)).await;
        Some(match loaded {
            Ok(Ok(JudgeState::Changed(reason))) => AlertJudge::Changed { reason },
            Ok(Ok(JudgeState::Unchanged)) => AlertJudge::Unchanged,
            Ok(Ok(JudgeState::NotWatched)) => AlertJudge::NotWatched,
            Ok(Err(failure)) => {
                let message = failure.message.unwrap_or_default();
                world.notify(&format!("warning: cannot read the watches of the judge: {message}"));
                AlertJudge::Unreadable
            }
            Err(_) => AlertJudge::Unreadable,
        })
    }
}

/// An alert: the pass rate of an assertion of an agent has fallen.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Alert {
    /// The id of the alert.
    pub(crate) id: String,
    /// The name of the agent.
    pub(crate) agent: String,
    /// The id of a prompt assertion, or the label of another check.
    pub(crate) assertion: String,
    /// The version of the assertion set: `name@version`.
    pub(crate) set: String,
    /// The version of the agent in the last sample before the alarm; empty if it is not known.
    pub(crate) version: String,
    /// The time of the alarm (RFC 3339).
    pub(crate) since: String,
    /// The reference: the pass rate of the first results under this version of the set.
    pub(crate) from: PassRate,
    /// The pass rate of the results from the most likely start of the fall to the alarm, at most 100.
    pub(crate) to: PassRate,
    /// The pass rate of the newest results since the alarm, at most 100; absent without results, and after the end of
    /// the alert.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latest: Option<PassRate>,
    /// The statistic of the change detector at the alarm, at least 10,000. If the pass rate does not fall, a false
    /// alarm comes after at least 10,000 results on average.
    pub(crate) evidence: f64,
    /// The state of the judge; absent if no judge was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) judge: Option<AlertJudge>,
    /// The time of the end (RFC 3339); absent while the alert stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<String>,
    /// The reason of the end: `recovered`, `agent-removed`, or `other-set` if the agent has another set or another
    /// version of its set; absent while the alert stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end_reason: Option<String>,
}

/// A pass rate with its counts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PassRate {
    /// The number of results that passed.
    pub(crate) passed: u64,
    /// The number of results that failed.
    pub(crate) failed: u64,
    /// The share of passes among passes and failures, from 0 to 1.
    #[serde(rename = "pass_rate")]
    pub(crate) rate: f64,
    /// The lower end of the 95% confidence interval of the pass rate (Wilson).
    pub(crate) low: f64,
    /// The upper end of the 95% confidence interval of the pass rate.
    pub(crate) high: f64,
}

/// The state of the default judge of the config, from the stored results of `kindlm calibrate --watch`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub(crate) enum AlertJudge {
    /// A run of `kindlm calibrate --watch` found that the judge has changed.
    Changed {
        /// The change of the judge, in words.
        reason: String,
    },
    /// The runs of `kindlm calibrate --watch` found no change.
    Unchanged,
    /// The judge is not calibrated with its present settings, or `kindlm calibrate --watch` has not run since.
    NotWatched,
    /// The stored results of `kindlm calibrate --watch` cannot be read.
    Unreadable,
}

impl Alert {
    fn new(stored: StoredAlert, judge: Option<AlertJudge>) -> Self {
        let StoredAlert { id, agent, assertion, set, version, .. } = stored;
        let StoredAlert { since, from, to, latest, evidence, ended, end_reason, .. } = stored;
        Self {
            id,
            agent,
            assertion,
            set,
            version,
            since: time_text(since),
            from: from.into(),
            to: to.into(),
            latest: latest.map(PassRate::from),
            evidence,
            judge,
            ended: ended.map(time_text),
            end_reason: ended.map(|_| end_reason),
        }
    }

    /// Describes why the alert has ended; an empty text while it stands.
    pub(crate) fn end_in_words(&self) -> &'static str {
        match self.end_reason.as_deref() {
            None => "",
            Some(RECOVERED) => "the pass rate has recovered",
            Some(AGENT_REMOVED) => "the agent was removed",
            Some(_) => "the agent has another set or version of it",
        }
    }
}

impl From<Tally> for PassRate {
    fn from(tally: Tally) -> Self {
        let interval = tally.wilson(Confidence::P95);
        Self {
            passed: tally.passed(),
            failed: tally.total() - tally.passed(),
            rate: tally.rate(),
            low: interval.low,
            high: interval.high,
        }
    }
}

impl PassRate {
    /// Returns the rate, its interval (both in percent) and the number of results, for people.
    pub(crate) fn in_words(&self) -> String {
        let Self { passed, failed, rate, low, high } = self;
        let (rate, low, high) = (percent(*rate), percent(*low), percent(*high));
        format!("{rate} % ({low}–{high}) of {}", passed + failed)
    }
}

impl AlertJudge {
    /// Describes the state for people.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Changed { reason } => format!("the judge changed too: {reason}"),
            Self::Unchanged => "the judge's watch found no change".to_owned(),
            Self::NotWatched => "the judge is not watched".to_owned(),
            Self::Unreadable => "the watches of the judge cannot be read".to_owned(),
        }
    }
}
