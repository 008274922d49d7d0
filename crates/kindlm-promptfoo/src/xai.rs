//! The settings of xAI's models, as promptfoo 0.123.1 sends them. One key differs: KindLM sends the token limit of
//! chats as `max_tokens`.

use kindlm_source::{Key, Node, Span};

use super::Translator;
use super::build::text;
use super::gateways;
use super::settings::Settings;

/// The settings that promptfoo reads for xAI's Responses API. [`settings`](super::settings) reports those that KindLM
/// does not support.
const RESPONSES: [&str; 25] = [
    "apiBaseUrl",
    "apiKey",
    "apiKeyEnvar",
    "cost",
    "functionToolCallbacks",
    "headers",
    "include",
    "instructions",
    "maxRetries",
    "max_output_tokens",
    "max_tool_calls",
    "parallel_tool_calls",
    "passthrough",
    "previous_response_id",
    "reasoning",
    "region",
    "response_format",
    "service_tier",
    "store",
    "stream",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
    "user",
];

/// True for reasoning models, to which promptfoo does not send `max_tokens`.
pub(super) fn reasons(model: &str) -> bool {
    let is_latest = matches!(model, "grok-latest" | "grok-build-latest" | "grok-build-0.1");
    let starts = ["grok-4", "grok-3-mini", "grok-code-fast"].iter().any(|it| model.starts_with(it));
    is_latest || (starts && !model.contains("non-reasoning"))
}

/// True for the models to which promptfoo sends no `stop` and no penalties.
fn is_of_fourth_generation(model: &str) -> bool {
    model.starts_with("grok-4") || matches!(model, "grok-latest" | "grok-build-latest")
}

/// True for the models to which promptfoo sends `reasoning_effort`.
fn takes_effort(model: &str) -> bool {
    const PREFIXES: [&str; 4] = ["grok-4.3", "grok-4.5", "grok-4.6", "grok-3-mini"];
    PREFIXES.iter().any(|it| model.starts_with(it))
        || matches!(model, "grok-latest" | "grok-build-latest")
}

impl Translator<'_> {
    /// Returns the settings that promptfoo sends to a model of xAI. Warns of settings that promptfoo leaves out.
    pub(super) fn xai_config(&mut self, model: &str, config: &[(Key, Node)]) -> Vec<(Key, Node)> {
        let mut kept = Vec::with_capacity(config.len());
        for (name, value) in config {
            let is_left_out = match &*name.name {
                // The region is a part of the address.
                "region" => continue,
                "stop" | "presence_penalty" | "frequency_penalty" => is_of_fourth_generation(model),
                "reasoning_effort" => !takes_effort(model),
                _ => false,
            };
            if is_left_out {
                self.warn_of_left_out(name, model);
            } else {
                kept.push((name.clone(), value.clone()));
            }
        }
        kept
    }

    /// Translates a model of xAI's Responses API. Returns `None` after an error, which is reported.
    pub(super) fn xai_responses(
        &mut self,
        span: Span,
        model: &str,
        config: &[(Key, Node)],
    ) -> Option<Settings> {
        let server = gateways::find("xai")?;
        let (sent, left_out): (Vec<_>, Vec<_>) =
            config.iter().cloned().partition(|(key, _)| RESPONSES.contains(&&*key.name));
        for (key, _) in &left_out {
            self.warn_of_left_out(key, model);
        }
        let (config, mut own) = self.server_config(span, (server, model), &sent)?;
        // The variable overrides the region, but not `apiBaseUrl`.
        let address = own.provider.iter_mut().find(|(name, _)| *name == "baseUrl");
        if let Some(((_, address), url)) = address.zip(self.env_value("XAI_API_BASE_URL")) {
            *address = text(span, &url);
        }
        let mut settings = self.settings("openai-responses", &config);
        settings.add_server(own);
        Some(settings)
    }

    /// Warns of a setting that promptfoo does not send to a model.
    pub(super) fn warn_of_left_out(&mut self, key: &Key, model: &str) {
        let message = format!("`config.{}` has no effect on `{model}`", key.name);
        self.warn(key.span, message, Some("promptfoo does not send it either; remove it"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_known_by_their_names() {
        for (model, expected) in [
            ("grok-4", (true, true, false)),
            ("grok-4-fast-non-reasoning", (false, true, false)),
            ("grok-4.3", (true, true, true)),
            ("grok-4.20-multi-agent", (true, true, false)),
            ("grok-3", (false, false, false)),
            ("grok-3-mini-fast", (true, false, true)),
            ("grok-code-fast-1", (true, false, false)),
            ("grok-latest", (true, true, true)),
            ("grok-2-1212", (false, false, false)),
        ] {
            let found = (reasons(model), is_of_fourth_generation(model), takes_effort(model));
            assert_eq!(found, expected, "{model}");
        }
    }
}
