//! Models, and the short form `provider:model`.

use kindlm_engine::Model;
use kindlm_providers::{Providers, pricing};
use kindlm_source::{Code, Key, Kind, Node, Piece, locate};
use kindlm_types::{Limits, MemberPart, Params, Price, Problem, nearest, suggest};
use serde_json::Value;

use super::Resolved;
use crate::load::{Spot, text};
use crate::schema::SHAPES;
use crate::written::{ModelEntry, ParamsBlock};

impl Resolved<'_> {
    pub(in crate::load) fn models(&mut self, piece: Piece<'_>) {
        let items = piece.root.get("models").map_or(&[][..], Node::items);
        let mut needs_providers = false;
        for (index, item) in items.iter().enumerate() {
            if self.sink.is_full {
                return;
            }
            let at = format!("/models/{index}");
            if let Some(text) = item.text() {
                self.short_model(piece, &at, text);
            } else {
                self.model(piece, &at, item);
                needs_providers |= item.get("provider").is_some();
            }
        }
        if needs_providers && self.around.inline.is_none() && piece.root.get("providers").is_none()
        {
            let diagnostic = piece
                .error(Code::MISSING_KEY, "", MemberPart::Value, "`providers` is required")
                .with_label("missing here")
                .with_path("/providers")
                .with_help(
                    "`providers`: the providers and the variables of their keys, such as `providers: { openai: { \
                     apiKeyEnv: OPENAI_API_KEY } }`",
                );
            self.sink.push(diagnostic);
        }
    }

    fn short_model(&mut self, piece: Piece<'_>, at: &str, id: &str) {
        if !self.is_new_model(piece, at, id) {
            return;
        }
        self.listed.push(id.to_owned());
        let params = self.defaults.params.clone();
        if self.add_implicit(id, params) || self.refuses_inline(piece, at, id) {
            return;
        }
        let known = self.around.known_providers;
        let message = match id.split_once(':').filter(|(provider, _)| !provider.is_empty()) {
            None => format!("`{id}` does not name its provider"),
            Some((provider, _)) if known.find(provider).is_none() => {
                format!("there is no provider `{provider}`")
            }
            Some((_, "")) => format!("`{id}` does not name its model"),
            Some((provider, _)) => format!("the provider `{provider}` is not configured"),
        };
        let help = match provider_help(known, id) {
            Some(help) => help,
            None => "write `provider:model`, such as `openai:gpt-4o`".to_owned(),
        };
        let diagnostic =
            piece.error(Code::UNKNOWN_REFERENCE, at, MemberPart::Value, message).with_help(help);
        self.sink.push(diagnostic);
    }

    /// Completes a model whose `model` has the form `provider:model`: sets the provider, and the id if it is missing.
    /// Adds this provider to the suite.
    ///
    /// A model without a valid `model` stays unchanged.
    fn with_provider(&mut self, item: &Node) -> Node {
        let text = item.get("model").and_then(|it| Some((it.span, it.text()?.to_owned())));
        let Some((span, text)) = text else { return item.clone() };
        let written = item.get("provider").map(|it| it.text().unwrap_or_default());
        let reference = match written {
            Some(provider) => format!("{provider}:{text}"),
            None => text,
        };
        let Some((provider, model)) =
            reference.split_once(':').filter(|(it, model)| !it.is_empty() && !model.is_empty())
        else {
            return item.clone();
        };
        if written.is_none() {
            self.add_provider(provider, &reference);
        }
        let entry = |key: &str, text: &str| {
            let value = Node { span, used_at: None, kind: Kind::Text(text.into()) };
            (Key::new(key, span), value)
        };
        let mut entries: Vec<(Key, Node)> = item.entries().to_vec();
        if item.get("id").is_none() {
            entries.push(entry("id", &reference));
        }
        if written.is_none() {
            entries.retain(|(key, _)| &*key.name != "model");
            entries.extend([entry("provider", provider), entry("model", model)]);
        }
        Node { kind: Kind::Mapping(entries.into()), ..item.clone() }
    }

    /// Adds the provider of a reference such as `openai:gpt-4o` with its usual configuration, unless the suite has the
    /// provider already. Returns false if the provider is unknown or needs a written configuration.
    fn add_provider(&mut self, provider: &str, reference: &str) -> bool {
        if self.suite.providers.contains_key(provider) {
            return true;
        }
        let config = kindlm_providers::shorthand(self.around.known_providers, reference)
            .and_then(|(it, _)| it.default_config());
        let Some(config) = config else { return false };
        self.suite.providers.insert(provider.to_owned(), config);
        true
    }

    fn model(&mut self, piece: Piece<'_>, at: &str, item: &Node) {
        if self.around.inline.is_some() {
            let message = "an inline suite cannot configure models";
            let diagnostic = piece.error(Code::INVALID_VALUE, at, MemberPart::Value, message);
            self.sink.push(diagnostic.with_help("write the id of a model of the server"));
            return;
        }
        let names_provider = item.get("provider").is_some();
        let item = &self.with_provider(item);
        let value = item.to_json();
        let mut problems = SHAPES.model.problems(&value);
        problems.extend(without_provider(&value));
        let is_broken = !problems.is_empty();
        self.sink.report(piece, at, problems);
        // If `providers` is missing, this is reported once for all models with `provider`.
        let is_checked = !names_provider || piece.root.get("providers").is_some();
        if let Some(provider) = text(&value, "provider").filter(|it| is_checked && !it.is_empty()) {
            self.check_provider(piece, &format!("{at}/provider"), provider);
        }
        let Some(id) = text(&value, "id") else { return };
        if [kindlm_engine::COMMAND, kindlm_engine::TRANSCRIPT].contains(&id) {
            let message = format!("`{id}` cannot be the id of a model");
            let diagnostic = piece
                .error(Code::INVALID_VALUE, &format!("{at}/id"), MemberPart::Value, message)
                .with_help(
                    "choose another one: reports and `--models` use it for tests of commands and transcripts",
                );
            self.sink.push(diagnostic);
        }
        if !self.is_new_model(piece, &format!("{at}/id"), id) {
            return;
        }
        self.listed.push(id.to_owned());
        if is_broken {
            return;
        }
        let entry: Option<ModelEntry> = self.sink.parse_value(piece, at, value.clone());
        if let Some(it) = entry {
            let provider = text(&value, "provider").unwrap_or_default();
            self.check_model_name(piece, at, provider, &it);
            let params = it.params.unwrap_or_else(|| self.defaults.params.clone());
            let provider = it.provider.unwrap_or_default();
            let model = configured(id, &provider, &it.model, params, it.price);
            let model = self.with_provider_settings(model);
            self.suite.models.push(Model { limits: it.limits, ..model });
        }
    }

    /// Sets the fields of a model that depend on the configuration of its provider.
    fn with_provider_settings(&self, model: Model) -> Model {
        let Some(config) = self.suite.providers.get(&model.provider) else { return model };
        let (known, provider) = (self.around.known_providers, &model.provider);
        Model {
            tells_vars: kindlm_providers::wants_vars(known, provider, config),
            offers: kindlm_providers::offered(known, provider, config).into(),
            declared: kindlm_providers::declared(known, provider, config),
            ..model
        }
    }

    /// Warns of a model name that is similar to a known name.
    ///
    /// Such a name is not an error, because the list of known models is incomplete.
    fn check_model_name(&mut self, piece: Piece<'_>, at: &str, provider: &str, entry: &ModelEntry) {
        let name = &entry.model;
        let config = self.suite.providers.get(provider);
        let is_elsewhere = config.is_some_and(|it| it.get("baseUrl").is_some());
        if is_elsewhere || entry.price.is_some() || pricing::price(provider, name).is_some() {
            return;
        }
        // Different digits suggest another model version. The same digits with different letters suggest a typo.
        let digits = |it: &str| it.chars().filter(char::is_ascii_digit).collect::<String>();
        let near = nearest(name, pricing::models(provider));
        let Some(near) = near.filter(|it| digits(it) == digits(name)) else { return };
        let message = format!("no model `{name}` of `{provider}` is known");
        let diagnostic = piece
            .error(Code::UNKNOWN_REFERENCE, &format!("{at}/model"), MemberPart::Value, message)
            .with_help(format!("did you mean `{near}`? If it is a new one, give it a `price`"));
        self.sink.push(diagnostic.into_warning());
    }

    /// Records a model id. Reports a duplicate id and returns `false`.
    fn is_new_model(&mut self, piece: Piece<'_>, at: &str, id: &str) -> bool {
        let span = locate(piece.source, piece.root, at, MemberPart::Value).span;
        if let Some(first) = self.models.get(id) {
            let diagnostic = piece
                .error(Code::DUPLICATE, at, MemberPart::Value, format!("duplicate model id `{id}`"))
                .with_label("given again")
                .with_related(&first.source, first.span, "given first")
                .with_help("give each model a unique `id`");
            self.sink.push(diagnostic);
            return false;
        }
        let spot = Spot { source: piece.source.clone(), span };
        self.models.insert(id.to_owned(), spot);
        true
    }

    fn check_provider(&mut self, piece: Piece<'_>, at: &str, provider: &str) {
        if self.suite.providers.contains_key(provider) {
            return;
        }
        // A listed provider of an unknown type is already reported at its key.
        if piece.root.get("providers").is_some_and(|it| it.get(provider).is_some()) {
            return;
        }
        let message = format!("the provider `{provider}` is not configured");
        let known = self.around.known_providers.find(provider).map(|it| it.meta.key_variable);
        let help = match known {
            Some(Some(key)) => {
                format!("add it: `providers: {{ {provider}: {{ apiKeyEnv: {key} }} }}`")
            }
            Some(None) => format!("add `{provider}` under `providers`"),
            None => {
                let configured: Vec<&str> =
                    self.suite.providers.keys().map(String::as_str).collect();
                match nearest(provider, self.around.known_providers.ids()) {
                    Some(near) if configured.is_empty() => format!("did you mean `{near}`?"),
                    _ => suggest(provider, "configured providers", configured),
                }
            }
        };
        let mut diagnostic =
            piece.error(Code::UNKNOWN_REFERENCE, at, MemberPart::Value, message).with_help(help);
        if piece.root.get("providers").is_some() {
            let place = locate(piece.source, piece.root, "/providers", MemberPart::Key).span;
            diagnostic = diagnostic.with_related(piece.source, place, "the configured providers");
        }
        self.sink.push(diagnostic);
    }

    /// Returns the models that an inline suite may use.
    pub(super) fn inline_models(&self) -> impl Iterator<Item = &Model> + Clone {
        let models = self.around.inline.map_or(&[][..], |it| &it.models);
        models
            .iter()
            .filter(|it| it.agent.is_none() && self.suite.providers.contains_key(&it.provider))
    }

    /// Reports a model that an inline suite cannot use. Returns `false`, without a report, if the suite is not inline.
    pub(in crate::load) fn refuses_inline(&mut self, piece: Piece<'_>, at: &str, id: &str) -> bool {
        let Some(config) = self.around.inline else { return false };
        let ids = self.inline_models().map(|it| it.id.as_str());
        let help = suggest(id, "models that an inline suite may use", ids);
        let message = if config.models.iter().any(|it| it.id == id) {
            format!("an inline suite cannot use the model `{id}`, because of its provider")
        } else {
            format!("the server has no model `{id}`")
        };
        let diagnostic =
            piece.error(Code::UNKNOWN_REFERENCE, at, MemberPart::Value, message).with_help(help);
        self.sink.push(diagnostic);
        true
    }

    /// Adds the model of a reference `provider:model`, with these parameters. For an inline suite, adds the server's
    /// model with this id, unchanged.
    ///
    /// Returns `false` for a text of another form, and if the model or its provider cannot be used.
    pub(in crate::load) fn add_implicit(&mut self, id: &str, params: ParamsBlock) -> bool {
        if self.around.inline.is_some() {
            let found = self.inline_models().find(|it| it.id == id).cloned();
            let is_found = found.is_some();
            self.suite.models.extend(found);
            return is_found;
        }
        let Some((provider, name)) = id.split_once(':').filter(|(_, name)| !name.is_empty()) else {
            return false;
        };
        if !self.add_provider(provider, id) {
            return false;
        }
        let model = configured(id, provider, name, params, None);
        let model = self.with_provider_settings(model);
        self.suite.models.push(model);
        true
    }
}

