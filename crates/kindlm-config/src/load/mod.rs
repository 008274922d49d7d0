//! From bytes to a suite: every problem of a file in one pass.

mod advice;
mod agent;
mod blocks;
mod body;
mod check;
mod compare;
mod dataset;
mod digest;
mod expect;
mod fitting;
mod import;
mod judged;
mod kit;
mod model;
mod names;
mod parse;
mod parts;
mod placed;
mod pool;
mod prompt;
mod reference;
mod rules;
mod script;
mod sets;
mod sink;
mod table;
mod templates;
mod test;
mod transcript;
mod turn;
mod vars;
mod workspace;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kindlm_assertions::Setup;
use kindlm_engine::{Model, Suite, gates};
use kindlm_providers::Providers;
use kindlm_source::{Diagnostic, Node, Piece, Source, Span, read};
use kindlm_types::script::{CompileScript, RunScript, ScriptError, ScriptErrorKind};
use kindlm_types::{Files, Registry};
use serde_json::{Map, Value};

use crate::written::DefaultsBlock;
use check::check;
pub use import::{Imported, import, import_with};
pub use names::{SuiteNames, suite_names};
use parse::{Parsed, parse};
use sink::Sink;

/// What a config file says, and what is wrong with it.
#[derive(Debug)]
pub struct Loaded {
    /// The suite; `None` if there is any error.
    pub suite: Option<Suite>,
    /// Every error, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    /// What is allowed, but probably not meant, in the order of the files.
    pub warnings: Vec<Diagnostic>,
}

/// Where everything comes from that is not in the file itself.
pub struct Sources<'a> {
    /// Reads what the file refers to, relative to its folder.
    pub files: &'a dyn Files,
    /// Looks up environment variables for `{{env.NAME}}`; secrets are not read here.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Runs the programs of a promptfoo config that make prompts, tests and variables.
    pub scripts: Arc<RunScript>,
    /// Compiles the scripts of checks; without it, one that does not parse is found when it is run.
    pub compile_script: Option<Arc<CompileScript>>,
    /// The ids of the reporters that `reports` may name.
    pub reporters: Vec<&'static str>,
    /// The assertions that `expect` may name.
    pub assertions: Arc<kindlm_assertions::Registry>,
    /// The gates that `gates` may name.
    pub gates: Registry<gates::Registration>,
    /// The providers that `providers` may name.
    pub providers: Providers,
    /// True if only its providers and models are wanted: then a file may do without prompts and tests.
    pub only_models: bool,
}

impl<'a> Sources<'a> {
    /// Files and environment only: programs are refused, and any reporter may be named.
    pub fn new(files: &'a dyn Files, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            files,
            env,
            scripts: Arc::new(|_| Err(no_scripts())),
            compile_script: None,
            reporters: Vec::new(),
            assertions: kindlm_assertions::built_in(),
            gates: gates::built_in(),
            providers: kindlm_providers::built_in(),
            only_models: false,
        }
    }
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("reporters", &self.reporters).finish_non_exhaustive()
    }
}

fn no_scripts() -> ScriptError {
    ScriptError {
        kind: ScriptErrorKind::Runtime,
        message: "programs are not run here".to_owned(),
        console: Vec::new(),
    }
}

/// How a text names a file.
const FILE: &str = "file://";

/// Reads a config file.
///
/// `name` is the file as the user named it, for messages. `files` reads what the file refers to, relative to
/// its folder. `env` looks up environment variables for `{{env.NAME}}`; secrets are not read here.
///
/// The digest of the file ([`SuiteInfo::config_sha256`](kindlm_types::SuiteInfo)) is left to the caller.
pub fn load(
    name: &str,
    bytes: &[u8],
    files: &dyn Files,
    env: &dyn Fn(&str) -> Option<String>,
) -> Loaded {
    load_with(name, bytes, &Sources::new(files, env))
}

/// Reads a config file, with everything that it may refer to.
pub fn load_with(name: &str, bytes: &[u8], sources: &Sources<'_>) -> Loaded {
    let failed = |err: Box<Diagnostic>| Loaded {
        suite: None,
        diagnostics: vec![*err],
        warnings: Vec::new(),
    };
    read_all(name, bytes, sources).map_or_else(failed, |(loaded, _)| loaded)
}

/// A template of which something has no value: its pointer, the name of that, and whether it is `null`.
type Missing = (String, String, bool);

/// The document that stands for a config of promptfoo's.
struct Translation {
    /// The config, with its secrets covered.
    source: Arc<Source>,
    root: Node,
    /// What of its checks names variables that a test does not have: pointers to texts, and the names.
    missing: Vec<Missing>,
}

