//! Traces that arrive in parts, until their sample is evaluated.
//!
//! A trace is stored with its sample in one transaction. So a repeated request changes nothing, in any process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};

use super::jobs::{self, NewJob};
use super::samples::{Choice, NewSample, insert};
use super::sampling::sampling;
use super::{Store, StoreError, digest, milliseconds, now, releases};

/// The maximum size of the parts of a trace, in bytes.
const LARGEST: usize = 8 << 20;

/// The time for which the parts of a trace are stored after the last part was received.
pub const KEPT: Duration = Duration::from_hours(1);

/// The time for which the store remembers that spans of a trace were deleted or refused.
const MARKED: Duration = Duration::from_hours(24);

/// The spans of a trace in one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    /// The spans as OTLP JSON; `None` if none is used.
    pub spans: Option<String>,
    /// True if one of the spans is a root span, or has a remote parent.
    pub has_root: bool,
    /// The reason why spans are missing; `None` if none is missing.
    pub lost: Option<String>,
}

impl TracePart {
    /// Marks that spans are missing. An earlier reason stays.
    pub(crate) fn lose(&mut self, why: &str) {
        self.lost.get_or_insert_with(|| why.to_owned());
    }
}

/// All parts of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceParts {
    /// The stored parts, in the order of their arrival.
    pub earlier: Vec<String>,
    /// The new part.
    pub part: Option<String>,
    /// The reason why spans are missing; `None` if none is missing.
    pub lost: Option<String>,
}

/// The result of reading the parts of a trace.
#[derive(Clone, Debug)]
pub enum TraceReading {
    /// The last part has only spans of the earlier parts.
    Repeated,
    /// The root span did not arrive yet.
    Unfinished,
    /// No span is a step of an agent. The text is the message for the sender. A trace without a sample is deleted.
    NoAgent(String),
    /// The parts cannot become a sample, for this reason. If the trace has no sample yet, its parts are deleted, and
    /// its later sample is incomplete.
    Unusable(String),
    /// The trace as a sample. The id of the sample is the trace id.
    Sample(Box<NewSample>),
}

/// Reads the parts of a trace.
pub type ReadTrace = Arc<dyn Fn(&TraceParts) -> TraceReading + Send + Sync>;

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
    /// The part is stored now or was stored before, and no sample is new or changed.
    None,
    /// The trace has a new or a changed sample.
    Sample(Change),
    /// The part is not used, for this reason.
    Refused(String),
}

/// A new or a changed sample.
struct Change {
    /// The agent and version of the sample.
    release: (String, String),
    /// The agent and version that the sample had before; `None` for a new sample.
    old_release: Option<(String, String)>,
    /// The reason why the new part is not used; `None` if it is used.
    refused: Option<String>,
}

/// The settings for the job that evaluates a trace's sample.
#[derive(Clone, Copy)]
struct Queue {
    /// The time of the evaluation, in milliseconds since 1970.
    due: i64,
    is_sqlite: bool,
}

impl Queue {
    /// Adds the job of a sample, if the sample is evaluated.
    async fn add(
        self,
        transaction: &mut Transaction<'_, Any>,
        id: &str,
        choice: Choice,
    ) -> Result<(), StoreError> {
        let job = choice.is_evaluated.then(|| NewJob::first(id, self.due));
        jobs::add(transaction, job.as_slice(), self.is_sqlite).await
    }
}

/// A row of the table of traces.
struct TraceRow {
    has_sample: bool,
    has_root: bool,
    lost: Option<String>,
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
        parts: BTreeMap<String, TracePart>,
        delay: Duration,
        read: &ReadTrace,
    ) -> Result<StoredTraces, StoreError> {
        let mut transaction = self.write().await?;
        let (mut stored, mut versions) = (StoredTraces::default(), BTreeSet::new());
        let queue = Queue { due: now() + milliseconds(delay), is_sqlite: self.is_sqlite };
        let mut left = BTreeSet::new();
        // All requests lock traces in the order of their ids, so two requests cannot wait for each other.
        for (id, part) in parts {
            match add_part(&mut transaction, &id, part, queue, read).await? {
                Effect::None => {}
                Effect::Sample(Change { release, old_release, refused }) => {
                    stored.samples += u64::from(old_release.is_none());
                    versions.insert(release);
                    left.extend(old_release);
                    stored.refused.extend(refused.map(|why| (id, why)));
                }
                Effect::Refused(why) => drop(stored.refused.insert(id, why)),
            }
        }
        releases::add(&mut transaction, &versions, &left).await?;
        transaction.commit().await?;
        Ok(stored)
    }

    /// Deletes the traces whose last part was received at least `age` ago, and returns their number. Their samples
    /// stay.
    ///
    /// A trace without a sample stays marked for one more day, because its later sample is incomplete.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn delete_traces(&self, age: Duration) -> Result<u64, StoreError> {
        let before = now() - milliseconds(age);
        let mut transaction = self.write().await?;
        let sql = "DELETE FROM trace_parts WHERE trace_id IN (SELECT id FROM traces WHERE received_at <= $1)";
        sqlx::query(sql).bind(before).execute(&mut *transaction).await?;
        let sql = "UPDATE traces SET lost = $1, has_root = 0 \
            WHERE received_at <= $2 AND has_sample = 0 AND lost IS NULL";
        let why = "the first spans of the trace were deleted, because its root span did not arrive";
        sqlx::query(sql).bind(why).bind(before).execute(&mut *transaction).await?;
        let sql =
            "DELETE FROM traces WHERE received_at <= $1 AND (has_sample = 1 OR received_at <= $2)";
        let marked = before - milliseconds(MARKED);
        let deleted = sqlx::query(sql).bind(before).bind(marked).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(deleted.rows_affected())
    }
}

