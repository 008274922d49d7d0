//! Samples that need the attention of people: those with failed or errored checks.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::samples::tag_mark;
use super::{Store, StoreError, time_text};

/// The maximum size of a sample whose output is shown, in bytes.
const LARGEST: i64 = 64 << 10;

/// The maximum number of checks that are named for a sample.
const NAMED: i64 = 20;

/// The conditions that samples must meet. Empty texts match all.
#[derive(Clone, Debug, Default)]
pub struct AttentionFilter {
    /// The name of the agent.
    pub agent: String,
    /// The version of the agent.
    pub version: String,
    /// The version of the assertion set that evaluated the sample: `name@version`.
    pub set: String,
    /// A tag of the sample.
    pub tag: String,
    /// The earliest time at which samples were received, in milliseconds since 1970.
    pub after: i64,
}

/// A sample with a failed or errored check, or whose evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttentionSample {
    /// The id of the sample.
    pub id: String,
    /// The name of the agent.
    pub agent: String,
    /// The time at which the server received the sample (RFC 3339).
    pub received_at: String,
    /// The sample as JSON; empty if it has more than 64 KiB.
    pub body: String,
    /// The object with the `error` of a failed evaluation, as JSON; empty for a sample with results.
    pub error: String,
    /// The ids or labels of the failed checks, at most 20.
    pub failed: Vec<String>,
    /// The ids or labels of the errored checks, at most 20.
    pub errored: Vec<String>,
}

/// The numbers of the samples that match a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleCounts {
    /// The number of all samples.
    pub samples: i64,
    /// The number of samples with results.
    pub evaluated: i64,
    /// The number of samples that were not evaluated, because the budget was spent.
    pub over_budget: i64,
}

impl Store {
    /// Returns the newest samples with a failed or errored check or a failed evaluation, at most `limit`.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn attention_samples(
        &self,
        filter: &AttentionFilter,
        limit: u32,
    ) -> Result<Vec<AttentionSample>, StoreError> {
        let AttentionFilter { agent, version, set, tag, after } = filter;
        // The inner query sorts without texts, which may be large.
        let rows = sqlx::query(
            "SELECT id, agent, received_at, \
            CASE WHEN octet_length(body) <= $1 THEN body ELSE '' END AS body, \
            CASE WHEN state = 'failed' THEN evaluation ELSE '' END AS error FROM samples \
            WHERE id IN (SELECT id FROM samples \
            WHERE received_at >= $2 AND ($3 = '' OR agent = $3) AND ($4 = '' OR version = $4) \
            AND (state = 'failed' OR id IN (SELECT sample_id FROM results \
            WHERE status IN ('failed', 'errored') AND received_at >= $2)) \
            AND ($6 = '' OR id IN (SELECT sample_id FROM results WHERE assertion_set = $6 AND received_at >= $2)) \
            AND ($7 = '' OR replace(tags, $7, '') <> tags) \
            ORDER BY received_at DESC, id DESC LIMIT $5) \
            ORDER BY received_at DESC, id DESC",
        )
        .bind(LARGEST)
        .bind(after)
        .bind(agent)
        .bind(version)
        .bind(i64::from(limit))
        .bind(set)
        .bind(tag_mark(tag))
        .fetch_all(&self.pool)
        .await?;
        let mut samples = Vec::new();
        for row in rows {
            let mut sample = sample(&row)?;
            let checks = sqlx::query(
                "SELECT assertion, status FROM results WHERE sample_id = $1 \
                AND status IN ('failed', 'errored') ORDER BY position LIMIT $2",
            );
            for row in checks.bind(&sample.id).bind(NAMED).fetch_all(&self.pool).await? {
                let is_failed = row.try_get::<String, _>("status")? == "failed";
                let names = if is_failed { &mut sample.failed } else { &mut sample.errored };
                names.push(row.try_get("assertion")?);
            }
            samples.push(sample);
        }
        Ok(samples)
    }

    /// Counts the samples that match.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn evaluated_samples(
        &self,
        filter: &AttentionFilter,
    ) -> Result<SampleCounts, StoreError> {
        let AttentionFilter { agent, version, set, tag, after } = filter;
        let row = sqlx::query(
            "SELECT count(*) AS samples, count(CASE WHEN state = 'done' THEN 1 END) AS evaluated, \
            count(CASE WHEN state = 'over-budget' THEN 1 END) AS over_budget \
            FROM samples WHERE received_at >= $1 AND ($2 = '' OR agent = $2) AND ($3 = '' OR version = $3) \
            AND ($4 = '' OR id IN (SELECT sample_id FROM results WHERE assertion_set = $4 AND received_at >= $1)) \
            AND ($5 = '' OR replace(tags, $5, '') <> tags)",
        )
        .bind(after)
        .bind(agent)
        .bind(version)
        .bind(set)
        .bind(tag_mark(tag))
        .fetch_one(&self.pool)
        .await?;
        Ok(SampleCounts {
            samples: row.try_get("samples")?,
            evaluated: row.try_get("evaluated")?,
            over_budget: row.try_get("over_budget")?,
        })
    }
}

fn sample(row: &AnyRow) -> Result<AttentionSample, StoreError> {
    Ok(AttentionSample {
        id: row.try_get("id")?,
        agent: row.try_get("agent")?,
        received_at: time_text(row.try_get("received_at")?),
        body: row.try_get("body")?,
        error: row.try_get("error")?,
        failed: Vec::new(),
        errored: Vec::new(),
    })
}
