//! Requests that are repeated with the same `Idempotency-Key` change nothing, and get the first response.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{Any, Row as _, Transaction};

use super::{StoreError, now};

/// The time for which a key is stored, in milliseconds: one day.
const KEPT: i64 = 24 * 60 * 60 * 1000;

/// A key of a client for one request.
#[derive(Clone, Debug)]
pub struct RequestKey {
    /// The client: the id of its token; empty on a server without tokens.
    pub owner: String,
    /// The value of the header `Idempotency-Key`.
    pub key: String,
    /// The digest of the request.
    pub digest: String,
}

impl RequestKey {
    /// Reserves the key in this transaction. Returns the first response if the request is a repetition, and `None` if
    /// the key is new. Fails if the key was used for another request.
    ///
    /// A concurrent request with the same key waits here until the first one is committed.
    pub(super) async fn reserve<Response: DeserializeOwned>(
        &self,
        transaction: &mut Transaction<'_, Any>,
    ) -> Result<Option<Response>, StoreError> {
        let now = now();
        sqlx::query("DELETE FROM idempotency_keys WHERE created_at < $1")
            .bind(now - KEPT)
            .execute(&mut **transaction)
            .await?;
        let inserted = sqlx::query(
            "INSERT INTO idempotency_keys (owner, idempotency_key, request_digest, response, created_at) \
            VALUES ($1, $2, $3, '', $4) ON CONFLICT (owner, idempotency_key) DO NOTHING",
        )
        .bind(&self.owner)
        .bind(&self.key)
        .bind(&self.digest)
        .bind(now)
        .execute(&mut **transaction)
        .await?;
        if inserted.rows_affected() > 0 {
            return Ok(None);
        }
        let sql = "SELECT request_digest, response FROM idempotency_keys WHERE owner = $1 AND idempotency_key = $2";
        let row = sqlx::query(sql)
            .bind(&self.owner)
            .bind(&self.key)
            .fetch_one(&mut **transaction)
            .await?;
        if row.try_get::<String, _>("request_digest")? != self.digest {
            return Err(StoreError::KeyReused);
        }
        Ok(Some(serde_json::from_str(&row.try_get::<String, _>("response")?)?))
    }

    /// Stores the response of the request in this transaction.
    pub(super) async fn answer(
        &self,
        transaction: &mut Transaction<'_, Any>,
        response: &impl Serialize,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE idempotency_keys SET response = $1 WHERE owner = $2 AND idempotency_key = $3",
        )
        .bind(serde_json::to_string(response)?)
        .bind(&self.owner)
        .bind(&self.key)
        .execute(&mut **transaction)
        .await?;
        Ok(())
    }
}
