//! The database: tokens, assertion sets, samples, feedback and alerts, in SQLite or PostgreSQL.
//!
//! Both databases have the same tables, and the same statements run on both.

pub mod agents;
pub mod alerts;
pub mod attention;
pub mod backup;
pub mod deliveries;
pub mod idempotency;
pub mod queue;
pub mod rates;
pub mod releases;
pub mod samples;
pub mod sets;
pub mod spending;
pub mod tokens;
pub mod traces;

use std::str::FromStr as _;
use std::sync::Once;
use std::time::Duration;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Any, AnyPool, Transaction};

/// The maximum number of open connections to the database.
const CONNECTIONS: u32 = 8;

/// The time limit for a free connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// The default database: a file in the working folder.
pub const DEFAULT_DATABASE: &str = "sqlite://kindlm.db";

/// An error of the database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL of the database is invalid.
    #[error("`--database`: expected `sqlite://<file>` or `postgres://<user>@<host>/<name>`")]
    Url,
    /// The database cannot be opened.
    #[error("cannot open the database: {0}")]
    Open(#[source] sqlx::Error),
    /// The tables cannot be created or changed.
    #[error("cannot migrate the database: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A statement failed.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// An `Idempotency-Key` was used for two different requests.
    #[error("the `Idempotency-Key` was used for another request; use a new key for each request")]
    KeyReused,
    /// A stored value cannot be read.
    #[error("the database has an invalid value: {0}")]
    Invalid(#[from] serde_json::Error),
    /// Stored counts contradict each other.
    #[error("the database has invalid counts: {0}")]
    Counts(#[source] kindlm_stats::Undefined),
    /// The reading of a trace panicked, which is a bug.
    #[error("the reading of a trace panicked")]
    Panicked,
    /// The operating system has no random numbers.
    #[error("cannot make random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

/// An open database. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Store {
    pool: AnyPool,
    is_sqlite: bool,
    lease: Duration,
}

impl Store {
    /// Opens a database, and creates or migrates its tables. A missing SQLite file is created.
    ///
    /// # Errors
    ///
    /// Fails if the URL is invalid, or the database cannot be opened or migrated.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        static DRIVERS: Once = Once::new();
        DRIVERS.call_once(sqlx::any::install_default_drivers);
        let is_sqlite = url.starts_with("sqlite:");
        let is_postgres = ["postgres://", "postgresql://"].iter().any(|it| url.starts_with(it));
        // Each connection to a database in memory would open another database.
        if !is_sqlite && !is_postgres || is_sqlite && url.contains("memory") {
            return Err(StoreError::Url);
        }
        let creates = is_sqlite && !url.contains('?');
        let url = if creates { format!("{url}?mode=rwc") } else { url.to_owned() };
        let options = AnyConnectOptions::from_str(&url).map_err(|_| StoreError::Url)?;
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if is_sqlite {
                        // Readers do not wait for the writer. FULL is the default: a commit is on disk.
                        sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await?;
                        sqlx::query("PRAGMA busy_timeout = 10000").execute(connection).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(StoreError::Open)?;
        sqlx::migrate!().run(&pool).await?;
        Ok(Self { pool, is_sqlite, lease: queue::LEASE })
    }

    /// Checks that the database answers.
    ///
    /// # Errors
    ///
    /// Fails if it does not answer.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Starts a transaction that writes.
    async fn write(&self) -> Result<Transaction<'static, Any>, StoreError> {
        // Without IMMEDIATE, SQLite takes the lock at the first write, and fails if another writer came first.
        let begin = if self.is_sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
        Ok(self.pool.begin_with(begin).await?)
    }
}

/// Returns the current time in milliseconds since 1970.
fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Returns a time in milliseconds since 1970 as text (RFC 3339).
pub(crate) fn time_text(milliseconds: i64) -> String {
    Timestamp::from_millisecond(milliseconds).map(|it| it.to_string()).unwrap_or_default()
}

/// Returns the pause after this number of attempts. The pause after the first attempt is `first`, and each later pause
/// is four times as long as the pause before.
pub(crate) fn pause_after(first: Duration, attempts: i64) -> Duration {
    let earlier = u32::try_from(attempts - 1).unwrap_or_default();
    first.saturating_mul(4_u32.saturating_pow(earlier))
}

/// Returns a duration in milliseconds.
fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the SHA-256 digest in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Returns `bytes` random bytes in hexadecimal.
fn random(bytes: usize) -> Result<String, StoreError> {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer)?;
    Ok(HEXLOWER.encode(&buffer))
}

/// Returns true if a statement failed because a row with this key exists.
fn exists_already(err: &StoreError) -> bool {
    matches!(err, StoreError::Database(sqlx::Error::Database(it)) if it.is_unique_violation())
}
