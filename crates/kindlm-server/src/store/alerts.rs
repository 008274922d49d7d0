//! Alerts: the pass rate of an assertion of an agent has fallen.
//!
//! An alert starts or ends in the transaction that stores the results of a sample. So each result counts once.

use std::collections::BTreeMap;

use kindlm_stats::{Detector, DetectorState, Tally};
use sqlx::any::AnyRow;
use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};

use super::{Store, StoreError, now, random};

/// The evidence (the statistic of the change detector) that raises an alarm. If the pass rate does not fall, a false
/// alarm comes after at least this number of results on average.
pub const MEAN: f64 = 10_000.0;

/// The number of newest results that decide if an alert ends. All of them must come after the alarm.
const RECENT: usize = 100;

/// The highest number of alerts in a list.
const MOST: i64 = 1_000;

/// The [`end_reason`](StoredAlert::end_reason) of an alert whose pass rate has recovered.
pub const RECOVERED: &str = "recovered";

/// The [`end_reason`](StoredAlert::end_reason) of an alert whose agent has another set, or another version of its set.
const OTHER_SET: &str = "other-set";

/// The [`end_reason`](StoredAlert::end_reason) of an alert whose agent was removed.
pub(crate) const AGENT_REMOVED: &str = "agent-removed";

/// An alert: the pass rate of an assertion of an agent has fallen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredAlert {
    /// The id of the alert.
    pub id: String,
    /// The name of the agent.
    pub agent: String,
    /// The id of a prompt assertion, or the name of another check.
    pub assertion: String,
    /// The version of the assertion set: `name@version`.
    pub set: String,
    /// The version of the agent that the last sample before the alarm had; empty if it is not known.
    pub version: String,
    /// The kind of check that asked a judge; empty if no judge was asked.
    pub judged: String,
    /// The time of the alarm, in milliseconds since 1970.
    pub since: i64,
    /// The reference: the first results under this version of the set.
    pub from: Tally,
    /// The results from the most likely start of the fall to the alarm.
    pub to: Tally,
    /// The newest results since the alarm, at most 100; `None` without results, or if the alert has ended.
    pub latest: Option<Tally>,
    /// The evidence of a fall at the alarm; at least [`MEAN`].
    pub evidence: f64,
    /// The time of the end, in milliseconds since 1970; `None` while the alert stands.
    pub ended: Option<i64>,
    /// `recovered`, `agent-removed`, or `other-set` if the agent has another set or another version of its set; empty
    /// while the alert stands.
    pub end_reason: String,
}

/// The conditions that alerts must meet. Without conditions, all alerts match.
#[derive(Clone, Debug, Default)]
pub struct AlertFilter {
    /// The name of the agent; empty for all agents.
    pub agent: String,
    /// True for alerts that stand, false for those that have ended; `None` for both.
    pub standing: Option<bool>,
}

/// The passed and failed results of a sample.
pub(super) struct Decided<'a> {
    pub(super) agent: &'a str,
    pub(super) version: &'a str,
    pub(super) set: &'a str,
    /// The results by assertion.
    pub(super) results: BTreeMap<&'a str, DecidedResult<'a>>,
    /// The number of results in a new reference.
    pub(super) reference: u64,
}

/// The passed or failed result of an assertion.
#[derive(Clone, Copy)]
pub(super) struct DecidedResult<'a> {
    pub(super) passed: bool,
    /// The kind of check that asked a judge; empty if no judge was asked.
    pub(super) judged: &'a str,
}

/// A stored detector, the newest results of its assertion, and the id of the assertion's current alert (`None` if all
/// alerts have ended).
struct Watched {
    detector: Detector,
    recent: Vec<bool>,
    alert: Option<String>,
}

impl Store {
    /// Returns the alerts that match, the newest first, at most 1,000.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn alerts(&self, filter: &AlertFilter) -> Result<Vec<StoredAlert>, StoreError> {
        let state = match filter.standing {
            None => "",
            Some(true) => " AND alerts.ended IS NULL",
            Some(false) => " AND alerts.ended IS NOT NULL",
        };
        let sql = format!(
            "{SELECT} WHERE ($1 = '' OR alerts.agent = $1){state} \
            ORDER BY alerts.since DESC, alerts.id LIMIT $2"
        );
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(&filter.agent).bind(MOST);
        rows.fetch_all(&self.pool).await?.iter().map(alert).collect()
    }

    /// Returns the number of alerts that stand.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn standing_alerts(&self) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) AS alerts FROM alerts WHERE ended IS NULL";
        Ok(sqlx::query(sql).fetch_one(&self.pool).await?.try_get("alerts")?)
    }
}

