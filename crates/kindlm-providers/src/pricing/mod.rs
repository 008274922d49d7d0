//! The known prices and context windows of models.
//!
//! The prices are in `prices.json`, with their date. `cargo xtask prices` creates this file from a public one. The
//! price of an unlisted model is `None`, never 0.

use std::collections::HashMap;
use std::sync::LazyLock;

use kindlm_types::Price;
use serde::Deserialize;

const TABLE: &str = include_str!("prices.json");

/// The name of an entry that applies to every model of a provider.
const ANY: &str = "*";

/// The price table in `prices.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[cfg_attr(not(test), expect(dead_code, reason = "for the people who read the file"))]
    date: String,
    #[expect(dead_code, reason = "for the people who read the file")]
    source: String,
    providers: HashMap<String, Vec<Entry>>,
}

/// The price of one model in the table.
#[derive(Deserialize)]
struct Entry {
    model: String,
    #[serde(flatten)]
    price: Price,
    /// The maximum number of tokens of a prompt.
    #[serde(default, rename = "maxInput")]
    max_input: Option<u64>,
    #[serde(default)]
    #[expect(dead_code, reason = "for the people who read the file")]
    note: Option<String>,
}

static PRICES: LazyLock<HashMap<String, Vec<Entry>>> = LazyLock::new(|| {
    let table: Option<Table> = serde_json::from_str(TABLE).ok();
    table.map(|it| it.providers).unwrap_or_default()
});

/// Returns the price of a provider's model, in US dollars per million tokens. Returns `None` if it is unknown.
///
/// A model matches its exact name, or that name with a version or an effort: `gpt-4o-mini-2024-07-18` is `gpt-4o-mini`,
/// `gemini-2.0-flash-001` is `gemini-2.0-flash`. The suffixes `latest`, `low`, `medium` and `high` are accepted too. If
/// several names match, the longest name counts. A name with any other suffix (`gpt-4o-audio-preview`,
/// `claude-opus-4-9`) is another model. A name without a number (`deepseek-chat`) denotes different models over time,
/// so it needs an exact match.
///
/// At Bedrock, the name of a model may begin with a region. Such a model has the price of its whole name, or else the
/// price of the name without the region.
///
/// ```
/// use kindlm_providers::pricing::price;
///
/// assert_eq!(price("openai", "gpt-4o-mini-2024-07-18"), price("openai", "gpt-4o-mini"));
/// assert_eq!(price("openai", "a-model-of-mine"), None);
/// assert_eq!(price("ollama", "llama3").map(|it| it.input), Some(0.0));
/// ```
pub fn price(provider: &str, model: &str) -> Option<Price> {
    entry(provider, model).map(|it| it.price)
}

/// Returns the maximum number of tokens of a prompt for a provider's model, which is its context window or a part of
/// it. Returns `None` if it is unknown. Models match as in [`price`].
///
/// ```
/// use kindlm_providers::pricing::max_input;
///
/// assert_eq!(max_input("openai", "gpt-4o-2024-08-06"), Some(128_000));
/// assert_eq!(max_input("openai", "a-model-of-mine"), None);
/// ```
pub fn max_input(provider: &str, model: &str) -> Option<u64> {
    entry(provider, model)?.max_input
}

fn entry(provider: &str, model: &str) -> Option<&'static Entry> {
    let entries = entries(provider)?;
    if provider != "bedrock" {
        return entry_in(entries, model);
    }
    // At Bedrock, a model name may be the ARN of an inference profile, which ends with the name.
    let model = model.rsplit('/').next().unwrap_or(model);
    let without = model.split_once('.').filter(|(region, _)| REGIONS.contains(region));
    entry_in(entries, model).or_else(|| entry_in(entries, without?.1))
}

/// Returns the entry of a model in a table: of its exact name, or else of the longest name with a version suffix.
fn entry_in<'e>(entries: &'e [Entry], model: &str) -> Option<&'e Entry> {
    let is_any = |it: &Entry| it.model == ANY && !model.is_empty();
    let exact = entries.iter().find(|it| it.model == model || is_any(it));
    exact.or_else(|| {
        entries
            .iter()
            .filter(|it| !is_alias(it) && is_version_of(model, &it.model))
            .max_by_key(|it| it.model.len())
    })
}

