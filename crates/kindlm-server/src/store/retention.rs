//! The deletion of old data.

use sqlx::Row as _;

use super::samples::SampleFilter;
use super::spending::DAY;
use super::{Store, StoreError, idempotency, now};

/// The number of samples that are deleted in one transaction. With SQLite, other writers wait for the transaction.
const PORTION: i64 = 1_000;

impl Store {
    /// Deletes data that is older than this number of days. Returns the number of portions of samples.
    ///
    /// The samples are deleted in portions, the oldest first. Other writers can write between two portions. Alerts and
    /// detectors without results are deleted with the last portion.
    ///
    /// Then other old data is deleted: ended alerts, costs, numbers of evaluations on pages, and releases without
    /// samples.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn delete_old(&self, days: u32) -> Result<u32, StoreError> {
        let before = now() - i64::from(days) * DAY;
        let mut portions = 0;
        while self.delete_portion(before).await? {
            portions += 1;
        }
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
        Ok(portions)
    }

    /// Deletes a portion of the samples that were received before a time, the oldest first. Returns false if there are
    /// none.
    async fn delete_portion(&self, before: i64) -> Result<bool, StoreError> {
        let sql = "SELECT received_at FROM samples WHERE received_at < $1 ORDER BY received_at LIMIT 1 OFFSET $2";
        let next = sqlx::query(sql).bind(before).bind(PORTION).fetch_optional(&self.pool).await?;
        let end = match next {
            // Samples of the same millisecond stay together.
            Some(next) => before.min(next.try_get::<i64, _>("received_at")? + 1),
            None => before,
        };
        let filter = SampleFilter { before: Some(end), ..SampleFilter::default() };
        let mut transaction = self.write().await?;
        let deleted = self.delete_matching(&mut transaction, &filter).await?;
        if deleted > 0 {
            let sql = "SELECT 1 FROM samples WHERE received_at < $1 LIMIT 1";
            let rest = sqlx::query(sql).bind(before).fetch_optional(&mut *transaction).await?;
            if rest.is_none() {
                // This statement compares each detector with the results, so it runs only once, after the last portion.
                // It must be in the transaction of that portion. If the server crashed between two transactions, the
                // next call would find no old samples, and would not delete the detectors.
                self.delete_ended_series(&mut transaction).await?;
            }
        }
        transaction.commit().await?;
        Ok(deleted > 0)
    }

    /// Deletes the idempotency keys that are older than a day, because their responses contain ids of samples.
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

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::store::samples::NewSample;

    #[tokio::test]
    async fn last_portion_deletes_the_detectors() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("a.db").display());
        let store = Store::open(&url).await.unwrap();
        let sample = NewSample {
            id: None,
            agent: "a".to_owned(),
            subject: String::new(),
            version: String::new(),
            has_error: false,
            body: Map::new(),
        };
        store.add_samples(&[sample], None).await.unwrap();
        let sql = "INSERT INTO detectors VALUES ('a', 'polite', 's@1', 0, 0, 0, '[]', '')";
        sqlx::query(sql).execute(&store.pool).await.unwrap();
        let detectors = async || {
            let rows = sqlx::query("SELECT agent FROM detectors").fetch_all(&store.pool).await;
            rows.unwrap().len()
        };
        assert!(!store.delete_portion(0).await.unwrap());
        assert_eq!(detectors().await, 1);
        assert!(store.delete_portion(i64::MAX).await.unwrap());
        assert_eq!(detectors().await, 0);
        store.close().await;
    }
}
