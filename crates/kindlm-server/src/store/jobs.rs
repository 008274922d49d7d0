//! The jobs of samples that wait for their evaluation: rows in the tables of apalis.
//!
//! The library apalis fetches jobs, returns the jobs of killed processes to the queue, and keeps failed jobs. It has
//! its own connections. This module inserts and deletes the rows, so that a job and the state of its sample change in
//! one transaction.

use std::str::FromStr as _;
use std::time::Duration;

use apalis_postgres::PostgresStorage;
use apalis_sqlite::SqliteStorage;
use serde_json::{Value, json};
use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Any, AssertSqlSafe, PgPool, Row as _, SqlitePool, Transaction};
use ulid::Generator;

use super::{PATIENCE, Store, StoreError, milliseconds, now, random};

/// The name of the queue. The SQL statements in this file repeat the name.
pub const QUEUE: &str = "samples";

/// The table in which apalis stores its migrations in SQLite. By default, apalis uses the table of the server's
/// migrations.
const MIGRATIONS: &str = "apalis_migrations";

/// The maximum number of connections of a worker. A worker uses one at a time.
const CONNECTIONS: u32 = 2;

/// The number of samples that become jobs in one transaction.
const PORTION: i64 = 1_000;

/// Inserts the jobs of a JSON list of `[id, sample, due, attempts]`; `due` is in milliseconds since 1970.
///
/// `max_attempts` is so high that apalis never reaches it. The evaluation ends the attempts, because it must store the
/// error of the sample.
///
/// SQLite stores times in seconds. `due` is rounded up, because a job must not run earlier.
const INSERT_SQLITE: &str = "INSERT INTO Jobs \
    (id, job, idempotency_key, attempts, run_at, job_type, max_attempts) \
    SELECT value ->> 0, CAST(value -> 1 AS BLOB), value ->> 1, value ->> 3, \
    max(unixepoch(), ((value ->> 2) + 999) / 1000), 'samples', 1000000 FROM json_each($1) WHERE true \
    ON CONFLICT (job_type, idempotency_key) DO NOTHING";

/// Inserts jobs on PostgreSQL. The list has the form of [`INSERT_SQLITE`]. The microseconds keep the order of the jobs.
const INSERT_POSTGRES: &str = "INSERT INTO apalis.jobs \
    (id, job, idempotency_key, attempts, run_at, job_type, max_attempts) \
    SELECT job ->> 0, convert_to((job -> 1)::text, 'UTF8'), job ->> 1, (job ->> 3)::integer, \
    greatest(now() + place * interval '1 microsecond', to_timestamp((job ->> 2)::bigint / 1000.0)), \
    'samples', 1000000 FROM json_array_elements(CAST($1 AS text)::json) WITH ORDINALITY AS list (job, place) \
    ON CONFLICT (job_type, idempotency_key) DO NOTHING";

/// The connections of apalis to the database.
#[derive(Clone, Debug)]
pub enum JobPool {
    /// SQLite.
    Sqlite(SqlitePool),
    /// PostgreSQL.
    Postgres(PgPool),
}

impl JobPool {
    /// Creates the pool, which connects only when a connection is needed.
    pub(super) fn new(url: &str, is_sqlite: bool) -> Result<Self, StoreError> {
        if !is_sqlite {
            let options = PgConnectOptions::from_str(url).map_err(|_| StoreError::Url)?;
            let pool = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(PATIENCE);
            return Ok(Self::Postgres(pool.connect_lazy_with(options)));
        }
        let options = SqliteConnectOptions::from_str(url).map_err(|_| StoreError::Url)?;
        // A power cut may undo the latest changes of apalis, but no change through `Store::pool`. Then a job may run
        // again, but its sample is decided only once.
        let options = options.busy_timeout(PATIENCE).synchronous(SqliteSynchronous::Normal);
        let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(PATIENCE);
        Ok(Self::Sqlite(pool.connect_lazy_with(options)))
    }

