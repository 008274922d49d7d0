//! The models that grade checks which do not name a grader: the grader of the test, or promptfoo's default grader.

use kindlm_source::{Node, Span};

use super::Translator;
use super::asserts::{KnownKeys, is_graded};
use super::build::{map, text};
use super::provider::{Provider, parse_provider_id};

/// References to the grading models for assertions that do not name a model.
#[derive(Clone, Default)]
pub(super) struct Graders {
    pub(super) text: Option<Node>,
    pub(super) embedding: Option<Node>,
}

/// The kinds of graders that checks of a test need but do not name. The value of a field is the source location of the
/// first check that needs this kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Needs {
    text: Option<Span>,
    embedding: Option<Span>,
}

/// The environment variables of a vendor's key, and the vendor's default grader in promptfoo 0.123.
///
/// The first vendor with a key grades. Without any key, the first vendor grades.
const TEXT: [(&[&str], &str); 5] = [
    (&["OPENAI_API_KEY"], "openai:chat:gpt-5.6-sol"),
    (&["ANTHROPIC_API_KEY"], "anthropic:messages:claude-sonnet-4-6"),
    (&["GEMINI_API_KEY", "GOOGLE_API_KEY", "PALM_API_KEY"], "google:gemini-3.8-flash"),
    (&["MISTRAL_API_KEY"], "mistral:mistral-large-latest"),
    (&["XAI_API_KEY"], "xai:grok-4.3"),
];

/// promptfoo's default embedding model, unless the vendor of the grader has its own.
const EMBEDDING: &str = "openai:embedding:text-embedding-3-large";

