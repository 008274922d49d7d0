//! Samples: outputs of agents in production, and the feedback of their users.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::any::AnyRow;
use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};
use utoipa::ToSchema;

use super::idempotency::RequestKey;
use super::jobs::{self, NewJob};
use super::sampling::{Sampling, Share, sampling};
use super::{Store, StoreError, alerts, now, random, releases, time_text};

/// The maximum size of a page of several samples, in bytes.
const PAGE_BYTES: i64 = 16 << 20;

/// The start of the statements that return whole samples.
const COLUMNS: &str = "SELECT id, agent, subject, version, body, received_at, state, evaluation, \
    (SELECT count(*) FROM feedback WHERE sample_id = samples.id AND value = 'up') AS thumbs_up, \
    (SELECT count(*) FROM feedback WHERE sample_id = samples.id AND value = 'down') AS thumbs_down \
    FROM samples";

/// A sample to store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewSample {
    /// The id; `None` if the server chooses it.
    pub id: Option<String>,
    /// The name of the agent.
    pub agent: String,
    /// The person or account that the sample is about; empty if it is not known.
    pub subject: String,
    /// The version of the agent; empty if it is not known.
    pub version: String,
    /// True if the sample has an error. It is then evaluated even if the sampling rate does not choose it.
    pub has_error: bool,
    /// The whole sample.
    pub body: Map<String, Value>,
}

impl NewSample {
    /// Creates a sample of an agent without an error. The server chooses its id.
    pub fn new(agent: impl Into<String>, body: Map<String, Value>) -> Self {
        Self {
            id: None,
            agent: agent.into(),
            subject: String::new(),
            version: String::new(),
            has_error: false,
            body,
        }
    }
}

/// The result of storing samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct Stored {
    /// The number of samples that were stored.
    pub stored: u64,
    /// The number of samples that were not stored, because a sample with the same id exists.
    pub duplicates: u64,
    /// The ids of all samples of the request, in order.
    pub ids: Vec<String>,
    /// True if the request repeats an earlier one, so that it stored nothing.
    #[serde(skip)]
    pub is_repetition: bool,
}

/// A stored sample.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct Sample {
    /// The id of the sample.
    pub id: String,
    /// The name of the agent.
    pub agent: String,
    /// The person or account that the sample is about; empty if it is not known.
    pub subject: String,
    /// The version of the agent; empty if it is not known.
    pub version: String,
    /// The time at which the server received the sample (RFC 3339).
    pub received_at: String,
    /// The sample as it was sent. With `--redact-pii`, personal data in it is masked.
    #[schema(value_type = Object)]
    pub sample: Map<String, Value>,
    /// The state of its evaluation: `pending`, `done`, `failed`, or if it is not evaluated, `skipped` or `over-budget`.
    pub state: String,
    /// The results; an object with `error` if the evaluation failed; absent without an evaluation.
    #[schema(value_type = Object)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Value>,
    /// The number of thumbs up.
    pub thumbs_up: i64,
    /// The number of thumbs down.
    pub thumbs_down: i64,
}

/// A part of the stored samples.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct SamplePage {
    /// The number of all samples that match the filter.
    pub total: i64,
    /// The samples, from the newest to the oldest.
    pub items: Vec<Sample>,
    /// The `cursor` of the next part; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The conditions that samples must meet. Without conditions, all samples match.
#[derive(Clone, Debug, Default)]
pub struct SampleFilter {
    /// The name of the agent; `None` for all.
    pub agent: Option<String>,
    /// The person or account that the samples are about; `None` for all.
    pub subject: Option<String>,
    /// A time in milliseconds since 1970: only samples that were received before it match; `None` for all.
    pub before: Option<i64>,
}

/// A position between two samples in the list, which goes from the newest to the oldest.
#[derive(Clone, Debug)]
pub struct Cursor {
    received_at: i64,
    id: String,
}

impl Cursor {
    /// Parses the cursor of a [`SamplePage`]. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, id) = text.split_once('-')?;
        Some(Self { received_at: time.parse().ok()?, id: id.to_owned() })
    }
}

