//! The results of assertions over time.

use std::collections::BTreeMap;
use std::ops::Range;

use kindlm_stats::WeightedTally;
use serde::Deserialize;
use sqlx::Row as _;
use utoipa::ToSchema;

use super::samples::tag_mark;
use super::sampling::{Share, share_of};
use super::{Store, StoreError};

/// The highest number of groups of results that a query returns.
const MOST: i64 = 50_000;

/// The width of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// An hour.
    Hour,
    /// A day, from 0:00 UTC.
    Day,
    /// A week, from Monday at 0:00 UTC.
    Week,
}

impl Period {
    /// Returns the width of the period in milliseconds.
    pub fn milliseconds(self) -> i64 {
        let hours = match self {
            Self::Hour => 1,
            Self::Day => 24,
            Self::Week => 7 * 24,
        };
        hours * 60 * 60 * 1000
    }

    /// Returns the start of the period that contains `time`. Both are in milliseconds since 1970.
    pub fn start(self, time: i64) -> i64 {
        let width = self.milliseconds();
        (time - self.offset()).div_euclid(width) * width + self.offset()
    }

    /// Returns the start of the first period that begins in 1970, in milliseconds since 1970.
    fn offset(self) -> i64 {
        // 1970 began on a Thursday, so the first Monday was the fifth day.
        if self == Self::Week { 4 * Self::Day.milliseconds() } else { 0 }
    }
}

/// The conditions that results must meet. Empty texts match all.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RateFilter {
    /// The name of the agent.
    pub agent: String,
    /// The id of a prompt assertion, or the name of another check.
    pub assertion: String,
    /// The version of the assertion set: `name@version`.
    pub set: String,
    /// A tag of the samples.
    pub tag: String,
    /// The times at which samples were received, in milliseconds since 1970.
    pub received: Range<i64>,
    /// The width of a period.
    pub period: Period,
}

impl RateFilter {
    /// Creates a filter for all results of samples that were received at these times, with the width of a period.
    pub fn new(received: Range<i64>, period: Period) -> Self {
        Self {
            agent: String::new(),
            assertion: String::new(),
            set: String::new(),
            tag: String::new(),
            received,
            period,
        }
    }
}

/// The key of the results that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct RateKey {
    /// The name of the agent.
    pub agent: String,
    /// The id of a prompt assertion, or the name of another check.
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

impl Counts {
    fn add(&mut self, status: &str, results: u64) {
        match status {
            "passed" => self.passed += results,
            "failed" => self.failed += results,
            "skipped" => self.skipped += results,
            _ => self.errored += results,
        }
    }

    /// Adds the numbers of other results.
    pub fn add_all(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.errored += other.errored;
        self.skipped += other.skipped;
    }

    /// Returns the number of all results.
    pub fn total(self) -> u64 {
        self.passed + self.failed + self.errored + self.skipped
    }
}

/// The results of an assertion in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeriodResults {
    /// The results of the samples that the sampling rate chose.
    pub counts: Counts,
    /// The passed and failed results, weighted by the inverse of their sampling rates.
    pub tally: WeightedTally,
    /// The results of the samples that were evaluated only because of their `error`.
    pub of_errors: Counts,
}

impl PeriodResults {
    fn add(&mut self, share: Share, status: &str, results: u64) {
        let Some(weight) = share.weight() else {
            self.of_errors.add(status, results);
            return;
        };
        self.counts.add(status, results);
        match status {
            "passed" => self.tally.add(results, 0, weight),
            "failed" => self.tally.add(0, results, weight),
            _ => {}
        }
    }

    /// Adds other results.
    pub fn add_all(&mut self, other: Self) {
        self.counts.add_all(other.counts);
        self.tally.add_all(other.tally);
        self.of_errors.add_all(other.of_errors);
    }
}

impl Store {
    /// Counts the results that match. Returns `None` if there are more than 50,000 groups of results.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn rates(
        &self,
        filter: &RateFilter,
    ) -> Result<Option<BTreeMap<RateKey, PeriodResults>>, StoreError> {
        let RateFilter { agent, assertion, set, tag, received, period } = filter;
        let (width, offset) = (period.milliseconds(), period.offset());
        let rows = sqlx::query(
            "SELECT agent, assertion, version, assertion_set, status, share, \
            (received_at - CAST($1 AS BIGINT)) / CAST($2 AS BIGINT) AS period, count(*) AS results FROM results \
            WHERE ($3 = '' OR agent = $3) AND ($4 = '' OR assertion = $4) AND received_at >= $5 AND received_at < $6 \
            AND ($8 = '' OR assertion_set = $8) AND ($9 = '' OR sample_id IN (SELECT id FROM samples \
            WHERE received_at >= $5 AND received_at < $6 AND replace(tags, $9, '') <> tags)) \
            GROUP BY agent, assertion, version, assertion_set, status, share, period LIMIT $7",
        )
        .bind(offset)
        .bind(width)
        .bind(agent)
        .bind(assertion)
        .bind(received.start)
        .bind(received.end)
        .bind(MOST + 1)
        .bind(set)
        .bind(tag_mark(tag))
        .fetch_all(&self.pool)
        .await?;
        if i64::try_from(rows.len()).unwrap_or(i64::MAX) > MOST {
            return Ok(None);
        }
        let mut rates: BTreeMap<RateKey, PeriodResults> = BTreeMap::new();
        for row in rows {
            let key = RateKey {
                agent: row.try_get("agent")?,
                assertion: row.try_get("assertion")?,
                version: row.try_get("version")?,
                set: row.try_get("assertion_set")?,
                start: row.try_get::<i64, _>("period")? * width + offset,
            };
            let results = row.try_get::<i64, _>("results")?.unsigned_abs();
            let status: String = row.try_get("status")?;
            rates.entry(key).or_default().add(share_of(&row)?, &status, results);
        }
        Ok(Some(rates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_start_on_monday() {
        let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let sunday = time("2026-11-29T23:59:59Z");
        for (period, time, expected) in [
            (Period::Week, sunday, "2026-11-23T00:00:00Z"),
            (Period::Week, sunday + 1000, "2026-11-30T00:00:00Z"),
            (Period::Day, sunday, "2026-11-29T00:00:00Z"),
            (Period::Hour, sunday, "2026-11-29T23:00:00Z"),
        ] {
            assert_eq!(crate::store::time_text(period.start(time)), expected, "{period:?}");
        }
    }
}
