//! Assertion sets. Each change of a set is a new version.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use similar::TextDiff;
use sqlx::any::AnyRow;
use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};
use utoipa::ToSchema;

use super::{Store, StoreError, digest, exists_already, now, time_text};

/// The maximum number of attempts to store a version while other requests store versions of the same set.
pub(super) const ATTEMPTS: u32 = 20;

/// The time limit of the search for the shortest diff. After this time, the diff may be longer than necessary.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// One version of an assertion set.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct SetVersion {
    /// The name of the set.
    pub name: String,
    /// The number of the version, from 1.
    pub version: i64,
    /// The SHA-256 digest of the content: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The name of the token that stored the version; empty on a server without tokens.
    pub author: String,
    /// The time at which the version was stored (RFC 3339).
    pub created_at: String,
    /// The lines that differ from the version before, as a unified diff.
    pub diff: String,
    /// The checks: `assertions`, `expect` and `threshold`, in the form of a record.
    #[schema(value_type = Object)]
    pub content: Map<String, Value>,
    /// True if an evaluation with this version has ended.
    #[serde(skip)]
    pub has_verdict: bool,
}

/// A version of a set, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct SetSummary {
    /// The name of the set.
    pub name: String,
    /// The number of the version, from 1.
    pub version: i64,
    /// The SHA-256 digest of the content: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The name of the token that stored the version; empty on a server without tokens.
    pub author: String,
    /// The time at which the version was stored (RFC 3339).
    pub created_at: String,
}

/// The state of a set that a request expects. If the set has another state, no new version is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Any version, or no set.
    #[default]
    Any,
    /// Any version. The set must exist.
    Exists,
    /// The newest version has one of these digests.
    Digest(Vec<String>),
}

impl ExpectedVersion {
    fn permits(&self, newest: Option<&SetVersion>) -> bool {
        match self {
            Self::Any => true,
            Self::Exists => newest.is_some(),
            Self::Digest(digests) => newest.is_some_and(|it| digests.contains(&it.digest)),
        }
    }
}

