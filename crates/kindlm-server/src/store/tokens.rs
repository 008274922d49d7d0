//! Tokens with scopes. Only their hashes are stored.

use serde::Serialize;
use sqlx::Row as _;
use subtle::ConstantTimeEq as _;

use super::{Store, StoreError, digest, now, random, time_text};

/// A permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Evaluate records, and start and cancel runs.
    Evaluate,
    /// Store samples, traces and feedback.
    Ingest,
    /// Read stored data, such as samples, assertion sets, runs, alerts and metrics.
    Read,
    /// Do what all other scopes permit, change assertion sets, agents, suites and baselines, and delete samples and
    /// runs.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Evaluate, Self::Ingest, Self::Read, Self::Admin];

    /// Returns the name of the scope.
    pub fn name(self) -> &'static str {
        match self {
            Self::Evaluate => "evaluate",
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// Returns the scope with this name; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// A stored token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Token {
    /// The id, which is the first part of the token.
    pub id: String,
    /// The name that the operator gave to the token.
    pub name: String,
    /// The permissions of the token.
    pub scopes: Vec<Scope>,
    /// The time at which the token was created (RFC 3339).
    pub created_at: String,
    /// The time of its revocation (RFC 3339); `None` if the token is valid.
    pub revoked_at: Option<String>,
}

impl Token {
    /// Returns true if the token permits a request that needs `scope`.
    pub fn permits(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|it| *it == scope || *it == Scope::Admin)
    }
}

impl Store {
    /// Creates a token, and returns its text, which cannot be read again.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn create_token(&self, name: &str, scopes: &[Scope]) -> Result<String, StoreError> {
        let (id, secret) = (random(6)?, random(32)?);
        let token = format!("kindlm_{id}_{secret}");
        let scopes: Vec<&str> = scopes.iter().map(|it| it.name()).collect();
        sqlx::query(
            "INSERT INTO tokens (id, name, hash, scopes, created_at) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(id)
        .bind(name)
        .bind(digest(token.as_bytes()))
        .bind(scopes.join(","))
        .bind(now())
        .execute(&self.pool)
        .await?;
        Ok(token)
    }

    /// Returns all tokens, also revoked ones, from the oldest to the newest.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let sql =
            "SELECT id, name, scopes, created_at, revoked_at FROM tokens ORDER BY created_at, id";
        let rows = sqlx::query(sql).fetch_all(&self.pool).await?;
        rows.iter().map(token).collect()
    }

    /// Returns true if a token was ever created.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn has_tokens(&self) -> Result<bool, StoreError> {
        let row = sqlx::query("SELECT id FROM tokens LIMIT 1").fetch_optional(&self.pool).await?;
        Ok(row.is_some())
    }

    /// Revokes a token. Returns false if there is no valid token with this id.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE tokens SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL";
        let done = sqlx::query(sql).bind(now()).bind(id).execute(&self.pool).await?;
        Ok(done.rows_affected() > 0)
    }

    /// Returns the token with this text; `None` if there is no such token, or if the token was revoked.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn find_token(&self, text: &str) -> Result<Option<Token>, StoreError> {
        let Some((id, _)) = text.strip_prefix("kindlm_").and_then(|it| it.split_once('_')) else {
            return Ok(None);
        };
        // An id has only hexadecimal digits. PostgreSQL would refuse a text with NUL characters.
        if !id.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let sql = "SELECT id, name, scopes, created_at, revoked_at, hash FROM tokens WHERE id = $1";
        let Some(row) = sqlx::query(sql).bind(id).fetch_optional(&self.pool).await? else {
            return Ok(None);
        };
        let hash: String = row.try_get("hash")?;
        let is_equal: bool = hash.as_bytes().ct_eq(digest(text.as_bytes()).as_bytes()).into();
        let token = token(&row)?;
        Ok((is_equal && token.revoked_at.is_none()).then_some(token))
    }
}

fn token(row: &sqlx::any::AnyRow) -> Result<Token, StoreError> {
    let scopes: String = row.try_get("scopes")?;
    Ok(Token {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        scopes: scopes.split(',').filter_map(Scope::parse).collect(),
        created_at: time_text(row.try_get("created_at")?),
        revoked_at: row.try_get::<Option<i64>, _>("revoked_at")?.map(time_text),
    })
}
