//! Servers that take a prompt as one text, each with a different API. They become `http` providers.

use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;
use super::build::{entries, map, node, number, text};
use super::settings::{Settings, or_else};

/// The settings of llama.cpp's server that promptfoo sends.
const LLAMA: [&str; 17] = [
    "n_predict",
    "temperature",
    "top_k",
    "top_p",
    "n_keep",
    "stop",
    "repeat_penalty",
    "repeat_last_n",
    "penalize_nl",
    "presence_penalty",
    "frequency_penalty",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "seed",
    "ignore_eos",
    "logit_bias",
];

/// The settings of text generation at Hugging Face that promptfoo sends.
const GENERATION: [&str; 11] = [
    "top_k",
    "top_p",
    "temperature",
    "repetition_penalty",
    "max_new_tokens",
    "max_time",
    "return_full_text",
    "num_return_sequences",
    "do_sample",
    "use_cache",
    "wait_for_model",
];

/// The script that converts the labels and scores of a classification to a JSON object, which is promptfoo's output.
const CLASSIFIED: &str = "JSON.stringify(Object.fromEntries((Array.isArray(json[0]) ? json[0] : \
    json).map(it => [it.label, it.score])))";

/// The script that converts the highest score of each kind of entity to a JSON object, which is promptfoo's output.
const ENTITIES: &str = "JSON.stringify(json.reduce((all, it) => (!all[it.entity_group] || all[it.entity_group] < \
    it.score ? { ...all, [it.entity_group]: it.score } : all), {}))";

impl Translator<'_> {
    /// Translates `llama`: the endpoint `/completion` of llama.cpp.
    pub(super) fn llama(&mut self, span: Span, config: &[(Key, Node)]) -> Settings {
        let host = self.env_value("LLAMA_BASE_URL");
        let host = host.as_deref().unwrap_or("http://localhost:8080").trim_end_matches('/');
        let mut body = vec![("prompt", text(span, "{{prompt}}"))];
        for (key, value) in config {
            match LLAMA.iter().find(|it| **it == &*key.name) {
                Some(name) => {
                    body.extend(self.without_templates(key, value).map(|it| (*name, it)));
                }
                None => self.ignored(key, "`llama`"),
            }
        }
        or_else(&mut body, "n_predict", || number(span, 512.0));
        plain(span, &format!("{host}/completion"), map(span, body), ("responsePath", "content"))
    }

    /// Translates a task of Hugging Face's inference API.
    pub(super) fn hugging_face(
        &mut self,
        span: Span,
        (task, model): (&str, &str),
        config: &[(Key, Node)],
    ) -> Settings {
        let mut url = format!("https://router.huggingface.co/hf-inference/models/{model}");
        let mut key_of = Settings::default();
        let mut parameters = Vec::new();
        let mut options = Vec::new();
        let mut is_own = false;
        // KindLM computes the similarity itself: the cosine of two vectors from the task `feature-extraction`.
        if task == "sentence-similarity" {
            url.push_str("/pipeline/feature-extraction");
        }
        let is_vector = matches!(task, "sentence-similarity" | "feature-extraction");
        for (key, value) in config {
            match &*key.name {
                "apiEndpoint" if task == "sentence-similarity" => {
                    let help = "an endpoint for `huggingface:feature-extraction:…` gives the vectors that KindLM compares";
                    let what = "`config.apiEndpoint` of `huggingface:sentence-similarity`";
                    self.unsupported(key.span, what, Some(help));
                }
                "apiEndpoint" => {
                    url = self.with_env(value.text().unwrap_or_default());
                    is_own = true;
                }
                "apiKey" => self.key_of(key, value, &mut key_of),
                "chatCompletion" => {}
                name if task == "text-generation" && GENERATION.contains(&name) => {
                    let value = self.without_templates(key, value);
                    parameters.extend(value.map(|it| (name.to_owned(), it)));
                }
                "aggregation_strategy" if task == "token-classification" => {
                    parameters.push(("aggregation_strategy".to_owned(), value.clone()));
                }
                name @ ("use_cache" | "wait_for_model")
                    if is_vector || task == "token-classification" =>
                {
                    options.push((name.to_owned(), value.clone()));
                }
                _ => self.ignored(key, &format!("`huggingface:{task}`")),
            }
        }
        if task == "token-classification" {
            let usual = |list: &mut Vec<(String, Node)>, name: &str, value: Node| {
                if !list.iter().any(|(it, _)| it == name) {
                    list.push((name.to_owned(), value));
                }
            };
            usual(&mut parameters, "aggregation_strategy", text(span, "simple"));
            usual(&mut options, "use_cache", node(span, Kind::Bool(true)));
            usual(&mut options, "wait_for_model", node(span, Kind::Bool(false)));
        }
        let is_generation = task == "text-generation";
        if is_generation && !parameters.iter().any(|(it, _)| it == "return_full_text") {
            parameters.insert(0, ("return_full_text".to_owned(), node(span, Kind::Bool(false))));
        }
        let mut body = vec![("inputs", text(span, "{{prompt}}"))];
        if !is_vector {
            body.push(("parameters", entries(span, parameters)));
        }
        if is_vector || task == "token-classification" {
            body.push(("options", entries(span, options)));
        }
        let body = map(span, body);
        let read = match (is_generation, is_own) {
            _ if is_vector => ("embeddingPath", ""),
            _ if task == "token-classification" => ("transformResponse", ENTITIES),
            (false, _) => ("transformResponse", CLASSIFIED),
            // A server of text-generation-inference answers with an object or with a list.
            (true, true) => ("transformResponse", "json.generated_text || json[0].generated_text"),
            (true, false) => ("responsePath", "0.generated_text"),
        };
        let mut settings = plain(span, &url, body, read);
        settings.provider.extend(key_of.provider);
        // The user's own server may accept requests without a key.
        if !is_own || self.env_value("HF_TOKEN").is_some() {
            or_else(&mut settings.provider, "apiKeyEnv", || text(span, "HF_TOKEN"));
        }
        settings
    }

    fn ignored(&mut self, key: &Key, of: &str) {
        let message = format!("`config.{}` has no effect on {of}", key.name);
        self.warn(key.span, message, Some("promptfoo ignores it too; remove it"));
    }
}

/// Returns the settings of an `http` provider with one request for each prompt.
fn plain(span: Span, url: &str, body: Node, (read, how): (&'static str, &str)) -> Settings {
    let provider = vec![
        ("url", text(span, url)),
        ("body", body),
        ("template", text(span, "jinja")),
        (read, text(span, how)),
    ];
    Settings { provider, ..Settings::default() }
}
