//! Requests that are repeated with the same `Idempotency-Key` change nothing, and get the first response.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{Any, Row as _, Transaction};

use super::{Store, StoreError, now};

/// The time for which a key is stored, in milliseconds: one day.
pub(super) const KEPT: i64 = 24 * 60 * 60 * 1000;

/// The time after which a request without a response counts as lost, in milliseconds: ten minutes. Its server was
/// probably killed.
const LOST: i64 = 10 * 60 * 1000;

/// A key of a client for one request.
#[derive(Clone, Debug)]
pub struct RequestKey {
    /// The client: the id of its token; empty on a server without tokens.
    pub owner: String,
    /// The value of the header `Idempotency-Key`.
    pub key: String,
    /// The digest of the endpoint and the body of the request.
    pub digest: String,
}

impl RequestKey {
    /// Reserves the key in this transaction. Returns the first response if the request is a repetition, and `None` if
    /// the key is new. Fails if the key was used for another request, or if the first request has no response yet.
    ///
    /// A concurrent request with the same key waits here until the first request is committed.
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
        let sql = "SELECT request_digest, response, created_at FROM idempotency_keys \
            WHERE owner = $1 AND idempotency_key = $2";
        let row = sqlx::query(sql)
            .bind(&self.owner)
            .bind(&self.key)
            .fetch_one(&mut **transaction)
            .await?;
        if row.try_get::<String, _>("request_digest")? != self.digest {
            return Err(StoreError::KeyReused);
        }
        let response: String = row.try_get("response")?;
        if !response.is_empty() {
            return Ok(Some(serde_json::from_str(&response)?));
        }
        let begun: i64 = row.try_get("created_at")?;
        if begun < now - LOST && self.take_over(transaction, begun, now).await? {
            return Ok(None);
        }
        Err(StoreError::KeyInUse)
    }

    /// Reserves the key of a lost request again. Returns false if another request has reserved the key first.
    async fn take_over(
        &self,
        transaction: &mut Transaction<'_, Any>,
        begun: i64,
        now: i64,
    ) -> Result<bool, StoreError> {
        let taken = sqlx::query(
            "UPDATE idempotency_keys SET created_at = $1 \
            WHERE owner = $2 AND idempotency_key = $3 AND created_at = $4 AND response = ''",
        )
        .bind(now)
        .bind(&self.owner)
        .bind(&self.key)
        .bind(begun)
        .execute(&mut **transaction)
        .await?;
        Ok(taken.rows_affected() > 0)
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

impl Store {
    /// Reserves a key for work that is not in the database, such as a run. Returns the first response if the request is
    /// a repetition, and `None` if the key is new.
    ///
    /// The caller must call [`answer_request`](Self::answer_request) or [`release_request`](Self::release_request). If
    /// `answer_request` fails, the caller must call [`withdraw_request`](Self::withdraw_request).
    ///
    /// # Errors
    ///
    /// Fails if the key was used for another request, if the first request has no response yet, or if the database
    /// fails.
    pub async fn begin_request<Response: DeserializeOwned>(
        &self,
        key: &RequestKey,
    ) -> Result<Option<Response>, StoreError> {
        let mut transaction = self.write().await?;
        let first = key.reserve(&mut transaction).await?;
        transaction.commit().await?;
        Ok(first)
    }

    /// Stores the response of a request.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn answer_request(
        &self,
        key: &RequestKey,
        response: &impl Serialize,
    ) -> Result<(), StoreError> {
        let mut transaction = self.write().await?;
        key.answer(&mut transaction, response).await?;
        Ok(transaction.commit().await?)
    }

    /// Releases the key of a request that did nothing, so that the request can be repeated.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn release_request(&self, key: &RequestKey) -> Result<(), StoreError> {
        sqlx::query(
            "DELETE FROM idempotency_keys WHERE owner = $1 AND idempotency_key = $2 AND response = ''",
        )
        .bind(&key.owner)
        .bind(&key.key)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Releases the key of a request whose [`answer_request`](Self::answer_request) failed.
    ///
    /// If the connection ended during the commit, `response` may be stored in spite of the error. Then it is deleted.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn withdraw_request(
        &self,
        key: &RequestKey,
        response: &impl Serialize,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "DELETE FROM idempotency_keys WHERE owner = $1 AND idempotency_key = $2 AND response IN ('', $3)",
        )
        .bind(&key.owner)
        .bind(&key.key)
        .bind(serde_json::to_string(response)?)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
