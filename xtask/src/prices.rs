//! Makes the table of prices and context windows of models from the file of `LiteLLM`.
//!
//! That file is `model_prices_and_context_window.json` of the project `BerriAI/litellm`. It is an object with an entry
//! for each model. These keys are read:
//!
//! - `litellm_provider` and `mode`;
//! - `max_input_tokens`, the maximum number of tokens of a prompt;
//! - `input_cost_per_token`, `output_cost_per_token`, `cache_read_input_token_cost` and
//!   `cache_creation_input_token_cost`, the prices of one token in US dollars;
//! - the price keys with a suffix such as `_above_200k_tokens`, which have the prices for longer prompts.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The price table, as `kindlm-providers` reads it.
const TABLE: &str = "crates/kindlm-providers/src/pricing/prices.json";

/// The vendors: their names in the file, KindLM's provider, and the prefix of the models' names in the file.
///
/// Two vendors of the file may be one provider.
const VENDORS: [(&str, &str, &str); 12] = [
    ("anthropic", "anthropic", ""),
    ("bedrock", "bedrock", ""),
    ("bedrock_converse", "bedrock", ""),
    ("cohere", "cohere", "cohere/"),
    ("cohere_chat", "cohere", ""),
    ("gemini", "gemini", "gemini/"),
    ("mistral", "mistral", "mistral/"),
    ("openai", "openai", ""),
    ("vertex_ai-anthropic_models", "vertex", "vertex_ai/"),
    ("vertex_ai-embedding-models", "vertex", ""),
    ("vertex_ai-language-models", "vertex", "vertex_ai/"),
    ("vertex_ai-llama_models", "vertex", "vertex_ai/"),
];

/// The servers with an API compatible to OpenAI's: their names in the file, and KindLM's provider.
///
/// In the file, the name of a model begins with the name of the server and a slash. The rest of the name may have
/// slashes and colons, and need not have a number.
const SERVERS: [(&str, &str); 13] = [
    ("cerebras", "cerebras"),
    ("dashscope", "dashscope"),
    ("deepseek", "deepseek"),
    ("fireworks_ai", "fireworks"),
    ("groq", "groq"),
    ("hyperbolic", "hyperbolic"),
    ("minimax", "minimax"),
    ("moonshot", "moonshot"),
    ("novita", "novita"),
    ("nscale", "nscale"),
    ("openrouter", "openrouter"),
    ("together_ai", "together"),
    ("xai", "xai"),
];

/// Returns the vendors and the servers: their names in the file, KindLM's provider, and the prefix of their models.
fn sources() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let vendors = VENDORS.into_iter();
    let vendors = vendors.map(|(vendor, provider, prefix)| (vendor, provider, prefix.to_owned()));
    let servers = SERVERS.into_iter();
    let servers = servers.map(|(server, provider)| (server, provider, format!("{server}/")));
    vendors.chain(servers)
}

/// The prefixes of model names at Bedrock that denote a region.
const REGIONS: [&str; 6] = ["apac", "au", "eu", "global", "jp", "us"];

#[derive(Deserialize, Serialize)]
struct Table {
    date: String,
    source: String,
    providers: BTreeMap<String, Vec<Entry>>,
}

/// The price of a model, in US dollars for a million tokens.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    model: String,
    input: f64,
    output: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached_input: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_write: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    long_prompt: Option<LongPrompt>,
    /// The maximum number of tokens of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_input: Option<u64>,
    /// The note of a person who wrote the entry. An entry with a note is not replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// The price of a request with more than `above` input tokens, in US dollars for a million tokens.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LongPrompt {
    above: u64,
    input: f64,
    output: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached_input: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_write: Option<f64>,
}

/// Replaces the prices of the vendors in the table by the prices of a file, and returns a summary.
///
/// An entry stays if it has a note, if the file lacks its model, or if [`sources`] lacks its provider.
///
/// # Errors
///
/// Fails if a file cannot be read or written, the date is not `YYYY-MM-DD`, or the file has no price of a vendor.
pub(crate) fn update(root: &Path, file: &Path, date: &str) -> Result<String> {
    let is_date = date.len() == 10
        && date.split('-').map(str::len).eq([4, 2, 2])
        && date.bytes().all(|it| it == b'-' || it.is_ascii_digit());
    if !is_date {
        bail!("`{date}` is not a date such as 2026-01-31");
    }
    let path = root.join(TABLE);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut table: Table =
        serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let models: Map<String, Value> =
        serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    let mut words = Vec::new();
    for (vendor, provider, prefix) in sources() {
        let mut entries = entries(&models, vendor, &prefix);
        if entries.is_empty() {
            bail!("{} has no price of `{vendor}`", file.display());
        }
        words.push(format!("{provider} {}", entries.len()));
        let old = table.providers.remove(provider).unwrap_or_default();
        let of_vendor = models.iter().filter(|(_, it)| it["litellm_provider"] == vendor);
        let found: HashSet<&str> =
            of_vendor.map(|(name, _)| name.strip_prefix(&*prefix).unwrap_or(name)).collect();
        let kept: Vec<Entry> = old
            .into_iter()
            .filter(|it| it.note.is_some() || !found.contains(it.model.as_str()))
            .collect();
        entries.retain(|it| !kept.iter().any(|kept| kept.model == it.model));
        entries.extend(kept);
        entries.sort_by(|a, b| a.model.cmp(&b.model));
        table.providers.insert(provider.to_owned(), entries);
    }
    date.clone_into(&mut table.date);
    fs::write(&path, shown(&table)?).with_context(|| path.display().to_string())?;
    Ok(format!("{TABLE}: {}", words.join(", ")))
}

