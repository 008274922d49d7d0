//! Providers that are models of a vendor, with the parameters of their requests.

use kindlm_source::{Key, Kind, Node, Span};
use serde_json::Value;

use super::Translator;
use super::build::{number, text};
use super::clouds::dialect_at_vertex;
use super::gateways::{self, Server};
use super::provider_groups::Entry;
use super::settings::{Settings, or_else};

/// True if the config of a Google model sets `vertexai: true`.
fn asks_vertex(entry: &Entry) -> bool {
    entry
        .config
        .iter()
        .any(|(key, it)| &*key.name == "vertexai" && it.to_json() == Value::Bool(true))
}

/// True if the config selects the chat API of Hugging Face for a model.
fn asks_chat(entry: &Entry) -> bool {
    let set = |name: &str| entry.config.iter().find(|(it, _)| &*it.name == name);
    match (set("chatCompletion"), set("apiEndpoint")) {
        (Some((_, it)), _) => it.to_json() == Value::Bool(true),
        (None, Some((_, it))) => it.text().is_some_and(|it| it.contains("/v1/chat")),
        (None, None) => false,
    }
}

/// Returns the name of a model in requests to its server.
pub(super) fn model_of(entry: &Entry, server: Server, model: &str) -> String {
    let set = |name: &str| {
        let found = entry.config.iter().find(|(it, _)| &*it.name == name);
        found.and_then(|(_, it)| it.text())
    };
    match server.name {
        "huggingface" | "hf" if !model.contains(':') => match set("inferenceProvider") {
            Some(provider) => format!("{model}:{provider}"),
            None => model.to_owned(),
        },
        "f5" => model.trim_start_matches('/').to_owned(),
        "helicone" => set("model").unwrap_or(model).to_owned(),
        "openclaw" => super::vendors::openclaw_model(model),
        _ => model.to_owned(),
    }
}

