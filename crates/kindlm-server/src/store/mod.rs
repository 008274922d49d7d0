//! The database: tokens, assertion sets, samples, feedback and alerts, in SQLite or PostgreSQL.
//!
//! Both databases have the same tables, and the same statements run on both.

pub mod adoption;
pub mod agents;
pub mod alerts;
pub mod attention;
pub mod backlog;
pub mod backup;
pub mod deliveries;
pub mod feedback_rates;
pub mod idempotency;
pub mod jobs;
pub mod queue;
pub mod rates;
pub mod releases;
pub mod retention;
pub mod samples;
pub mod sampling;
pub mod sets;
pub mod spending;
pub mod suites;
pub mod tokens;
pub mod traces;

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::path::Path;
use std::str::FromStr as _;
use std::sync::Once;
use std::time::Duration;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::migrate::MigrateError;
use sqlx::{Any, AnyConnection, AnyPool, Connection as _, Transaction};

use self::jobs::JobPool;

/// The maximum number of open connections to the database.
const CONNECTIONS: u32 = 8;

/// The time limit for a new connection, and for the wait until a connection is free.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes SQLite wait up to 10 seconds for the lock of another writer.
const BUSY: &str = "PRAGMA busy_timeout = 10000";

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
    #[error(
        "cannot open the database: {0}; check the address in `--database`, and that the database runs"
    )]
    Open(#[source] sqlx::Error),
    /// The database is in memory. Each connection would open its own, empty database.
    #[error("`--database`: a database in memory is not supported; use `sqlite://<file>`")]
    InMemory,
    /// There is no file of the database.
    #[error("`--database`: there is no file `{0}`")]
    Missing(String),
    /// The tables cannot be created or changed.
    #[error("cannot migrate the database: {0}")]
    Migrate(#[from] MigrateError),
    /// The tables of the queue cannot be created or changed on PostgreSQL.
    #[error(
        "cannot migrate the database: {0}; on PostgreSQL, the user must be permitted to create the schema `apalis` and \
         the extensions `hstore` and `pgcrypto`"
    )]
    MigrateQueue(#[source] MigrateError),
    /// The tables would be in another schema of PostgreSQL than `public`.
    #[error(
        "`--database`: the server must use the schema `public`, and the current schema is `{0}`; each installation \
         needs a database of its own, because the queue is in the schema `apalis` of the database"
    )]
    Schema(String),
    /// A statement failed.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// The worker that takes samples from the queue failed.
    #[error("the queue failed: {0}")]
    Queue(#[from] apalis::prelude::WorkerError),
    /// An `Idempotency-Key` was used for two different requests.
    #[error("the `Idempotency-Key` was used for another request; use a new key for each request")]
    KeyReused,
    /// The first request with an `Idempotency-Key` has no response yet.
    #[error(
        "the first request with this `Idempotency-Key` has no response yet; repeat the request later"
    )]
    KeyInUse,
    /// The newest version of a set is not the version that the request names.
    #[error("{}", set_changed(.newest.as_ref()))]
    SetChanged {
        /// The newest version; `None` if there is no such set.
        newest: Option<i64>,
    },
    /// Agents use the set that a request deletes.
    #[error("the agents {} use the set; give them another set, or remove them", quoted(.agents))]
    SetInUse {
        /// The names of the agents.
        agents: Vec<String>,
    },
    /// There is no set with this name, or no such version of it.
    #[error("`set`: unknown set \"{0}\"; `GET /v1/assertion-sets` lists all sets")]
    UnknownSet(String),
    /// Another sample has the same id.
    #[error(
        "another sample with the id \"{0}\" is stored; give each sample of all agents its own id, or leave out `id`"
    )]
    IdReused(String),
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
    jobs: JobPool,
    is_sqlite: bool,
}

