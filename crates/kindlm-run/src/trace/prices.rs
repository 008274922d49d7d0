//! The cost of the model requests in a trace: [`TracePrices`].

use std::collections::HashMap;

use kindlm_engine::Model;
use kindlm_otlp::{Inference, Reading};
use kindlm_providers::pricing;
use kindlm_types::{Channel, Price};

use crate::Project;

/// The prices of models: those of a config, by the vendor's model name, and the known list prices.
#[derive(Clone, Debug, Default)]
pub struct TracePrices(HashMap<String, Price>);

impl TracePrices {
    /// Takes the prices of the models of a config. These prices replace the list prices.
    pub fn of_project(project: &Project) -> Self {
        Self::of_models(&project.suite.models)
    }

    pub(super) fn of_models(models: &[Model]) -> Self {
        let mut prices = HashMap::new();
        for model in models {
            if let Some(price) = model.price {
                prices.entry(model.name.clone()).or_insert(price);
            }
        }
        Self(prices)
    }

    /// Returns the cost of the used tokens in US dollars.
    ///
    /// Returns `None` if no model call was recorded, a price is unknown, or the usage was not completely recorded.
    pub(super) fn cost(&self, reading: &Reading) -> Option<f64> {
        if reading.inferences.is_empty()
            || !reading.execution.completeness.coverage.includes(Channel::Usage)
        {
            return None;
        }
        let cost = |it: &Inference| {
            let own = |name: &String| self.0.get(name).copied();
            let known = |name: &String| pricing::price(provider(it.vendor.as_deref()?)?, name);
            let price =
                it.models.iter().find_map(own).or_else(|| it.models.iter().find_map(known))?;
            price.cost_if_counted(&it.usage)
        };
        reading.inferences.iter().map(cost).sum()
    }
}

/// Returns the provider whose price list covers a vendor; `None` if no price list covers it.
///
/// `vendor` is a name of the OpenTelemetry conventions.
fn provider(vendor: &str) -> Option<&'static str> {
    match vendor.to_ascii_lowercase().as_str() {
        "openai" => Some("openai"),
        "anthropic" => Some("anthropic"),
        "gcp.gemini" | "gcp.gen_ai" | "gcp.vertex_ai" | "gemini" | "google" | "vertex_ai" => {
            Some("gemini")
        }
        "mistral_ai" | "mistralai" | "mistral" => Some("mistral"),
        "cohere" => Some("cohere"),
        "deepseek" => Some("deepseek"),
        "groq" => Some("groq"),
        "x_ai" | "xai" => Some("xai"),
        "ollama" => Some("ollama"),
        _ => None,
    }
}
