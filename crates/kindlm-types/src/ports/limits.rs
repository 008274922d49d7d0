//! The rate limits of a model.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rate limits of one model of a provider. KindLM adapts to the provider's responses where a limit is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Requests per minute. They are spread evenly: at most one second's share is sent at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub rpm: Option<NonZeroU32>,
    /// Tokens per minute, for prompts and answers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_000_000_000_u32))]
    pub tpm: Option<NonZeroU32>,
    /// The maximum number of concurrent requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub concurrency: Option<NonZeroU32>,
}

impl Limits {
    /// Returns the lower value of each limit. An absent value does not limit.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let lower = |a: Option<NonZeroU32>, b: Option<NonZeroU32>| a.into_iter().chain(b).min();
        Self {
            rpm: lower(self.rpm, other.rpm),
            tpm: lower(self.tpm, other.tpm),
            concurrency: lower(self.concurrency, other.concurrency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_limits_the_lower_one_counts() {
        let limits = |rpm, tpm| Limits {
            rpm: NonZeroU32::new(rpm),
            tpm: NonZeroU32::new(tpm),
            concurrency: None,
        };
        assert_eq!(limits(10, 0).and(limits(20, 300)), limits(10, 300));
        assert_eq!(Limits::default().and(limits(5, 0)), limits(5, 0));
    }
}
