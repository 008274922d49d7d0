//! Prices of models that KindLM does not know, but promptfoo does.

use std::collections::HashMap;
use std::sync::LazyLock;

use kindlm_types::Price;

/// The prices of promptfoo 0.123.1, in US dollars per million tokens, by the vendor and the model.
const TABLE: &str = include_str!("prices.json");

static PRICES: LazyLock<HashMap<String, HashMap<String, Price>>> =
    LazyLock::new(|| serde_json::from_str(TABLE).unwrap_or_default());

/// Returns promptfoo's price of a model; `None` if promptfoo has no price for it.
pub(super) fn price(vendor: &str, model: &str) -> Option<Price> {
    PRICES.get(vendor)?.get(model).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_readable() {
        assert_eq!(PRICES.len(), 3);
        assert_eq!(price("mistral", "mistral-large-latest").map(|it| it.input), Some(0.5));
        assert_eq!(price("deepseek", "deepseek-chat").map(|it| it.output), Some(0.28));
        assert_eq!(price("xai", "unknown"), None);
        let all = PRICES.values().flat_map(HashMap::values);
        for it in all {
            assert!(it.input >= 0.0 && it.output >= it.input, "{it:?}");
        }
    }
}
