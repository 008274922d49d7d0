//! The versions of agents, and the time of the first sample of each.

use std::collections::BTreeSet;
use std::ops::Range;

use sqlx::{Any, Row as _, Transaction};

use super::{Store, StoreError, now};

/// The highest number of releases in a list.
const MOST: i64 = 1_000;

/// The first sample of a version of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Release {
    /// The name of the agent.
    pub agent: String,
    /// The version of the agent.
    pub version: String,
    /// The time at which the first sample of this version was received, in milliseconds since 1970.
    pub since: i64,
}

impl Store {
    /// Returns the newest releases of these times, from the oldest to the newest, at most 1,000.
    ///
    /// An empty `agent` matches all. The times are in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn releases(
        &self,
        agent: &str,
        times: Range<i64>,
    ) -> Result<Vec<Release>, StoreError> {
        let rows = sqlx::query(
            "SELECT agent, version, since FROM releases \
            WHERE ($1 = '' OR agent = $1) AND since >= $2 AND since < $3 \
            ORDER BY since DESC, agent DESC, version DESC LIMIT $4",
        )
        .bind(agent)
        .bind(times.start)
        .bind(times.end)
        .bind(MOST)
        .fetch_all(&self.pool)
        .await?;
        let release = |row: &sqlx::any::AnyRow| {
            let (agent, version) = (row.try_get("agent")?, row.try_get("version")?);
            Ok(Release { agent, version, since: row.try_get("since")? })
        };
        rows.iter().rev().map(release).collect()
    }
}

/// Stores the versions of new samples, by agent and version. Samples without a version have no release.
///
/// `left` has the versions that samples had before their version changed. The release of such a version is deleted if
/// no sample has the version any more.
///
/// Call this at the end of a transaction, so that two transactions cannot wait for each other.
pub(super) async fn add(
    transaction: &mut Transaction<'_, Any>,
    versions: &BTreeSet<(String, String)>,
    left: &BTreeSet<(String, String)>,
) -> Result<(), StoreError> {
    for release in versions.union(left).filter(|(_, version)| !version.is_empty()) {
        let (agent, version) = release;
        let query = if versions.contains(release) {
            let sql = "INSERT INTO releases (agent, version, since) VALUES ($1, $2, $3) \
                ON CONFLICT (agent, version) DO NOTHING";
            sqlx::query(sql).bind(agent).bind(version).bind(now())
        } else {
            let sql = "DELETE FROM releases WHERE agent = $1 AND version = $2 AND NOT EXISTS \
                (SELECT 1 FROM samples WHERE samples.agent = $1 AND samples.version = $2)";
            sqlx::query(sql).bind(agent).bind(version)
        };
        query.execute(&mut **transaction).await?;
    }
    Ok(())
}
