//! The results of assertions over time.

use std::collections::BTreeMap;

use sqlx::Row as _;

use super::{Store, StoreError};

/// The highest number of counts that a query returns.
const MOST: i64 = 50_000;

/// The conditions that results must meet. Empty texts match all.
#[derive(Clone, Debug)]
pub struct RateFilter {
    /// The agent.
    pub agent: String,
    /// The assertion.
    pub assertion: String,
    /// The earliest time, in milliseconds since 1970.
    pub after: i64,
    /// The time after the latest one, in milliseconds since 1970.
    pub before: i64,
    /// The width of a period, in milliseconds, at least 1. Periods start at multiples of it.
    pub period: i64,
}

/// The results that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RateKey {
    /// The agent.
    pub agent: String,
    /// The assertion.
    pub assertion: String,
    /// The version of the agent; empty if it is not known.
    pub version: String,
    /// The version of the assertion set: `name@version`.
    pub set: String,
    /// The start of the period, in milliseconds since 1970.
    pub start: i64,
}

/// The numbers of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The results that passed.
    pub passed: u64,
    /// The results that failed.
    pub failed: u64,
    /// The results that could not be decided.
    pub errored: u64,
    /// The results of assertions that did not apply.
    pub skipped: u64,
}

impl Store {
    /// Counts the results that match. Returns `None` if there are too many groups of results.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn rates(
        &self,
        filter: &RateFilter,
    ) -> Result<Option<BTreeMap<RateKey, Counts>>, StoreError> {
        let RateFilter { agent, assertion, after, before, period } = filter;
        let rows = sqlx::query(
            "SELECT agent, assertion, version, assertion_set, status, \
            received_at / CAST($1 AS BIGINT) AS period, count(*) AS results FROM results \
            WHERE ($2 = '' OR agent = $2) AND ($3 = '' OR assertion = $3) AND received_at >= $4 AND received_at < $5 \
            GROUP BY agent, assertion, version, assertion_set, status, period LIMIT $6",
        )
        .bind(period)
        .bind(agent)
        .bind(assertion)
        .bind(after)
        .bind(before)
        .bind(MOST + 1)
        .fetch_all(&self.pool)
        .await?;
        if i64::try_from(rows.len()).unwrap_or(i64::MAX) > MOST {
            return Ok(None);
        }
        let mut rates: BTreeMap<RateKey, Counts> = BTreeMap::new();
        for row in rows {
            let key = RateKey {
                agent: row.try_get("agent")?,
                assertion: row.try_get("assertion")?,
                version: row.try_get("version")?,
                set: row.try_get("assertion_set")?,
                start: row.try_get::<i64, _>("period")? * period,
            };
            let results = row.try_get::<i64, _>("results")?.unsigned_abs();
            let counts = rates.entry(key).or_default();
            match row.try_get::<String, _>("status")?.as_str() {
                "passed" => counts.passed += results,
                "failed" => counts.failed += results,
                "skipped" => counts.skipped += results,
                _ => counts.errored += results,
            }
        }
        Ok(Some(rates))
    }
}
