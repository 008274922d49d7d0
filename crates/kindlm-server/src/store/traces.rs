//! Traces that arrive in parts, until their sample is evaluated.
//!
//! A trace is stored with its sample in one transaction. So a repeated request changes nothing, in any process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Any, Row as _, Transaction};

use super::queue::is_sampled;
use super::samples::{NewSample, insert};
use super::{Store, StoreError, agents, digest, milliseconds, now, releases};

/// The maximum size of the parts of a trace, in bytes.
const LARGEST: usize = 8 << 20;

/// The time for which the parts of a trace are stored.
pub const KEPT: Duration = Duration::from_hours(1);

/// The meaning of the parts of a trace.
#[derive(Clone, Debug)]
pub enum TraceReading {
    /// The last part has only spans of the earlier parts.
    Repeated,
    /// The root span did not arrive yet.
    Unfinished,
    /// The trace is of no use, for this reason. Its parts are deleted.
    Unusable(String),
    /// The trace as a sample, whose id is that of the trace.
    Sample(Box<NewSample>),
}

/// Reads the parts of a trace: the earlier ones, and the new one.
pub type ReadTrace = Arc<dyn Fn(Vec<String>, String) -> TraceReading + Send + Sync>;

/// The effect of the traces of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredTraces {
    /// The number of new samples.
    pub samples: u64,
    /// The reason why the new part of a trace is not used, by the id of the trace.
    pub refused: BTreeMap<String, String>,
}

/// The effect of one part.
enum Effect {
    None,
    Stored,
    /// The trace has a new or a changed sample, of this agent and version.
    Sample {
        is_new: bool,
        agent: String,
        version: String,
    },
    Refused(String),
}

impl Store {
    /// Stores parts of traces, by the ids of the traces. Makes a sample of each trace whose root span has arrived.
    ///
    /// The sample is evaluated after `delay`. Until then, a later part changes it.
    ///
    /// # Errors
    ///
    /// Fails if the database fails, or `read` panics. Then nothing is stored.
    pub async fn add_traces(
        &self,
        parts: BTreeMap<String, String>,
        delay: Duration,
        read: &ReadTrace,
    ) -> Result<StoredTraces, StoreError> {
        let mut transaction = self.write().await?;
        let (mut stored, mut versions) = (StoredTraces::default(), BTreeSet::new());
        // The order of the ids is that of all requests, so two of them cannot wait for each other.
        for (id, part) in parts {
            match self.add_part(&mut transaction, &id, part, delay, read).await? {
                Effect::None | Effect::Stored => {}
                Effect::Sample { is_new, agent, version } => {
                    stored.samples += u64::from(is_new);
                    versions.insert((agent, version));
                }
                Effect::Refused(why) => drop(stored.refused.insert(id, why)),
            }
        }
        releases::add(&mut transaction, &versions).await?;
        transaction.commit().await?;
        Ok(stored)
    }

