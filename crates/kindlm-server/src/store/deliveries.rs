//! The messages about alerts that are sent to other services and people.
//!
//! Any number of processes can deliver to the same address. Each message has a lease, and is sent again only if it
//! was not delivered.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Row as _};

use super::alerts::{SELECT, StoredAlert, alert};
use super::{Store, StoreError, milliseconds, now};

/// The time after which another process may send a message. It is longer than the time limits for sending a message by
/// HTTP and by e-mail.
const LEASE: Duration = Duration::from_mins(1);

/// A message that this process sends.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// The id of the message.
    pub id: String,
    /// True if the message is about the end of the alert.
    pub is_end: bool,
    /// The number of attempts to send the message, including this one.
    pub attempts: i64,
    /// The alert that the message is about.
    pub alert: StoredAlert,
}

impl Store {
    /// Returns the next message for an address, and starts the lease of the message; `None` if no message is due. Until
    /// the lease ends, no other call returns the message.
    ///
    /// The message about an alert is not returned after the alert has ended. The message about the end is returned only
    /// if the server has tried to send the first message, because the receiver may have that message.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn lease_delivery(&self, destination: &str) -> Result<Option<Delivery>, StoreError> {
        let mut transaction = self.write().await?;
        sqlx::query(
            "INSERT INTO deliveries (id, alert_id, event, destination) \
            SELECT id || '-alert-' || $1, id, 'alert', $1 FROM alerts WHERE ended IS NULL ON CONFLICT (id) DO NOTHING",
        )
        .bind(destination)
        .execute(&mut *transaction)
        .await?;
        sqlx::query(
            "INSERT INTO deliveries (id, alert_id, event, destination) \
            SELECT alert_id || '-end-' || $1, alert_id, 'end', $1 FROM deliveries WHERE destination = $1 \
            AND event = 'alert' AND attempts > 0 \
            AND NOT EXISTS (SELECT 1 FROM deliveries AS ends WHERE ends.alert_id = deliveries.alert_id \
            AND ends.event = 'end' AND ends.destination = $1) \
            AND EXISTS (SELECT 1 FROM alerts WHERE alerts.id = alert_id AND alerts.ended IS NOT NULL) \
            ON CONFLICT (id) DO NOTHING",
        )
        .bind(destination)
        .execute(&mut *transaction)
        .await?;
        // Without SKIP LOCKED, PostgreSQL would wait for the rows of other processes.
        let lock = if self.is_sqlite { "" } else { " FOR UPDATE SKIP LOCKED" };
        let sql = format!(
            "UPDATE deliveries SET due_at = $1, attempts = attempts + 1 WHERE id = (\
            SELECT id FROM deliveries WHERE destination = $2 AND delivered_at IS NULL AND due_at <= $3 \
            AND (event = 'end' OR EXISTS (SELECT 1 FROM alerts WHERE alerts.id = alert_id AND alerts.ended IS NULL)) \
            ORDER BY due_at, id LIMIT 1{lock}) RETURNING id, alert_id, event, attempts"
        );
        let now = now();
        let leased = sqlx::query(AssertSqlSafe(sql))
            .bind(now + milliseconds(LEASE))
            .bind(destination)
            .bind(now)
            .fetch_optional(&mut *transaction)
            .await?;
        let Some(row) = leased else {
            transaction.commit().await?;
            return Ok(None);
        };
        let sql = format!("{SELECT} WHERE alerts.id = $1");
        let found = sqlx::query(AssertSqlSafe(sql)).bind(row.try_get::<String, _>("alert_id")?);
        let alert = alert(&found.fetch_one(&mut *transaction).await?)?;
        transaction.commit().await?;
        Ok(Some(Delivery {
            id: row.try_get("id")?,
            is_end: row.try_get::<String, _>("event")? == "end",
            attempts: row.try_get("attempts")?,
            alert,
        }))
    }

    /// Stores that a message was delivered, so that it is not sent again.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn finish_delivery(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE deliveries SET delivered_at = $1 WHERE id = $2")
            .bind(now())
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Ends the lease of a message that was not delivered. The next attempt may begin after `pause`.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn release_delivery(&self, id: &str, pause: Duration) -> Result<(), StoreError> {
        sqlx::query("UPDATE deliveries SET due_at = $1 WHERE id = $2")
            .bind(now() + milliseconds(pause))
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}
