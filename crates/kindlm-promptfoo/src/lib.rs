//! Translates a promptfoo config into the tree of an equivalent `kindlm.yaml`.
//!
//! Every translated node keeps its source location in the promptfoo config, so problems are reported there. A part
//! without an equivalent is also reported, and never dropped silently.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kindlm_promptfoo::{Inputs, is_promptfoo, translate};
//! use kindlm_source::{Source, read_yaml};
//! use kindlm_types::NoFiles;
//! use kindlm_types::script::ScriptQuestion;
//!
//! let text = "providers: [openai:gpt-4o]\nprompts: ['Greet {{name}}.']\ntests: [{ vars: { name: Ada } }]\n";
//! let source = Arc::new(Source::new("promptfooconfig.yaml", text));
//! let root = read_yaml(&source, 0..text.len()).root.unwrap();
//! assert!(is_promptfoo(&root));
//! let inputs = Inputs::new(
//!     &NoFiles,
//!     &|_| None,
//!     Arc::new(|_: &ScriptQuestion| unreachable!("the config names no program")),
//! );
//! let translated = translate(&source, &root, &inputs);
//! assert!(translated.diagnostics.is_empty());
//! assert_eq!(translated.root.to_json()["tests"][0]["vars"]["name"], "Ada");
//! ```
#![deny(clippy::disallowed_methods)]

mod agents;
mod anthropic;
mod asserts;
mod build;
mod callbacks;
mod cases;
mod chat;
mod claude_agent;
mod cloudflare;
mod clouds;
mod config_program;
mod dataset;
mod dynamic;
mod expected;
mod extras;
mod files;
mod filters;
mod gateways;
mod google;
mod graders;
mod histories;
mod hooks;
mod http;
mod http_more;
mod http_raw;
mod images;
mod keys;
mod knowledge;
mod live;
mod media;
mod model_providers;
mod moderation;
mod nested;
mod network;
mod packages;
mod plain;
mod program_providers;
mod programs;
mod prompts;
mod provider;
mod provider_groups;
mod providers;
mod quiverai;
mod references;
mod responses;
mod run_options;
mod sagemaker;
mod settings;
mod stored;
mod table;
mod test_list;
mod test_settings;
mod vars;
mod vendors;
mod workbook;
mod xai;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use kindlm_assertions::{ScriptSettings, ScriptsBlock};
use kindlm_source::{Code, Diagnostic, Key, Kind, Node, Source, Span};
use kindlm_types::Files;
use kindlm_types::script::RunScript;
use serde_json::{Map, Value};

use asserts::KnownKeys;
use build::{map, text};
pub use chat::{UnreadableChat, read_chat};
pub use config_program::{ConfigProgram, EvaluatedConfig, evaluate_config};
pub use dataset::translate_tests;
use dynamic::MadePrompts;
use filters::OwnFilters;
use hooks::Hook;
pub use keys::covered;
use programs::Program;
use provider_groups::Providers;

/// The top-level keys that only a promptfoo config has, not a `kindlm.yaml`.
const TELLING: [&str; 7] = [
    "targets",
    "scenarios",
    "defaultTest",
    "evaluateOptions",
    "commandLineOptions",
    "outputPath",
    "nunjucksFilters",
];

/// The project of every suite that is translated from promptfoo.
pub const PROJECT: &str = "promptfoo";

/// Returns the name of the suite: the config's description, or [`PROJECT`].
pub fn suite_name(root: &Node) -> String {
    root.get("description").and_then(Node::text).unwrap_or(PROJECT).to_owned()
}

/// True for a promptfoo config.
///
/// Such a document has no key `kindlm`. It has a key that only promptfoo has, or `prompts` or `providers` in
/// promptfoo's format.
pub fn is_promptfoo(root: &Node) -> bool {
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

/// The result of a translation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Translated {
    /// The document of the equivalent `kindlm.yaml`.
    pub root: Node,
    /// Errors for parts that cannot be translated, and warnings for probable mistakes.
    pub diagnostics: Vec<Diagnostic>,
}

