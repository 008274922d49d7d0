//! Agents in production: the assertion set and the sampling rate of each.

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};
use utoipa::ToSchema;

use super::alerts::{self, AGENT_REMOVED};
use super::sampling::{Share, Strata, share_of, strata_of};
use super::{Store, StoreError, jobs, now, time_text};

/// The stored value for "no limit of evaluations per day".
pub(super) const UNLIMITED: i64 = -1;

/// The columns of an agent.
const COLUMNS: &str = "name, assertion_set, rate AS share, strata, evaluations_per_day, usd_per_day, author, changed_at";

/// The limits of the evaluations of an agent in one day (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DailyBudget {
    /// The highest number of evaluations; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluations: Option<u32>,
    /// The limit for the cost of the judges in US dollars; no limit if absent. When the cost reaches the limit, or
    /// after an evaluation of unknown cost, no further evaluation starts on that day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub usd: Option<f64>,
}

/// The evaluation of the samples of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[non_exhaustive]
pub struct Agent {
    /// The name of the agent.
    pub name: String,
    /// The assertion set: `name` for its newest version, or `name@version`.
    pub set: String,
    /// The share of the samples that is evaluated, from 0 to 1. Samples with an error are always evaluated.
    pub rate: f64,
    /// The rates of groups of samples; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strata: Option<Strata>,
    /// The budget of a day; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_budget: Option<DailyBudget>,
    /// The name of the token that changed the agent; empty on a server without tokens.
    pub author: String,
    /// The time of the last change (RFC 3339).
    pub changed_at: String,
}

/// The settings of the evaluation of an agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentSettings {
    /// The assertion set: `name` for its newest version, or `name@version`.
    pub set: String,
    /// The share of the samples that is evaluated, from 0 to 1. It is rounded to a millionth.
    pub rate: f64,
    /// The rates of groups of samples; `None` if there are none.
    pub strata: Option<Strata>,
    /// The budget of a day; `None` if there is none.
    pub daily_budget: Option<DailyBudget>,
}

impl AgentSettings {
    /// Creates the settings for an assertion set and a rate, without rates of groups and without a budget.
    pub fn new(set: impl Into<String>, rate: f64) -> Self {
        Self { set: set.into(), rate, strata: None, daily_budget: None }
    }
}

impl Store {
    /// Sets the assertion set, the rates and the budget of an agent.
    ///
    /// The rates apply to samples that are stored later. The set applies to each sample that is not evaluated yet.
    ///
    /// # Errors
    ///
    /// Fails if there is no such set, or if the database fails.
    pub async fn put_agent(
        &self,
        name: &str,
        settings: &AgentSettings,
        author: &str,
    ) -> Result<Agent, StoreError> {
        let AgentSettings { set, rate, strata, daily_budget } = settings;
        let (share, changed_at) = (Share::new(*rate), now());
        let text = strata.as_ref().map(serde_json::to_string).transpose()?;
        let (set_name, number) = match set.split_once('@') {
            Some((name, number)) => (name, Some(number)),
            None => (set.as_str(), None),
        };
        let mut transaction = self.write().await?;
        let versions = self.lock_set(&mut transaction, set_name).await?;
        let is_known = match number {
            Some(number) => number.parse::<i64>().is_ok_and(|it| versions.contains(&it)),
            None => !versions.is_empty(),
        };
        if !is_known {
            return Err(StoreError::UnknownSet(set.clone()));
        }
        sqlx::query(
            "INSERT INTO agents (name, assertion_set, rate, strata, author, changed_at, evaluations_per_day, usd_per_day) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
            ON CONFLICT (name) DO UPDATE SET assertion_set = excluded.assertion_set, rate = excluded.rate, \
            strata = excluded.strata, evaluations_per_day = excluded.evaluations_per_day, \
            usd_per_day = excluded.usd_per_day, author = excluded.author, changed_at = excluded.changed_at",
        )
        .bind(name)
        .bind(set)
        .bind(share.millionths())
        .bind(text.unwrap_or_default())
        .bind(author)
        .bind(changed_at)
        .bind(daily_budget.and_then(|it| it.evaluations).map_or(UNLIMITED, i64::from))
        .bind(daily_budget.and_then(|it| it.usd).unwrap_or(-1.0))
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(Agent {
            name: name.to_owned(),
            set: set.clone(),
            rate: share.rate(),
            strata: strata.clone(),
            daily_budget: *daily_budget,
            author: author.to_owned(),
            changed_at: time_text(changed_at),
        })
    }

    /// Removes an agent: its samples are not evaluated any more, and its alerts end. Returns false if there is no agent
    /// with this name.
    ///
    /// Its samples and results stay.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn remove_agent(&self, name: &str) -> Result<bool, StoreError> {
        let mut transaction = self.write().await?;
        // A transaction that stores results locks the sample before the agent. The same order here prevents a deadlock.
        let waiting = "agent = $1 AND state = 'pending'";
        if !self.is_sqlite {
            let sql = AssertSqlSafe(jobs::lock_of_samples(waiting));
            sqlx::query(sql).bind(name).fetch_one(&mut *transaction).await?;
        }
        let sql = AssertSqlSafe(jobs::removal(waiting, self.is_sqlite));
        sqlx::query(sql).bind(name).execute(&mut *transaction).await?;
        let sql = AssertSqlSafe(format!("UPDATE samples SET state = 'skipped' WHERE {waiting}"));
        sqlx::query(sql).bind(name).execute(&mut *transaction).await?;
        let removed = sqlx::query("DELETE FROM agents WHERE name = $1")
            .bind(name)
            .execute(&mut *transaction)
            .await?;
        if removed.rows_affected() == 0 {
            return Ok(false);
        }
        alerts::end_all(&mut transaction, name, AGENT_REMOVED).await?;
        transaction.commit().await?;
        Ok(true)
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
        rate: share_of(row)?.rate(),
        strata: strata_of(row)?,
        daily_budget: Some(budget).filter(|it| *it != DailyBudget::default()),
        author: row.try_get("author")?,
        changed_at: time_text(row.try_get("changed_at")?),
    })
}
