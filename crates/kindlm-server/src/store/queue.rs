//! The queue of samples that wait for their evaluation.
//!
//! The queue is a column of the samples. So a sample enters it in the transaction that stores the sample, and leaves
//! it in the transaction that stores the results. Any number of processes can take samples from it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};

use super::alerts::{self, Decided, DecidedResult};
use super::sampling::{self, Share, share_of};
use super::{Store, StoreError, milliseconds, now};

/// The default of [`Store::with_lease`]. It is longer than the time limit of an evaluation.
pub const LEASE: Duration = Duration::from_mins(5);

/// The highest number of times that a sample is taken.
pub const MAX_ATTEMPTS: i64 = 5;

/// A sample that this process evaluates.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The id of the sample.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The version of the agent; empty if it is not known.
    pub version: String,
    /// The whole sample.
    pub body: Map<String, Value>,
    /// The number of times that the sample was taken, with this one.
    pub attempts: i64,
    received_at: i64,
    share: Share,
}

/// The result of one assertion.
#[derive(Clone, Debug)]
pub struct NewResult {
    /// The id of a prompt assertion, or the name of another check. It is unique among the results of a sample.
    pub assertion: String,
    /// `passed`, `failed`, `errored` or `skipped`.
    pub status: String,
    /// The score; `None` if nothing was measured.
    pub score: Option<f64>,
    /// The kind of check that asked a judge; empty if no judge was asked.
    pub judged: String,
}

/// The number of samples in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateCount {
    /// `pending`, `done`, `failed`, `skipped` or `over-budget`.
    pub state: String,
    /// The number of samples.
    pub samples: i64,
}

impl Store {
    /// Changes the time after which another process may take a sample of this process; [`LEASE`] by default.
    ///
    /// If an evaluation takes longer, it is repeated. Only the result of the last process that took the sample is
    /// stored.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Takes the oldest pending sample; `None` if there is none. Until its lease ends, no other call returns it.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn lease_sample(&self) -> Result<Option<Leased>, StoreError> {
        // PostgreSQL would wait for the rows of other processes.
        let lock = if self.is_sqlite { "" } else { " FOR UPDATE SKIP LOCKED" };
        let sql = format!(
            "UPDATE samples SET leased_until = $1, attempts = attempts + 1 WHERE id = (\
            SELECT id FROM samples WHERE state = 'pending' AND leased_until <= $2 \
            ORDER BY received_at, id LIMIT 1{lock}) \
            RETURNING id, agent, version, body, attempts, received_at, share"
        );
        let now = now();
        let row = sqlx::query(AssertSqlSafe(sql))
            .bind(now + milliseconds(self.lease))
            .bind(now)
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let body: String = row.try_get("body")?;
        Ok(Some(Leased {
            id: row.try_get("id")?,
            agent: row.try_get("agent")?,
            version: row.try_get("version")?,
            body: serde_json::from_str(&body)?,
            attempts: row.try_get("attempts")?,
            received_at: row.try_get("received_at")?,
            share: share_of(&row)?,
        }))
    }

    /// Stores the evaluation of a sample, and removes the sample from the queue. Starts and ends alerts.
    ///
    /// `reference` is the number of results with which the later ones of an assertion are compared. Returns false, and
    /// stores nothing, if the lease has ended and another process has taken the sample.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn finish_sample(
        &self,
        leased: &Leased,
        set: &str,
        evaluation: &str,
        results: &[NewResult],
        reference: u64,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.write().await?;
        let done = sqlx::query(
            "UPDATE samples SET state = 'done', evaluation = $1 \
            WHERE id = $2 AND state = 'pending' AND attempts = $3",
        )
        .bind(evaluation)
        .bind(&leased.id)
        .bind(leased.attempts)
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
                .bind(&leased.id)
                .bind(position)
                .bind(&leased.agent)
                .bind(&leased.version)
                .bind(set)
                .bind(assertion)
                .bind(status)
                .bind(leased.received_at)
                .bind(leased.share.millionths());
            let query = match score {
                Some(score) => query.bind(*score),
                None => query,
            };
            query.execute(&mut *transaction).await?;
        }
        self.watch(&mut transaction, leased, set, results, reference).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Adds the decided results of a sample to the detectors of falls.
    async fn watch(
        &self,
        transaction: &mut Transaction<'_, Any>,
        leased: &Leased,
        set: &str,
        results: &[NewResult],
        reference: u64,
    ) -> Result<(), StoreError> {
        let Leased { agent, version, .. } = leased;
        // A sample with an error is evaluated at any rate, and would make the results worse at a low rate.
        if leased.share == Share::NONE
            || !sampling::lock(transaction, agent, self.is_sqlite).await?
        {
            return Ok(());
        }
        let results = decided(results);
        alerts::add_results(transaction, &Decided { agent, version, set, results, reference }).await
    }

    /// Removes a sample that cannot be evaluated from the queue, and stores the error. Does nothing if the sample was
    /// leased again.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn fail_sample(&self, leased: &Leased, error: &str) -> Result<(), StoreError> {
        let evaluation = serde_json::json!({"error": error}).to_string();
        sqlx::query(
            "UPDATE samples SET state = 'failed', evaluation = $1 \
            WHERE id = $2 AND state = 'pending' AND attempts = $3",
        )
        .bind(evaluation)
        .bind(&leased.id)
        .bind(leased.attempts)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Returns a sample to the queue, for an attempt after `pause`. Does nothing if the sample was leased again.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn release_sample(&self, leased: &Leased, pause: Duration) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE samples SET leased_until = $1 WHERE id = $2 AND state = 'pending' AND attempts = $3",
        )
        .bind(now() + milliseconds(pause))
        .bind(&leased.id)
        .bind(leased.attempts)
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
