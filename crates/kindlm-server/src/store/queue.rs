//! Stores the evaluation of pending samples: the results, or the reason why there are no results.
//!
//! A sample leaves the state `pending` only once, in the transaction that stores its results. [`super::jobs`] has the
//! queue.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};

use super::alerts::{self, Decided, DecidedResult};
use super::sampling::{self, Share, share_of};
use super::{Store, StoreError, jobs};

/// A sample that waits for its evaluation.
#[derive(Clone, Debug)]
pub struct PendingSample {
    /// The id of the sample.
    pub id: String,
    /// The name of the agent.
    pub agent: String,
    /// The version of the agent; empty if it is not known.
    pub version: String,
    /// The whole sample.
    pub body: Map<String, Value>,
    /// The time at which the sample was received, in milliseconds since 1970. The time distinguishes this sample from a
    /// later sample with the same id.
    pub(super) received_at: i64,
    share: Share,
}

/// The result of one assertion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewResult {
    /// The id of a prompt assertion, or the name of another check. It is unique among the results of a sample.
    pub assertion: String,
    /// `passed`, `failed`, `errored` or `skipped`.
    pub status: String,
    /// The score, usually from 0 to 1 (a script may return any number); `None` if nothing was measured.
    pub score: Option<f64>,
    /// The kind of check that asked a judge; empty if no judge was asked.
    pub judged: String,
}

impl NewResult {
    /// Creates the result of an assertion that asked no judge.
    pub fn new(
        assertion: impl Into<String>,
        status: impl Into<String>,
        score: Option<f64>,
    ) -> Self {
        Self { assertion: assertion.into(), status: status.into(), score, judged: String::new() }
    }
}

/// The number of samples in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateCount {
    /// `pending`, `done`, `failed`, `skipped` or `over-budget`.
    pub state: String,
    /// The number of samples.
    pub samples: i64,
}

impl Store {
    /// Returns a sample that waits for its evaluation; `None` if there is no such sample, or if its state is not
    /// `pending` any more.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn pending_sample(&self, id: &str) -> Result<Option<PendingSample>, StoreError> {
        let sql = "SELECT id, agent, version, body, received_at, share FROM samples \
            WHERE id = $1 AND state = 'pending'";
        let row = sqlx::query(sql).bind(id).fetch_optional(&self.pool).await?;
        let Some(row) = row else { return Ok(None) };
        let body: String = row.try_get("body")?;
        Ok(Some(PendingSample {
            id: row.try_get("id")?,
            agent: row.try_get("agent")?,
            version: row.try_get("version")?,
            body: serde_json::from_str(&body)?,
            received_at: row.try_get("received_at")?,
            share: share_of(&row)?,
        }))
    }

    /// Stores the evaluation of a sample, and removes its job. Starts and ends alerts.
    ///
    /// `reference` is the number of first results of an assertion with which later results are compared.
    ///
    /// Returns false, and stores nothing, if the sample was deleted or is decided already. Another process may have
    /// evaluated the sample too.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn finish_sample(
        &self,
        sample: &PendingSample,
        set: &str,
        evaluation: &str,
        results: &[NewResult],
        reference: u64,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.write().await?;
        let done = sqlx::query(
            "UPDATE samples SET state = 'done', evaluation = $1 \
            WHERE id = $2 AND received_at = $3 AND state = 'pending'",
        )
        .bind(evaluation)
        .bind(&sample.id)
        .bind(sample.received_at)
        .execute(&mut *transaction)
        .await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        for (position, NewResult { assertion, status, score, .. }) in (0_i64..).zip(results) {
            // A statement that was prepared with NULL refuses numbers on PostgreSQL, so NULL is not bound.
            let (column, value) = if score.is_some() { (", score", ", $10") } else { ("", "") };
            let sql = format!(
                "INSERT INTO results (sample_id, position, agent, version, assertion_set, assertion, status, \
                received_at, share{column}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9{value})"
            );
            let query = sqlx::query(AssertSqlSafe(sql))
                .bind(&sample.id)
                .bind(position)
                .bind(&sample.agent)
                .bind(&sample.version)
                .bind(set)
                .bind(assertion)
                .bind(status)
                .bind(sample.received_at)
                .bind(sample.share.millionths());
            let query = match score {
                Some(score) => query.bind(*score),
                None => query,
            };
            query.execute(&mut *transaction).await?;
        }
        jobs::remove(&mut transaction, &sample.id, self.is_sqlite).await?;
        self.watch(&mut transaction, sample, set, results, reference).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Adds the passed and failed results of a sample to the detectors of alerts.
    ///
    /// Adds nothing if the sampling rate did not choose the sample, or if the agent has no set any more.
    async fn watch(
        &self,
        transaction: &mut Transaction<'_, Any>,
        sample: &PendingSample,
        set: &str,
        results: &[NewResult],
        reference: u64,
    ) -> Result<(), StoreError> {
        let PendingSample { agent, version, .. } = sample;
        // A sample that the sampling rate did not choose was evaluated because of its error. Such samples would distort
        // the pass rate.
        if sample.share == Share::NONE
            || !sampling::lock(transaction, agent, self.is_sqlite).await?
        {
            return Ok(());
        }
        let results = decided(results);
        alerts::add_results(transaction, &Decided { agent, version, set, results, reference }).await
    }

    /// Stores the reason why a sample cannot be evaluated. Does nothing if the sample is decided already, or deleted.
    ///
    /// The job of the sample stays in the table of apalis until the sample is deleted.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn fail_sample(&self, sample: &PendingSample, error: &str) -> Result<(), StoreError> {
        let evaluation = serde_json::json!({"error": error}).to_string();
        let sql = "UPDATE samples SET state = 'failed', evaluation = $1 \
            WHERE id = $2 AND received_at = $3 AND state = 'pending'";
        sqlx::query(sql)
            .bind(evaluation)
            .bind(&sample.id)
            .bind(sample.received_at)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Counts the samples by state.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn sample_states(&self) -> Result<Vec<StateCount>, StoreError> {
        let sql = "SELECT state, count(*) AS samples FROM samples GROUP BY state ORDER BY state";
        let rows = sqlx::query(sql).fetch_all(&self.pool).await?;
        let count = |row: &sqlx::any::AnyRow| {
            Ok(StateCount { state: row.try_get("state")?, samples: row.try_get("samples")? })
        };
        rows.iter().map(count).collect()
    }
}

/// Returns the decided result of each assertion. If several results have one name, all of them must pass.
fn decided(results: &[NewResult]) -> BTreeMap<&str, DecidedResult<'_>> {
    let mut decided: BTreeMap<&str, DecidedResult<'_>> = BTreeMap::new();
    for result in results.iter().filter(|it| matches!(it.status.as_str(), "passed" | "failed")) {
        let (passed, judged) = (result.status == "passed", result.judged.as_str());
        let all = decided.entry(&result.assertion).or_insert(DecidedResult { passed, judged });
        all.passed &= passed;
    }
    decided
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_one_name_pass_only_together() {
        let result = |assertion: &str, status: &str| NewResult {
            assertion: assertion.to_owned(),
            status: status.to_owned(),
            score: None,
            judged: String::new(),
        };
        let results = [
            result("a", "failed"),
            result("a", "passed"),
            result("b", "passed"),
            result("b", "skipped"),
            result("c", "errored"),
        ];
        let found: Vec<_> = decided(&results).iter().map(|it| (*it.0, it.1.passed)).collect();
        assert_eq!(found, [("a", false), ("b", true)]);
    }
}