/// The opinion of a user about a sample.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewFeedback {
    /// The id of the sample.
    pub sample: String,
    /// `up` or `down`.
    pub value: String,
    /// The words of the user; empty if there are none.
    pub note: String,
    /// The user; empty if not known.
    pub author: String,
}

impl NewFeedback {
    /// Creates the opinion `up` or `down` of an unknown user, without words.
    pub fn new(sample: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            sample: sample.into(),
            value: value.into(),
            note: String::new(),
            author: String::new(),
        }
    }
}

/// The stored opinion of a user about a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct Feedback {
    /// `up` or `down`.
    pub value: String,
    /// The words of the user; empty if there are none.
    pub note: String,
    /// The user; empty if not known.
    pub author: String,
    /// The time at which the server received the opinion (RFC 3339).
    pub created_at: String,
}

impl SampleFilter {
    /// Returns the SQL condition. It always contains the parameters `$1` to `$3`, because all three are bound.
    fn condition(&self) -> String {
        let parts = [
            (self.agent.is_some(), "agent = $1"),
            (self.subject.is_some(), "subject = $2"),
            (self.before.is_some(), "received_at < $3"),
        ];
        let unused = "$1 = $1 AND $2 = $2 AND CAST($3 AS BIGINT) = $3";
        let parts = parts.into_iter().filter(|(is_used, _)| *is_used).map(|(_, it)| it);
        std::iter::once(unused).chain(parts).collect::<Vec<_>>().join(" AND ")
    }
}

impl Store {
    /// Stores samples, all or none. A sample whose id exists is not stored.
    ///
    /// A repeated request with the same `key` changes nothing, and returns the first result.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - a sample has the id of a stored sample with other content
    /// - the key was used for another request, or the first request with the key has no response yet
    /// - the database fails
    pub async fn add_samples(
        &self,
        samples: &[NewSample],
        key: Option<&RequestKey>,
    ) -> Result<Stored, StoreError> {
        let mut transaction = self.write().await?;
        if let Some(key) = key
            && let Some(first) = key.reserve::<Stored>(&mut transaction).await?
        {
            return Ok(Stored { is_repetition: true, ..first });
        }
        let mut result = Stored { stored: 0, duplicates: 0, ids: Vec::new(), is_repetition: false };
        let mut samplings: HashMap<&str, Option<Sampling>> = HashMap::new();
        let (mut versions, mut new_jobs) = (BTreeSet::new(), Vec::new());
        for sample in samples {
            let agent = &sample.agent;
            let id = sample.id.clone().map_or_else(|| random(16), Ok)?;
            if !samplings.contains_key(agent.as_str()) {
                samplings.insert(agent, sampling(&mut transaction, agent).await?);
            }
            let choice = samplings.get(agent.as_str()).and_then(Option::as_ref);
            let choice = Choice::new(choice, &id, sample);
            if insert(&mut transaction, sample, &id, choice).await? {
                result.stored += 1;
                new_jobs.extend(choice.is_evaluated.then(|| NewJob::first(&id, 0)));
                versions.insert((agent.clone(), sample.version.clone()));
            } else if is_stored(&mut transaction, sample, &id).await? {
                result.duplicates += 1;
            } else {
                return Err(StoreError::IdReused(id));
            }
            result.ids.push(id);
        }
        jobs::add(&mut transaction, &new_jobs, self.is_sqlite).await?;
        releases::add(&mut transaction, &versions, &BTreeSet::new()).await?;
        if let Some(key) = key {
            key.answer(&mut transaction, &result).await?;
        }
        transaction.commit().await?;
        Ok(result)
    }

