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
    /// The price of a request with a long prompt; if absent, long prompts have the same price as other prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPromptPrice>,
}

/// The price of a request with a long prompt, in US dollars per million tokens.
///
/// The price applies to all tokens of such a request, also to the first ones. The price lists of OpenAI, Google and
/// Anthropic define it in this way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LongPromptPrice {
    /// The number of input tokens above which a prompt is long.
    #[schemars(range(min = 1))]
    pub above: u64,
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
    /// Creates a price in US dollars per million input tokens and per million output tokens.
    pub const fn new(input: f64, output: f64) -> Self {
        Self { input, output, cached_input: None, cache_write: None, long_prompt: None }
    }

    /// Returns the price of a request with this number of input tokens.
    fn of_request(&self, input_tokens: u64) -> Self {
        match self.long_prompt {
            Some(it) if input_tokens > it.above => Self {
                cached_input: it.cached_input,
                cache_write: it.cache_write,
                ..Self::new(it.input, it.output)
            },
            _ => *self,
        }
    }

    /// Returns the cost of a request with this usage, in US dollars.
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let cached = usage.cached_input_tokens.unwrap_or(0).min(usage.input_tokens);
        let written = usage.cache_write_tokens.unwrap_or(0).min(usage.input_tokens - cached);
        let fresh = usage.input_tokens - cached - written;
        let price = self.of_request(usage.input_tokens);
        (fresh as f64 * price.input
            + written as f64 * price.cache_write.unwrap_or(price.input)
            + cached as f64 * price.cached_input.unwrap_or(price.input)
            + usage.output_tokens as f64 * price.output)
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

    const PRICE: Price = Price { cached_input: Some(0.5), ..Price::new(2.0, 10.0) };

    #[test]
    fn a_long_prompt_has_a_price_of_its_own_for_all_tokens() {
        let long_prompt = LongPromptPrice {
            above: 200_000,
            input: 4.0,
            output: 15.0,
            cached_input: None,
            cache_write: None,
        };
        let price = Price { long_prompt: Some(long_prompt), ..PRICE };
        for (input_tokens, expected) in [(200_000, 0.4 + 1.0), (200_001, 0.800_004 + 1.5)] {
            let cost =
                price.cost(&Usage { input_tokens, output_tokens: 100_000, ..Usage::default() });
            assert!((cost - expected).abs() < 1e-9, "{cost} {expected}");
        }
    }

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
        let free = Price::new(0.0, 0.0);
        assert_eq!(free.cost_if_counted(&nothing), Some(0.0));
        let some = Usage { output_tokens: 10, ..nothing };
        assert_eq!(PRICE.cost_if_counted(&some), Some(0.0001));
    }
}