/// Returns the prices of a vendor, each model once.
///
/// A dated version of a model, such as `gpt-4o-2024-08-06`, is left out if it has the same price as the model.
fn entries(models: &Map<String, Value>, vendor: &str, prefix: &str) -> Vec<Entry> {
    let mut all: BTreeMap<&str, Entry> = BTreeMap::new();
    for (name, facts) in models.iter().filter(|(_, it)| it["litellm_provider"] == vendor) {
        let model = name.strip_prefix(prefix).unwrap_or(name);
        if let Some(entry) = entry(model, facts) {
            all.insert(model, entry);
        }
    }
    all.values().filter(|it| !is_repeated(it, &all)).cloned().collect()
}

/// Returns the price of a chat model, or of an embedding model for texts. Returns `None` for any other model, and for
/// the models that the comments below list. Also returns `None` if the price is missing, or depends on more than the
/// number of tokens.
fn entry(model: &str, facts: &Value) -> Option<Entry> {
    let embeds = facts["mode"] == "embedding";
    let is_chat = facts["mode"] == "chat" || facts["mode"] == "responses";
    // True if some tokens of an answer have another price, or if characters have a price.
    let depends = facts.as_object()?.iter().any(|(key, value)| {
        (embeds && key == "input_cost_per_character")
            || key.starts_with("output_cost_per_audio")
            || key.starts_with("output_cost_per_image")
            || (key == "output_cost_per_reasoning_token"
                && *value != facts["output_cost_per_token"])
    });
    // These models are left out:
    // - names with a colon, which are fine-tuned models; at Bedrock, the colon is part of a version;
    // - names with a slash, which belong to another vendor, except at Vertex AI;
    // - models that search, because they also charge for each search;
    // - aliases, which are names without a number: they denote another model each year, but their price would be used
    //   for dated names too.
    // For servers, names with colons, slashes or without a number are usual, so these models stay.
    let vendor = facts["litellm_provider"].as_str().unwrap_or_default();
    let is_server = SERVERS.iter().any(|(it, _)| *it == vendor);
    let has_colon = !embeds && model.contains(':') && !vendor.starts_with("bedrock");
    let has_slash = model.contains('/') && !vendor.starts_with("vertex_ai");
    // Mistral's embedding models have no number.
    let is_alias = !embeds && !has_number(model) && !model.ends_with("-latest");
    let is_other = (!is_server && (is_alias || has_colon || has_slash))
        || model.contains("-search")
        || model.contains("deep-research");
    if !(is_chat || embeds) || depends || is_other {
        return None;
    }
    let price = |key: &str| facts[key].as_f64().map(per_million).filter(|it| *it > 0.0);
    // A model with two limits would need two prices of long prompts.
    let mut limits = facts.as_object()?.keys().filter_map(|it| limit_of(it));
    let long_prompt = match (limits.next(), limits.next()) {
        (None, _) => None,
        (Some(limit), None) => {
            let price = |key: &str| price(&format!("{key}_above_{limit}k_tokens"));
            Some(LongPrompt {
                above: limit * 1000,
                input: price("input_cost_per_token")?,
                output: price("output_cost_per_token")?,
                cached_input: price("cache_read_input_token_cost"),
                cache_write: price("cache_creation_input_token_cost"),
            })
        }
        _ => return None,
    };
    Some(Entry {
        model: model.to_owned(),
        input: price("input_cost_per_token")?,
        output: if embeds { 0.0 } else { price("output_cost_per_token")? },
        cached_input: price("cache_read_input_token_cost"),
        cache_write: price("cache_creation_input_token_cost"),
        long_prompt,
        max_input: facts["max_input_tokens"].as_u64().filter(|it| *it > 0),
        note: None,
    })
}

fn has_number(model: &str) -> bool {
    model.contains(|it: char| it.is_ascii_digit())
}