impl Store {
    /// Opens a database, and creates or migrates its tables.
    ///
    /// A missing SQLite file is created if the URL has no options, or has `mode=rwc`.
    ///
    /// # Errors
    ///
    /// Fails if the URL is invalid, if the database cannot be opened or migrated, or if its schema is not `public`.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let mut url = Cow::Borrowed(url);
        let mut pragmas: &'static [&'static str] = &[];
        if url.starts_with("sqlite:") {
            if !url.contains('?') {
                url = Cow::Owned(format!("{url}?mode=rwc"));
            }
            prepare_file(&url["sqlite:".len()..])?;
            // With WAL, readers do not wait for the writer. `synchronous = FULL` is the default, so each commit is
            // written to disk.
            pragmas = &["PRAGMA journal_mode = WAL", BUSY];
        }
        let store = Self::connect(&url, pragmas).await?;
        store.check_schema().await?;
        store.jobs.migrate().await?;
        sqlx::migrate!().run(&store.pool).await?;
        store.add_unqueued().await?;
        Ok(store)
    }

    /// Opens a database that exists. Its tables are not migrated.
    ///
    /// # Errors
    ///
    /// Fails if the URL is invalid, or if the database does not exist or cannot be opened.
    pub async fn open_existing(url: &str) -> Result<Self, StoreError> {
        let Some(file) = url.strip_prefix("sqlite:") else { return Self::connect(url, &[]).await };
        let (path, options) = split_file(file)?;
        if !Path::new(&*path).exists() {
            return Err(StoreError::Missing(path.into_owned()));
        }
        let others = options.split('&').filter(|it| !it.is_empty() && !it.starts_with("mode="));
        let options: Vec<&str> = others.chain(["mode=rw"]).collect();
        let (address, _) = url.split_once('?').unwrap_or((url, ""));
        Self::connect(&format!("{address}?{}", options.join("&")), &[BUSY]).await
    }

    /// Connects to a database, and fails if it does not answer. Each new connection runs the statements `pragmas`
    /// first.
    async fn connect(url: &str, pragmas: &'static [&'static str]) -> Result<Self, StoreError> {
        static DRIVERS: Once = Once::new();
        DRIVERS.call_once(sqlx::any::install_default_drivers);
        let is_sqlite = url.starts_with("sqlite:");
        let is_postgres = ["postgres://", "postgresql://"].iter().any(|it| url.starts_with(it));
        if !is_sqlite && !is_postgres {
            return Err(StoreError::Url);
        }
        let options = AnyConnectOptions::from_str(url).map_err(|_| StoreError::Url)?;
        if is_postgres {
            check_connection(&options).await?;
        }
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    for pragma in pragmas {
                        sqlx::query(*pragma).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(StoreError::Open)?;
        let jobs = JobPool::new(url, is_sqlite)?;
        Ok(Self { pool, jobs, is_sqlite })
    }

    /// Refuses other schemas of PostgreSQL than `public`. Two installations in different schemas would share the queue,
    /// and take each other's jobs.
    async fn check_schema(&self) -> Result<(), StoreError> {
        if self.is_sqlite {
            return Ok(());
        }
        let sql = "SELECT CAST(coalesce(current_schema(), '(none)') AS text)";
        let schema: String = sqlx::query_scalar(sql).fetch_one(&self.pool).await?;
        if schema == "public" { Ok(()) } else { Err(StoreError::Schema(schema)) }
    }

    /// Checks that the database answers.
    ///
    /// # Errors
    ///
    /// Fails if the database does not answer.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.jobs.close().await;
        self.pool.close().await;
    }

    /// Begins a transaction that writes.
    async fn write(&self) -> Result<Transaction<'static, Any>, StoreError> {
        // Without IMMEDIATE, SQLite takes the lock at the first write, and fails if another writer came first.
        let begin = if self.is_sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
        Ok(self.pool.begin_with(begin).await?)
    }
}

/// Connects once. A pool would repeat the attempt, and report a timeout in place of the reason.
async fn check_connection(options: &AnyConnectOptions) -> Result<(), StoreError> {
    let connect = AnyConnection::connect_with(options);
    let connected = tokio::time::timeout(PATIENCE, connect).await;
    let connection = connected.map_err(|_| StoreError::Open(sqlx::Error::PoolTimedOut))?;
    Ok(connection.map_err(StoreError::Open)?.close().await?)
}

/// Returns the path of a SQLite database, and the options of its URL.
fn split_file(file: &str) -> Result<(Cow<'_, str>, &str), StoreError> {
    let file = file.strip_prefix("//").unwrap_or(file);
    let (path, options) = file.split_once('?').unwrap_or((file, ""));
    let is_memory = options.split('&').any(|it| it == "mode=memory");
    if path.is_empty() || path == ":memory:" || is_memory {
        return Err(StoreError::InMemory);
    }
    let path = percent_decode_str(path).decode_utf8().map_err(|_| StoreError::Url)?;
    Ok((path, options))
}

/// Creates the file of a SQLite database, if its URL has `mode=rwc`. Only the user of the server can read a new file.
/// SQLite gives its other files, such as the WAL, the same permissions.
fn prepare_file(file: &str) -> Result<(), StoreError> {
    let (path, options) = split_file(file)?;
    if options.split('&').any(|it| it == "mode=rwc") {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // If the file cannot be created, SQLite reports the error later.
        drop(options.open(&*path));
    }
    Ok(())
}

fn set_changed(newest: Option<&i64>) -> String {
    let changed = "the set has changed since it was loaded";
    match newest {
        Some(newest) => {
            format!("{changed}: version {newest} is the newest one; load it, and repeat the change")
        }
        None => "there is no such set yet; store it without the header `if-match`".to_owned(),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ")
}

/// Returns the current time in milliseconds since 1970.
fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Returns a time in milliseconds since 1970 as text (RFC 3339); an empty text if the time is out of range.
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

/// Returns true if a statement failed because a row with the same key exists.
fn exists_already(err: &StoreError) -> bool {
    matches!(err, StoreError::Database(sqlx::Error::Database(it)) if it.is_unique_violation())
}