/// Returns help for an unusable `provider:model`; `None` for any other text.
///
/// The help depends on the cause: an unknown provider, a provider without a configuration, or a missing model name.
pub(in crate::load) fn provider_help(known: &Providers, id: &str) -> Option<String> {
    let (provider, name) = id.split_once(':').filter(|(it, _)| !it.is_empty())?;
    if known.find(provider).is_some() {
        return Some(match name {
            "" => format!("name the model: `{provider}:…`"),
            _ => format!("the provider `{provider}` must be configured under `providers` first"),
        });
    }
    if provider == "azure" {
        return Some(
            "configure it: `providers: { azure: { type: openai, apiKeyEnv: AZURE_API_KEY, baseUrl: \
             https://RESOURCE.openai.azure.com/openai/v1 } }`"
                .to_owned(),
        );
    }
    if let Some((_, own)) = PROMPTFOO_NAMES.iter().find(|(it, _)| *it == provider) {
        return Some(format!("promptfoo's `{provider}` is `{own}`: write `{own}:{name}`"));
    }
    Some(match nearest(provider, known.ids()) {
        Some(near) => format!("did you mean `{near}:{name}`?"),
        None => suggest(provider, "providers", known.ids()),
    })
}

/// Names of providers in promptfoo, with the names of these providers in KindLM.
const PROMPTFOO_NAMES: [(&str, &str); 5] = [
    ("alibaba", "dashscope"),
    ("alicloud", "dashscope"),
    ("aliyun", "dashscope"),
    ("hf", "huggingface"),
    ("togetherai", "together"),
];