/// The inputs of a translation other than the config itself.
#[non_exhaustive]
pub struct Inputs<'a> {
    /// The files that the config refers to, relative to its folder.
    pub files: &'a dyn Files,
    /// The lookup of environment variables; `None` for a variable that is not set.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The runner of programs that generate prompts, tests and variables, or implement filters.
    pub scripts: Arc<RunScript>,
    /// The runner of scripts that read tests from the network; `None` if tests must not be read from there.
    pub network: Option<Arc<RunScript>>,
    /// The ids of the known reporters; empty if any id is valid.
    pub reporters: &'a [&'static str],
}

impl<'a> Inputs<'a> {
    /// Creates inputs without the network, with which any id of a reporter is valid.
    pub fn new(
        files: &'a dyn Files,
        env: &'a dyn Fn(&str) -> Option<String>,
        scripts: Arc<RunScript>,
    ) -> Self {
        Self { files, env, scripts, network: None, reporters: &[] }
    }
}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("reporters", &self.reporters).finish_non_exhaustive()
    }
}

/// Translates a promptfoo config.
///
/// The translation runs the programs that generate parts of the suite.
pub fn translate(source: &Arc<Source>, root: &Node, inputs: &Inputs<'_>) -> Translated {
    let mut translator = Translator::new(source, root, inputs);
    let root = translator.resolved(root);
    translator.assertion_templates = root.get("assertionTemplates").cloned();
    let root = translator.document(&root);
    Translated { root, diagnostics: translator.diagnostics }
}

struct Translator<'a> {
    source: &'a Arc<Source>,
    inputs: &'a Inputs<'a>,
    /// The permissions and limits of programs.
    scripts: ScriptSettings,
    /// The `env` block, which overrides the environment.
    own_env: Map<String, Value>,
    /// Environment variables in templates of assertions. The `scripts` block must permit them.
    named_env: BTreeSet<String>,
    /// The pause of all providers after each request, in milliseconds; `None` without a pause.
    delay: Option<Node>,
    filters: Option<OwnFilters>,
    /// The `assertionTemplates` of the config. References in them are already replaced, except references to other
    /// assertion templates.
    assertion_templates: Option<Node>,
    /// The references to the assertion templates whose checks are being translated.
    open_templates: Vec<String>,
    keys: KnownKeys,
    providers: Providers,
    /// True if a model under test reads messages. Graders do not count.
    reads_chats: bool,
    /// True if a model makes images, and answers with their addresses.
    makes_addresses: bool,
    /// True if the config limits the time of each request.
    has_timeout: bool,
    /// Variants of prompts by name: with the prefix or suffix of a test, or in text form.
    embraced: Vec<(String, Node)>,
    made: MadePrompts,
    /// The variables of stored outputs.
    stored: Vec<String>,
    /// The variables of outputs that earlier tests store.
    stored_before: Vec<String>,
    /// The functions of `extensions`.
    hooks: Vec<Hook>,
    /// The test files that are being read. Each file names the next file.
    test_files: Vec<String>,
    /// Programs that have failed. They are not run again.
    broken: HashSet<Program>,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Translator<'a> {
    fn new(source: &'a Arc<Source>, root: &Node, inputs: &'a Inputs<'a>) -> Self {
        // If the block is invalid, the default settings are used here. The reader of the translated suite reports the
        // error.
        let scripts = root.get("scripts").map(Node::to_json).unwrap_or_default();
        let scripts: ScriptsBlock = serde_json::from_value(scripts).unwrap_or_default();
        Self {
            source,
            inputs,
            scripts: ScriptSettings::default().with(&scripts),
            own_env: Map::new(),
            named_env: BTreeSet::new(),
            delay: None,
            filters: None,
            assertion_templates: None,
            open_templates: Vec::new(),
            keys: KnownKeys::default(),
            providers: Providers::default(),
            reads_chats: false,
            makes_addresses: false,
            has_timeout: false,
            embraced: Vec::new(),
            made: MadePrompts::default(),
            stored: Vec::new(),
            stored_before: Vec::new(),
            hooks: Vec::new(),
            test_files: Vec::new(),
            broken: HashSet::new(),
            diagnostics: Vec::new(),
        }
    }
}

