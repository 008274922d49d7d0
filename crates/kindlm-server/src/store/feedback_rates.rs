//! The opinions of users about samples, and their correlation with the scores of the samples.

use std::collections::BTreeMap;
use std::ops::Range;

use kindlm_stats::Correlation;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Store, StoreError};

/// The highest number of groups of equal pairs (score and opinion) that a query returns.
const MOST: i64 = 200_000;

/// The conditions that samples must meet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedbackFilter {
    /// The name of the agent; empty for all agents.
    pub agent: String,
    /// The times at which samples were received, in milliseconds since 1970.
    pub received: Range<i64>,
}

impl FeedbackFilter {
    /// Creates a filter for samples that were received at these times. An empty `agent` matches all agents.
    pub fn new(agent: impl Into<String>, received: Range<i64>) -> Self {
        Self { agent: agent.into(), received }
    }
}

/// The opinions of users, and how they correlate with the scores of the same samples.
///
/// The opinion about a sample is the share of thumbs up. The correlations count only samples that the sampling rate
/// chose; the numbers of thumbs count all samples.
#[derive(Clone, Debug, Default)]
pub struct FeedbackRates {
    /// The number of thumbs up.
    pub thumbs_up: u64,
    /// The number of thumbs down.
    pub thumbs_down: u64,
    /// The number of samples with an opinion.
    pub samples: u64,
    /// The correlation of the mean score of all assertions of a sample with the opinion about the sample.
    pub overall: Correlation,
    /// The correlation of the score of each assertion with the opinion about the sample, by agent and assertion.
    pub assertions: BTreeMap<(String, String), Correlation>,
}

/// The opinion about each sample: the share of thumbs up.
const OPINIONS: &str = "SELECT sample_id, CAST(avg(CASE WHEN value = 'up' THEN 1.0 ELSE 0.0 END) AS DOUBLE PRECISION) \
    AS opinion FROM feedback GROUP BY sample_id";

/// The SQL condition of results that count. The score of a script may be outside of 0 to 1; such results do not count.
const MATCHES: &str = "results.score BETWEEN 0.0 AND 1.0 AND results.share > 0 \
    AND ($1 = '' OR results.agent = $1) AND results.received_at >= $2 AND results.received_at < $3";

impl Store {
    /// Returns the opinions of users and their correlation with scores. Returns `None` if there are too many different
    /// pairs of a score and an opinion.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn feedback_rates(
        &self,
        filter: &FeedbackFilter,
    ) -> Result<Option<FeedbackRates>, StoreError> {
        let Some(mut rates) = self.overall_feedback(filter).await? else { return Ok(None) };
        // Scores are rounded to percents, so that the database can count equal pairs.
        let by_assertion = format!(
            "SELECT results.agent, results.assertion, CAST(round(results.score * 100.0) AS BIGINT) AS score, \
            CAST(round(opinions.opinion * 100.0) AS BIGINT) AS opinion, count(*) AS pairs \
            FROM results JOIN ({OPINIONS}) AS opinions ON opinions.sample_id = results.sample_id WHERE {MATCHES} \
            GROUP BY 1, 2, 3, 4 LIMIT $4"
        );
        let Some(rows) = self.pairs(by_assertion, filter).await? else { return Ok(None) };
        for row in rows {
            let key = (row.try_get("agent")?, row.try_get("assertion")?);
            add(rates.assertions.entry(key).or_default(), &row)?;
        }
        Ok(Some(rates))
    }

    /// Returns the opinions of users and their correlation with the mean scores of samples, without single assertions.
    /// Returns `None` if there are too many different pairs of a score and an opinion.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn overall_feedback(
        &self,
        filter: &FeedbackFilter,
    ) -> Result<Option<FeedbackRates>, StoreError> {
        let mut rates = self.thumbs(filter).await?;
        let overall = format!(
            "SELECT CAST(round(means.score * 100.0) AS BIGINT) AS score, \
            CAST(round(opinions.opinion * 100.0) AS BIGINT) AS opinion, count(*) AS pairs \
            FROM (SELECT results.sample_id, avg(results.score) AS score FROM results WHERE {MATCHES} \
            GROUP BY results.sample_id) AS means \
            JOIN ({OPINIONS}) AS opinions ON opinions.sample_id = means.sample_id GROUP BY 1, 2 LIMIT $4"
        );
        let Some(rows) = self.pairs(overall, filter).await? else { return Ok(None) };
        for row in rows {
            add(&mut rates.overall, &row)?;
        }
        Ok(Some(rates))
    }

    /// Counts the opinions. The correlations stay empty.
    async fn thumbs(&self, filter: &FeedbackFilter) -> Result<FeedbackRates, StoreError> {
        let FeedbackFilter { agent, received } = filter;
        let row = sqlx::query(
            "SELECT count(CASE WHEN feedback.value = 'up' THEN 1 END) AS up, \
            count(CASE WHEN feedback.value <> 'up' THEN 1 END) AS down, count(DISTINCT samples.id) AS samples \
            FROM feedback JOIN samples ON samples.id = feedback.sample_id \
            WHERE ($1 = '' OR samples.agent = $1) AND samples.received_at >= $2 AND samples.received_at < $3",
        )
        .bind(agent)
        .bind(received.start)
        .bind(received.end)
        .fetch_one(&self.pool)
        .await?;
        Ok(FeedbackRates {
            thumbs_up: count(&row, "up")?,
            thumbs_down: count(&row, "down")?,
            samples: count(&row, "samples")?,
            ..FeedbackRates::default()
        })
    }

    /// Runs a query for pairs of scores and opinions. Returns `None` if the result has too many rows.
    async fn pairs(
        &self,
        sql: String,
        filter: &FeedbackFilter,
    ) -> Result<Option<Vec<AnyRow>>, StoreError> {
        let FeedbackFilter { agent, received } = filter;
        // The SQL text consists of literals in this file. Values from requests are bound as parameters.
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(agent)
            .bind(received.start)
            .bind(received.end)
            .bind(MOST + 1)
            .fetch_all(&self.pool)
            .await?;
        Ok((i64::try_from(rows.len()).unwrap_or(i64::MAX) <= MOST).then_some(rows))
    }
}

fn add(correlation: &mut Correlation, row: &AnyRow) -> Result<(), StoreError> {
    let share = |column: &str| -> Result<f64, StoreError> {
        let percent = u8::try_from(row.try_get::<i64, _>(column)?).unwrap_or(u8::MAX);
        Ok(f64::from(percent) / 100.0)
    };
    let (score, opinion) = (share("score")?, share("opinion")?);
    correlation.add(score, opinion, count(row, "pairs")?).map_err(StoreError::Counts)
}

fn count(row: &AnyRow, column: &str) -> Result<u64, StoreError> {
    Ok(row.try_get::<i64, _>(column)?.unsigned_abs())
}
