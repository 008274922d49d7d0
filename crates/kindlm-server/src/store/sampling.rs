//! The choice of the samples that are evaluated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use sqlx::any::AnyRow;
use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};
use utoipa::ToSchema;

use super::StoreError;

/// The stored number for the share 1.
const MILLION: f64 = 1_000_000.0;

/// The value of [`Strata::by`] for the version of the agent.
const VERSION: &str = "version";

/// The start of [`Strata::by`] for a key of the metadata.
const METADATA: &str = "metadata.";

/// A share of samples, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(i64);

impl Share {
    /// No sample.
    pub const NONE: Self = Self(0);

    /// Returns the share nearest to `rate`. A rate below 0 counts as 0, and a rate above 1 as 1.
    pub fn new(rate: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the value is from 0 to a million")]
        Self((rate.clamp(0.0, 1.0) * MILLION).round() as i64)
    }

    /// Returns the share, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "the value is from 0 to a million")]
    pub fn rate(self) -> f64 {
        self.0 as f64 / MILLION
    }

    /// Returns the sampling weight of a chosen sample: the inverse of the share; `None` if the share is 0.
    pub fn weight(self) -> Option<f64> {
        (self.0 > 0).then(|| 1.0 / self.rate())
    }

    /// Returns the share as it is stored: in millionths.
    pub(super) fn millionths(self) -> i64 {
        self.0
    }
}

/// Returns true if `rate` can be the rate of samples: 0, or a number from a millionth to 1.
pub fn is_rate(rate: f64) -> bool {
    rate == 0.0 || (1.0 / MILLION..=1.0).contains(&rate)
}

/// Returns the column `share` of a row.
pub(super) fn share_of(row: &AnyRow) -> Result<Share, StoreError> {
    Ok(Share(row.try_get("share")?))
}

/// The rates of groups of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Strata {
    /// The property of a sample that names its group: `version`, or `metadata.<key>`.
    pub by: String,
    /// The rate of each group, from 0 to 1, by the value of the property. Other samples have the `rate` of the agent.
    pub rates: BTreeMap<String, f64>,
}

impl Strata {
    /// Creates the rates of the groups of a property: `version`, or `metadata.<key>`.
    pub fn new(by: impl Into<String>, rates: BTreeMap<String, f64>) -> Self {
        Self { by: by.into(), rates }
    }

    /// Returns true if `by` is valid: `version`, or `metadata.` and a key.
    pub fn has_property(&self) -> bool {
        self.by == VERSION || self.by.strip_prefix(METADATA).is_some_and(|it| !it.is_empty())
    }

    /// Returns the rate of the group of a sample; `None` if its group has no rate.
    fn rate(&self, version: &str, body: &Map<String, Value>) -> Option<f64> {
        if self.by == VERSION {
            return self.rates.get(version).copied();
        }
        let key = self.by.strip_prefix(METADATA)?;
        match body.get("metadata")?.get(key)? {
            Value::String(text) => self.rates.get(text),
            other => self.rates.get(&other.to_string()),
        }
        .copied()
    }
}

/// The settings that choose which samples of an agent are evaluated.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    rate: Share,
    strata: Option<Strata>,
}

impl Sampling {
    /// Returns the rate of a sample if it is chosen, and [`Share::NONE`] if it is not. `body` is the whole sample.
    pub(super) fn choose(&self, id: &str, version: &str, body: &Map<String, Value>) -> Share {
        let own = self.strata.as_ref().and_then(|it| it.rate(version, body)).map(Share::new);
        let share = own.unwrap_or(self.rate);
        if is_sampled(id, share.rate()) { share } else { Share::NONE }
    }
}

/// Returns the settings of an agent; `None` if the agent has no set.
pub(super) async fn sampling(
    transaction: &mut Transaction<'_, Any>,
    agent: &str,
) -> Result<Option<Sampling>, StoreError> {
    let sql = "SELECT rate, strata FROM agents WHERE name = $1";
    let row = sqlx::query(sql).bind(agent).fetch_optional(&mut **transaction).await?;
    let Some(row) = row else { return Ok(None) };
    let rate = Share(row.try_get("rate")?);
    Ok(Some(Sampling { rate, strata: strata_of(&row)? }))
}