    /// Creates or changes the tables of apalis. The method `setup` of apalis would also turn `PRAGMA synchronous` off.
    pub(super) async fn migrate(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(pool) => {
                let mut migrations = SqliteStorage::migrations();
                migrations.dangerous_set_table_name(MIGRATIONS);
                migrations.run(pool).await?;
            }
            Self::Postgres(pool) => {
                PostgresStorage::migrations().run(pool).await.map_err(postgres_error)?;
            }
        }
        Ok(())
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// Converts an error of the migrations. If a statement failed, the message names the rights that migrations need.
fn postgres_error(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(_) | MigrateError::ExecuteMigration(..) => {
            StoreError::MigrateQueue(error)
        }
        other => other.into(),
    }
}

/// A new job: the evaluation of a sample.
#[derive(Clone, Debug)]
pub(super) struct NewJob {
    /// The id of the sample.
    pub(super) sample: String,
    /// The earliest time of the evaluation, in milliseconds since 1970.
    pub(super) due: i64,
    /// The number of earlier attempts.
    pub(super) attempts: i64,
}

impl NewJob {
    /// Creates the job for the first attempt of a sample. `due` is in milliseconds since 1970.
    pub(super) fn first(sample: &str, due: i64) -> Self {
        Self { sample: sample.to_owned(), due, attempts: 0 }
    }
}

/// Adds jobs, in one statement. A sample that has a job already gets no second job.
pub(super) async fn add(
    transaction: &mut Transaction<'_, Any>,
    jobs: &[NewJob],
    is_sqlite: bool,
) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let mut ids = Generator::new();
    let rows: Value = jobs
        .iter()
        .map(|NewJob { sample, due, attempts }| {
            let id = ids.generate().unwrap_or_else(ulid::Overflow::commit_overflow_random);
            json!([id.to_string(), sample, due, attempts])
        })
        .collect();
    let sql = if is_sqlite { INSERT_SQLITE } else { INSERT_POSTGRES };
    sqlx::query(sql).bind(rows.to_string()).execute(&mut **transaction).await?;
    Ok(())
}

/// Returns the table of jobs.
fn table(is_sqlite: bool) -> &'static str {
    if is_sqlite { "Jobs" } else { "apalis.jobs" }
}

/// Removes the job of a sample. The caller has locked the sample.
pub(super) async fn remove(
    transaction: &mut Transaction<'_, Any>,
    sample: &str,
    is_sqlite: bool,
) -> Result<(), StoreError> {
    let table = table(is_sqlite);
    let sql = format!("DELETE FROM {table} WHERE job_type = 'samples' AND idempotency_key = $1");
    sqlx::query(AssertSqlSafe(sql)).bind(sample).execute(&mut **transaction).await?;
    Ok(())
}

/// Returns the PostgreSQL statement that locks the samples that meet a condition.
///
/// Each transaction locks samples before their jobs, so that two transactions cannot wait for each other.
pub(super) fn lock_of_samples(condition: &str) -> String {
    format!(
        "SELECT count(*) AS locked FROM \
        (SELECT id FROM samples WHERE {condition} ORDER BY id FOR UPDATE) AS locked_samples"
    )
}

/// Returns the statement that removes the jobs of the samples that meet a condition. The caller has locked the samples.
pub(super) fn removal(condition: &str, is_sqlite: bool) -> String {
    let table = table(is_sqlite);
    // apalis locks jobs in the order of their ids. The same order here prevents a deadlock.
    let lock = if is_sqlite { "" } else { " ORDER BY id FOR UPDATE" };
    format!(
        "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE job_type = 'samples' \
        AND idempotency_key IN (SELECT id FROM samples WHERE {condition}){lock})"
    )
}