    /// Returns at most `limit` samples that match, from the newest to the oldest, after `cursor`.
    ///
    /// Large samples make a page shorter, but a page has at least one sample if any is left.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn samples(
        &self,
        filter: &SampleFilter,
        limit: u32,
        cursor: Option<&Cursor>,
    ) -> Result<SamplePage, StoreError> {
        let condition = filter.condition();
        let sql = format!("SELECT count(*) AS total FROM samples WHERE {condition}");
        let counted = self.filtered(sql, filter).fetch_one(&self.pool).await?;
        let after = match cursor {
            Some(_) => " AND (received_at < $4 OR received_at = $4 AND id < $5)",
            None => " AND $4 = $4 AND $5 = $5",
        };
        let (time, id) = cursor.map_or((0, ""), |it| (it.received_at, it.id.as_str()));
        // The sizes are read first, so that only samples of the page are loaded.
        let sql = format!(
            "SELECT CAST(octet_length(body) + octet_length(evaluation) AS BIGINT) AS bytes FROM samples \
            WHERE {condition}{after} ORDER BY received_at DESC, id DESC LIMIT $6"
        );
        let sizes = self.filtered(sql, filter).bind(time).bind(id.to_owned());
        let sizes = sizes.bind(i64::from(limit) + 1).fetch_all(&self.pool).await?;
        let sizes: Vec<i64> =
            sizes.iter().map(|it| it.try_get("bytes")).collect::<Result<_, _>>()?;
        let count = count_within(&sizes[..sizes.len().min(limit as usize)], PAGE_BYTES);
        let sql = format!(
            "{COLUMNS} WHERE {condition}{after} \
            ORDER BY received_at DESC, id DESC LIMIT $6"
        );
        let rows = self
            .filtered(sql, filter)
            .bind(time)
            .bind(id.to_owned())
            .bind(count)
            .fetch_all(&self.pool)
            .await?;
        let next = match rows.last() {
            Some(last) if sizes.len() > rows.len() => Some(cursor_after(last)?),
            _ => None,
        };
        let items = rows.iter().map(sample).collect::<Result<_, _>>()?;
        Ok(SamplePage { total: counted.try_get("total")?, items, next })
    }

    /// Returns a sample; `None` if there is no sample with this id.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn sample(&self, id: &str) -> Result<Option<Sample>, StoreError> {
        let sql = format!("{COLUMNS} WHERE id = $1");
        let row = sqlx::query(AssertSqlSafe(sql)).bind(id).fetch_optional(&self.pool).await?;
        row.as_ref().map(sample).transpose()
    }

    /// Deletes the samples that match, with their feedback, results and traces. Returns their number.
    ///
    /// The alerts and detectors of assertions without any remaining result are deleted too.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn delete_samples(&self, filter: &SampleFilter) -> Result<u64, StoreError> {
        let mut transaction = self.write().await?;
        let deleted = self.delete_matching(&mut transaction, filter).await?;
        if deleted > 0 {
            self.delete_ended_series(&mut transaction).await?;
        }
        transaction.commit().await?;
        Ok(deleted)
    }

    /// Deletes the samples that match, with their feedback, results, traces and jobs. Returns their number.
    pub(super) async fn delete_matching(
        &self,
        transaction: &mut Transaction<'_, Any>,
        filter: &SampleFilter,
    ) -> Result<u64, StoreError> {
        let condition = filter.condition();
        if !self.is_sqlite {
            let sql = jobs::lock_of_samples(&condition);
            self.filtered(sql, filter).fetch_one(&mut **transaction).await?;
        }
        let sql = jobs::removal(&condition, self.is_sqlite);
        self.filtered(sql, filter).execute(&mut **transaction).await?;
        let sql = format!(
            "DELETE FROM feedback WHERE sample_id IN (SELECT id FROM samples WHERE {condition})"
        );
        self.filtered(sql, filter).execute(&mut **transaction).await?;
        let sql = format!(
            "DELETE FROM results WHERE sample_id IN (SELECT id FROM samples WHERE {condition})"
        );
        self.filtered(sql, filter).execute(&mut **transaction).await?;
        for (table, key) in [("trace_parts", "trace_id"), ("traces", "id")] {
            let sql = format!(
                "DELETE FROM {table} WHERE {key} IN (SELECT id FROM samples WHERE {condition})"
            );
            self.filtered(sql, filter).execute(&mut **transaction).await?;
        }
        let sql = format!("DELETE FROM samples WHERE {condition}");
        let deleted = self.filtered(sql, filter).execute(&mut **transaction).await?;
        Ok(deleted.rows_affected())
    }

    /// Deletes the alerts and detectors of assertions without any remaining result.
    pub(super) async fn delete_ended_series(
        &self,
        transaction: &mut Transaction<'_, Any>,
    ) -> Result<(), StoreError> {
        if !self.is_sqlite {
            // This transaction does not see results that another transaction is storing, so it waits for the other
            // transaction. All transactions lock samples before agents, so there is no deadlock.
            let sql = "SELECT name FROM agents ORDER BY name FOR UPDATE";
            sqlx::query(sql).fetch_all(&mut **transaction).await?;
        }
        alerts::delete_without_results(transaction).await
    }

    /// Stores feedback. Returns its id; `None` if there is no such sample.
    ///
    /// Feedback replaces earlier feedback of the same author about the same sample. A repeated request with the same
    /// `key` changes nothing, and returns the first id.
    ///
    /// # Errors
    ///
    /// Fails if the database fails, if the key was used for another request, or if the first request with the key has
    /// no response yet.
    pub async fn add_feedback(
        &self,
        feedback: &NewFeedback,
        key: Option<&RequestKey>,
    ) -> Result<Option<String>, StoreError> {
        let mut transaction = self.write().await?;
        if let Some(key) = key
            && let Some(first) = key.reserve::<String>(&mut transaction).await?
        {
            return Ok(Some(first));
        }
        let id = random(16)?;
        let NewFeedback { sample, value, note, author } = feedback;
        let inserted = sqlx::query(
            "INSERT INTO feedback (id, sample_id, value, note, author, created_at) \
            SELECT $1, id, $3, $4, $5, $6 FROM samples WHERE id = $2 \
            ON CONFLICT (sample_id, author) WHERE author <> '' DO UPDATE SET id = excluded.id, \
            value = excluded.value, note = excluded.note, created_at = excluded.created_at",
        )
        .bind(&id)
        .bind(sample)
        .bind(value)
        .bind(note)
        .bind(author)
        .bind(now())
        .execute(&mut *transaction)
        .await?;
        if inserted.rows_affected() == 0 {
            return Ok(None);
        }
        if let Some(key) = key {
            key.answer(&mut transaction, &id).await?;
        }
        transaction.commit().await?;
        Ok(Some(id))
    }

    /// Returns the newest feedback about a sample, at most `limit`.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn feedback(&self, sample: &str, limit: u32) -> Result<Vec<Feedback>, StoreError> {
        let sql = "SELECT value, note, author, created_at FROM feedback WHERE sample_id = $1 \
            ORDER BY created_at DESC, id LIMIT $2";
        let rows = sqlx::query(sql).bind(sample).bind(i64::from(limit)).fetch_all(&self.pool);
        let feedback = |row: &AnyRow| {
            Ok(Feedback {
                value: row.try_get("value")?,
                note: row.try_get("note")?,
                author: row.try_get("author")?,
                created_at: time_text(row.try_get("created_at")?),
            })
        };
        rows.await?.iter().map(feedback).collect()
    }

    /// Creates a query with the parameters of a filter.
    #[expect(clippy::unused_self, reason = "the queries of a store are methods")]
    fn filtered<'q>(
        &self,
        sql: String,
        filter: &SampleFilter,
    ) -> sqlx::query::Query<'q, sqlx::Any, sqlx::any::AnyArguments> {
        // The SQL text consists of literals in this file. Values from requests are bound as parameters.
        sqlx::query(AssertSqlSafe(sql))
            .bind(filter.agent.clone().unwrap_or_default())
            .bind(filter.subject.clone().unwrap_or_default())
            .bind(filter.before.unwrap_or_default())
    }
}