/// Returns true if the name of an entry denotes different models over time. Such a name has no number. Embedding models
/// have no output price, and are never aliases.
fn is_alias(entry: &Entry) -> bool {
    entry.price.output > 0.0 && !entry.model.contains(|it: char| it.is_ascii_digit())
}

/// The region prefixes of model names at Bedrock.
const REGIONS: [&str; 6] = ["apac", "au", "eu", "global", "jp", "us"];

/// Returns the names in the price table of a provider; `*` stands for every model.
pub fn models(provider: &str) -> impl Iterator<Item = &'static str> {
    entries(provider).into_iter().flatten().map(|it| it.model.as_str())
}

/// Returns the price table of a provider; `None` if it has none. Both APIs of OpenAI share one table.
fn entries(provider: &str) -> Option<&'static Vec<Entry>> {
    PRICES.get(if provider == "openai-responses" { "openai" } else { provider })
}

/// Returns true if `model` is `name` with a version, or with an effort that has the same price. Versions are
/// `-2024-07-18`, `-001`, `@20250929`, `-latest` or `:20250929-v1`; an effort is `-high`.
fn is_version_of(model: &str, name: &str) -> bool {
    model
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(['-', ':', '@']))
        .is_some_and(is_version)
}

fn is_version(text: &str) -> bool {
    if matches!(text, "latest" | "low" | "medium" | "high") {
        return true;
    }
    let mut parts = text.split(['-', ':', '@']);
    // One or two digits are the next version of the model, not a date of this version.
    let dated = parts.next().is_some_and(|first| first.len() >= 3 && is_number(first));
    dated && parts.all(|part| is_number(part) || part.strip_prefix('v').is_some_and(is_number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_table_is_readable_and_dated() {
        let table: Table = serde_json::from_str(TABLE).expect("prices.json");
        assert_eq!(table.date.len(), "2026-01-31".len(), "{}", table.date);
        assert_eq!(PRICES.len(), table.providers.len());
    }

    #[test]
    fn prices_are_valid_and_models_are_unique() {
        for (provider, prices) in PRICES.iter() {
            assert!(crate::find(provider).is_some(), "unknown provider `{provider}`");
            let mut seen = std::collections::HashSet::new();
            for Entry { model, price, max_input, .. } in prices {
                assert!(seen.insert(model), "{provider}: duplicate model `{model}`");
                assert!(max_input.is_none_or(|it| it > 0), "{provider}: `{model}`");
                let cached = price.cached_input.unwrap_or(price.input);
                let embeds = model.contains("embed") && price.output <= 0.0;
                assert!(price.input >= 0.0, "{provider}: `{model}`");
                assert!(price.output >= price.input || embeds, "{provider}: `{model}`");
                assert!((0.0..=price.input).contains(&cached), "{provider}: `{model}`");
            }
        }
    }

    #[test]
    fn an_alias_is_no_version_of_itself() {
        assert_eq!(price("deepseek", "deepseek-chat").map(|it| it.output), Some(0.28));
        assert_eq!(price("deepseek", "deepseek-chat-0324"), None);
        assert_eq!(price("mistral", "mistral-small-2909"), None);
        assert_eq!(price("mistral", "mistral-embed-2312"), price("mistral", "mistral-embed"));
        assert_eq!(price("xai", "grok-3-latest"), price("xai", "grok-3"));
        assert_eq!(price("xai", "grok-4-0709").map(|it| it.input), Some(3.0));
    }

    #[test]
    fn models_of_bedrock_are_found_in_every_region() {
        let known = price("bedrock", "anthropic.claude-3-5-sonnet-20241022-v2:0");
        assert!(known.is_some());
        for model in [
            "apac.anthropic.claude-3-5-sonnet-20241022-v2:0",
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-3-5-sonnet-20241022-v2:0",
        ] {
            assert_eq!(price("bedrock", model), known, "{model}");
        }
        assert_eq!(price("bedrock", "us.anthropic.claude-9-v1:0"), None);
    }

    #[test]
    fn distinguishes_versions_from_other_models() {
        for (version, expected) in [
            ("2024-07-18", true),
            ("20250929", true),
            ("001", true),
            ("0613", true),
            ("20250929-v1:0", true),
            ("latest", true),
            ("high", true),
            ("5", false),
            ("5-20251101", false),
            ("mini", false),
            ("audio-preview", false),
            ("32k", false),
            ("1106-preview", false),
            ("2024-", false),
            ("", false),
        ] {
            assert_eq!(is_version(version), expected, "{version}");
        }
    }
}