/// Returns the limit in the key of an input price for long prompts, in thousands of tokens:
/// `input_cost_per_token_above_200k_tokens` has the limit 200. Returns `None` for any other key.
fn limit_of(key: &str) -> Option<u64> {
    key.strip_prefix("input_cost_per_token_above_")?.strip_suffix("k_tokens")?.parse().ok()
}

/// Returns the price of a million tokens. Prices of one token are inexact, so the result is rounded to a millionth of
/// a dollar.
fn per_million(price: f64) -> f64 {
    (price * 1e12).round() / 1e6
}

/// Returns true if the same model has another entry with the same price and a shorter name. The shorter name lacks the
/// date of the version, or the region of Bedrock.
///
/// A shorter name without a number does not count for a dated version, except for embedding models.
fn is_repeated(entry: &Entry, all: &BTreeMap<&str, Entry>) -> bool {
    let is_same = |name: &str| {
        let same = all.get(name).map(|it| Entry { model: entry.model.clone(), ..it.clone() });
        same.as_ref() == Some(entry)
    };
    let own = entry.model.split_once('.');
    if own.is_some_and(|(region, name)| REGIONS.contains(&region) && is_same(name)) {
        return true;
    }
    let dates = entry.model.match_indices(['-', '@']).map(|(at, _)| entry.model.split_at(at));
    dates.into_iter().any(|(name, rest)| {
        let is_date = rest.len() >= 4
            && rest.bytes().all(|it| matches!(it, b'-' | b'@') || it.is_ascii_digit());
        let stands = has_number(name) || entry.output <= 0.0;
        is_date && stands && is_same(name)
    })
}

/// Returns the table as JSON, with an entry on each line.
fn shown(table: &Table) -> Result<String> {
    let mut text = format!(
        "{{\n  \"date\": {},\n  \"source\": {},\n  \"providers\": {{\n",
        serde_json::to_string(&table.date)?,
        serde_json::to_string(&table.source)?
    );
    let mut providers = Vec::new();
    for (provider, entries) in &table.providers {
        let lines: Vec<String> =
            entries.iter().map(line).collect::<Result<_>>().context("a price")?;
        providers.push(format!("    \"{provider}\": [\n      {}\n    ]", lines.join(",\n      ")));
    }
    text.push_str(&providers.join(",\n"));
    text.push_str("\n  }\n}\n");
    Ok(text)
}

/// Returns an entry as JSON on one line, with whole numbers without a fraction.
fn line(entry: &Entry) -> Result<String> {
    let Entry { model, input, output, cached_input, cache_write, long_prompt, max_input, note } =
        entry;
    let number = |key: &str, it: &Option<f64>| it.map(|it| format!("\"{key}\": {it}"));
    let text = |key: &str, it: &str| -> Result<String> {
        Ok(format!("\"{key}\": {}", serde_json::to_string(it)?))
    };
    let parts = [
        Some(text("model", model)?),
        number("input", &Some(*input)),
        number("output", &Some(*output)),
        number("cachedInput", cached_input),
        number("cacheWrite", cache_write),
        long_prompt.as_ref().map(long_prompt_line),
        max_input.map(|it| format!("\"maxInput\": {it}")),
        note.as_deref().map(|it| text("note", it)).transpose()?,
    ];
    Ok(format!("{{ {} }}", parts.into_iter().flatten().collect::<Vec<_>>().join(", ")))
}

