//! Reads promptfoo's config files: translates the tree of one into the tree of the `kindlm.yaml` that does the same.
//!
//! Every node of the translation keeps the place of what it stands for, so whatever is wrong with it is reported
//! where the user wrote it. What has no equal here is an error at its place; nothing is dropped in silence.

mod asserts;
mod build;
mod expected;
mod files;
mod keys;
mod prompts;
mod provider;
mod providers;
mod tests;
mod vars;

use std::sync::Arc;

use kindlm_types::Files;
use serde_json::{Map, Value};

use crate::diagnostic::{Code, Diagnostic};
use crate::source::{Source, Span};
use crate::tree::{Kind, Node};
use build::{map, text};
pub(crate) use keys::covered;

/// Keys at the top of a promptfoo config that a `kindlm.yaml` does not have.
const TELLING: [&str; 7] = [
    "targets",
    "scenarios",
    "defaultTest",
    "evaluateOptions",
    "commandLineOptions",
    "outputPath",
    "nunjucksFilters",
];

/// Whether a document is a promptfoo config: it does not say `kindlm`, and has what only promptfoo has.
pub(crate) fn is_promptfoo(root: &Node) -> bool {
    if root.get("kindlm").is_some() {
        return false;
    }
    let is_list_or_text = |key| {
        root.get(key).is_some_and(|it: &Node| matches!(it.kind, Kind::List(_) | Kind::Text(_)))
    };
    TELLING.iter().any(|it| root.get(it).is_some())
        || is_list_or_text("prompts")
        || is_list_or_text("providers")
}

/// What a promptfoo config is here.
pub(crate) struct Translated {
    /// The document of an equal `kindlm.yaml`.
    pub(crate) root: Node,
    /// What could not be translated, and what probably means something else than it seems.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Translates a promptfoo config.
pub(crate) fn translate(source: &Arc<Source>, root: &Node, files: &dyn Files) -> Translated {
    let mut translator = Translator {
        source,
        files,
        own_env: Map::new(),
        embraced: Vec::new(),
        diagnostics: Vec::new(),
    };
    let root = translator.document(root);
    Translated { root, diagnostics: translator.diagnostics }
}

struct Translator<'a> {
    source: &'a Arc<Source>,
    files: &'a dyn Files,
    /// The `env` block, which stands above the environment.
    own_env: Map<String, Value>,
    /// Prompts with a prefix or suffix that a test asks for, by name.
    embraced: Vec<(String, Node)>,
    diagnostics: Vec<Diagnostic>,
}

/// What is read elsewhere, or has nothing to do with a run here.
const READ: [&str; 15] = [
    "$schema",
    "description",
    "prompts",
    "providers",
    "targets",
    "tests",
    "scenarios",
    "defaultTest",
    "derivedMetrics",
    "assertionTemplates",
    "env",
    "evaluateOptions",
    "commandLineOptions",
    "outputPath",
    "scripts",
];

/// What only matters to promptfoo's own web pages.
const INERT: [&str; 4] = ["sharing", "writeLatestResults", "metadata", "tags"];