impl Translator<'_> {
    /// Translates a task of Hugging Face, which may be a chat. Returns `None` after an error, which is reported.
    pub(super) fn hugging_face_task(
        &mut self,
        entry: &Entry,
        task: &'static str,
        model: &str,
    ) -> Option<(&'static str, String, String, Settings)> {
        if let Some(server) = gateways::find("huggingface").filter(|_| asks_chat(entry)) {
            let settings = self.compatible(entry, server, model)?;
            return Some(("openai", server.name.to_owned(), model.to_owned(), settings));
        }
        let settings = self.hugging_face(entry.span, (task, model), &entry.config);
        Some(("http", "huggingface".to_owned(), model.to_owned(), settings))
    }

    /// Translates a model of a provider that has the same name in KindLM. Returns `None` after an error, which is
    /// reported.
    pub(super) fn known(
        &mut self,
        entry: &Entry,
        kind: &'static str,
        model: &str,
    ) -> Option<(&'static str, String, String, Settings)> {
        let span = entry.span;
        if kind == "cohere" && super::vendors::is_cohere_v1(&entry.config) {
            let settings = self.cohere_v1(span, model, &entry.config);
            return Some(("http", "cohere-v1".to_owned(), model.to_owned(), settings));
        }
        let makes_images = kind == "gemini" && super::google::makes_images(model);
        let is_vertex = kind == "vertex"
            || kind == "gemini" && asks_vertex(entry)
            || makes_images && self.has_project(&entry.config);
        let mut config = if makes_images {
            self.gemini_images(span, (model, is_vertex), &entry.config)
        } else {
            entry.config.clone()
        };
        let kind = if is_vertex { "vertex" } else { kind };
        // For an id without `chat:`, promptfoo prefers the model of the config.
        let at = config.iter().position(|(key, _)| kind == "openai" && &*key.name == "model");
        let own = at.map(|at| config.remove(at).1);
        let is_plain = entry.id.split(':').count() == 2;
        let own = own.as_ref().and_then(Node::text).filter(|_| is_plain);
        let model = own.unwrap_or(model);
        // promptfoo adds the vendor of Llama to the name.
        let named = (is_vertex && model.starts_with("llama")).then(|| format!("meta/{model}"));
        let model = named.as_deref().unwrap_or(model);
        let mut settings = match kind {
            "bedrock" => self.bedrock(&config),
            "vertex" => self.vertex(span, model, &config)?,
            "replicate" => self.replicate(&config),
            // promptfoo's `echo` reads no settings.
            "echo" => self.settings(kind, &[]),
            _ => self.settings(kind, &config),
        };
        let key = kindlm_providers::find(kind).and_then(|it| it.meta.key_variable);
        let dialect = if is_vertex { dialect_at_vertex(model) } else { kind };
        self.usual_params((dialect, kind), model, entry, &mut settings);
        self.address_of_env(span, kind, &mut settings);
        if kind == "echo" {
            let yes = Node { span, used_at: None, kind: Kind::Bool(true) };
            settings.provider.push(("whole", yes));
        }
        if let Some(key) = key {
            or_else(&mut settings.provider, "apiKeyEnv", || text(span, key));
        }
        Some((kind, kind.to_owned(), model.to_owned(), settings))
    }

    /// Translates a server with an API compatible to OpenAI's. Returns `None` after an error, which is reported.
    pub(super) fn compatible(
        &mut self,
        entry: &Entry,
        server: Server,
        model: &str,
    ) -> Option<Settings> {
        let (config, own) = self.server_config(entry.span, (server, model), &entry.config)?;
        let config = if server.name == "xai" { self.xai_config(model, &config) } else { config };
        let mut settings = self.settings("openai", &config);
        self.usual_params(("openai", server.name), model, entry, &mut settings);
        settings.add_server(own);
        Some(settings)
    }

    /// Translates a deployment at Azure. Returns `None` after an error, which is reported.
    pub(super) fn azure(
        &mut self,
        entry: &Entry,
        kind: &str,
        deployment: &str,
    ) -> Option<Settings> {
        let span = entry.span;
        let mut settings = if kind == "openai-responses" {
            let is_other =
                |it: &Key| !matches!(&*it.name, "apiHost" | "apiVersion" | "deployment_id");
            let rest = entry.config.iter().filter(|(key, _)| is_other(key)).cloned();
            let mut settings = self.settings(kind, &rest.collect::<Vec<_>>());
            if let Some((_, host)) = entry.config.iter().find(|(key, _)| &*key.name == "apiHost") {
                let host = self.with_env(host.text().unwrap_or_default());
                let url = format!("https://{}/openai/v1", host.trim_end_matches('/'));
                settings.provider.push(("baseUrl", text(span, &url)));
            }
            settings
        } else {
            self.settings("azure", &entry.config)
        };
        let params = if kind == "openai-responses" { kind } else { "openai" };
        self.usual_params((params, "azure"), deployment, entry, &mut settings);
        or_else(&mut settings.provider, "apiKeyEnv", || text(span, "AZURE_API_KEY"));
        let is_set = |settings: &Settings| settings.provider.iter().any(|(it, _)| *it == "baseUrl");
        if !is_set(&settings) {
            let value = |name: &&str| self.env_value(name);
            let url = ["AZURE_API_BASE_URL", "AZURE_OPENAI_API_BASE_URL", "AZURE_OPENAI_BASE_URL"];
            let host = ["AZURE_API_HOST", "AZURE_OPENAI_API_HOST"].iter().find_map(value);
            let host = host.map(|it| format!("https://{}/openai/v1", it.trim_end_matches('/')));
            if let Some(url) = url.iter().find_map(value).or(host) {
                settings.provider.push(("baseUrl", text(span, &url)));
            }
        }
        if !is_set(&settings) {
            let help = "add `config: { apiHost: my-resource.openai.azure.com }`";
            self.error(span, "the address of this provider is missing", Some(help));
            return None;
        }
        Some(settings)
    }

    /// Replaces the environment variables in the address of a provider by their values.
    ///
    /// Reports the variables that are not set, and any other template. A secret variable is an error too, because the
    /// suite would show its value. Returns `false` after an error.
    pub(super) fn fill_address(&mut self, settings: &mut Settings) -> bool {
        let address = settings.provider.iter_mut().find(|(name, _)| *name == "baseUrl");
        let Some((_, address)) = address else { return true };
        let written = address.text().unwrap_or_default().to_owned();
        let mut filled = written.clone();
        let mut unset: Vec<String> = Vec::new();
        for name in kindlm_template::environment(&written) {
            for form in [format!("{{{{env.{name}}}}}"), format!("{{{{ env.{name} }}}}")] {
                if !filled.contains(&form) {
                    continue;
                }
                if kindlm_redact::is_secret_variable(name) {
                    let message = format!("the address would contain the secret `{name}`");
                    let help = "send it as a header or as the key";
                    self.error(address.span, message, Some(help));
                    return false;
                }
                match self.env_value(name) {
                    Some(value) => filled = filled.replace(&form, &value),
                    None => unset.push(format!("`{name}`")),
                }
            }
        }
        unset.dedup();
        let (message, help) = match unset.as_slice() {
            [] => (String::new(), ""),
            [name] => (
                format!("the environment variable {name} is not set"),
                "set it, or write the address itself",
            ),
            names => (
                format!("the environment variables {} are not set", names.join(" and ")),
                "set them, or write the address itself",
            ),
        };
        if !unset.is_empty() {
            self.error(address.span, message, Some(help));
            return false;
        }
        if filled.contains("{{") {
            let message = "only `{{env.NAME}}` may be in an address";
            let help = "write the address itself, or put the whole part into one variable";
            self.error(address.span, message, Some(help));
            return false;
        }
        if filled != written {
            *address = text(address.span, &filled);
        }
        true
    }

    /// Sets the address of a provider from the environment variables of promptfoo, if the config has no address.
    pub(super) fn address_of_env(&self, span: Span, kind: &str, settings: &mut Settings) {
        if settings.provider.iter().any(|(it, _)| *it == "baseUrl") {
            return;
        }
        let value = |name: &&str| self.env_value(name);
        let (hosts, addresses): (&[&str], &[&str]) = match kind {
            "openai" | "openai-responses" => {
                (&["OPENAI_API_HOST"], &["OPENAI_API_BASE_URL", "OPENAI_BASE_URL"])
            }
            "anthropic" => (&[], &["ANTHROPIC_BASE_URL"]),
            "mistral" => (&["MISTRAL_API_HOST"], &["MISTRAL_API_BASE_URL"]),
            "ollama" => (&[], &["OLLAMA_BASE_URL"]),
            _ => return,
        };
        let host = hosts.iter().find_map(value).map(|it| format!("https://{it}/v1"));
        if let Some(url) = host.or_else(|| addresses.iter().find_map(value)) {
            settings.provider.push(("baseUrl", text(span, &url)));
        }
    }

    /// Adds the parameters that promptfoo sends by default, and prevents other defaults of KindLM.
    ///
    /// `kind` is the provider in KindLM, and `name` is the provider in promptfoo.
    pub(super) fn usual_params(
        &mut self,
        (kind, name): (&str, &str),
        model: &str,
        entry: &Entry,
        settings: &mut Settings,
    ) {
        let span = entry.span;
        let set = |key: &str| entry.config.iter().find(|(it, _)| &*it.name == key);
        let omits = set("omitDefaults").is_some_and(|(_, it)| it.to_json() == Value::Bool(true));
        let yes = || super::build::node(span, Kind::Bool(true));
        let reasons = kindlm_types::reasons(model) || name == "xai" && super::xai::reasons(model);
        let maximums: &[&str] = match kind {
            "openai" if reasons && name == "azure" => &["max_completion_tokens", "max_tokens"],
            "openai" if reasons => &["max_completion_tokens"],
            "openai-responses" => &["max_output_tokens"],
            "gemini" => &["maxOutputTokens", "max_output_tokens"],
            _ if name == "vertex" => &["max_tokens", "maxOutputTokens"],
            "ollama" => &["num_predict"],
            _ => &["max_tokens"],
        };
        self.maximum(model, maximums, settings);
        match kind {
            "openai-responses" if name == "xai" => {
                or_else(&mut settings.params, "maxTokens", || number(span, 4096.0));
                or_else(&mut settings.params, "temperature", || number(span, 0.7));
            }
            "openai" | "openai-responses" if kindlm_types::reasons(model) => {
                settings.params.push(("omitDefaults", yes()));
            }
            "gemini" | "ollama" | "replicate" => settings.params.push(("omitDefaults", yes())),
            // promptfoo sends defaults to its other API for Bedrock, but not to the Converse API.
            "bedrock" if entry.id.starts_with("bedrock:converse:") => {
                settings.params.push(("omitDefaults", yes()));
            }
            "openai" if name == "vertex" => {
                or_else(&mut settings.params, "maxTokens", || number(span, 1024.0));
                settings.params.push(("omitDefaults", yes()));
            }
            "anthropic" if name == "vertex" && set("thinking").is_none() => {
                or_else(&mut settings.params, "maxTokens", || number(span, 512.0));
                settings.params.push(("omitDefaults", yes()));
            }
            "openai" if name == "minimax" => settings.params.push(("omitDefaults", yes())),
            "openai" if name == "novita" => {
                or_else(&mut settings.params, "temperature", || number(span, 1.0));
            }
            "openai" if name == "ai21" => {
                or_else(&mut settings.params, "temperature", || number(span, 0.1));
                or_else(&mut settings.params, "topP", || number(span, 1.0));
            }
            "openai" if name == "localai" => {
                or_else(&mut settings.params, "temperature", || number(span, 0.7));
                settings.params.push(("omitDefaults", yes()));
            }
            "openai" if reasons => {
                or_else(&mut settings.params, "temperature", || number(span, 0.0));
                settings.params.push(("omitDefaults", yes()));
            }
            "openai" | "openai-responses" if omits || name == "litellm" => {
                settings.params.push(("omitDefaults", yes()));
            }
            "mistral" => {
                or_else(&mut settings.params, "maxTokens", || number(span, 1024.0));
                or_else(&mut settings.params, "topP", || number(span, 1.0));
                settings.params.push(("omitDefaults", yes()));
            }
            "cohere" => {
                or_else(&mut settings.params, "temperature", || number(span, 0.3));
                settings.params.push(("omitDefaults", yes()));
            }
            "anthropic" if set("thinking").is_some() => self.thinking(entry, settings),
            "echo" => {}
            _ => or_else(&mut settings.params, "temperature", || number(span, 0.0)),
        }
    }

    /// Adds the parameters that promptfoo sends to Anthropic together with `thinking`.
    ///
    /// With `thinking`, the API rejects a temperature. It also rejects a token limit that is not above the budget for
    /// thinking.
    pub(super) fn thinking(&mut self, entry: &Entry, settings: &mut Settings) {
        let set = |key: &str| entry.config.iter().find(|(it, _)| &*it.name == key);
        let Some((_, thinking)) = set("thinking") else { return };
        let budget = thinking.get("budget_tokens").and_then(|it| it.to_json().as_f64());
        let maximum = settings.params.iter().find(|(it, _)| *it == "maxTokens");
        let maximum = maximum.and_then(|(_, it)| it.to_json().as_f64());
        if let Some(budget) = budget.filter(|it| maximum.unwrap_or(2048.0) <= *it) {
            settings.params.retain(|(it, _)| *it != "maxTokens");
            settings.params.push(("maxTokens", number(entry.span, budget + 1024.0)));
        }
        or_else(&mut settings.params, "maxTokens", || number(entry.span, 2048.0));
        if thinking.get("type").and_then(Node::text) != Some("disabled")
            && let Some((key, _)) = set("temperature")
        {
            settings.params.retain(|(it, _)| *it != "temperature");
            let message = "`config.temperature` has no effect beside `thinking`".to_owned();
            self.warn(key.span, message, Some("promptfoo does not send it either; remove it"));
        }
        let yes = super::build::node(entry.span, Kind::Bool(true));
        settings.params.push(("omitDefaults", yes));
    }
}