async fn add_part(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    part: TracePart,
    queue: Queue,
    read: &ReadTrace,
) -> Result<Effect, StoreError> {
    let row = lock(transaction, id).await?;
    let (earlier, mut new) = earlier_parts(transaction, id, part.spans).await?;
    let size = earlier.iter().chain(new.iter().map(|(_, it)| it)).map(String::len).sum::<usize>();
    let is_large = new.is_some() && size > LARGEST;
    let mut refused = is_large.then(|| format!("the trace is larger than {} MiB", LARGEST >> 20));
    new = new.filter(|_| !is_large);
    let lost = row.lost.clone().or(part.lost).or_else(|| refused.clone());
    let loses_more = lost != row.lost;
    if new.is_none() && !loses_more {
        return Ok(refused.map_or(Effect::None, Effect::Refused));
    }
    let has_root = row.has_root || new.is_some() && part.has_root;
    let (digest, spans) = new.unzip();
    let mut parts = TraceParts { earlier, part: spans, lost };
    let mut reading = TraceReading::Unfinished;
    if has_root {
        (parts, reading) = read_parts(read, parts).await?;
        // The new part is not used, but its spans are missing in the sample. Read the trace without the new part, so
        // that the sample becomes incomplete.
        let is_read_again = match &reading {
            TraceReading::Repeated => loses_more,
            TraceReading::Unusable(why) | TraceReading::NoAgent(why) if row.has_sample => {
                refused = Some(why.clone());
                parts.lost.get_or_insert_with(|| why.clone());
                true
            }
            _ => false,
        };
        if is_read_again {
            parts.part = None;
            (parts, reading) = read_parts(read, parts).await?;
        }
    }
    let effect = match reading {
        TraceReading::Repeated => return Ok(Effect::None),
        TraceReading::Unfinished => refused.map_or(Effect::None, Effect::Refused),
        TraceReading::NoAgent(why) | TraceReading::Unusable(why) if row.has_sample => {
            return Ok(Effect::Refused(why));
        }
        TraceReading::NoAgent(why) => return refuse(transaction, id, parts.lost, why).await,
        TraceReading::Unusable(why) => {
            let lost = parts.lost.or_else(|| Some(why.clone()));
            return refuse(transaction, id, lost, why).await;
        }
        TraceReading::Sample(sample) => {
            let old_release = if row.has_sample {
                let Some(old) = change(transaction, id, &sample, queue).await? else {
                    let why =
                        "the sample of the trace was evaluated before, or is not stored any more";
                    let refused = refused.or_else(|| parts.part.map(|_| why.to_owned()));
                    return Ok(refused.map_or(Effect::None, Effect::Refused));
                };
                Some(old)
            } else {
                let choice = choice(transaction, id, &sample).await?;
                if !insert(transaction, &sample, id, choice).await? {
                    let why = "a sample with the id of the trace is stored already".to_owned();
                    return refuse(transaction, id, parts.lost, why).await;
                }
                queue.add(transaction, id, choice).await?;
                None
            };
            Effect::Sample(Change { release: (sample.agent, sample.version), old_release, refused })
        }
    };
    let has_sample = row.has_sample || matches!(effect, Effect::Sample(_));
    let row = TraceRow { has_sample, has_root, lost: parts.lost.clone() };
    store_part(transaction, id, &row, digest, &parts).await?;
    Ok(effect)
}

/// Returns the stored parts of a trace, and the new part with its digest if it is not stored yet.
async fn earlier_parts(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    spans: Option<String>,
) -> Result<(Vec<String>, Option<(String, String)>), StoreError> {
    let mut new = spans.map(|it| (digest(it.as_bytes()), it));
    let sql = "SELECT digest, spans FROM trace_parts WHERE trace_id = $1 ORDER BY position";
    let mut earlier = Vec::new();
    for row in sqlx::query(sql).bind(id).fetch_all(&mut **transaction).await? {
        let known: String = row.try_get("digest")?;
        new = new.filter(|(digest, _)| *digest != known);
        earlier.push(row.try_get("spans")?);
    }
    Ok((earlier, new))
}