/// The decision about the evaluation of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// The rate with which the sample was chosen; [`Share::NONE`] if it was not chosen.
    pub(super) share: Share,
    pub(super) is_evaluated: bool,
}

impl Choice {
    /// Decides whether a sample is evaluated. Without `sampling`, the agent has no set, and no sample is evaluated.
    pub(super) fn new(sampling: Option<&Sampling>, id: &str, sample: &NewSample) -> Self {
        let share = sampling.map_or(Share::NONE, |it| it.choose(id, &sample.version, &sample.body));
        let is_evaluated = sampling.is_some() && (sample.has_error || share != Share::NONE);
        Self { share, is_evaluated }
    }

    /// Returns the state of the sample.
    pub(super) fn state(self) -> &'static str {
        if self.is_evaluated { "pending" } else { "skipped" }
    }
}

/// Returns true if the stored sample with this id is equal to `sample`, or was deleted.
async fn is_stored(
    transaction: &mut Transaction<'_, Any>,
    sample: &NewSample,
    id: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT agent, body FROM samples WHERE id = $1";
    // Another request may have deleted the stored sample since the attempt to insert `sample`.
    let Some(row) = sqlx::query(sql).bind(id).fetch_optional(&mut **transaction).await? else {
        return Ok(true);
    };
    let (agent, body): (String, String) = (row.try_get("agent")?, row.try_get("body")?);
    let body: Map<String, Value> = serde_json::from_str(&body)?;
    Ok(agent == sample.agent && body == sample.body)
}

