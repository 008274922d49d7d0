//! The evaluations of each agent's samples per day, their cost, and the daily budget.

use std::collections::HashMap;

use kindlm_run::evaluate::service::JudgeCost;
use serde::Serialize;
use sqlx::Row as _;
use utoipa::ToSchema;

use super::agents::{Agent, DailyBudget, UNLIMITED};
use super::queue::PendingSample;
use super::{Store, StoreError, jobs, now};

/// A day in milliseconds.
pub(super) const DAY: i64 = 24 * 60 * 60 * 1000;

/// Returns the current day (UTC), as the number of days since 1970.
pub fn today() -> i64 {
    now().div_euclid(DAY)
}

/// The evaluations of an agent in one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Spent {
    /// The number of evaluations that were started. A repeated evaluation counts again.
    pub evaluations: i64,
    /// The cost of the judges in US dollars, as far as it is known.
    pub usd: f64,
    /// The number of evaluations whose cost is not known.
    pub unknown_costs: i64,
}

impl DailyBudget {
    /// Returns true if the budget permits no further evaluation on a day with this spending.
    ///
    /// A budget in dollars is also spent if the cost of an evaluation of that day is not known.
    pub fn is_spent(&self, spent: &Spent) -> bool {
        let by_number = self.evaluations.is_some_and(|it| spent.evaluations >= i64::from(it));
        let is_by_cost = |limit| spent.usd >= limit || spent.unknown_costs > 0;
        by_number || self.usd.is_some_and(is_by_cost)
    }
}

/// An evaluation that the budget of its day permits.
#[derive(Clone, Debug)]
pub struct Reservation {
    agent: String,
    day: i64,
}

impl Store {
    /// Reserves an evaluation in the budget of a day (see [`today`]); `None` if the budget is spent.
    ///
    /// A budget in dollars is also spent if the cost of an earlier evaluation of that day is not known.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn reserve_evaluation(
        &self,
        agent: &Agent,
        day: i64,
    ) -> Result<Option<Reservation>, StoreError> {
        let DailyBudget { evaluations, usd } = agent.daily_budget.unwrap_or_default();
        // The statement does not check the budget for the first evaluation of a day, which has no row yet.
        if evaluations == Some(0) || usd.is_some_and(|it| it <= 0.0) {
            return Ok(None);
        }
        let reserved = sqlx::query(
            "INSERT INTO spending (agent, day, evaluations, usd, unknown_costs) VALUES ($1, $2, 1, 0.0, 0) \
            ON CONFLICT (agent, day) DO UPDATE SET evaluations = spending.evaluations + 1 \
            WHERE ($3 < 0 OR spending.evaluations < $3) \
            AND ($4 < 0.0 OR spending.usd < $4 AND spending.unknown_costs = 0)",
        )
        .bind(&agent.name)
        .bind(day)
        .bind(evaluations.map_or(UNLIMITED, i64::from))
        .bind(usd.unwrap_or(-1.0))
        .execute(&self.pool)
        .await?;
        let is_reserved = reserved.rows_affected() > 0;
        Ok(is_reserved.then(|| Reservation { agent: agent.name.clone(), day }))
    }

    /// Adds the cost of an evaluation to its day.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn add_cost(
        &self,
        reservation: &Reservation,
        cost: JudgeCost,
    ) -> Result<(), StoreError> {
        if cost == JudgeCost::default() {
            return Ok(());
        }
        sqlx::query(
            "UPDATE spending SET usd = usd + $1, unknown_costs = unknown_costs + $2 \
            WHERE agent = $3 AND day = $4",
        )
        .bind(cost.known_usd)
        .bind(i64::from(cost.is_unknown))
        .bind(&reservation.agent)
        .bind(reservation.day)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Marks a sample as `over-budget`, and removes its job. Does nothing if the sample is decided already, or deleted.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn leave_sample(&self, sample: &PendingSample) -> Result<(), StoreError> {
        let mut transaction = self.write().await?;
        let sql = "UPDATE samples SET state = 'over-budget' \
            WHERE id = $1 AND received_at = $2 AND state = 'pending'";
        let left = sqlx::query(sql).bind(&sample.id).bind(sample.received_at);
        if left.execute(&mut *transaction).await?.rows_affected() > 0 {
            jobs::remove(&mut transaction, &sample.id, self.is_sqlite).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Returns the evaluations of a day (see [`today`]) by agent. Agents without evaluations are left out.
    ///
    /// # Errors
    ///
    /// Fails if the database fails.
    pub async fn spent_on(&self, day: i64) -> Result<HashMap<String, Spent>, StoreError> {
        let sql = "SELECT agent, evaluations, usd, unknown_costs FROM spending WHERE day = $1";
        let rows = sqlx::query(sql).bind(day).fetch_all(&self.pool).await?;
        let spent = |row: &sqlx::any::AnyRow| {
            let spent = Spent {
                evaluations: row.try_get("evaluations")?,
                usd: row.try_get("usd")?,
                unknown_costs: row.try_get("unknown_costs")?,
            };
            Ok((row.try_get("agent")?, spent))
        };
        rows.iter().map(spent).collect()
    }
}
