//! Translation of `providers` into models and their providers.

use std::rc::Rc;

use kindlm_source::{Key, Kind, Node, Span};
use kindlm_types::script::ScriptRuntime;
use serde_json::Value;

use super::Translator;
use super::agents::AgentProvider;
use super::build::{key, map, number, text, texts, unique};
use super::clouds::dialect_at_vertex;
use super::dynamic::is_list;
use super::files::{extension, path};
use super::gateways::{self, Server};
use super::provider::{AZURE_EMBEDDING, Provider, Runtime, read};
use super::settings::{Settings, or_else};

/// The models and providers of a config.
#[derive(Default)]
pub(super) struct Providers {
    configs: Vec<(String, Node)>,
    models: Vec<Node>,
    agents: Vec<(String, Node)>,
    groups: Vec<Rc<Group>>,
    /// Models for tests that define their own provider, by the JSON of that provider.
    extras: Vec<(Value, Rc<Group>)>,
}

/// The names of a model, and the form of its prompts.
#[derive(Clone)]
struct ModelIds {
    /// The id in the suite. It is the label in promptfoo.
    label: String,
    /// The id in the promptfoo config.
    written: String,
    /// True if the API of the model takes messages. Other models get the rendered text of a prompt.
    reads_chats: bool,
    /// The entry in the promptfoo config.
    item: Node,
}

/// The providers that get a prompt as a text.
const TAKE_TEXT: [&str; 5] = ["echo", "http", "command", "script", "websocket"];

/// Models that get the same prompts and tools, with the same transform.
#[derive(Clone, Default)]
pub(super) struct Group {
    /// References to the models.
    pub(super) models: Vec<Node>,
    ids: Vec<ModelIds>,
    /// The names of the prompts for these models. `None` if they get all prompts.
    pub(super) prompts: Option<Vec<String>>,
    pub(super) tools: Option<Node>,
    /// True if the models may call functions that are not tools of the test.
    pub(super) calls: bool,
    /// The form of tool calls in outputs. `None` if the models get no tools or functions.
    pub(super) call_form: Option<&'static str>,
    pub(super) transform: Option<Node>,
    /// The transform that answers tool calls. It runs before the others.
    pub(super) callbacks: Option<Node>,
    /// True if the models are agents.
    pub(super) runs_agents: bool,
    /// True if promptfoo gives the agents a prompt that is a JSON list as separate inputs.
    pub(super) takes_inputs: bool,
}

impl Group {
    /// True if a name selects the model at an index.
    ///
    /// The name is the label, the id, or a prefix of one of them with `*`.
    pub(super) fn has(&self, place: usize, name: &str) -> bool {
        let beginning = name.strip_suffix('*');
        let is_it = |it: &str| it == name || beginning.is_some_and(|start| it.starts_with(start));
        self.ids.get(place).is_some_and(|it| is_it(&it.label) || is_it(&it.written))
    }

    /// True if the API of the model at an index takes messages.
    pub(super) fn reads_chats(&self, place: usize) -> bool {
        self.ids.get(place).is_some_and(|it| it.reads_chats)
    }

    /// Returns the entry of a model in the promptfoo config, with another label and with more settings.
    ///
    /// Returns `None` for an unknown index.
    pub(super) fn entry_with(&self, place: usize, label: &str, config: &Value) -> Option<Node> {
        let ids = self.ids.get(place)?;
        let span = ids.item.span;
        // An entry can have the id as its only key: `- openai:gpt-4o: { config: … }`.
        let said = match (ids.item.get("id"), ids.item.entries()) {
            (None, [(_, said)]) => said.clone(),
            _ => ids.item.clone(),
        };
        let own = said.get("config").map(Node::entries).unwrap_or_default();
        let merged = super::vars::merged(own, Node::at(span, config).entries());
        let entry = map(span, []);
        let kept = said
            .entries()
            .iter()
            .filter(|(key, _)| matches!(&*key.name, "transform" | "delay" | "prompts"));
        let entry =
            kept.fold(entry, |entry, (key, it)| super::build::with(&entry, &key.name, it.clone()));
        let entry = super::build::with(&entry, "id", text(span, &ids.written));
        let entry = super::build::with(&entry, "label", text(span, label));
        let config = Node { kind: Kind::Mapping(merged.into()), ..entry.clone() };
        Some(super::build::with(&entry, "config", config))
    }