/// Returns the column `strata` of a row.
pub(super) fn strata_of(row: &AnyRow) -> Result<Option<Strata>, StoreError> {
    let text: String = row.try_get("strata")?;
    Ok(if text.is_empty() { None } else { Some(serde_json::from_str(&text)?) })
}

/// Locks an agent until the transaction ends. Returns false if the agent has no set.
pub(super) async fn lock(
    transaction: &mut Transaction<'_, Any>,
    agent: &str,
    is_sqlite: bool,
) -> Result<bool, StoreError> {
    // SQLite permits only one writing transaction at a time.
    let lock = if is_sqlite { "" } else { " FOR UPDATE" };
    let sql = format!("SELECT name FROM agents WHERE name = $1{lock}");
    let row = sqlx::query(AssertSqlSafe(sql)).bind(agent).fetch_optional(&mut **transaction);
    Ok(row.await?.is_some())
}

/// Returns true if a sample is evaluated at the sampling rate `rate` (0 to 1). Only the id decides, so a sample that is
/// sent again gets the same decision.
pub fn is_sampled(id: &str, rate: f64) -> bool {
    let digest = Sha256::digest(id.as_bytes());
    let start = [digest[0], digest[1], digest[2], digest[3]];
    f64::from(u32::from_be_bytes(start)) / (f64::from(u32::MAX) + 1.0) < rate
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn share_of_sampled_ids_is_the_rate() {
        let ids: Vec<String> = (0..20_000).map(|it| format!("sample-{it}")).collect();
        for rate in [0.0, 0.01, 0.3, 1.0] {
            let sampled: Vec<&String> = ids.iter().filter(|it| is_sampled(it, rate)).collect();
            // Four standard deviations of the number of chosen ids among 20,000.
            let margin = 4.0 * (20_000.0 * rate * (1.0 - rate)).sqrt();
            let count = f64::from(u32::try_from(sampled.len()).unwrap());
            assert!((count - 20_000.0 * rate).abs() <= margin, "{rate}: {count}");
            // A higher rate adds samples, and removes none.
            assert!(sampled.iter().all(|it| is_sampled(it, rate + 0.2)));
        }
    }

    #[test]
    fn strata_have_rates_of_their_own() {
        let rates = BTreeMap::from([("pro".to_owned(), 1.0), ("7".to_owned(), 0.5)]);
        let strata = |by: &str| Strata { by: by.to_owned(), rates: rates.clone() };
        for (by, version, metadata, expected) in [
            ("version", "pro", json!({}), Some(1.0)),
            ("version", "7", json!({"plan": "pro"}), Some(0.5)),
            ("version", "free", json!({}), None),
            ("metadata.plan", "free", json!({"plan": "pro"}), Some(1.0)),
            ("metadata.plan", "pro", json!({"plan": 7}), Some(0.5)),
            ("metadata.plan", "pro", json!(null), None),
            ("metadata.plan", "pro", json!({"tier": "pro"}), None),
        ] {
            let body = json!({"metadata": metadata}).as_object().unwrap().clone();
            let found = strata(by).rate(version, &body);
            assert_eq!(found, expected, "{by} {version}");
        }
        assert!(strata("version").has_property() && strata("metadata.plan").has_property());
        assert!(!strata("metadata.").has_property() && !strata("plan").has_property());
    }

    #[test]
    fn rates_below_a_millionth_are_refused() {
        for (rate, expected) in
            [(0.0, true), (1e-7, false), (1e-6, true), (1.0, true), (1.1, false), (-0.1, false)]
        {
            assert_eq!(is_rate(rate), expected, "{rate}");
        }
        assert_eq!(Share::new(0.25).weight(), Some(4.0));
        assert_eq!(Share::NONE.weight(), None);
    }
}