/// Reads a config file; also gives the translation of one of promptfoo's.
fn read_all(
    name: &str,
    bytes: &[u8],
    sources: &Sources<'_>,
) -> Result<(Loaded, Option<Translation>), Box<Diagnostic>> {
    let (parsed, sink) = parse(name, bytes, sources)?;
    let Parsed { source, root, is_translated } = parsed;
    // What could not be translated is missing, and would be complained about once more.
    let is_empty = |root: &Node, key| root.get(key).is_none_or(|it| it.items().is_empty());
    let is_cut = |root: &Node| {
        !sink.errors.is_empty() && (is_empty(root, "tests") || is_empty(root, "models"))
    };
    let known = root.as_ref().filter(|it| !is_translated || !is_cut(it));
    let (loaded, missing) = load_tree(&source, known, sink, sources, is_translated);
    let root = root.filter(|_| is_translated);
    Ok((loaded, root.map(|root| Translation { source, root, missing })))
}

/// Makes a suite of a document, if there is one; also tells what of its checks names variables that a test does not have.
fn load_tree(
    source: &Arc<Source>,
    root: Option<&Node>,
    sink: Sink,
    sources: &Sources<'_>,
    is_translated: bool,
) -> (Loaded, Vec<Missing>) {
    let Sources { files, env, .. } = *sources;
    let referred = digest::Referred::new(files);
    let mut setup = Setup::new(&referred, None)
        .with_registry(Arc::clone(&sources.assertions))
        .with_yaml(crate::yaml)
        .telling_missing();
    setup.compile_script = sources.compile_script.as_ref().map(Arc::clone);
    let around = Surroundings {
        source,
        files,
        env,
        reporters: &sources.reporters,
        gate_registry: &sources.gates,
        known_providers: &sources.providers,
        referred: &referred,
        is_translated,
        only_models: sources.only_models,
    };
    let mut loader = Loader {
        around,
        setup,
        sink,
        missing: Vec::new(),
        wanted: Vec::new(),
        suite: Suite::default(),
        defaults: DefaultsBlock::default(),
        listed: Vec::new(),
        models: HashMap::new(),
        names: HashMap::new(),
        idle: (None, 0),
        tools: advice::Tools::default(),
        self_judged: (None, 0),
        most_samples: None,
        tool_schemas: HashMap::new(),
        pool: pool::Pool::default(),
        sets: sets::Sets::default(),
        used_templates: templates::Used::default(),
        conditions: rules::Conditions::default(),
        groups: compare::Groups::default(),
        workspaces: HashMap::new(),
        default_workspace: None,
        transcripts: HashMap::new(),
        agents: agent::Agents::default(),
    };
    if let Some(root) = root {
        loader.document(root);
    }
    let missing = std::mem::take(&mut loader.missing);
    (loader.finish(), missing)
}

/// What a config may read and name. All passes after the first have it, and none changes it.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    /// The text of the config.
    source: &'a Arc<Source>,
    files: &'a dyn Files,
    env: &'a dyn Fn(&str) -> Option<String>,
    /// The known reporters; empty if they are not known.
    reporters: &'a [&'static str],
    /// The gates that there are.
    gate_registry: &'a Registry<gates::Registration>,
    /// The providers that there are.
    known_providers: &'a Providers,
    /// The files that assertions refer to.
    referred: &'a digest::Referred<'a>,
    /// True if the document is the translation of promptfoo's, which takes what is missing for an empty text.
    is_translated: bool,
    /// True if only its providers and models are wanted.
    only_models: bool,
}

struct Loader<'a> {
    around: Surroundings<'a>,
    /// Where the assertions look for files; keeps each schema file compiled.
    setup: Setup<'a>,
    sink: Sink,
    /// What of checks names variables that a test does not have: pointers to texts, and the names.
    missing: Vec<Missing>,
    /// Variables that requests name and no test has had so far, with what is said if none has them.
    wanted: Vec<(String, Diagnostic)>,
    suite: Suite,
    defaults: DefaultsBlock,
    /// The ids in the list `models`, in its order: what a test without `models` runs on.
    listed: Vec<String>,
    /// Where each model that may be referred to is defined, broken ones included.
    models: HashMap<String, Spot>,
    /// Where each test name was given first.
    names: HashMap<String, Spot>,
    /// Tests that check nothing: a warning about the first, whose message is its name, and how many.
    idle: (Option<Diagnostic>, usize),
    /// The tools of tests, and checks of others.
    tools: advice::Tools,
    /// Tests whose answers are judged by the models that give them: a warning about the first, and how many.
    self_judged: (Option<Diagnostic>, usize),
    /// The most answers that a check of some test asks of one judge.
    most_samples: Option<u32>,
    /// Whether the `parameters` of a tool are a usable JSON Schema, by their text.
    tool_schemas: HashMap<String, Vec<kindlm_schema::Lint>>,
    /// What tests have in common.
    pool: pool::Pool,
    /// The sets of rules that prompts and tests refer to.
    sets: sets::Sets,
    /// The checks that tests refer to.
    used_templates: templates::Used,
    /// What rules want of the variables of tests.
    conditions: rules::Conditions,
    /// The tests that are compared with each other.
    groups: compare::Groups,
    /// Workspaces of tests that can be made, by what is written.
    workspaces: HashMap<String, workspace::Resolved>,
    /// The workspace of `defaults`, if it can be made.
    default_workspace: Option<workspace::Resolved>,
    /// Transcripts by the path of their file; `None` for broken ones.
    transcripts: HashMap<String, Option<body::Known>>,
    /// The agents that tests refer to.
    agents: agent::Agents,
}