    /// Returns the id of a model in the promptfoo config, by its index. The id is empty for an unknown index.
    pub(super) fn written(&self, place: usize) -> &str {
        self.ids.get(place).map_or("", |it| &it.written)
    }
}

impl Providers {
    pub(super) fn configs(&self) -> impl Iterator<Item = (String, Node)> + '_ {
        self.configs.iter().cloned()
    }

    pub(super) fn models(&self) -> impl Iterator<Item = Node> + '_ {
        self.models.iter().cloned()
    }

    pub(super) fn agents(&self) -> impl Iterator<Item = (String, Node)> + '_ {
        self.agents.iter().cloned()
    }

    pub(super) fn has_agents(&self) -> bool {
        !self.agents.is_empty()
    }

    /// True if a model or an agent has this id.
    fn has_id(&self, id: &str) -> bool {
        self.models.iter().any(|it| it.get("id").and_then(Node::text) == Some(id))
            || self.agents.iter().any(|(it, _)| it == id)
    }

    pub(super) fn groups(&self) -> &[Rc<Group>] {
        &self.groups
    }

    /// Returns the suite's id of the model with this label or promptfoo id, or `None`.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let mut ids = self.groups.iter().flat_map(|it| &it.ids);
        ids.find(|it| it.label == name || it.written == name).map(|it| it.label.as_str())
    }

    /// Adds a provider and returns its key. Equal configurations share one key.
    fn config(&mut self, kind: &str, name: &str, node: Node) -> String {
        let json = node.to_json();
        let plain = |node: &Node| {
            let mut json = node.to_json();
            json.as_object_mut().and_then(|it| it.shift_remove("type"));
            json
        };
        let same = self.configs.iter().find(|(it, known)| {
            (it == name || it.starts_with(&format!("{name} ("))) && plain(known) == json
        });
        if let Some((known, _)) = same {
            return known.clone();
        }
        let chosen = unique(name, |it| self.configs.iter().any(|(known, _)| known == it));
        let node = if chosen == kind { node } else { typed(&node, kind) };
        self.configs.push((chosen.clone(), node));
        chosen
    }

    fn add(&mut self, ids: ModelIds, entry: Node, how: Group, extra: Option<Value>) {
        let span = entry.span;
        if how.runs_agents {
            self.agents.push((ids.label.clone(), entry));
        } else {
            self.models.push(entry);
        }
        let add_to = |group: &mut Group| {
            group.models.push(text(span, &ids.label));
            group.ids.push(ids);
        };
        if let Some(json) = extra {
            let mut group = how;
            add_to(&mut group);
            self.extras.push((json, Rc::new(group)));
            return;
        }
        let json = |node: &Option<Node>| node.as_ref().map(Node::to_json);
        let same = self.groups.iter_mut().find(|it| {
            it.prompts == how.prompts
                && (it.runs_agents, it.takes_inputs) == (how.runs_agents, how.takes_inputs)
                && it.calls == how.calls
                && it.call_form == how.call_form
                && json(&it.tools) == json(&how.tools)
                && json(&it.transform) == json(&how.transform)
                && json(&it.callbacks) == json(&how.callbacks)
        });
        if let Some(group) = same {
            add_to(Rc::make_mut(group));
        } else {
            let mut group = how;
            add_to(&mut group);
            self.groups.push(Rc::new(group));
        }
    }
}