/// Reads the parts of a trace, and returns them too.
async fn read_parts(
    read: &ReadTrace,
    parts: TraceParts,
) -> Result<(TraceParts, TraceReading), StoreError> {
    let read = Arc::clone(read);
    // Reading a large trace here would block other requests for too long.
    let reading = tokio::task::spawn_blocking(move || {
        let reading = read(&parts);
        (parts, reading)
    });
    reading.await.map_err(|_| StoreError::Panicked)
}

/// Locks a trace until the transaction ends, and creates it if necessary.
async fn lock(transaction: &mut Transaction<'_, Any>, id: &str) -> Result<TraceRow, StoreError> {
    let row = sqlx::query(
        "INSERT INTO traces (id, received_at) VALUES ($1, $2) \
        ON CONFLICT (id) DO UPDATE SET received_at = excluded.received_at \
        RETURNING has_sample, has_root, lost",
    )
    .bind(id)
    .bind(now())
    .fetch_one(&mut **transaction)
    .await?;
    Ok(TraceRow {
        has_sample: row.try_get::<i64, _>("has_sample")? != 0,
        has_root: row.try_get::<i64, _>("has_root")? != 0,
        lost: row.try_get("lost")?,
    })
}

/// Stores the row of a trace, and its new part if there is one.
async fn store_part(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    row: &TraceRow,
    digest: Option<String>,
    parts: &TraceParts,
) -> Result<(), StoreError> {
    let sql = "UPDATE traces SET has_sample = $1, has_root = $2, lost = $3 WHERE id = $4";
    sqlx::query(sql)
        .bind(i64::from(row.has_sample))
        .bind(i64::from(row.has_root))
        .bind(row.lost.clone())
        .bind(id)
        .execute(&mut **transaction)
        .await?;
    let (Some(digest), Some(spans)) = (digest, &parts.part) else { return Ok(()) };
    sqlx::query(
        "INSERT INTO trace_parts (trace_id, digest, position, spans) VALUES ($1, $2, $3, $4)",
    )
    .bind(id)
    .bind(digest)
    .bind(i64::try_from(parts.earlier.len()).unwrap_or(i64::MAX))
    .bind(spans)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// Deletes the parts of a trace, and returns the refusal of the new part. `why` is the reason of the refusal.
///
/// `lost` is stored as the reason why spans are missing. If `lost` is `None`, the trace is deleted too.
async fn refuse(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    lost: Option<String>,
    why: String,
) -> Result<Effect, StoreError> {
    let sql = "DELETE FROM trace_parts WHERE trace_id = $1";
    sqlx::query(sql).bind(id).execute(&mut **transaction).await?;
    let query = match lost {
        None => sqlx::query("DELETE FROM traces WHERE id = $1"),
        Some(lost) => {
            sqlx::query("UPDATE traces SET has_root = 0, lost = $1 WHERE id = $2").bind(lost)
        }
    };
    query.bind(id).execute(&mut **transaction).await?;
    Ok(Effect::Refused(why))
}

async fn choice(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    sample: &NewSample,
) -> Result<Choice, StoreError> {
    let sampling = sampling(transaction, &sample.agent).await?;
    Ok(Choice::new(sampling.as_ref(), id, sample))
}

/// Replaces the sample of a trace, and returns the agent and version that the sample had before.
///
/// Returns `None`, and changes nothing, if the sample is gone or its evaluation has begun.
async fn change(
    transaction: &mut Transaction<'_, Any>,
    id: &str,
    sample: &NewSample,
    queue: Queue,
) -> Result<Option<(String, String)>, StoreError> {
    let lock = if queue.is_sqlite { "" } else { " FOR UPDATE" };
    let sql = format!("SELECT agent, version, state FROM samples WHERE id = $1{lock}");
    let old = sqlx::query(AssertSqlSafe(sql)).bind(id).fetch_optional(&mut **transaction).await?;
    let Some(old) = old else { return Ok(None) };
    let state: String = old.try_get("state")?;
    let may_change = match state.as_str() {
        "skipped" => true,
        "pending" => jobs::is_untouched(transaction, id, queue.is_sqlite).await?,
        _ => false,
    };
    if !may_change {
        return Ok(None);
    }
    let choice = choice(transaction, id, sample).await?;
    let NewSample { agent, subject, version, body, .. } = sample;
    let sql = "UPDATE samples SET agent = $1, subject = $2, version = $3, body = $4, state = $5, share = $6 \
        WHERE id = $7";
    sqlx::query(sql)
        .bind(agent)
        .bind(subject)
        .bind(version)
        .bind(serde_json::to_string(body)?)
        .bind(choice.state())
        .bind(choice.share.millionths())
        .bind(id)
        .execute(&mut **transaction)
        .await?;
    match (state.as_str(), choice.state()) {
        ("skipped", "pending") => queue.add(transaction, id, choice).await?,
        ("pending", "skipped") => jobs::remove(transaction, id, queue.is_sqlite).await?,
        _ => {}
    }
    Ok(Some((old.try_get("agent")?, old.try_get("version")?)))
}