/// A place in some file.
#[derive(Clone, Debug)]
struct Spot {
    source: Arc<Source>,
    span: Span,
}

impl Loader<'_> {
    fn document(&mut self, root: &Node) {
        let piece = Piece { source: self.around.source, root, prefix: "" };
        let Some(checked) = check(piece, &self.around, &mut self.sink) else { return };
        self.blocks(piece, &checked);
        // Before anything that is judged: the rules of sets and prompts are, too.
        self.judging();
        self.assertion_sets(piece);
        let prompts = self.prompts(piece);
        self.models(piece);
        self.check_agent_names(piece);
        self.judges(piece);
        self.tests(piece, &prompts);
        self.report_wanted();
        self.report_idle();
        self.report_unwanted();
        self.report_self_judged();
        self.report_lonely();
        self.idle_judging(piece);
        self.report_conditions();
        self.report_unused_sets(piece);
        self.check_unused_templates(piece);
        // After all models, as the first one is the default judge.
        self.suite.models.append(&mut self.agents.ready);
    }

    fn finish(mut self) -> Loaded {
        let Sink { mut errors, mut warnings, .. } = self.sink;
        errors.sort_by_cached_key(|it| order(self.around.source, it));
        warnings.sort_by_cached_key(|it| order(self.around.source, it));
        self.pool.compiler.close(self.setup);
        let suite = errors.is_empty().then(|| {
            self.suite.cases.shrink_to_fit();
            self.suite.warnings = warnings.iter().map(in_words).collect();
            self.suite
        });
        Loaded { suite, diagnostics: errors, warnings }
    }

    /// Reads the JSON or YAML of a file that the value at `at` names; `None` if it cannot be used, which is reported.
    fn tree_of(&mut self, piece: Piece<'_>, at: &str, path: &str) -> Option<(Arc<Source>, Node)> {
        let text = match self.around.files.read(path) {
            Ok(text) => text,
            Err(err) => {
                self.sink.report_file(piece, at, &err);
                return None;
            }
        };
        let text = text.strip_prefix('\u{feff}').map_or(Arc::clone(&text), Arc::from);
        let source = Arc::new(self.around.source.beside(path, text));
        let tree = read(&source, 0..source.text().len());
        let is_whole = tree.diagnostics.is_empty();
        tree.diagnostics.into_iter().for_each(|it| self.sink.push(it));
        Some((source, tree.root.filter(|_| is_whole)?))
    }

    /// Reports the variables that requests name and no test has; nobody knows where tests could not be read.
    fn report_wanted(&mut self) {
        if self.sink.errors.is_empty() {
            for (_, problem) in std::mem::take(&mut self.wanted) {
                self.sink.push(problem);
            }
        }
    }

    /// Reports the tests that check nothing as one warning.
    fn report_idle(&mut self) {
        let Some(mut first) = self.idle.0.take() else { return };
        let name = first.message;
        first.message = match self.idle.1 {
            1 => format!("the test `{name}` checks nothing"),
            count => format!("the test `{name}` and {} more check nothing", count - 1),
        };
        self.sink.push(first);
    }
}

/// The config file first, then datasets by name; each from top to bottom.
fn order(config: &Arc<Source>, diagnostic: &Diagnostic) -> (Option<String>, Span) {
    let is_other = !Arc::ptr_eq(&diagnostic.source, config);
    (is_other.then(|| diagnostic.file().to_owned()), diagnostic.span)
}

/// A warning in one line.
fn in_words(diagnostic: &Diagnostic) -> String {
    let place = diagnostic.position();
    let help = diagnostic.help.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("{}:{}:{}: {}{help}", diagnostic.file(), place.line, place.column, diagnostic.message)
}

/// The object at a key, if there is one.
fn object<'v>(value: &'v Value, key: &str) -> Option<&'v Map<String, Value>> {
    value.get(key).and_then(Value::as_object)
}

/// The string at a key, if there is one.
fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// A model that needs no entry in `models`.
fn implicit_model(id: &str, provider: &str, name: &str) -> Model {
    model::resolve(id, provider, name, crate::written::ParamsBlock::default(), None)
}