/// Adds the `type` of the provider to its configuration.
fn typed(node: &Node, kind: &str) -> Node {
    let mut entries = vec![(key(node.span, "type"), text(node.span, kind))];
    entries.extend(node.entries().iter().cloned());
    Node { kind: Kind::Mapping(entries.into()), ..node.clone() }
}

/// Returns the price of a model if the suite cannot find it by the key of the provider.
///
/// This is the price under the vendor's usual name, or else promptfoo's price. Returns `None` if the suite finds a
/// price itself, or if no price is known.
fn usual_price(span: Span, name: &str, key: &str, model: &str) -> Option<Node> {
    let known = kindlm_providers::pricing::price(name, model);
    let price = match known {
        Some(_) if name == key => return None,
        Some(price) => price,
        None => super::prices::price(name, model)?,
    };
    Some(Node::at(span, &serde_json::to_value(price).ok()?))
}

/// Returns the form in which promptfoo shows the tool calls of a provider to checks.
///
/// Returns `None` for providers without tool calls.
fn call_form(kind: &str, model: &str) -> Option<&'static str> {
    match kind {
        "vertex" => call_form(dialect_at_vertex(model), model),
        "openai" | "openai-realtime" | "mistral" => Some("openai"),
        "anthropic" | "bedrock" => Some("anthropic"),
        "gemini" => Some("gemini"),
        "ollama" => Some("ollama"),
        _ => None,
    }
}

/// Returns the path of the file if an item names a file that lists providers.
///
/// Returns `None` for any other item, such as a script that is itself a provider.
fn list_file(item: &Node) -> Option<&str> {
    let file = item.text().and_then(path)?;
    matches!(extension(file).as_str(), "yaml" | "yml" | "json").then_some(file)
}

/// True if a model of Google is at Vertex AI.
fn asks_vertex(entry: &Entry) -> bool {
    entry
        .config
        .iter()
        .any(|(key, it)| &*key.name == "vertexai" && it.to_json() == Value::Bool(true))
}

/// True if text generation at Hugging Face is a chat.
fn asks_chat(entry: &Entry) -> bool {
    let set = |name: &str| entry.config.iter().find(|(it, _)| &*it.name == name);
    match (set("chatCompletion"), set("apiEndpoint")) {
        (Some((_, it)), _) => it.to_json() == Value::Bool(true),
        (None, Some((_, it))) => it.text().is_some_and(|it| it.contains("/v1/chat")),
        (None, None) => false,
    }
}

