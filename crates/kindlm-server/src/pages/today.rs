//! The part of `/monitor` about today: the samples that wait, and the budget of each agent.

use jiff::Timestamp;

use super::frame::Moment;
use crate::store::agents::{Agent, DailyBudget};
use crate::store::backlog::Backlog;
use crate::store::spending::{Spent, today};
use crate::store::{Store, StoreError};

/// The samples that wait, and the budgets.
pub(super) struct Today {
    /// The number of samples that wait, in words.
    pub(super) waiting: String,
    /// The time at which the oldest waiting sample was received; `None` if none waits.
    pub(super) oldest: Option<Moment>,
    /// The time that the oldest waiting sample has waited, in words.
    pub(super) lag: String,
    /// The time at which the newest sample was received; `None` without samples.
    pub(super) newest: Option<Moment>,
    pub(super) agents: Vec<AgentToday>,
}

/// The evaluations of an agent today, as a row.
pub(super) struct AgentToday {
    pub(super) name: String,
    pub(super) set: String,
    pub(super) rate: String,
    pub(super) evaluations: String,
    pub(super) cost: String,
    pub(super) tone: &'static str,
    pub(super) budget: &'static str,
}

impl Today {
    /// Loads the numbers of an agent, or of all agents if the name is empty.
    pub(super) async fn load(
        store: &Store,
        agents: &[Agent],
        name: &str,
    ) -> Result<Self, StoreError> {
        let Backlog { waiting, oldest, newest } = store.backlog(name).await?;
        let spent = store.spent_on(today()).await?;
        let shown = agents.iter().filter(|it| name.is_empty() || it.name == name);
        let row = |it: &Agent| AgentToday::new(it, spent.get(&it.name).copied());
        let now = Timestamp::now().as_millisecond();
        Ok(Self {
            waiting: match waiting {
                0 => "No sample waits for its evaluation".to_owned(),
                1 => "1 sample waits for its evaluation".to_owned(),
                many => format!("{many} samples wait for their evaluation"),
            },
            oldest: oldest.map(Moment::of_milliseconds),
            lag: oldest.map(|it| age(now - it)).unwrap_or_default(),
            newest: newest.map(Moment::of_milliseconds),
            agents: shown.map(row).collect(),
        })
    }
}

impl AgentToday {
    fn new(agent: &Agent, spent: Option<Spent>) -> Self {
        let spent = spent.unwrap_or_default();
        let budget = agent.daily_budget.unwrap_or_default();
        let DailyBudget { evaluations, usd } = budget;
        let limit = evaluations.map(|it| format!(" of {it}")).unwrap_or_default();
        let unknown = match spent.unknown_costs {
            0 => String::new(),
            count => format!(", {count} unknown"),
        };
        let usd_limit = usd.map(|it| format!(" of ${it:.2}")).unwrap_or_default();
        let strata = agent.strata.as_ref().map(|it| format!(", by {}", it.by)).unwrap_or_default();
        let (tone, words) = match () {
            () if agent.daily_budget.is_none() => ("none", "no budget"),
            () if budget.is_spent(&spent) => ("warn", "! spent"),
            () => ("good", "✓ not spent"),
        };
        Self {
            name: agent.name.clone(),
            set: agent.set.clone(),
            rate: format!("{} %{strata}", (agent.rate * 1e6).round() / 1e4),
            evaluations: format!("{}{limit}", spent.evaluations),
            cost: format!("${:.4}{unknown}{usd_limit}", spent.usd),
            tone,
            budget: words,
        }
    }
}

/// Formats a duration in the largest unit that it contains at least twice.
fn age(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::sampling::Strata;

    #[test]
    fn budget_is_spent_by_number_cost_or_unknown_cost() {
        let spent = |evaluations, usd, unknown_costs| Spent { evaluations, usd, unknown_costs };
        for (evaluations, usd, spent, expected) in [
            (None, None, spent(9, 9.0, 9), ("9", "$9.0000, 9 unknown", "no budget")),
            (Some(10), None, spent(9, 9.0, 0), ("9 of 10", "$9.0000", "✓ not spent")),
            (Some(10), None, spent(10, 0.0, 0), ("10 of 10", "$0.0000", "! spent")),
            (None, Some(5.0), spent(9, 5.0, 0), ("9", "$5.0000 of $5.00", "! spent")),
            (None, Some(5.0), spent(9, 0.0, 1), ("9", "$0.0000, 1 unknown of $5.00", "! spent")),
            (Some(0), None, spent(0, 0.0, 0), ("0 of 0", "$0.0000", "! spent")),
        ] {
            let budget = DailyBudget { evaluations, usd };
            let text = String::new;
            let agent = Agent {
                name: text(),
                set: text(),
                rate: 1.0,
                strata: Some(Strata { by: "version".to_owned(), rates: BTreeMap::new() }),
                daily_budget: Some(budget).filter(|it| *it != DailyBudget::default()),
                author: text(),
                changed_at: text(),
            };
            let row = AgentToday::new(&agent, Some(spent));
            assert_eq!(row.rate, "100 %, by version");
            assert_eq!((row.evaluations.as_str(), row.cost.as_str(), row.budget), expected);
        }
    }

    #[test]
    fn age_has_its_largest_unit() {
        for (milliseconds, expected) in [
            (-5, "0 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
            (172_800_000, "2 days"),
        ] {
            assert_eq!(age(milliseconds), expected);
        }
    }
}