/// Returns the parameters of requests, with their built-in defaults.
pub(super) fn sent(params: ParamsBlock) -> Params {
    Params {
        temperature: params.temperature(),
        max_tokens: params.max_tokens(),
        top_p: params.top_p,
        stop_sequences: params.stop_sequences,
        seed: params.seed,
    }
}

/// Makes a model, with its built-in price if the file has no `price`.
fn configured(
    id: &str,
    provider: &str,
    name: &str,
    params: ParamsBlock,
    price: Option<Price>,
) -> Model {
    Model {
        id: id.to_owned(),
        provider: provider.to_owned(),
        name: name.to_owned(),
        params: sent(params),
        price: price.or_else(|| kindlm_providers::pricing::price(provider, name)),
        limits: Limits::default(),
        tells_vars: false,
        offers: [].into(),
        declared: std::collections::BTreeSet::new(),
        agent: None,
    }
}

/// Returns the models that an `expect` block names as judges or for embeddings: their pointers in the block, and their
/// ids.
pub(in crate::load) fn judges(expect: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    named(expect, "/judging", &mut found);
    named(expect, "/baseline/drift", &mut found);
    listed(expect, "/judge", &mut found);
    listed(expect, "/assert", &mut found);
    found
}

/// Collects the models that the entries of a list name, including nested lists.
fn listed(value: &Value, list: &str, found: &mut Vec<(String, String)>) {
    let count = value.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
    for index in 0..count {
        let at = format!("{list}/{index}");
        named(value, &at, found);
        listed(value, &format!("{at}/assert"), found);
    }
}

/// Collects the models that the object at a pointer names.
fn named(value: &Value, at: &str, found: &mut Vec<(String, String)>) {
    for key in ["model", "embeddingModel"] {
        let at = format!("{at}/{key}");
        if let Some(id) = value.pointer(&at).and_then(Value::as_str) {
            found.push((at, id.to_owned()));
        }
    }
    let models = format!("{at}/models");
    let listed = value.pointer(&models).and_then(Value::as_array).into_iter().flatten();
    let listed = listed.enumerate().filter_map(|(index, id)| Some((index, id.as_str()?)));
    found.extend(listed.map(|(index, id)| (format!("{models}/{index}"), id.to_owned())));
}

/// Returns the problem of a model that names its provider neither in `provider` nor in `model`; `None` for others.
fn without_provider(value: &Value) -> Option<Problem> {
    let is_open = value.is_object() && value.get("provider").is_none();
    let has_model = text(value, "model").is_some_and(|it| !it.is_empty());
    (is_open && has_model).then(|| {
        let message = "`provider` is required, because `model` does not name it";
        Problem::new("", message)
            .with_help("write `model: openai:gpt-4o`, or a key of `providers` as `provider`")
    })
}