/// Returns the name of a model in requests to its server.
fn model_of(entry: &Entry, server: Server, model: &str) -> String {
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
/// The keys of an entry of `providers` in promptfoo.
const PROVIDER_KEYS: [&str; 7] = ["id", "label", "config", "prompts", "transform", "delay", "env"];

/// An entry of `providers` in the config.
struct Entry {
    id: String,
    /// The entry as written.
    item: Node,
    span: Span,
    label: Option<String>,
    config: Vec<(Key, Node)>,
    /// The pause after each request, in milliseconds.
    delay: Option<Node>,
    group: Group,
}

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
        if let Provider::Agent { kind, model } = read(&entry.id) {
            let node = self.agent(span, (kind, model), &entry.config);
            if let Some(delay) = &entry.delay {
                self.unsupported(delay.span, "`delay` of an agent", Some("remove it"));
            }
            let label = entry.label.as_deref().unwrap_or(&entry.id);
            let id = unique(label, |it| self.providers.has_id(it));
            let takes_inputs = kind != AgentProvider::Claude;
            let how = Group { runs_agents: true, takes_inputs, ..entry.group };
            let ids =
                ModelIds { label: id, written: entry.id, reads_chats: false, item: entry.item };
            return self.providers.add(ids, node, how, extra.cloned());
        }
        let Some((kind, name, model, settings)) = self.settings_of(&entry, extra.is_some()) else {
            return;
        };
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
        let ids = ModelIds { label: id, written: entry.id, reads_chats, item: entry.item };
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
        match read(&entry.id) {
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
                if kind == "openai-responses" {
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

    /// Translates a task of Hugging Face, which may be a chat.
    fn hugging_face_task(
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

    /// Translates a command line. Its settings are an error.
    fn exec(&mut self, entry: &Entry, command: &str) -> Settings {
        let span = entry.span;
        if let Some((key, _)) = entry.config.first() {
            let help = "give the program its settings in its command line or in the environment";
            self.unsupported(key.span, "`config` of an `exec` provider", Some(help));
        }
        let provider = vec![("command", text(span, command)), ("input", text(span, "argument"))];
        Settings { provider, ..Settings::default() }
    }

    /// Translates a model of a provider that has the same name in KindLM. Returns `None` after an error, which is
    /// reported.
    fn known(
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
        // promptfoo prefers the model of the config to that of an id without `chat:`.
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
    fn compatible(&mut self, entry: &Entry, server: Server, model: &str) -> Option<Settings> {
        let (config, own) = self.server_config(entry.span, (server, model), &entry.config)?;
        let config = if server.name == "xai" { self.xai_config(model, &config) } else { config };
        let mut settings = self.settings("openai", &config);
        self.usual_params(("openai", server.name), model, entry, &mut settings);
        settings.add_server(own);
        Some(settings)
    }

    /// Translates a deployment at Azure. Returns `None` after an error, which is reported.
    fn azure(&mut self, entry: &Entry, kind: &str, deployment: &str) -> Option<Settings> {
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

    /// Translates a provider that is a script. Returns `None` if the file cannot be read, which is reported.
    fn script(
        &mut self,
        entry: &Entry,
        runtime: Runtime,
        path: &str,
        function: Option<&str>,
    ) -> Option<Settings> {
        let span = entry.span;
        let program = self.content(span, path)?;
        self.check_packages(span, path, runtime, &program);
        let function = function.or((runtime != Runtime::JavaScript).then_some("call_api"));
        let mut provider = vec![("file", text(span, path.trim_start_matches("./")))];
        if let Some(function) = function {
            provider.push(("function", text(span, function)));
        }
        if !entry.config.is_empty() {
            let config = entry.config.clone();
            let config = Node { span, used_at: None, kind: Kind::Mapping(config.into()) };
            provider.push(("config", config));
        }
        Some(Settings { provider, ..Settings::default() })
    }

    /// Warns of npm packages that a provider imports, if its runtime is the sandbox.
    fn check_packages(&mut self, span: Span, path: &str, runtime: Runtime, program: &str) {
        let is_sandbox = self.scripts.runtime == ScriptRuntime::QuickJs;
        if runtime != Runtime::JavaScript || !is_sandbox {
            return;
        }
        let names: Vec<String> =
            super::packages::packages(program).iter().map(|it| format!("`{it}`")).collect();
        if names.is_empty() {
            return;
        }
        let (packages, them) =
            if names.len() == 1 { ("package", "it") } else { ("packages", "them") };
        let message = format!(
            "`{path}` imports the npm {packages} {}: the sandbox does not load {them}",
            names.join(", ")
        );
        let help = "`scripts: { runtime: node }` lets Node.js run programs, with packages and without a sandbox";
        self.warn(span, message, Some(help));
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

    /// Adds the parameters that promptfoo sends without a setting, and prevents other default parameters.
    ///
    /// `kind` is the provider in KindLM, and `name` is the provider in promptfoo.
    fn usual_params(
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
            "openai" | "openai-responses" if kindlm_types::reasons(model) => {
                settings.params.push(("omitDefaults", yes()));
            }
            "gemini" | "ollama" | "replicate" => settings.params.push(("omitDefaults", yes())),
            // promptfoo sends only what is set to the Converse API, and defaults to the other one.
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
    /// The API rejects a temperature together with `thinking`, and a maximum of tokens that is not above the budget for
    /// thinking.
    fn thinking(&mut self, entry: &Entry, settings: &mut Settings) {
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