/// The start of the statements that read alerts. For an alert that has not ended, the column `recent` has the newest
/// results of its assertion.
pub(super) const SELECT: &str = "SELECT alerts.id, alerts.agent, alerts.assertion, alerts.assertion_set, \
    alerts.version, alerts.judged, alerts.since, alerts.from_passed, alerts.from_total, alerts.to_passed, \
    alerts.to_total, alerts.evidence, alerts.ended, alerts.end_reason, \
    CASE WHEN alerts.ended IS NULL THEN detectors.recent ELSE '' END AS recent \
    FROM alerts JOIN detectors ON detectors.agent = alerts.agent \
    AND detectors.assertion = alerts.assertion AND detectors.assertion_set = alerts.assertion_set";

/// Adds the results of a sample to the detectors. Starts and ends alerts.
///
/// The caller has locked the agent, so that the results are added one after the other.
pub(super) async fn add_results(
    transaction: &mut Transaction<'_, Any>,
    decided: &Decided<'_>,
) -> Result<(), StoreError> {
    end_alerts_of_other_sets(transaction, decided).await?;
    for (assertion, result) in &decided.results {
        let key = (decided.agent, *assertion, decided.set);
        let stored = load(transaction, key).await?;
        let mut watched = stored.unwrap_or_else(|| Watched {
            detector: Detector::new(decided.reference),
            recent: Vec::new(),
            alert: None,
        });
        if watched.detector.limit().is_some() {
            watched.recent.push(result.passed);
            let surplus = watched.recent.len().saturating_sub(RECENT);
            watched.recent.drain(..surplus);
        }
        if let Some(id) = watched.alert.clone() {
            if has_recovered(&watched) {
                end(transaction, &id, RECOVERED).await?;
                watched.detector.restart();
                watched.recent.clear();
            }
        } else {
            watched.detector.add(result.passed);
            if watched.detector.is_alarm(MEAN) {
                start(transaction, decided, (*assertion, result.judged), &watched).await?;
                watched.recent.clear();
            }
        }
        save(transaction, key, &watched).await?;
    }
    Ok(())
}

/// Returns true if there are [`RECENT`] results since the alarm, and their pass rate is at least the limit of the
/// detector.
fn has_recovered(watched: &Watched) -> bool {
    watched.recent.len() >= RECENT
        && tally(&watched.recent)
            .zip(watched.detector.limit())
            .is_some_and(|(recent, limit)| recent.rate() >= limit)
}

fn tally(results: &[bool]) -> Option<Tally> {
    let passed = results.iter().filter(|it| **it).count() as u64;
    Tally::new(passed, results.len() as u64).ok()
}

/// Ends the alerts of an agent if their set or set version differs from that of the new results.
async fn end_alerts_of_other_sets(
    transaction: &mut Transaction<'_, Any>,
    decided: &Decided<'_>,
) -> Result<(), StoreError> {
    let sql = "SELECT id, assertion, assertion_set FROM alerts \
        WHERE agent = $1 AND assertion_set <> $2 AND ended IS NULL ORDER BY id";
    let rows = sqlx::query(sql).bind(decided.agent).bind(decided.set);
    for row in rows.fetch_all(&mut **transaction).await? {
        let (id, assertion): (String, String) = (row.try_get("id")?, row.try_get("assertion")?);
        let set: String = row.try_get("assertion_set")?;
        end(transaction, &id, OTHER_SET).await?;
        restart(transaction, (decided.agent, &assertion, &set)).await?;
    }
    Ok(())
}

/// Removes the evidence and the newest results of a detector. Its reference stays.
async fn restart(
    transaction: &mut Transaction<'_, Any>,
    key: (&str, &str, &str),
) -> Result<(), StoreError> {
    if let Some(mut watched) = load(transaction, key).await? {
        watched.detector.restart();
        watched.recent.clear();
        save(transaction, key, &watched).await?;
    }
    Ok(())
}

async fn load(
    transaction: &mut Transaction<'_, Any>,
    (agent, assertion, set): (&str, &str, &str),
) -> Result<Option<Watched>, StoreError> {
    let row = sqlx::query(
        "SELECT reference_size, reference_passed, reference_total, evidence, recent, \
        (SELECT id FROM alerts WHERE agent = $1 AND assertion = $2 AND assertion_set = $3 AND ended IS NULL) AS alert \
        FROM detectors WHERE agent = $1 AND assertion = $2 AND assertion_set = $3",
    )
    .bind(agent)
    .bind(assertion)
    .bind(set)
    .fetch_optional(&mut **transaction)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let state = DetectorState {
        size: count(&row, "reference_size")?,
        passed: count(&row, "reference_passed")?,
        total: count(&row, "reference_total")?,
        values: serde_json::from_str(&row.try_get::<String, _>("evidence")?)?,
    };
    let recent: String = row.try_get("recent")?;
    Ok(Some(Watched {
        detector: Detector::from_state(state).map_err(StoreError::Counts)?,
        recent: passes(&recent),
        alert: row.try_get("alert")?,
    }))
}

