//! The deletion of old data.

use sqlx::Row as _;

use super::samples::SampleFilter;
use super::spending::DAY;
use super::{Store, StoreError, idempotency, now};

/// The number of samples that are deleted in one transaction. Other writers of SQLite wait for its end.
const PORTION: i64 = 1_000;

impl Store {
    /// Deletes a portion of the samples that are older than `days`, the oldest first. Returns true if more are left.
    ///
    /// With the last portion, the ended alerts, the costs, and the numbers about pages of that age are deleted too.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn delete_old(&self, days: u32) -> Result<bool, StoreError> {
        let before = now() - i64::from(days) * DAY;
        let sql = "SELECT received_at FROM samples WHERE received_at < $1 ORDER BY received_at LIMIT 1 OFFSET $2";
        let next = sqlx::query(sql).bind(before).bind(PORTION).fetch_optional(&self.pool).await?;
        if let Some(next) = next {
            // Samples of the same millisecond stay together.
            let portion = next.try_get::<i64, _>("received_at")? + 1;
            let filter =
                SampleFilter { before: Some(portion.min(before)), ..SampleFilter::default() };
            self.delete_samples(&filter).await?;
            return Ok(true);
        }
        let filter = SampleFilter { before: Some(before), ..SampleFilter::default() };
        self.delete_samples(&filter).await?;
        let mut transaction = self.write().await?;
        for (sql, limit) in [
            ("DELETE FROM alerts WHERE ended < $1", before),
            ("DELETE FROM spending WHERE day < $1", before.div_euclid(DAY)),
            ("DELETE FROM page_evaluations WHERE day < $1", before.div_euclid(DAY)),
            (
                "DELETE FROM releases WHERE since < $1 AND NOT EXISTS (SELECT 1 FROM samples \
                WHERE samples.agent = releases.agent AND samples.version = releases.version)",
                before,
            ),
        ] {
            sqlx::query(sql).bind(limit).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(false)
    }

    /// Deletes the idempotency keys that are older than a day. Their responses have the ids of samples.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn delete_keys(&self) -> Result<(), StoreError> {
        let sql = "DELETE FROM idempotency_keys WHERE created_at < $1";
        sqlx::query(sql).bind(now() - idempotency::KEPT).execute(&self.pool).await?;
        Ok(())
    }
}