impl Translator<'_> {
    fn document(&mut self, root: &Node) -> Node {
        self.own_env =
            root.get("env").and_then(|it| it.to_json().as_object().cloned()).unwrap_or_default();
        for (key, _) in root.get("env").map(Node::entries).unwrap_or_default() {
            if key.name.ends_with("_KEY") || key.name.ends_with("_TOKEN") {
                let help = "set it in the environment of the process instead";
                self.error(key.span, "a secret does not belong into a file", Some(help));
            }
        }
        for (key, _) in root.entries() {
            let name = &*key.name;
            if INERT.contains(&name) {
                self.warn(key.span, format!("`{name}` has no effect here"), None);
            } else if name == "outputPath" {
                let help = "say it on the command line: `--reporter json=results.json`, `--reporter junit=results.xml`";
                self.warn(key.span, "`outputPath` is not written by itself".to_owned(), Some(help));
            } else if !READ.contains(&name) {
                self.unsupported(key.span, &format!("`{name}`"), advice(name));
            }
        }
        let span = root.span;
        let name = root.get("description").and_then(Node::text).unwrap_or("promptfoo").to_owned();
        let prompts = self.prompts(root);
        let providers = self.providers(root);
        let tests = self.tests(root, &prompts, &providers);
        let options = self.evaluate_options(root);
        let embraced = std::mem::take(&mut self.embraced);

        let mut gates = vec![("passRateMin", build::number(span, 1.0))];
        for gate in ["schemaFailuresMax", "piiFailuresMax", "keywordFailuresMax"] {
            gates.push((gate, build::number(span, 0.0)));
        }
        let mut document = vec![
            ("kindlm", build::number(span, 1.0)),
            ("project", text(span, "promptfoo")),
            ("suite", map(span, [("name", text(span, &name))])),
            ("providers", build::entries(span, providers.configs())),
            ("models", build::list(span, providers.models())),
            ("prompts", build::entries(span, prompts.entries().chain(embraced))),
            ("tests", tests),
            ("gates", map(span, gates)),
        ];
        if !options.is_empty() {
            document.push(("defaults", map(span, options)));
        }
        for key in ["derivedMetrics", "assertionTemplates", "scripts"] {
            if let Some(node) = root.get(key) {
                let node = match key {
                    "assertionTemplates" => self.templates(node),
                    _ => node.clone(),
                };
                document.push((key, node));
            }
        }
        map(span, document)
    }

    /// `evaluateOptions` and what may be said in `commandLineOptions` too, as `defaults`.
    fn evaluate_options(&mut self, root: &Node) -> Vec<(&'static str, Node)> {
        let mut defaults = Vec::new();
        for block in ["evaluateOptions", "commandLineOptions"] {
            for (key, node) in root.get(block).map(Node::entries).unwrap_or_default() {
                match &*key.name {
                    "maxConcurrency" => defaults.push(("concurrency", node.clone())),
                    "repeat" => defaults.push(("repeat", node.clone())),
                    "timeoutMs" => defaults.push(("timeoutMs", node.clone())),
                    "cache"
                    | "showProgressBar"
                    | "verbose"
                    | "progressBar"
                    | "table"
                    | "tableCellMaxLength"
                    | "write"
                    | "share"
                    | "interactiveProviders" => {
                        let what = format!("`{}` has no effect here", key.name);
                        self.warn(key.span, what, None);
                    }
                    "delay" => {
                        let help = "bound the rate instead: `limits: { rpm: 60 }` of a model in a `kindlm.yaml`";
                        self.unsupported(key.span, "`delay`", Some(help));
                    }
                    name => self.unsupported(key.span, &format!("`{block}.{name}`"), None),
                }
            }
        }
        defaults
    }

    /// A text with the variables of the `env` block put in; the environment's own are put in when it is used.
    fn with_env(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.own_env {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            for written in [format!("{{{{env.{name}}}}}"), format!("{{{{ env.{name} }}}}")] {
                text = text.replace(&written, &value);
            }
        }
        text
    }

    fn error(&mut self, span: Span, message: impl Into<String>, help: Option<&str>) {
        let mut diagnostic = Diagnostic::error(Code::INVALID_VALUE, message, self.source, span);
        diagnostic.help = help.map(str::to_owned);
        self.diagnostics.push(diagnostic);
    }

    fn unsupported(&mut self, span: Span, what: &str, help: Option<&str>) {
        let message = format!("{what} of promptfoo is not supported");
        let mut diagnostic = Diagnostic::error(Code::UNSUPPORTED, message, self.source, span);
        diagnostic.help = help.map(str::to_owned);
        self.diagnostics.push(diagnostic);
    }

    fn warn(&mut self, span: Span, message: String, help: Option<&str>) {
        let mut diagnostic = Diagnostic::error(Code::NO_EFFECT, message, self.source, span);
        diagnostic.help = help.map(str::to_owned);
        self.diagnostics.push(diagnostic.into_warning());
    }
}

/// What to do instead.
fn advice(key: &str) -> Option<&'static str> {
    match key {
        "redteam" => Some("red teaming is another trade: keep it with promptfoo"),
        "nunjucksFilters" => Some(
            "use the filters that are built in (`upper`, `trim`, `dump`, `default`, …), or prepare the variable",
        ),
        "extensions" => Some("hooks are not run: prepare what they do before the run"),
        _ => None,
    }
}