/// Stores a sample, unless its id exists. Returns true if it was stored.
pub(super) async fn insert(
    transaction: &mut Transaction<'_, Any>,
    sample: &NewSample,
    id: &str,
    choice: Choice,
) -> Result<bool, StoreError> {
    let NewSample { agent, subject, version, body, .. } = sample;
    let inserted = sqlx::query(
        "INSERT INTO samples (id, agent, subject, version, state, body, received_at, share, tags) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING",
    )
    .bind(id)
    .bind(agent)
    .bind(subject)
    .bind(version)
    .bind(choice.state())
    .bind(serde_json::to_string(body)?)
    .bind(now())
    .bind(choice.share.millionths())
    .bind(written_tags(body))
    .execute(&mut **transaction)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

/// Returns the tags of a sample as they are stored, each between two line breaks.
fn written_tags(body: &Map<String, Value>) -> String {
    let tags = body.get("tags").and_then(Value::as_array).into_iter().flatten();
    let tags: Vec<&str> = tags.filter_map(Value::as_str).collect();
    if tags.is_empty() { String::new() } else { format!("\n{}\n", tags.join("\n\n")) }
}

/// Returns the text to search for in stored tags. For an empty tag, the text is empty, so all samples match.
pub(super) fn tag_mark(tag: &str) -> String {
    if tag.is_empty() { String::new() } else { format!("\n{tag}\n") }
}

/// Returns the length of the longest prefix of `sizes` whose sum is at most `most`; at least 1.
fn count_within(sizes: &[i64], most: i64) -> i64 {
    let sums = sizes.iter().scan(0_i64, |sum, it| {
        *sum = sum.saturating_add(*it);
        Some(*sum)
    });
    i64::try_from(sums.take_while(|it| *it <= most).count()).unwrap_or(i64::MAX).max(1)
}

fn cursor_after(row: &AnyRow) -> Result<String, StoreError> {
    let (time, id): (i64, String) = (row.try_get("received_at")?, row.try_get("id")?);
    Ok(format!("{time}-{id}"))
}

fn sample(row: &AnyRow) -> Result<Sample, StoreError> {
    let (body, evaluation): (String, String) = (row.try_get("body")?, row.try_get("evaluation")?);
    let evaluation = (!evaluation.is_empty()).then(|| serde_json::from_str(&evaluation));
    Ok(Sample {
        id: row.try_get("id")?,
        agent: row.try_get("agent")?,
        subject: row.try_get("subject")?,
        version: row.try_get("version")?,
        state: row.try_get("state")?,
        evaluation: evaluation.transpose()?,
        thumbs_up: row.try_get("thumbs_up")?,
        thumbs_down: row.try_get("thumbs_down")?,
        received_at: time_text(row.try_get("received_at")?),
        sample: serde_json::from_str(&body)?,
    })
}
