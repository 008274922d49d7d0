//! Agents in production: the assertion set and the sampling rate of each.

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;
use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};
use utoipa::ToSchema;

use super::{Store, StoreError, now, time_text};

/// The unit of a stored rate.
const MILLION: f64 = 1_000_000.0;

/// The stored number of evaluations of an agent without this limit.
pub(super) const UNLIMITED: i64 = -1;

/// The columns of an agent.
const COLUMNS: &str =
    "name, assertion_set, rate, evaluations_per_day, usd_per_day, author, changed_at";

/// The limits of the evaluations of an agent in one day (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DailyBudget {
    /// The highest number of evaluations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<u32>,
    /// The cost of the judges in US dollars after which no evaluation starts. It needs judges of known prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub usd: Option<f64>,
}

/// The evaluation of the samples of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Agent {
    /// The name of the agent.
    pub name: String,
    /// The assertion set: `name` for its newest version, or `name@version`.
    pub set: String,
    /// The share of the samples that is evaluated, from 0 to 1. Samples with an error are always evaluated.
    pub rate: f64,
    /// The budget of a day; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_budget: Option<DailyBudget>,
    /// The name of the token that changed the agent; empty on a server without tokens.
    pub author: String,
    /// The time of the last change (RFC 3339).
    pub changed_at: String,
}

impl Store {
    /// Sets the assertion set, the rate (from 0 to 1) and the budget of an agent.
    ///
    /// The rate applies to samples that are stored later. The set applies to each sample that is not evaluated yet.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn put_agent(
        &self,
        name: &str,
        set: &str,
        rate: f64,
        daily_budget: Option<DailyBudget>,
        author: &str,
    ) -> Result<Agent, StoreError> {
        #[expect(clippy::cast_possible_truncation, reason = "the value is from 0 to a million")]
        let millionths = (rate.clamp(0.0, 1.0) * MILLION).round() as i64;
        let changed_at = now();
        sqlx::query(
            "INSERT INTO agents (name, assertion_set, rate, author, changed_at, evaluations_per_day, usd_per_day) \
            VALUES ($1, $2, $3, $4, $5, $6, $7) \
            ON CONFLICT (name) DO UPDATE SET assertion_set = excluded.assertion_set, rate = excluded.rate, \
            evaluations_per_day = excluded.evaluations_per_day, usd_per_day = excluded.usd_per_day, \
            author = excluded.author, changed_at = excluded.changed_at",
        )
        .bind(name)
        .bind(set)
        .bind(millionths)
        .bind(author)
        .bind(changed_at)
        .bind(daily_budget.and_then(|it| it.evaluations).map_or(UNLIMITED, i64::from))
        .bind(daily_budget.and_then(|it| it.usd).unwrap_or(-1.0))
        .execute(&self.pool)
        .await?;
        let (name, set, author) = (name.to_owned(), set.to_owned(), author.to_owned());
        let rate = share(millionths);
        let changed_at = time_text(changed_at);
        Ok(Agent { name, set, rate, daily_budget, author, changed_at })
    }

    /// Returns all agents with a set, by name.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM agents ORDER BY name");
        sqlx::query(AssertSqlSafe(sql)).fetch_all(&self.pool).await?.iter().map(agent).collect()
    }

    /// Returns an agent; `None` if it has no set.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn agent(&self, name: &str) -> Result<Option<Agent>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM agents WHERE name = $1");
        let row = sqlx::query(AssertSqlSafe(sql)).bind(name).fetch_optional(&self.pool).await?;
        row.as_ref().map(agent).transpose()
    }
}

/// Returns the sampling rate of an agent, from 0 to 1; `None` if it has no set.
///
/// `lock` ends the query: empty, or ` FOR UPDATE`, which locks the agent until the transaction ends.
pub(super) async fn rate(
    transaction: &mut Transaction<'_, Any>,
    agent: &str,
    lock: &str,
) -> Result<Option<f64>, StoreError> {
    let row = sqlx::query(AssertSqlSafe(format!("SELECT rate FROM agents WHERE name = $1{lock}")))
        .bind(agent)
        .fetch_optional(&mut **transaction)
        .await?;
    Ok(row.map(|it| it.try_get("rate")).transpose()?.map(share))
}

#[expect(clippy::cast_precision_loss, reason = "the value is from 0 to a million")]
fn share(millionths: i64) -> f64 {
    millionths as f64 / MILLION
}

fn agent(row: &AnyRow) -> Result<Agent, StoreError> {
    let (evaluations, usd): (i64, f64) =
        (row.try_get("evaluations_per_day")?, row.try_get("usd_per_day")?);
    let budget = DailyBudget {
        evaluations: u32::try_from(evaluations).ok(),
        usd: Some(usd).filter(|it| *it >= 0.0),
    };
    Ok(Agent {
        name: row.try_get("name")?,
        set: row.try_get("assertion_set")?,
        rate: share(row.try_get("rate")?),
        daily_budget: Some(budget).filter(|it| *it != DailyBudget::default()),
        author: row.try_get("author")?,
        changed_at: time_text(row.try_get("changed_at")?),
    })
}
