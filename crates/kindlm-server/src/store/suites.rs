//! Versions of the files of suites, and the version of each run.

use std::collections::HashMap;

use kindlm_redact::mask_keys;
use serde::Serialize;
use sqlx::Row as _;
use sqlx::any::AnyRow;
use utoipa::ToSchema;

use super::sets::{ATTEMPTS, line_diff};
use super::{Store, StoreError, digest, exists_already, now, time_text};

/// The author of a version that was stored without a token.
const FILE: &str = "file";

/// One version of the file of a suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct SuiteVersion {
    /// The number, digest, author and time of the version.
    #[serde(flatten)]
    pub summary: SuiteSummary,
    /// The lines that differ from the version before, as a unified diff.
    pub diff: String,
    /// The text of the file. Keys of known services are masked.
    pub content: String,
}

/// One version of the file of a suite, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct SuiteSummary {
    /// The path of the suite below the folder of suites.
    pub suite: String,
    /// The number of the version, from 1.
    pub version: i64,
    /// The SHA-256 digest of the text: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The name of the token that first ran this version, or that changed the file; `file` if there was no token.
    pub author: String,
    /// The time at which the version was stored (RFC 3339).
    pub created_at: String,
}

impl Store {
    /// Stores a new version of a suite, unless the text is that of the newest version. Returns the number of the newest
    /// version.
    ///
    /// Keys of known services are masked, because each token with the scope `read` can read the versions.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn put_suite(
        &self,
        suite: &str,
        text: &str,
        author: &str,
    ) -> Result<i64, StoreError> {
        let mut attempt = 1;
        loop {
            match self.try_put_suite(suite, text, author).await {
                // Another request has stored a version with this number, so take the next number.
                Err(err) if exists_already(&err) && attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    async fn try_put_suite(
        &self,
        suite: &str,
        text: &str,
        author: &str,
    ) -> Result<i64, StoreError> {
        let sql = "SELECT version, digest, content FROM suite_versions \
            WHERE suite = $1 ORDER BY version DESC LIMIT 1";
        let before = sqlx::query(sql).bind(suite).fetch_optional(&self.pool).await?;
        let digest = format!("sha256:{}", digest(text.as_bytes()));
        let (number, old): (i64, String) = match &before {
            Some(row) if row.try_get::<String, _>("digest")? == digest => {
                return Ok(row.try_get("version")?);
            }
            Some(row) => (row.try_get::<i64, _>("version")? + 1, row.try_get("content")?),
            None => (1, String::new()),
        };
        let text = mask_keys(text);
        // The key of the table is the suite with the number, so only one request can store this number.
        sqlx::query(
            "INSERT INTO suite_versions (suite, version, digest, author, content, diff, created_at) \
            VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(suite)
        .bind(number)
        .bind(&digest)
        .bind(if author.is_empty() { FILE } else { author })
        .bind(&*text)
        .bind(line_diff(&old, &text))
        .bind(now())
        .execute(&self.pool)
        .await?;
        Ok(number)
    }

    /// Stores the text of a suite as a version (see [`put_suite`](Self::put_suite)) and as the version of a run.
    /// Returns the number of the version.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn put_run_version(
        &self,
        run: &str,
        suite: &str,
        text: &str,
        author: &str,
    ) -> Result<i64, StoreError> {
        let version = self.put_suite(suite, text, author).await?;
        // A resumed run has a version already, which the new version replaces.
        let sql = "INSERT INTO run_versions (run, suite, version, started_at) VALUES ($1, $2, $3, $4) \
            ON CONFLICT (run) DO UPDATE SET suite = excluded.suite, version = excluded.version";
        let query = sqlx::query(sql).bind(run).bind(suite).bind(version).bind(now());
        query.execute(&self.pool).await?;
        Ok(version)
    }

    /// Returns the version of the suite of a run; `None` if it is not known.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn run_version(&self, run: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT version FROM run_versions WHERE run = $1";
        let row = sqlx::query(sql).bind(run).fetch_optional(&self.pool).await?;
        Ok(row.map(|it| it.try_get("version")).transpose()?)
    }

    /// Returns the versions of the suites of the newest `limit` runs that a server started, by the id of the run.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn run_versions(&self, limit: i64) -> Result<HashMap<String, i64>, StoreError> {
        let sql = "SELECT run, version FROM run_versions ORDER BY started_at DESC LIMIT $1";
        let rows = sqlx::query(sql).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(|it| Ok((it.try_get("run")?, it.try_get("version")?))).collect()
    }

    /// Deletes the version of a run that was deleted.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn delete_run_version(&self, run: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM run_versions WHERE run = $1";
        sqlx::query(sql).bind(run).execute(&self.pool).await?;
        Ok(())
    }

    /// Returns all versions of a suite, from the newest to the oldest. The list is empty if no version is stored.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn suite_versions(&self, suite: &str) -> Result<Vec<SuiteSummary>, StoreError> {
        let sql = "SELECT suite, version, digest, author, created_at FROM suite_versions \
            WHERE suite = $1 ORDER BY version DESC";
        let rows = sqlx::query(sql).bind(suite).fetch_all(&self.pool).await?;
        rows.iter().map(summary).collect()
    }

    /// Returns one version of a suite; `None` if there is no such version.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn suite_version(
        &self,
        suite: &str,
        version: i64,
    ) -> Result<Option<SuiteVersion>, StoreError> {
        let sql = "SELECT suite, version, digest, author, created_at, diff, content FROM suite_versions \
            WHERE suite = $1 AND version = $2";
        let row = sqlx::query(sql).bind(suite).bind(version).fetch_optional(&self.pool).await?;
        let read = |row: AnyRow| -> Result<SuiteVersion, StoreError> {
            Ok(SuiteVersion {
                summary: summary(&row)?,
                diff: row.try_get("diff")?,
                content: row.try_get("content")?,
            })
        };
        row.map(read).transpose()
    }
}

fn summary(row: &AnyRow) -> Result<SuiteSummary, StoreError> {
    Ok(SuiteSummary {
        suite: row.try_get("suite")?,
        version: row.try_get("version")?,
        digest: row.try_get("digest")?,
        author: row.try_get("author")?,
        created_at: time_text(row.try_get("created_at")?),
    })
}
