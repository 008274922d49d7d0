//! The use of assertion sets by people: new versions, the time until the first evaluation with each, and agents with a
//! set.

use std::collections::BTreeMap;
use std::ops::Range;

use sqlx::Row as _;

use super::spending::DAY;
use super::{Store, StoreError, now};

/// A page on which people evaluate outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The playground.
    Playground,
    /// The page of an assertion set.
    Set,
    /// The panel in a page of another site.
    Panel,
}

impl Page {
    fn name(self) -> &'static str {
        match self {
            Self::Playground => "playground",
            Self::Set => "set",
            Self::Panel => "panel",
        }
    }
}

/// The number of evaluations by their duration in whole seconds, rounded up.
pub type Durations = BTreeMap<u64, u64>;

/// The use of assertion sets in a span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// The number of agents with samples in the time span, or with a set.
    pub agents: u64,
    /// The number of agents with a set.
    pub agents_with_set: u64,
    /// The number of sets with a new version in the time span.
    pub sets_edited: u64,
    /// The number of new versions of sets in the time span.
    pub edits: u64,
    /// The number of different authors of the new versions. Versions without an author do not count.
    pub authors: u64,
    /// The durations from a new version to the end of the first evaluation with it.
    pub edit_to_verdict: Durations,
    /// The durations of the evaluations on each page: `playground`, `set` or `panel`.
    pub pages: BTreeMap<String, Durations>,
}

impl Store {
    /// Counts an evaluation that a person started on a page.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn add_page_evaluation(
        &self,
        page: Page,
        duration: std::time::Duration,
    ) -> Result<(), StoreError> {
        let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
        sqlx::query(
            "INSERT INTO page_evaluations (day, page, seconds, evaluations) VALUES ($1, $2, $3, 1) \
            ON CONFLICT (day, page, seconds) DO UPDATE SET evaluations = page_evaluations.evaluations + 1",
        )
        .bind(now().div_euclid(DAY))
        .bind(page.name())
        .bind(i64::try_from(seconds).unwrap_or(i64::MAX))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Stores the time of the first evaluation with a version of a set. Later calls change nothing.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn note_verdict(&self, set: &str, version: i64) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE assertion_sets SET first_verdict_at = $1 \
            WHERE name = $2 AND version = $3 AND first_verdict_at IS NULL",
        )
        .bind(now())
        .bind(set)
        .bind(version)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Returns the use of assertion sets at these times, in milliseconds since 1970.
    ///
    /// Evaluations on pages are counted by whole days (UTC).
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn adoption(&self, times: Range<i64>) -> Result<Adoption, StoreError> {
        let Range { start, end } = times;
        let mut adoption = Adoption::default();
        let row = sqlx::query(
            "SELECT (SELECT count(*) FROM agents) AS with_set, (SELECT count(*) FROM (SELECT name FROM agents \
            UNION SELECT agent FROM samples WHERE received_at >= $1 AND received_at < $2) AS known) AS agents",
        )
        .bind(start)
        .bind(end)
        .fetch_one(&self.pool)
        .await?;
        adoption.agents = row.try_get::<i64, _>("agents")?.unsigned_abs();
        adoption.agents_with_set = row.try_get::<i64, _>("with_set")?.unsigned_abs();
        let row = sqlx::query(
            "SELECT count(DISTINCT name) AS sets, count(*) AS edits, \
            count(DISTINCT CASE WHEN author <> '' THEN author END) AS authors \
            FROM assertion_sets WHERE created_at >= $1 AND created_at < $2",
        )
        .bind(start)
        .bind(end)
        .fetch_one(&self.pool)
        .await?;
        adoption.sets_edited = row.try_get::<i64, _>("sets")?.unsigned_abs();
        adoption.edits = row.try_get::<i64, _>("edits")?.unsigned_abs();
        adoption.authors = row.try_get::<i64, _>("authors")?.unsigned_abs();
        let rows = sqlx::query(
            "SELECT (first_verdict_at - created_at + 999) / 1000 AS seconds, count(*) AS edits FROM assertion_sets \
            WHERE created_at >= $1 AND created_at < $2 AND first_verdict_at >= created_at GROUP BY 1",
        );
        for row in rows.bind(start).bind(end).fetch_all(&self.pool).await? {
            let seconds = u64::try_from(row.try_get::<i64, _>("seconds")?).unwrap_or_default();
            let edits = row.try_get::<i64, _>("edits")?.unsigned_abs();
            *adoption.edit_to_verdict.entry(seconds).or_default() += edits;
        }
        let rows = sqlx::query(
            "SELECT page, seconds, CAST(sum(evaluations) AS BIGINT) AS evaluations FROM page_evaluations \
            WHERE day >= $1 AND day <= $2 GROUP BY page, seconds",
        );
        let days = (start.div_euclid(DAY), end.saturating_sub(1).div_euclid(DAY));
        for row in rows.bind(days.0).bind(days.1).fetch_all(&self.pool).await? {
            let seconds = row.try_get::<i64, _>("seconds")?.unsigned_abs();
            let evaluations = row.try_get::<i64, _>("evaluations")?.unsigned_abs();
            let page = adoption.pages.entry(row.try_get("page")?).or_default();
            *page.entry(seconds).or_default() += evaluations;
        }
        Ok(adoption)
    }
}