impl Store {
    /// Stores a new version of a set, unless the content is that of the newest version.
    ///
    /// Returns the newest version, and true if it is new.
    ///
    /// # Errors
    ///
    /// Fails if the newest version is not the expected one, or if the database fails.
    pub async fn put_set(
        &self,
        name: &str,
        content: &Map<String, Value>,
        author: &str,
        expected: &ExpectedVersion,
    ) -> Result<(SetVersion, bool), StoreError> {
        let mut attempt = 1;
        loop {
            match self.try_put_set(name, content, author, expected).await {
                // Another request has stored a version with this number, so take the next number.
                Err(err) if exists_already(&err) && attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    async fn try_put_set(
        &self,
        name: &str,
        content: &Map<String, Value>,
        author: &str,
        expected: &ExpectedVersion,
    ) -> Result<(SetVersion, bool), StoreError> {
        let before = self.set(name, None).await?;
        if !expected.permits(before.as_ref()) {
            return Err(StoreError::SetChanged { newest: before.map(|it| it.version) });
        }
        let text = serde_json::to_string(content)?;
        let digest = format!("sha256:{}", digest(text.as_bytes()));
        if let Some(before) = before.as_ref().filter(|it| it.digest == digest) {
            return Ok((before.clone(), false));
        }
        let old = before.as_ref().map(|it| pretty(&it.content)).transpose()?.unwrap_or_default();
        let new = pretty(content)?;
        let diff = line_diff(&old, &new);
        let number = match before {
            Some(before) => before.version + 1,
            None => self.deleted_version(name).await? + 1,
        };
        let created_at = now();
        // The key of the table is the name with the number, so only one request can store this number.
        sqlx::query(
            "INSERT INTO assertion_sets (name, version, digest, author, content, diff, created_at) \
            VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(name)
        .bind(number)
        .bind(&digest)
        .bind(author)
        .bind(text)
        .bind(&diff)
        .bind(created_at)
        .execute(&self.pool)
        .await?;
        let stored = SetVersion {
            name: name.to_owned(),
            version: number,
            digest,
            author: author.to_owned(),
            created_at: time_text(created_at),
            diff,
            content: content.clone(),
            has_verdict: false,
        };
        Ok((stored, true))
    }

    /// Returns the last version of a deleted set; 0 if no set with this name was deleted.
    async fn deleted_version(&self, name: &str) -> Result<i64, StoreError> {
        let sql = "SELECT version FROM deleted_sets WHERE name = $1";
        let row = sqlx::query(sql).bind(name).fetch_optional(&self.pool).await?;
        Ok(row.map(|it| it.try_get("version")).transpose()?.unwrap_or(0))
    }

    /// Deletes all versions of a set. Returns false if there is no such set.
    ///
    /// The results of the samples that the set evaluated stay. A later set with this name has higher versions.
    ///
    /// # Errors
    ///
    /// Fails if an agent has the set, or if the database fails.
    pub async fn delete_set(&self, name: &str) -> Result<bool, StoreError> {
        let mut transaction = self.write().await?;
        // With the lock, no request can give the set to an agent between the check and the deletion.
        self.lock_set(&mut transaction, name).await?;
        let sql = "SELECT name, assertion_set FROM agents ORDER BY name";
        let mut agents = Vec::new();
        for row in sqlx::query(sql).fetch_all(&mut *transaction).await? {
            let set: String = row.try_get("assertion_set")?;
            if set.split_once('@').map_or(&*set, |it| it.0) == name {
                agents.push(row.try_get("name")?);
            }
        }
        if !agents.is_empty() {
            return Err(StoreError::SetInUse { agents });
        }
        let sql = "INSERT INTO deleted_sets (name, version) \
            SELECT name, max(version) FROM assertion_sets WHERE name = $1 GROUP BY name \
            ON CONFLICT (name) DO UPDATE SET version = excluded.version";
        sqlx::query(sql).bind(name).execute(&mut *transaction).await?;
        let sql = "DELETE FROM assertion_sets WHERE name = $1";
        let deleted = sqlx::query(sql).bind(name).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(deleted.rows_affected() > 0)
    }

    /// Locks the versions of a set until the end of a transaction. Returns their numbers.
    pub(super) async fn lock_set(
        &self,
        transaction: &mut Transaction<'_, Any>,
        name: &str,
    ) -> Result<Vec<i64>, StoreError> {
        // SQLite permits only one writing transaction at a time.
        let lock = if self.is_sqlite { "" } else { " FOR UPDATE" };
        let sql =
            format!("SELECT version FROM assertion_sets WHERE name = $1 ORDER BY version{lock}");
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(name).fetch_all(&mut **transaction).await?;
        rows.iter().map(|it| Ok(it.try_get("version")?)).collect()
    }

    /// Returns a version of a set; the newest version if `number` is `None`. Returns `None` if the version does not
    /// exist.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn set(
        &self,
        name: &str,
        number: Option<i64>,
    ) -> Result<Option<SetVersion>, StoreError> {
        let query = match number {
            Some(number) => sqlx::query(
                "SELECT name, version, digest, author, content, diff, created_at, first_verdict_at FROM assertion_sets \
                WHERE name = $1 AND version = $2",
            )
            .bind(name)
            .bind(number),
            None => sqlx::query(
                "SELECT name, version, digest, author, content, diff, created_at, first_verdict_at FROM assertion_sets \
                WHERE name = $1 ORDER BY version DESC LIMIT 1",
            )
            .bind(name),
        };
        query.fetch_optional(&self.pool).await?.as_ref().map(version).transpose()
    }

    /// Returns all versions of a set, from the newest to the oldest. The list is empty if there is no such set.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn set_versions(&self, name: &str) -> Result<Vec<SetSummary>, StoreError> {
        let sql = "SELECT name, version, digest, author, created_at FROM assertion_sets \
            WHERE name = $1 ORDER BY version DESC";
        let rows = sqlx::query(sql).bind(name).fetch_all(&self.pool).await?;
        rows.iter().map(summary).collect()
    }

    /// Returns the newest version of each set, by name.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn sets(&self) -> Result<Vec<SetSummary>, StoreError> {
        let sql = "SELECT name, version, digest, author, created_at FROM assertion_sets AS one \
            WHERE version = (SELECT max(version) FROM assertion_sets AS other WHERE other.name = one.name) \
            ORDER BY name";
        sqlx::query(sql).fetch_all(&self.pool).await?.iter().map(summary).collect()
    }
}

/// Returns the lines that differ, as a unified diff.
pub(super) fn line_diff(old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    diff.unified_diff().to_string()
}

fn pretty(content: &Map<String, Value>) -> Result<String, StoreError> {
    Ok(serde_json::to_string_pretty(content)? + "\n")
}

fn version(row: &AnyRow) -> Result<SetVersion, StoreError> {
    let SetSummary { name, version, digest, author, created_at } = summary(row)?;
    let content: String = row.try_get("content")?;
    let (diff, content) = (row.try_get("diff")?, serde_json::from_str(&content)?);
    let has_verdict = row.try_get::<Option<i64>, _>("first_verdict_at")?.is_some();
    Ok(SetVersion { name, version, digest, author, created_at, diff, content, has_verdict })
}

fn summary(row: &AnyRow) -> Result<SetSummary, StoreError> {
    Ok(SetSummary {
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        digest: row.try_get("digest")?,
        author: row.try_get("author")?,
        created_at: time_text(row.try_get("created_at")?),
    })
}
