//! `openai:moderation`: a grader of `moderation` checks.

use kindlm_source::{Key, Node, Span};
use serde_json::Value;

use super::Translator;
use super::build::{entries, text};
use super::settings::{Settings, or_else};

/// The model if the id names none.
const USUAL: &str = "omni-moderation-latest";

/// The script that reads the categories of an answer, in the form that `moderation` reads.
const READING: &str = "json => {
  if (!Array.isArray(json?.results)) return { error: 'the answer has no `results`' };
  const flags = {};
  for (const result of json.results.filter(it => it.flagged)) {
    for (const [code, isFlagged] of Object.entries(result.categories)) {
      const confidence = result.category_scores[code];
      if (isFlagged && !(flags[code]?.confidence >= confidence)) flags[code] = { code, description: code, confidence };
    }
  }
  return { output: JSON.stringify({ flags: Object.values(flags) }) };
}";

impl Translator<'_> {
    /// Translates a moderation model of OpenAI, which has a separate API.
    pub(super) fn openai_moderation(
        &mut self,
        span: Span,
        model: &str,
        config: &[(Key, Node)],
    ) -> (String, Settings) {
        let mut settings = Settings::default();
        let host = self.env_value("OPENAI_API_HOST").map(|it| format!("https://{it}/v1"));
        let base = ["OPENAI_API_BASE_URL", "OPENAI_BASE_URL"];
        let base = host.or_else(|| base.iter().find_map(|it| self.env_value(it)));
        let mut base = base.unwrap_or_else(|| "https://api.openai.com/v1".to_owned());
        for (key, value) in config {
            let said = value.text().map(|it| self.with_env(it)).unwrap_or_default();
            match &*key.name {
                "apiKeyEnvar" => settings.provider.push(("apiKeyEnv", value.clone())),
                "apiKey" => self.key_of(key, value, &mut settings),
                "apiBaseUrl" => base = said,
                "apiHost" => base = format!("https://{said}/v1"),
                name => {
                    let message = format!("`config.{name}` has no effect on `openai:moderation`");
                    let help = "promptfoo does not send it either; remove it";
                    self.warn(key.span, message, Some(help));
                }
            }
        }
        let model = if model.is_empty() { USUAL } else { model };
        let name = Value::from(model);
        let body = if model.starts_with("omni-") {
            format!(
                "{{\"model\": {name}, \"input\": [{{\"type\": \"text\", \"text\": {{{{ prompt | dump }}}}}}]}}"
            )
        } else {
            format!("{{\"model\": {name}, \"input\": {{{{ prompt | dump }}}}}}")
        };
        let headers = [("Content-Type".to_owned(), text(span, "application/json"))];
        or_else(&mut settings.provider, "apiKeyEnv", || text(span, "OPENAI_API_KEY"));
        settings.provider.extend([
            ("url", text(span, &format!("{}/moderations", base.trim_end_matches('/')))),
            ("headers", entries(span, headers)),
            ("body", text(span, &body)),
            ("template", text(span, "jinja")),
            ("transformResponse", text(span, READING)),
        ]);
        (model.to_owned(), settings)
    }
}

/// Returns the prompt for the grader of a `moderation` check; `None` for a model of another kind.
///
/// A moderation model gets the texts, and knows the categories itself.
pub(super) fn moderation_prompt(check: &Node) -> Option<&'static str> {
    let provider = check.get("provider")?;
    let id = provider.text().or_else(|| provider.get("id")?.text())?;
    if id.starts_with("replicate:moderation:") {
        // The prompt that promptfoo writes for Llama Guard.
        Some("Human: {{ input }}\n\nAssistant: {{ output }}")
    } else if id == "openai:moderation" || id.starts_with("openai:moderation:") {
        Some("{{ output }}")
    } else {
        None
    }
}