/// Locks the job of a sample until the transaction ends. Returns true if no process has fetched it yet.
pub(super) async fn is_untouched(
    transaction: &mut Transaction<'_, Any>,
    sample: &str,
    is_sqlite: bool,
) -> Result<bool, StoreError> {
    let table = table(is_sqlite);
    // apalis skips locked jobs.
    let lock = if is_sqlite { "" } else { " FOR UPDATE" };
    let sql = format!(
        "SELECT id FROM {table} WHERE job_type = 'samples' AND idempotency_key = $1 \
        AND status = 'Pending' AND attempts = 0{lock}"
    );
    let job = sqlx::query(AssertSqlSafe(sql)).bind(sample).fetch_optional(&mut **transaction);
    Ok(job.await?.is_some())
}

/// Returns a name that no other worker has. For apalis, two workers with one name are the same worker.
///
/// # Errors
///
/// Fails if the operating system has no random numbers.
pub fn worker_name() -> Result<String, StoreError> {
    Ok(format!("kindlm-server-{}", random(16)?))
}

impl Store {
    /// Returns the connections of apalis.
    pub fn job_pool(&self) -> &JobPool {
        &self.jobs
    }

    /// Sets the time of the next attempt of a sample: after `pause`.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn pause_sample(&self, sample: &str, pause: Duration) -> Result<(), StoreError> {
        let sql = if self.is_sqlite {
            "UPDATE Jobs SET run_at = ($1 + 999) / 1000 WHERE job_type = 'samples' AND idempotency_key = $2"
        } else {
            "UPDATE apalis.jobs SET run_at = to_timestamp(CAST($1 AS bigint) / 1000.0) \
            WHERE job_type = 'samples' AND idempotency_key = $2"
        };
        let due = now() + milliseconds(pause);
        sqlx::query(sql).bind(due).bind(sample).execute(&self.pool).await?;
        Ok(())
    }

    /// Removes the job of a sample, unless the sample is pending. After a deletion, a new sample may have the same id.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn remove_job(&self, sample: &str) -> Result<(), StoreError> {
        let table = table(self.is_sqlite);
        let sql = format!(
            "DELETE FROM {table} WHERE job_type = 'samples' AND idempotency_key = $1 \
            AND NOT EXISTS (SELECT 1 FROM samples WHERE id = $1 AND state = 'pending')"
        );
        sqlx::query(AssertSqlSafe(sql)).bind(sample).execute(&self.pool).await?;
        Ok(())
    }

    /// Deletes the workers that have had no heartbeat for a day. Each start of a process adds a worker.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn delete_workers(&self) -> Result<(), StoreError> {
        let sql = if self.is_sqlite {
            "DELETE FROM Workers WHERE last_seen < unixepoch() - 86400 \
            AND NOT EXISTS (SELECT 1 FROM Jobs WHERE lock_by = Workers.id)"
        } else {
            "DELETE FROM apalis.workers WHERE last_seen < now() - interval '1 day' \
            AND NOT EXISTS (SELECT 1 FROM apalis.jobs WHERE lock_by = workers.id)"
        };
        sqlx::query(sql).execute(&self.pool).await?;
        Ok(())
    }

    /// Adds the jobs of the samples that waited for their evaluation when migration 8 introduced the tables of apalis.
    pub(super) async fn add_unqueued(&self) -> Result<(), StoreError> {
        loop {
            let mut transaction = self.write().await?;
            let sql =
                "SELECT id, due, attempts FROM unqueued_samples ORDER BY received_at, id LIMIT $1";
            let rows = sqlx::query(sql).bind(PORTION).fetch_all(&mut *transaction).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let job = |row: &sqlx::any::AnyRow| {
                Ok(NewJob {
                    sample: row.try_get("id")?,
                    due: row.try_get("due")?,
                    attempts: row.try_get("attempts")?,
                })
            };
            let jobs = rows.iter().map(job).collect::<Result<Vec<NewJob>, sqlx::Error>>()?;
            add(&mut transaction, &jobs, self.is_sqlite).await?;
            let table = table(self.is_sqlite);
            let sql = format!(
                "DELETE FROM unqueued_samples WHERE id IN \
                (SELECT idempotency_key FROM {table} WHERE job_type = 'samples')"
            );
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *transaction).await?;
            transaction.commit().await?;
        }
    }
}