/// The keys that other modules read or that have no meaning in the suite.
const READ: [&str; 17] = [
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
    "nunjucksFilters",
    "outputPath",
    "extensions",
    "scripts",
];

/// The keys of promptfoo without an equivalent.
const UNSUPPORTED: [&str; 1] = ["redteam"];

/// The keys that have no effect in KindLM.
const INERT: [&str; 5] = ["sharing", "writeLatestResults", "metadata", "tags", "tracing"];

impl Translator<'_> {
    fn document(&mut self, root: &Node) -> Node {
        self.own_env =
            root.get("env").and_then(|it| it.to_json().as_object().cloned()).unwrap_or_default();
        if let Some(env) = root.get("env") {
            self.check_env(env);
        }
        for (key, _) in root.entries() {
            let name = &*key.name;
            if INERT.contains(&name) {
                self.warn(key.span, format!("`{name}` has no effect here"), advice(name));
            } else if UNSUPPORTED.contains(&name) {
                self.unsupported(key.span, &format!("`{name}`"), advice(name));
            } else if !READ.contains(&name) {
                let near = match name {
                    "filters" => Some("nunjucksFilters"),
                    _ => kindlm_types::nearest(name, READ.iter().copied()),
                };
                let help = near.map(|it| format!("did you mean `{it}`?"));
                let message = format!("`{name}` is not a key of promptfoo: it has no effect");
                self.warn(key.span, message, help.as_deref());
            }
        }
        self.hooks = self.hooks(root);
        let root = &self.before_all(root, &self.hooks.clone());
        let span = root.span;
        let name = suite_name(root);
        self.delay = Self::pause(root);
        self.has_timeout = Self::has_timeout(root);
        self.filters = root.get("nunjucksFilters").and_then(|it| self.filters(it));
        let prompts = self.prompts(root);
        self.all_providers(root);
        let tests = self.tests(root, &prompts);
        let options = self.defaults(root);
        let reports = self.reports(root);
        let (embraced, made) = (std::mem::take(&mut self.embraced), std::mem::take(&mut self.made));
        // Prompts with custom filters are in `made` in rendered form, so their templates are omitted.
        let is_written = |(_, node): &(String, Node)| {
            self.filters.as_ref().is_none_or(|own| !own.are_within(node))
        };
        let prompts = prompts.entries().filter(is_written).chain(embraced).chain(made.prompts);
        let for_models = |it| if self.reads_chats { it } else { prompts::as_text(it) };
        let prompts: Vec<_> = prompts.map(|(name, it)| (name, for_models(it))).collect();
        let providers = &self.providers;

        let mut gates = vec![("passRateMin", build::number(span, 1.0))];
        for gate in ["schemaFailuresMax", "piiFailuresMax", "keywordFailuresMax"] {
            gates.push((gate, build::number(span, 0.0)));
        }
        let mut document = vec![
            ("kindlm", build::number(span, 1.0)),
            ("project", text(span, PROJECT)),
            ("suite", map(span, [("name", text(span, &name))])),
            ("providers", build::entries(span, providers.configs())),
            ("models", build::list(span, providers.models())),
            ("agents", build::entries(span, providers.agents())),
            ("prompts", build::entries(span, prompts)),
            ("tests", tests),
            ("gates", map(span, gates)),
        ];
        // A suite that tests only agents needs no models. A suite without agents needs no `agents`.
        document.retain(|(name, it)| match *name {
            "agents" => !it.entries().is_empty(),
            "providers" | "models" => {
                !(it.entries().is_empty() && it.items().is_empty() && providers.has_agents())
            }
            _ => true,
        });
        if !options.is_empty() {
            document.push(("defaults", map(span, options)));
        }
        if let Some(reports) = reports {
            document.push(("reports", reports));
        }
        let hooks = Self::after_hooks(&self.hooks, span);
        document.extend(hooks.map(|it| ("extensions", it)));
        document.extend(root.get("derivedMetrics").map(|it| ("derivedMetrics", it.clone())));
        document.extend(self.scripts_block(root).map(|it| ("scripts", it)));
        map(span, document)
    }

    /// Returns the `scripts` block with the environment variables of assertions.
    ///
    /// These are the variables that templates of assertions read. Returns `None` if the config has no block and needs
    /// no variables.
    fn scripts_block(&self, root: &Node) -> Option<Node> {
        let written = root.get("scripts");
        let known = written.and_then(|it| it.get("env")).map_or(&[][..], Node::items);
        let is_new = |name: &&String| !known.iter().any(|it| it.text() == Some(name.as_str()));
        let new: Vec<Node> =
            self.named_env.iter().filter(is_new).map(|it| text(root.span, it)).collect();
        if new.is_empty() {
            return written.cloned();
        }
        let all = build::list(root.span, known.iter().cloned().chain(new));
        let block = written.cloned().unwrap_or_else(|| map(root.span, []));
        Some(build::with(&block, "env", all))
    }

    /// Fills in the variables of the `env` block in a text.
    ///
    /// Other environment variables are filled in later.
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

    /// Fills in the variables of the `env` block in all texts of a value.
    fn texts_with_env(&self, node: &Node) -> Node {
        if self.own_env.is_empty() {
            return node.clone();
        }
        let kind = match &node.kind {
            Kind::Text(text) => Kind::Text(self.with_env(text).as_str().into()),
            Kind::List(items) => Kind::List(
                items.iter().map(|it| self.texts_with_env(it)).collect::<Vec<_>>().into(),
            ),
            Kind::Mapping(entries) => Kind::Mapping(
                entries
                    .iter()
                    .map(|(key, it)| (key.clone(), self.texts_with_env(it)))
                    .collect::<Vec<_>>()
                    .into(),
            ),
            other => other.clone(),
        };
        Node { kind, ..node.clone() }
    }

    /// Returns the value of an environment variable, from the `env` block or from the environment.
    ///
    /// Returns `None` if the variable is not set, or is empty.
    fn env_value(&self, name: &str) -> Option<String> {
        let own = self.own_env.get(name).and_then(Value::as_str).map(str::to_owned);
        own.or_else(|| (self.inputs.env)(name)).filter(|it| !it.is_empty())
    }

    /// Reports secrets in an `env` block.
    fn check_env(&mut self, env: &Node) {
        for (key, _) in env.entries() {
            if kindlm_redact::is_certain_secret(&key.name) {
                let help = "set it in the environment of the process instead";
                self.error(key.span, "a secret must not be in a file", Some(help));
            }
        }
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

    /// Reports a key that promptfoo does not have, and therefore ignores.
    ///
    /// A key that is similar to a known key is an error, because the known key is probably meant. Any other key is a
    /// warning.
    fn ignored_key(&mut self, key: &Key, what: &str, known: &[&str]) {
        let name = &*key.name;
        let message = format!("`{name}` is not a key of {what}: it has no effect");
        match kindlm_types::nearest(name, known.iter().copied()) {
            Some(near) => self.error(key.span, message, Some(&format!("did you mean `{near}`?"))),
            None => self.warn(key.span, message, Some("promptfoo ignores it too; remove it")),
        }
    }

    fn warn(&mut self, span: Span, message: String, help: Option<&str>) {
        let mut diagnostic = Diagnostic::error(Code::NO_EFFECT, message, self.source, span);
        diagnostic.help = help.map(str::to_owned);
        self.diagnostics.push(diagnostic.into_warning());
    }
}

/// Returns the help for an unsupported key, or `None` without specific help.
fn advice(key: &str) -> Option<&'static str> {
    match key {
        "redteam" => Some("KindLM has no red teaming: continue to use promptfoo for it"),
        "tracing" => Some(
            "no receiver of traces is started, so checks of spans have no evidence and are errored",
        ),
        _ => None,
    }
}
