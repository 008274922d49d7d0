//! Translation of assertions: their templates, grading models, `env` variables and empty metrics.

use super::Translator;
use super::build::{key, list, map, number, text};
use super::expected::{Value, parse_expected};
use super::images::with_texts;
use super::moderation::moderation_prompt;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use kindlm_source::{Key, Kind, Node, Span};
use kindlm_types::Class;

/// True if assertions of this type compare outputs. In promptfoo, the result of such an assertion decides the score of
/// a row, and does not count in the mean score.
pub(super) fn compares(kind: &str) -> bool {
    matches!(kind, "select-best" | "max-score")
}

/// The keys that every check may have, in promptfoo or in KindLM.
const CHECK_KEYS: [&str; 19] = [
    "$ref",
    "assert",
    "atLeast",
    "contextTransform",
    "label",
    "metric",
    "model",
    "on",
    "provider",
    "require",
    "rubricPrompt",
    "scoring",
    "severity",
    "skip",
    "threshold",
    "transform",
    "type",
    "value",
    "weight",
];

impl Translator<'_> {
    /// Translates the `assert` list of a test. Reports any other value except null, and returns no assertions for it.
    pub(super) fn assertions(&mut self, block: Option<&Node>) -> Vec<Node> {
        let Some(block) = block else { return Vec::new() };
        let open = self.open_templates.len();
        let block = self.with_template(block);
        let assertions = match &block.kind {
            Kind::List(items) => items.iter().map(|it| self.assertion(it)).collect(),
            Kind::Null => Vec::new(),
            _ => {
                self.error(block.span, "expected a list of assertions", None);
                Vec::new()
            }
        };
        self.open_templates.truncate(open);
        assertions
    }

    pub(super) fn assertion(&mut self, node: &Node) -> Node {
        let open = self.open_templates.len();
        let node = self.with_template(node);
        let translated = self.translated(node);
        self.open_templates.truncate(open);
        translated
    }

    /// Translates an assertion without a reference.
    fn translated(&mut self, node: Node) -> Node {
        let node = self.without_ignored(node);
        let Kind::Mapping(entries) = &node.kind else { return node };
        let mut translated = Vec::with_capacity(entries.len());
        for (key, value) in entries.iter() {
            match &*key.name {
                "assert" => {
                    let items = self.assertions(Some(value));
                    translated.push((key.clone(), list(value.span, items)));
                }
                "provider" => {
                    let kind = node.get("type").and_then(Node::text).unwrap_or_default();
                    let is_similar = kind.trim_start_matches("not-").starts_with("similar");
                    let model =
                        if is_similar { self.embedding_grader(value) } else { self.grader(value) };
                    if let Some(model) = model {
                        let key = Key::new("model", key.span);
                        translated.push((key, model));
                    }
                }
                // promptfoo ignores an empty metric.
                "metric" if value.text() == Some("") => {}
                "value" | "metric" => translated.push((key.clone(), self.permitted(value))),
                "rubricPrompt" if !takes_rubric(&node, value) => {
                    let message = "`rubricPrompt` has no effect on `g-eval`".to_owned();
                    let help = "promptfoo ignores it too; write `{ steps: …, evaluate: … }`";
                    self.warn(key.span, message, Some(help));
                }
                "rubricPrompt" => {
                    translated.push((key.clone(), with_texts(&self.permitted(value))));
                }
                _ => translated.push((key.clone(), value.clone())),
            }
        }
        let kind = translated.iter().find(|(key, _)| &*key.name == "type");
        let plain = kind.and_then(|(_, it)| it.text()).map(|it| it.trim_start_matches("not-"));
        if plain == Some("llm-rubric") && self.makes_addresses {
            self.refuse_grading_of_images(node.span);
        }
        let has = |name: &str| translated.iter().any(|(key, _)| &*key.name == name);
        let prompt = match plain {
            // A model that classifies gets the output, and knows the labels itself.
            Some("classifier") if !has("labels") && !has("rubricPrompt") => Some("{{ output }}"),
            Some("moderation") if !has("rubricPrompt") => moderation_prompt(&node),
            _ => None,
        };
        if let Some(prompt) = prompt {
            translated.push((key(node.span, "rubricPrompt"), text(node.span, prompt)));
        }
        let kind = translated.iter().find(|(key, _)| &*key.name == "type");
        if kind.and_then(|(_, it)| it.text()).is_some_and(compares) {
            let yes = super::build::node(node.span, Kind::Bool(true));
            translated.push((key(node.span, "decidesScore"), yes));
        }
        Node { kind: Kind::Mapping(Rc::new(translated)), ..node }
    }

    /// Removes keys that promptfoo ignores in a check, with a warning for each. A probable typo of a known key stays,
    /// and is an error later.
    fn without_ignored(&mut self, node: Node) -> Node {
        let kind = node.get("type").and_then(Node::text).unwrap_or_default().to_owned();
        let is_known = |it: &str| {
            let plain = kind.strip_prefix("not-").unwrap_or(&kind);
            kindlm_assertions::find(it).or_else(|| kindlm_assertions::find(plain)).is_some()
        };
        if !is_known(&kind) {
            return node;
        }
        let mut kept = Vec::with_capacity(node.entries().len());
        for (key, value) in node.entries() {
            let name = &*key.name;
            // promptfoo ignores the `provider` of a check that asks no model.
            let plain = kind.strip_prefix("not-").unwrap_or(&kind);
            if name == "provider" && !is_graded(plain) && !self.keys.accept(&kind, "model") {
                let message = format!("`provider` has no effect on `{kind}`");
                let help = "promptfoo ignores it too; `providers` of the test selects providers";
                self.warn(key.span, message, Some(help));
                continue;
            }
            let is_read = self.keys.accept(&kind, name);
            // Some checks, such as those of tool calls, do not read `value`.
            let is_unread = name == "value" && !is_read;
            let is_own = CHECK_KEYS.contains(&name) || is_read;
            if !is_unread && (is_own || kindlm_types::nearest(name, CHECK_KEYS).is_some()) {
                kept.push((key.clone(), value.clone()));
                continue;
            }
            let message = format!("`{name}` has no effect on `{kind}`");
            self.warn(key.span, message, Some("promptfoo ignores it too; remove it"));
        }
        Node { kind: Kind::Mapping(Rc::new(kept)), ..node }
    }

    /// Fills in the variables of the `env` block in a value, and returns the result.
    ///
    /// Records the environment variables that templates in the value read, so that the `scripts` block permits them.
    pub(super) fn permitted(&mut self, value: &Node) -> Node {
        let value = self.texts_with_env(value);
        self.permit(&value);
        value
    }

    fn permit(&mut self, value: &Node) {
        if let Some(text) = value.text().filter(|it| kindlm_template::is_template(it)) {
            self.named_env.extend(kindlm_template::environment(text).map(str::to_owned));
        }
        value.items().iter().for_each(|it| self.permit(it));
        value.entries().iter().for_each(|(_, it)| self.permit(it));
    }

    /// Translates a grading model into a reference to a model of the suite.
    ///
    /// The label or id of a provider refers to the model of this provider. Other values add a model that only grades.
    /// Returns `None` after an error, which is reported.
    pub(super) fn grader(&mut self, node: &Node) -> Option<Node> {
        match node.text().and_then(|it| self.providers.find(it)) {
            Some(id) => Some(text(node.span, id)),
            None => self.extra(node),
        }
    }
}

