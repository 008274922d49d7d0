//! The prices of tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Usage;

/// The price of a model, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// The price of a million input tokens.
    #[schemars(range(min = 0.0))]
    pub input: f64,
    /// The price of a million output tokens.
    #[schemars(range(min = 0.0))]
    pub output: f64,
    /// The price of a million input tokens read from the provider's prompt cache; the input price if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub cached_input: Option<f64>,
    /// The price of a million input tokens written to the provider's prompt cache; the input price if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub cache_write: Option<f64>,
}

impl Price {
    /// Returns the cost of a usage in US dollars.
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let cached = usage.cached_input_tokens.unwrap_or(0).min(usage.input_tokens);
        let written = usage.cache_write_tokens.unwrap_or(0).min(usage.input_tokens - cached);
        let fresh = usage.input_tokens - cached - written;
        (fresh as f64 * self.input
            + written as f64 * self.cache_write.unwrap_or(self.input)
            + cached as f64 * self.cached_input.unwrap_or(self.input)
            + usage.output_tokens as f64 * self.output)
            / 1_000_000.0
    }

    /// Returns the cost of a usage in US dollars; `None` if it is unknown.
    ///
    /// The cost is unknown if the numbers of input and output tokens are not known, and the price is not zero. Some
    /// compatible servers omit the usage. Treating their answers as free would defeat every budget.
    pub fn cost_if_counted(&self, usage: &Usage) -> Option<f64> {
        let counted = usage.has_parts();
        let free = self.input <= 0.0 && self.output <= 0.0;
        (counted || free).then(|| self.cost(usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price =
        Price { input: 2.0, output: 10.0, cached_input: Some(0.5), cache_write: None };

    #[test]
    fn tokens_written_to_the_cache_have_a_price_of_their_own() {
        let usage = Usage::counted(Some(1_000_000), Some(0), None, 200_000)
            .with_cache_writes(Some(400_000));
        for (cache_write, expected) in [(Some(2.5), 0.1 + 1.0 + 0.8), (None, 0.1 + 1.6)] {
            let cost = Price { cache_write, ..PRICE }.cost(&usage);
            assert!((cost - expected).abs() < 1e-9, "{cost} {expected}");
        }
    }

    #[test]
    fn cached_tokens_have_a_price_of_their_own() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            total_tokens: 1_100_000,
            cached_input_tokens: Some(400_000),
            ..Usage::default()
        };
        assert!((PRICE.cost(&usage) - (1.2 + 0.2 + 1.0)).abs() < 1e-12);
    }

    #[test]
    fn uncounted_answers_are_free_only_at_price_zero() {
        let nothing = Usage::default();
        assert_eq!(PRICE.cost_if_counted(&nothing), None);
        let free = Price { input: 0.0, output: 0.0, cached_input: None, cache_write: None };
        assert_eq!(free.cost_if_counted(&nothing), Some(0.0));
        let some = Usage { output_tokens: 10, ..nothing };
        assert_eq!(PRICE.cost_if_counted(&some), Some(0.0001));
    }
}
