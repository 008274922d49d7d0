//! What tokens cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Usage;

/// The price of a model, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// For a million input tokens.
    #[schemars(range(min = 0.0))]
    pub input: f64,
    /// For a million output tokens.
    #[schemars(range(min = 0.0))]
    pub output: f64,
    /// For a million input tokens read from the provider's prompt cache; the input price if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub cached_input: Option<f64>,
}

impl Price {
    /// What this usage costs, in US dollars.
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        (fresh as f64 * self.input
            + cached as f64 * self.cached_input.unwrap_or(self.input)
            + usage.output_tokens as f64 * self.output)
            / 1_000_000.0
    }
}