/// True if promptfoo uses a grading prompt. promptfoo ignores a text for `g-eval`, which needs an object with a prompt
/// for each step.
pub(super) fn takes_rubric(check: &Node, rubric: &Node) -> bool {
    let kind = check.get("type").and_then(Node::text).unwrap_or_default();
    kind.trim_start_matches("not-") != "g-eval" || !rubric.entries().is_empty()
}

/// True if a model judges assertions of this type.
pub(super) fn is_graded(kind: &str) -> bool {
    // `pi` asks its own service, so it has no grading model.
    let found = kindlm_assertions::find(kind).filter(|_| kind != "pi");
    found.is_some_and(|it| it.meta.class == Class::Probabilistic)
}

/// The keys that each assertion type accepts, by type. Each schema is generated once.
#[derive(Default)]
pub(super) struct KnownKeys(HashMap<&'static str, HashSet<String>>);

impl KnownKeys {
    /// True if the schema of this assertion type contains the key.
    pub(super) fn accept(&mut self, kind: &str, key: &str) -> bool {
        let plain = kind.strip_prefix("not-").unwrap_or(kind);
        let Some(found) = kindlm_assertions::find(kind).or_else(|| kindlm_assertions::find(plain))
        else {
            return false;
        };
        let keys = self.0.entry(found.meta.id).or_insert_with(|| {
            let schema = (found.schema)(&mut kindlm_types::Definitions::default());
            let keys = schema.get("properties").and_then(serde_json::Value::as_object);
            keys.into_iter().flat_map(serde_json::Map::keys).cloned().collect()
        });
        keys.contains(key)
    }
}

/// Translates an assertion in the short form of CSV files, or returns an error.
pub(super) fn expected(span: Span, written: &str) -> Result<Node, String> {
    let is_type = |it: &str| {
        let plain = it.strip_prefix("not-").unwrap_or(it);
        kindlm_assertions::find(it).or_else(|| kindlm_assertions::find(plain)).is_some()
    };
    let expected = parse_expected(written, is_type)?;
    let mut entries = vec![("type", text(span, expected.kind))];
    match expected.value {
        Some(Value::Text(value)) => entries.push(("value", text(span, value))),
        Some(Value::List(items)) => {
            entries.push(("value", list(span, items.iter().map(|it| text(span, it)))));
        }
        None => {}
    }
    if let Some(threshold) = expected.threshold {
        entries.push(("threshold", number(span, threshold)));
    }
    Ok(map(span, entries))
}