async fn save(
    transaction: &mut Transaction<'_, Any>,
    (agent, assertion, set): (&str, &str, &str),
    watched: &Watched,
) -> Result<(), StoreError> {
    let DetectorState { size, passed, total, values } = watched.detector.state();
    let recent: String = watched.recent.iter().map(|it| if *it { 'p' } else { 'f' }).collect();
    sqlx::query(
        "INSERT INTO detectors (agent, assertion, assertion_set, reference_size, reference_passed, reference_total, \
        evidence, recent) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
        ON CONFLICT (agent, assertion, assertion_set) DO UPDATE SET reference_passed = excluded.reference_passed, \
        reference_total = excluded.reference_total, evidence = excluded.evidence, recent = excluded.recent",
    )
    .bind(agent)
    .bind(assertion)
    .bind(set)
    .bind(signed(size))
    .bind(signed(passed))
    .bind(signed(total))
    .bind(serde_json::to_string(&values)?)
    .bind(recent)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

async fn start(
    transaction: &mut Transaction<'_, Any>,
    decided: &Decided<'_>,
    (assertion, judged): (&str, &str),
    watched: &Watched,
) -> Result<(), StoreError> {
    let Watched { detector, recent, .. } = watched;
    let fallen = &recent[recent.len() - detector.results_after_fall(recent)..];
    // An alarm has a complete reference, and at least one result after it.
    let (Some(from), Some(to)) = (detector.reference(), tally(fallen)) else { return Ok(()) };
    sqlx::query(
        "INSERT INTO alerts (id, agent, assertion, assertion_set, version, judged, since, from_passed, from_total, \
        to_passed, to_total, evidence) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(random(8)?)
    .bind(decided.agent)
    .bind(assertion)
    .bind(decided.set)
    .bind(decided.version)
    .bind(judged)
    .bind(now())
    .bind(signed(from.passed()))
    .bind(signed(from.total()))
    .bind(signed(to.passed()))
    .bind(signed(to.total()))
    .bind(detector.evidence())
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

async fn end(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    reason: &str,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE alerts SET ended = $1, end_reason = $2 WHERE id = $3")
        .bind(now())
        .bind(reason)
        .bind(id)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// Ends all alerts of an agent, and restarts its detectors. Otherwise, if the agent were added again, the old evidence
/// would start an alert.
pub(super) async fn end_all(
    transaction: &mut Transaction<'_, Any>,
    agent: &str,
    reason: &str,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE alerts SET ended = $1, end_reason = $2 WHERE agent = $3 AND ended IS NULL")
        .bind(now())
        .bind(reason)
        .bind(agent)
        .execute(&mut **transaction)
        .await?;
    let sql = "UPDATE detectors SET evidence = $1, recent = '' WHERE agent = $2";
    let none = serde_json::to_string(&Detector::new(1).state().values)?;
    sqlx::query(sql).bind(none).bind(agent).execute(&mut **transaction).await?;
    Ok(())
}

/// Deletes the alerts and detectors of assertions without results.
pub(super) async fn delete_without_results(
    transaction: &mut Transaction<'_, Any>,
) -> Result<(), StoreError> {
    for table in ["alerts", "detectors"] {
        let sql = format!(
            "DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM results WHERE results.agent = {table}.agent \
            AND results.assertion = {table}.assertion AND results.assertion_set = {table}.assertion_set)"
        );
        sqlx::query(AssertSqlSafe(sql)).execute(&mut **transaction).await?;
    }
    Ok(())
}

/// Converts a row of [`SELECT`].
pub(super) fn alert(row: &AnyRow) -> Result<StoredAlert, StoreError> {
    let counts = |passed: &str, total: &str| {
        Tally::new(count(row, passed)?, count(row, total)?).map_err(StoreError::Counts)
    };
    Ok(StoredAlert {
        id: row.try_get("id")?,
        agent: row.try_get("agent")?,
        assertion: row.try_get("assertion")?,
        set: row.try_get("assertion_set")?,
        version: row.try_get("version")?,
        judged: row.try_get("judged")?,
        since: row.try_get("since")?,
        from: counts("from_passed", "from_total")?,
        to: counts("to_passed", "to_total")?,
        latest: tally(&passes(&row.try_get::<String, _>("recent")?)),
        evidence: row.try_get("evidence")?,
        ended: row.try_get("ended")?,
        end_reason: row.try_get("end_reason")?,
    })
}

fn passes(recent: &str) -> Vec<bool> {
    recent.chars().map(|it| it == 'p').collect()
}

fn count(row: &AnyRow, column: &str) -> Result<u64, StoreError> {
    Ok(row.try_get::<i64, _>(column)?.unsigned_abs())
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