    async fn add_part(
        &self,
        transaction: &mut Transaction<'_, Any>,
        id: &str,
        part: String,
        delay: Duration,
        read: &ReadTrace,
    ) -> Result<Effect, StoreError> {
        let has_sample = lock(transaction, id).await?;
        let digest = digest(part.as_bytes());
        let sql = "SELECT digest, spans FROM trace_parts WHERE trace_id = $1 ORDER BY position";
        let rows = sqlx::query(sql).bind(id).fetch_all(&mut **transaction).await?;
        let mut earlier: Vec<String> = Vec::new();
        for row in rows {
            if row.try_get::<String, _>("digest")? == digest {
                return Ok(Effect::None);
            }
            earlier.push(row.try_get("spans")?);
        }
        let position = i64::try_from(earlier.len()).unwrap_or(i64::MAX);
        if earlier.iter().map(String::len).sum::<usize>() + part.len() > LARGEST {
            let why = format!("the trace is larger than {} MiB", LARGEST >> 20);
            return refused(transaction, id, earlier.is_empty(), why).await;
        }
        let (read, spans) = (Arc::clone(read), part.clone());
        let is_first = earlier.is_empty();
        // Reading a large trace would stop other requests for too long.
        let reading = tokio::task::spawn_blocking(move || read(earlier, spans)).await;
        let effect = match reading.map_err(|_| StoreError::Panicked)? {
            TraceReading::Repeated => return Ok(Effect::None),
            TraceReading::Unfinished => Effect::Stored,
            TraceReading::Unusable(why) => {
                return refused(transaction, id, !has_sample, why).await;
            }
            TraceReading::Sample(sample) if has_sample => {
                if !change(transaction, id, &sample).await? {
                    let why =
                        "the sample of the trace was evaluated before, or is not stored any more";
                    return Ok(Effect::Refused(why.to_owned()));
                }
                let NewSample { agent, version, .. } = *sample;
                Effect::Sample { is_new: false, agent, version }
            }
            TraceReading::Sample(sample) => {
                let is_evaluated = is_evaluated(transaction, id, &sample).await?;
                let due = now() + milliseconds(delay);
                if !insert(transaction, &sample, id, is_evaluated, due).await? {
                    let why = "a sample with the id of the trace is stored already".to_owned();
                    return refused(transaction, id, is_first, why).await;
                }
                sqlx::query("UPDATE traces SET has_sample = 1 WHERE id = $1")
                    .bind(id)
                    .execute(&mut **transaction)
                    .await?;
                let NewSample { agent, version, .. } = *sample;
                Effect::Sample { is_new: true, agent, version }
            }
        };
        sqlx::query(
            "INSERT INTO trace_parts (trace_id, digest, position, spans) VALUES ($1, $2, $3, $4)",
        )
        .bind(id)
        .bind(digest)
        .bind(position)
        .bind(part)
        .execute(&mut **transaction)
        .await?;
        Ok(effect)
    }

    /// Deletes the traces whose first part was received at least `age` ago. Their samples stay.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn delete_traces(&self, age: Duration) -> Result<u64, StoreError> {
        let before = now() - milliseconds(age);
        let mut transaction = self.write().await?;
        let sql = "DELETE FROM trace_parts WHERE trace_id IN (SELECT id FROM traces WHERE received_at <= $1)";
        sqlx::query(sql).bind(before).execute(&mut *transaction).await?;
        let sql = "DELETE FROM traces WHERE received_at <= $1";
        let deleted = sqlx::query(sql).bind(before).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(deleted.rows_affected())
    }
}

/// Locks a trace until the transaction ends, and creates it if necessary. Returns true if it has a sample.
async fn lock(transaction: &mut Transaction<'_, Any>, id: &str) -> Result<bool, StoreError> {
    let row = sqlx::query(
        "INSERT INTO traces (id, received_at) VALUES ($1, $2) \
        ON CONFLICT (id) DO UPDATE SET received_at = traces.received_at RETURNING has_sample",
    )
    .bind(id)
    .bind(now())
    .fetch_one(&mut **transaction)
    .await?;
    Ok(row.try_get::<i64, _>("has_sample")? != 0)
}

/// Returns the refusal of a part. `deletes` deletes the trace with its earlier parts.
async fn refused(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    deletes: bool,
    why: String,
) -> Result<Effect, StoreError> {
    if deletes {
        for sql in
            ["DELETE FROM trace_parts WHERE trace_id = $1", "DELETE FROM traces WHERE id = $1"]
        {
            sqlx::query(sql).bind(id).execute(&mut **transaction).await?;
        }
    }
    Ok(Effect::Refused(why))
}

async fn is_evaluated(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    sample: &NewSample,
) -> Result<bool, StoreError> {
    let rate = agents::rate(transaction, &sample.agent, "").await?;
    Ok(rate.is_some_and(|it| sample.has_error || is_sampled(id, it)))
}

/// Replaces the sample of a trace. Returns false, and changes nothing, if it is gone or its evaluation has begun.
async fn change(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    sample: &NewSample,
) -> Result<bool, StoreError> {
    let is_evaluated = is_evaluated(transaction, id, sample).await?;
    let NewSample { agent, subject, version, body, .. } = sample;
    let changed = sqlx::query(
        "UPDATE samples SET agent = $1, subject = $2, version = $3, body = $4, state = $5 WHERE id = $6 \
        AND (state = 'skipped' OR state = 'pending' AND attempts = 0)",
    )
    .bind(agent)
    .bind(subject)
    .bind(version)
    .bind(serde_json::to_string(body)?)
    .bind(if is_evaluated { "pending" } else { "skipped" })
    .bind(id)
    .execute(&mut **transaction)
    .await?;
    Ok(changed.rows_affected() > 0)
}