impl Translator<'_> {
    /// Sets the grading models for texts and embeddings.
    ///
    /// The config names a single model for both, or a model for each of them.
    pub(super) fn graders(&mut self, node: &Node, graders: &mut Graders) {
        let typed = ["text", "embedding", "classification", "moderation"];
        if !node.entries().iter().any(|(key, _)| typed.contains(&&*key.name)) {
            let model = self.grader(node);
            let id = node.text().or_else(|| node.get("id").and_then(Node::text));
            // An embedding model can only grade by similarity.
            if id.is_some_and(|it| parse_provider_id(it).is_embedding()) {
                graders.embedding = model;
            } else {
                *graders = Graders { embedding: model.clone(), text: model };
            }
            return;
        }
        for (key, value) in node.entries() {
            match &*key.name {
                "text" => graders.text = self.grader(value),
                "embedding" => graders.embedding = self.embedding_grader(value),
                name => self.unsupported(key.span, &format!("a grader for `{name}`"), None),
            }
        }
    }

    /// Returns the reference to a model that makes embeddings. Returns `None` after an error, which is reported.
    pub(super) fn embedding_grader(&mut self, node: &Node) -> Option<Node> {
        let id = node.text().or_else(|| node.get("id").and_then(Node::text));
        if id.is_some_and(|it| {
            matches!(parse_provider_id(it), Provider::Script { .. } | Provider::Exec(_))
        }) {
            let help = "name a model, such as `openai:embedding:text-embedding-3-large`";
            self.unsupported(node.span, "a program that makes embeddings", Some(help));
            return None;
        }
        self.grader(node)
    }

    /// Adds promptfoo's default graders to those of a test, if its checks need them.
    ///
    /// Without them, KindLM would ask the first model of the suite, which is the application under test.
    pub(super) fn with_default_graders(&mut self, asserts: &[Node], graders: &Graders) -> Graders {
        let mut graders = graders.clone();
        let mut needs = Needs::default();
        for check in asserts {
            needs.add(check, &graders, &mut self.keys);
        }
        if let Some(span) = needs.text {
            graders.text = self.default_grader(span);
        }
        if let Some(span) = needs.embedding {
            graders.embedding = self.default_embedding(span);
        }
        graders
    }

    fn has_env(&self, name: &str) -> bool {
        self.env_value(name).is_some()
    }

    /// True if promptfoo's default graders are at Azure. promptfoo prefers Azure to every vendor but OpenAI.
    fn prefers_azure(&self) -> bool {
        let has_all = |names: &[&str]| names.iter().all(|it| self.has_env(it));
        let has_credentials = self.has_env("AZURE_OPENAI_API_KEY")
            || self.has_env("AZURE_API_KEY")
            || has_all(&["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"]);
        !self.has_env("OPENAI_API_KEY")
            && has_credentials
            && has_all(&["AZURE_DEPLOYMENT_NAME", "AZURE_OPENAI_DEPLOYMENT_NAME"])
    }

    /// Returns the reference to promptfoo's default grader. Returns `None` after an error, which is reported.
    fn default_grader(&mut self, span: Span) -> Option<Node> {
        let key = TEXT
            .iter()
            .find_map(|(keys, id)| keys.iter().find(|it| self.has_env(it)).map(|key| (*key, *id)));
        if self.prefers_azure() {
            let help = "name it: `defaultTest: { options: { provider: { id: 'azure:chat:…', config: { apiHost: … } } } }`";
            self.unsupported(span, "a default grader at Azure", Some(help));
            return None;
        }
        let node = match key {
            Some((key @ ("GOOGLE_API_KEY" | "PALM_API_KEY"), id)) => {
                let config = map(span, [("apiKeyEnvar", text(span, key))]);
                map(span, [("id", text(span, id)), ("config", config)])
            }
            Some((_, id)) => text(span, id),
            None => text(span, TEXT.first().map_or("", |(_, id)| id)),
        };
        self.extra(&node)
    }

    /// Returns the reference to promptfoo's default embedding model.
    ///
    /// Returns `None` after an error, which is reported.
    fn default_embedding(&mut self, span: Span) -> Option<Node> {
        if self.prefers_azure() {
            let help = "name it: `defaultTest: { options: { provider: { embedding: 'openai:embedding:…' } } }`";
            self.unsupported(
                span,
                "the default embedding model beside a grader at Azure",
                Some(help),
            );
            return None;
        }
        let first = TEXT.iter().find(|(keys, _)| keys.iter().any(|it| self.has_env(it)));
        let id = match first.map(|(_, id)| *id) {
            Some(id) if id.starts_with("google:") => {
                let help = "name it: `defaultTest: { options: { provider: { embedding: 'openai:embedding:…' } } }`";
                self.unsupported(span, "the default embedding model at Google Vertex", Some(help));
                return None;
            }
            Some(id) if id.starts_with("mistral:") => "mistral:embedding:mistral-embed",
            _ => EMBEDDING,
        };
        self.extra(&text(span, id))
    }

    /// Returns the reference to a model that only grades, which is added if it is new.
    ///
    /// Returns `None` after an error, which is reported.
    pub(super) fn extra(&mut self, node: &Node) -> Option<Node> {
        let group = self.extra_group(node)?;
        if group.runs_agents {
            let help = "name a model, such as `openai:gpt-5.1`";
            self.unsupported(node.span, "an agent as a grader", Some(help));
            return None;
        }
        group.models.first().map(|it| Node { span: node.span, ..it.clone() })
    }
}

impl Needs {
    /// Adds the graders that a check needs, and that neither the check nor the test names.
    fn add(&mut self, check: &Node, graders: &Graders, keys: &mut KnownKeys) {
        if let Some(parts) = check.get("assert") {
            parts.items().iter().for_each(|it| self.add(it, graders, keys));
            return;
        }
        let kind = check.get("type").and_then(Node::text).unwrap_or_default();
        let plain = kind.strip_prefix("not-").unwrap_or(kind);
        let is_open = check.get("model").is_none();
        if plain.starts_with("similar") {
            if is_open && graders.embedding.is_none() {
                self.embedding.get_or_insert(check.span);
            }
        } else if is_graded(plain) {
            if is_open && graders.text.is_none() {
                self.text.get_or_insert(check.span);
            }
            let is_open = check.get("embeddingModel").is_none() && graders.embedding.is_none();
            if is_open && keys.accept(kind, "embeddingModel") {
                self.embedding.get_or_insert(check.span);
            }
        }
    }
}