/// Returns the price of long prompts as a property of an entry.
fn long_prompt_line(price: &LongPrompt) -> String {
    let LongPrompt { above, input, output, cached_input, cache_write } = price;
    let cached = cached_input.map(|it| format!(", \"cachedInput\": {it}")).unwrap_or_default();
    let written = cache_write.map(|it| format!(", \"cacheWrite\": {it}")).unwrap_or_default();
    format!(
        "\"longPrompt\": {{ \"above\": {above}, \"input\": {input}, \"output\": {output}{cached}{written} }}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prices_of_texts_are_read_once() {
        let text = |input: f64| json!({"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": input, "output_cost_per_token": 1e-5});
        let mut long = text(2.5e-6);
        long["input_cost_per_token_above_272k_tokens"] = json!(5e-6);
        long["output_cost_per_token_above_272k_tokens"] = json!(2e-5);
        let mut twice = long.clone();
        twice["input_cost_per_token_above_512k_tokens"] = json!(6e-6);
        let mut picture = text(1e-6);
        picture["mode"] = json!("image_generation");
        let models = json!({
            "gpt-4o": text(2.5e-6), "gpt-4o-2024-08-06": text(2.5e-6), "gpt-4o-2024-05-13": text(5e-6),
            "ft:gpt-4o": text(3e-6), "gpt-5-long": long, "gpt-5-twice": twice, "gpt-image-1": picture, "gpt": text(1e-6),
            "claude": {"litellm_provider": "anthropic", "mode": "chat"},
            "embed-1": {"litellm_provider": "openai", "mode": "embedding", "input_cost_per_token": 2e-8},
            "embed-2": {"litellm_provider": "openai", "mode": "embedding", "input_cost_per_token": 2e-8, "input_cost_per_character": 1e-8},
        });
        let found = entries(models.as_object().unwrap(), "openai", "");
        let names: Vec<(&str, f64)> =
            found.iter().map(|it| (it.model.as_str(), it.input)).collect();
        assert_eq!(
            names,
            [("embed-1", 0.02), ("gpt-4o", 2.5), ("gpt-4o-2024-05-13", 5.0), ("gpt-5-long", 2.5)]
        );
        let long = found[3].long_prompt.as_ref().map(|it| (it.above, it.input, it.output));
        assert_eq!(long, Some((272_000, 5.0, 20.0)));
    }

    #[test]
    fn regions_with_the_same_price_are_left_out() {
        let price = |input: f64| json!({"litellm_provider": "bedrock_converse", "mode": "chat", "input_cost_per_token": input, "output_cost_per_token": 1e-5});
        let models = json!({
            "anthropic.claude-1-v1:0": price(3e-6), "us.anthropic.claude-1-v1:0": price(3e-6),
            "eu.anthropic.claude-1-v1:0": price(3.3e-6), "bedrock/us-east-1/x-1": price(1e-6),
        });
        let found = entries(models.as_object().unwrap(), "bedrock_converse", "");
        let names: Vec<&str> = found.iter().map(|it| it.model.as_str()).collect();
        assert_eq!(names, ["anthropic.claude-1-v1:0", "eu.anthropic.claude-1-v1:0"]);
    }

    #[test]
    fn servers_name_models_with_slashes_and_without_numbers() {
        let price = |input: f64| json!({"litellm_provider": "groq", "mode": "chat", "input_cost_per_token": input, "output_cost_per_token": 1e-5});
        let models = json!({
            "groq/openai/gpt-oss-20b": price(1e-7), "groq/chat": price(1e-6), "groq/chat-0324": price(1e-6),
            "groq/x-1": price(1e-6), "groq/x-1-0324": price(1e-6), "groq/x:free": price(0.0),
        });
        let found = entries(models.as_object().unwrap(), "groq", "groq/");
        let names: Vec<&str> = found.iter().map(|it| it.model.as_str()).collect();
        assert_eq!(names, ["chat", "chat-0324", "openai/gpt-oss-20b", "x-1"]);
    }

    #[test]
    fn notes_and_other_providers_stay() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(TABLE);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let old = json!({"date": "2025-01-01", "source": "here", "providers": {
            "echo": [{"model": "*", "input": 0, "output": 0, "note": "free"}],
            "openai": [{"model": "old", "input": 1, "output": 2}, {"model": "long-1", "input": 1, "output": 2}, {"model": "a", "input": 9, "output": 9, "note": "kept"}],
        }});
        fs::write(&path, old.to_string()).unwrap();
        let vendors = sources().map(|(vendor, _, prefix)| {
            let mode = if vendor == "bedrock" { "embedding" } else { "chat" };
            let price = json!({"litellm_provider": vendor, "mode": mode, "max_input_tokens": 1000, "input_cost_per_token": 1.1e-6, "output_cost_per_token": 2e-6});
            (format!("{prefix}a"), vendor, price)
        });
        // The names of a file are unique, so each vendor has a model of its own.
        let models: Map<String, Value> = vendors
            .map(|(name, vendor, price)| (format!("{name}-1-{vendor}"), price))
            .chain([("long-1".to_owned(), json!({"litellm_provider": "openai", "mode": "chat", "input_cost_per_token_above_1k_tokens": 1})), ("a".to_owned(), json!({"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}))])
            .collect();
        let file = root.path().join("models.json");
        fs::write(&file, Value::Object(models).to_string()).unwrap();
        update(root.path(), &file, "2026-11-26").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let table: Table = serde_json::from_str(&text).unwrap();
        assert_eq!(table.date, "2026-11-26");
        assert_eq!(table.providers["echo"][0].note.as_deref(), Some("free"));
        let openai: Vec<(&str, f64)> =
            table.providers["openai"].iter().map(|it| (it.model.as_str(), it.input)).collect();
        assert_eq!(openai, [("a", 9.0), ("a-1-openai", 1.1), ("old", 1.0)]);
        assert!(
            text.contains(
                "\n      { \"model\": \"a-1-openai\", \"input\": 1.1, \"output\": 2, \"maxInput\": 1000 }"
            ),
            "{text}"
        );
        assert!(update(root.path(), &file, "26.11.2026").is_err());
    }
}
