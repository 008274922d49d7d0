//! The models, agents and providers that the entries of `providers` stand for.

use std::rc::Rc;

use kindlm_source::{Key, Kind, Node, Span};
use serde_json::Value;

use super::build::{key, map, text, unique};
use super::clouds::dialect_at_vertex;

/// The models and providers of a config.
#[derive(Default)]
pub(super) struct Providers {
    configs: Vec<(String, Node)>,
    models: Vec<Node>,
    agents: Vec<(String, Node)>,
    groups: Vec<Rc<Group>>,
    /// Models for tests that define their own provider, by the JSON of that provider.
    pub(super) extras: Vec<(Value, Rc<Group>)>,
}

/// The names of a model, and the form of its prompts.
#[derive(Clone)]
pub(super) struct ModelIds {
    /// The id in the suite, which promptfoo calls the label.
    pub(super) label: String,
    /// The id in the promptfoo config.
    pub(super) written: String,
    /// True if the API of the model takes messages. Other models get the rendered text of a prompt.
    pub(super) reads_chats: bool,
    /// True if promptfoo gives the model the earlier exchanges of a conversation, even if the prompt does not use
    /// `_conversation`.
    pub(super) keeps_context: bool,
    /// The entry in the promptfoo config.
    pub(super) item: Node,
}

/// Models that get the same prompts and tools, with the same transform.
#[derive(Clone, Default)]
pub(super) struct Group {
    /// References to the models.
    pub(super) models: Vec<Node>,
    pub(super) ids: Vec<ModelIds>,
    /// The names of the prompts for these models. `None` if they get all prompts.
    pub(super) prompts: Option<Vec<String>>,
    pub(super) tools: Option<Node>,
    /// True if the models may call functions that are not tools of the test.
    pub(super) calls: bool,
    /// The form of tool calls in outputs. `None` if the models get no tools or functions.
    pub(super) call_form: Option<&'static str>,
    pub(super) transform: Option<Node>,
    /// The transform that answers tool calls. It runs before the other transforms.
    pub(super) callbacks: Option<Node>,
    /// True if the models are agents.
    pub(super) runs_agents: bool,
    /// True if promptfoo gives the agents a prompt that is a JSON list as separate inputs.
    pub(super) takes_inputs: bool,
}

/// An entry of `providers` in the config.
pub(super) struct Entry {
    pub(super) id: String,
    /// The entry as written.
    pub(super) item: Node,
    pub(super) span: Span,
    pub(super) label: Option<String>,
    pub(super) config: Vec<(Key, Node)>,
    /// The pause after each request, in milliseconds.
    pub(super) delay: Option<Node>,
    pub(super) group: Group,
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
    pub(super) fn has_id(&self, id: &str) -> bool {
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
    pub(super) fn config(&mut self, kind: &str, name: &str, node: Node) -> String {
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

    pub(super) fn add(&mut self, ids: ModelIds, entry: Node, how: Group, extra: Option<Value>) {
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

/// Returns the price of a model whose provider has a different key in the suite than in KindLM's price table.
///
/// Returns `None` if both keys are equal, because the suite then finds the price itself. Also returns `None` if no
/// price is known.
pub(super) fn usual_price(span: Span, name: &str, key: &str, model: &str) -> Option<Node> {
    let name = super::gateways::name_in_kindlm(name);
    let price = kindlm_providers::pricing::price(name, model).filter(|_| name != key)?;
    Some(Node::at(span, &serde_json::to_value(price).ok()?))
}

/// Returns the form in which promptfoo shows the tool calls of a provider to checks.
///
/// Returns `None` for providers without tool calls.
pub(super) fn call_form(kind: &str, model: &str) -> Option<&'static str> {
    match kind {
        "vertex" => call_form(dialect_at_vertex(model), model),
        "openai" | "openai-realtime" | "mistral" => Some("openai"),
        "anthropic" | "bedrock" => Some("anthropic"),
        "gemini" => Some("gemini"),
        "ollama" => Some("ollama"),
        _ => None,
    }
}
