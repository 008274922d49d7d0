//! The samples that wait for their evaluation.

use sqlx::Row as _;

use super::{Store, StoreError};

/// The samples that wait for their evaluation, and the newest sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of samples that wait.
    pub waiting: i64,
    /// The time at which the server received the oldest waiting sample, in milliseconds since 1970; `None` without one.
    pub oldest: Option<i64>,
    /// The time at which the server received the newest of all samples; `None` without samples.
    pub newest: Option<i64>,
}

impl Store {
    /// Counts the samples of an agent that wait for their evaluation. An empty name counts the samples of all agents.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn backlog(&self, agent: &str) -> Result<Backlog, StoreError> {
        let waiting = sqlx::query(
            "SELECT count(*) AS waiting, min(received_at) AS oldest FROM samples \
            WHERE state = 'pending' AND ($1 = '' OR agent = $1)",
        );
        let waiting = waiting.bind(agent).fetch_one(&self.pool).await?;
        let newest = sqlx::query(
            "SELECT max(received_at) AS newest FROM samples WHERE ($1 = '' OR agent = $1)",
        );
        let newest = newest.bind(agent).fetch_one(&self.pool).await?;
        Ok(Backlog {
            waiting: waiting.try_get("waiting")?,
            oldest: waiting.try_get("oldest")?,
            newest: newest.try_get("newest")?,
        })
    }
}
