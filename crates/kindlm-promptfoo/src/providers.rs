//! The entries of `providers`, and their translation.

use std::rc::Rc;

use kindlm_source::Node;
use serde_json::Value;

use super::Translator;
use super::agents::AgentProvider;
use super::build::{map, number, text, texts, unique};
use super::clouds::dialect_at_vertex;
use super::dynamic::is_list;
use super::files::{extension, path};
use super::model_providers::model_of;
use super::provider::{AZURE_EMBEDDING, Provider, parse_provider_id};
use super::provider_groups::{Entry, Group, ModelIds, Providers, call_form, usual_price};
use super::settings::Settings;

/// The providers that get a prompt as a text.
const TAKE_TEXT: [&str; 5] = ["echo", "http", "command", "script", "websocket"];

/// Returns the path of the file if an item names a file that lists providers.
///
/// Returns `None` for any other item, such as a script that is itself a provider.
fn list_file(item: &Node) -> Option<&str> {
    let file = item.text().and_then(path)?;
    matches!(extension(file).as_str(), "yaml" | "yml" | "json").then_some(file)
}

/// The keys of an entry of `providers` in promptfoo.
const PROVIDER_KEYS: [&str; 7] = ["id", "label", "config", "prompts", "transform", "delay", "env"];

impl Translator<'_> {
    pub(super) fn all_providers(&mut self, root: &Node) {
        let Some(node) = root.get("providers").or_else(|| root.get("targets")) else {
            self.error(root.span, "there is no provider", Some("add `providers: [openai:gpt-4o]`"));
            return;
        };
        let one = [node.clone()];
        let items = if is_list(node) { node.items() } else { &one[..] };
        for item in items {
            self.provider_of(item, None);
        }
    }

    /// Translates an item of `providers`.
    ///
    /// An item is an entry, or a file with one or more entries.
    fn provider_of(&mut self, item: &Node, extra: Option<&Value>) {
        if let Some(file) = list_file(item).map(str::to_owned) {
            for file in self.paths(item.span, &file) {
                let Some(document) = self.document_of(item.span, &file) else { continue };
                let one = [document.clone()];
                let items = if is_list(&document) { document.items() } else { &one[..] };
                for entry in items {
                    // A file that names itself would cause an endless loop.
                    if list_file(entry).is_some() {
                        let message = "a file of providers cannot name another file of providers";
                        let help = "name it in `providers` of the config";
                        self.error(entry.span, message, Some(help));
                    } else {
                        self.provider_of(entry, extra);
                    }
                }
            }
            return;
        }
        let Some(entry) = self.entry(item) else {
            let help = "name it, such as `openai:gpt-4o`, or give an object with `id` and `config`";
            self.error(item.span, "expected a provider", Some(help));
            return;
        };
        self.provider(entry, extra);
    }

    /// Returns the group of a provider that only some tests use.
    ///
    /// Adds the group if it is new. Returns `None` after an error, which is reported.
    pub(super) fn extra_group(&mut self, node: &Node) -> Option<Rc<Group>> {
        let json = node.to_json();
        let known = |providers: &Providers| {
            providers.extras.iter().find(|(it, _)| *it == json).map(|(_, it)| Rc::clone(it))
        };
        if let Some(group) = known(&self.providers) {
            return Some(group);
        }
        self.provider_of(node, Some(&json));
        known(&self.providers)
    }

    fn entry(&mut self, item: &Node) -> Option<Entry> {
        let plain = |id: &str| Entry {
            id: id.to_owned(),
            item: item.clone(),
            span: item.span,
            label: None,
            config: Vec::new(),
            delay: None,
            group: Group::default(),
        };
        if let Some(id) = item.text() {
            return Some(plain(id));
        }
        // An entry can have the id as its only key: `- openai:gpt-4o: { config: … }`.
        let (id, said) = match (item.get("id"), item.entries()) {
            (Some(id), _) => (id.text()?.to_owned(), item),
            (None, [(key, said)]) => (key.name.to_string(), said),
            (None, _) => return None,
        };
        let mut entry = plain(&id);
        for (key, value) in said.entries() {
            match &*key.name {
                "id" => {}
                "label" => entry.label = value.text().map(str::to_owned),
                "config" => entry.config = value.entries().to_vec(),
                "prompts" => {
                    entry.group.prompts = Some(texts(value));
                }
                "transform" => entry.group.transform = Some(value.clone()),
                "delay" => entry.delay = Some(value.clone()),
                "env" => self.check_env(value),
                "inputs" => self.unsupported(key.span, "`inputs` of a provider", None),
                _ => self.ignored_key(key, "a provider", &PROVIDER_KEYS),
            }
        }
        Some(entry)
    }

    fn provider(&mut self, entry: Entry, extra: Option<&Value>) {
        let span = entry.span;
        if let Provider::Agent { kind, model } = parse_provider_id(&entry.id) {
            let node = self.agent(span, (kind, model), &entry.config);
            if let Some(delay) = &entry.delay {
                self.unsupported(delay.span, "`delay` of an agent", Some("remove it"));
            }
            let label = entry.label.as_deref().unwrap_or(&entry.id);
            let id = unique(label, |it| self.providers.has_id(it));
            let takes_inputs = kind != AgentProvider::Claude;
            let how = Group { runs_agents: true, takes_inputs, ..entry.group };
            let ids = ModelIds {
                label: id,
                written: entry.id,
                reads_chats: false,
                keeps_context: false,
                item: entry.item,
            };
            return self.providers.add(ids, node, how, extra.cloned());
        }
        let Some((kind, name, model, mut settings)) = self.settings_of(&entry, extra.is_some())
        else {
            return;
        };
        if !self.fill_address(&mut settings) {
            return;
        }
        let dialect = if kind == "vertex" { dialect_at_vertex(&model) } else { kind };
        let at = if kind == "vertex" { kind } else { name.as_str() };
        let callbacks = self.callbacks((dialect, at), &entry.config);
        // A script answers the calls, or the provider puts them into its output.
        let has_answers = name == super::live::XAI
            || settings.provider.iter().any(|(it, _)| *it == "answerCalls");
        let providers = &mut self.providers;
        let key = providers.config(kind, &name, map(span, settings.provider));
        let taken = |it: &str| providers.has_id(it);
        let id = unique(entry.label.as_deref().unwrap_or(&entry.id), taken);
        let mut node = vec![
            ("id", text(span, &id)),
            ("provider", text(span, &key)),
            ("model", text(span, &model)),
        ];
        if !settings.params.is_empty() {
            node.push(("params", map(span, settings.params)));
        }
        let price = settings.price.or_else(|| usual_price(span, &name, &key, &model));
        if let Some(price) = price {
            node.push(("price", price));
        }
        if let Some(limits) = self.limits(entry.delay.as_ref()) {
            node.push(("limits", limits));
        }
        let transform = entry.group.transform.clone().or(settings.transform);
        let offers = settings.tools.is_some() || settings.calls;
        let call_form = call_form(kind, &model).filter(|_| offers && !has_answers);
        let how = Group {
            tools: settings.tools,
            calls: settings.calls,
            call_form,
            transform,
            callbacks,
            ..entry.group
        };
        let reads_chats = !TAKE_TEXT.contains(&kind);
        let keeps_context = super::live::keeps_context(&name, &entry.config);
        let ids =
            ModelIds { label: id, written: entry.id, reads_chats, keeps_context, item: entry.item };
        self.providers.add(ids, map(span, node), how, extra.cloned());
    }

    /// Translates a provider id and its configuration. Returns `None` after an error, which is reported.
    ///
    /// The result is the type and name of the provider, the name of the model, and the settings.
    fn settings_of(
        &mut self,
        entry: &Entry,
        is_extra: bool,
    ) -> Option<(&'static str, String, String, Settings)> {
        let span = entry.span;
        match parse_provider_id(&entry.id) {
            provider if !is_extra && provider.is_embedding() => {
                let what = format!("`{}` for embeddings in this place", entry.id);
                let help = "use it for embeddings: `provider` of a `similar` assertion, or `options: { provider: { \
                    embedding: … } }`";
                self.unsupported(span, &format!("the provider {what}"), Some(help));
                None
            }
            Provider::Known { kind, model } | Provider::Embedding { kind, model } => {
                self.known(entry, kind, model)
            }
            Provider::Compatible { server, model }
            | Provider::CompatibleEmbedding { server, model } => {
                let settings = self.compatible(entry, server, model)?;
                let model = model_of(entry, server, model);
                Some(("openai", server.name.to_owned(), model, settings))
            }
            Provider::Llama => {
                let settings = self.llama(span, &entry.config);
                Some(("http", "llama".to_owned(), "llama".to_owned(), settings))
            }
            Provider::SageMaker { kind, endpoint } => {
                let settings = self.sagemaker(span, (kind, endpoint), &entry.config)?;
                Some(("http", "sagemaker".to_owned(), endpoint.to_owned(), settings))
            }
            Provider::SageMakerEmbedding(endpoint) => {
                let settings = self.sagemaker_embedding(span, endpoint, &entry.config)?;
                Some(("http", "sagemaker".to_owned(), endpoint.to_owned(), settings))
            }
            Provider::HuggingFace { task, model } => self.hugging_face_task(entry, task, model),
            Provider::Azure { kind, deployment } => {
                let settings = self.azure(entry, kind, deployment)?;
                let kind = if kind == AZURE_EMBEDDING { "openai" } else { kind };
                Some((kind, "azure".to_owned(), deployment.to_owned(), settings))
            }
            Provider::Http(url) => {
                let settings = self.http(span, url, &entry.config)?;
                Some(("http", "http".to_owned(), "http".to_owned(), settings))
            }
            Provider::Exec(command) => {
                let settings = self.exec(entry, command);
                Some(("command", "exec".to_owned(), command.to_owned(), settings))
            }
            Provider::Script { runtime, path, function } => {
                let settings = self.script(entry, runtime, path, function)?;
                Some(("script", "script".to_owned(), path.to_owned(), settings))
            }
            Provider::Go(path) => {
                self.content(span, path)?;
                let help = "give it a `main` that takes the prompt as its argument and prints the answer, and name it: \
                    `exec: go run ./provider`";
                self.unsupported(span, "a provider in a Go file", Some(help));
                None
            }
            Provider::Vendor(vendor) => {
                let (kind, name, model, mut settings) = self.vendor(span, vendor, &entry.config)?;
                if matches!(kind, "openai" | "openai-responses" | "anthropic") {
                    self.usual_params((kind, &name), &model, entry, &mut settings);
                }
                Some((kind, name, model, settings))
            }
            Provider::Imagen(model) => {
                let settings = self.imagen(span, model, &entry.config);
                Some(("http", "imagen".to_owned(), model.to_owned(), settings))
            }
            // Agents have no settings of a model.
            Provider::Agent { .. } => None,
            Provider::Unknown(what) => {
                let usual = "supported are openai, anthropic, google, vertex, bedrock, mistral, cohere, ollama, azure, \
                    replicate, huggingface, llama, servers with OpenAI's API (openrouter, groq, deepseek, togetherai, \
                    fireworks, xai, databricks, cloudflare-ai and others), echo, http(s), exec and file://";
                let advice = super::provider::advice(&entry.id);
                let advice = advice.or_else(|| super::vendors::advice(&entry.id));
                self.unsupported(span, &what, Some(advice.unwrap_or(usual)));
                None
            }
        }
    }

    /// Translates a pause after each request into limits.
    ///
    /// Returns `None` without a pause. The limits are one request at a time, and a number of requests per minute.
    fn limits(&mut self, own: Option<&Node>) -> Option<Node> {
        let delay = own.or(self.delay.as_ref())?.clone();
        let milliseconds = delay.to_json().as_f64().filter(|it| *it >= 0.0);
        let Some(milliseconds) = milliseconds else {
            self.error(delay.span, "expected a pause in milliseconds", None);
            return None;
        };
        if milliseconds == 0.0 {
            return None;
        }
        let rpm = (60_000.0 / milliseconds).floor().clamp(1.0, 1e9);
        let entries = [("rpm", number(delay.span, rpm)), ("concurrency", number(delay.span, 1.0))];
        Some(map(delay.span, entries))
    }
}
