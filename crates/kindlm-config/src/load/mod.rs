//! Reads a config file into a suite, in four passes.
//!
//! Each pass makes the input of the next pass. All passes add their problems to one [`Sink`].
//!
//! 1. [`parse`]: bytes → [`Parsed`], the tree of the document.
//! 2. [`check`]: the shape of the document → [`Checked`](check::Checked).
//! 3. [`resolve`]: everything that tests refer to → [`Resolved`](resolve::Resolved).
//! 4. [`build`]: the tests → [`Suite`].

mod build;
mod check;
mod compact;
mod default_test;
mod import;
mod inline;
mod media;
mod names;
mod parse;
mod repeat;
mod resolve;
mod sink;

use std::fmt;
use std::sync::Arc;

use kindlm_assertions::Setup;
use kindlm_engine::{Suite, gates};
use kindlm_providers::Providers;
use kindlm_source::{Diagnostic, Node, Piece, Source, Span};
use kindlm_types::script::{CompileScript, RunScript, ScriptError, ScriptErrorKind};
use kindlm_types::{Files, Registry};
use serde_json::{Map, Value};

use build::build;
use check::check;
pub use import::{Imported, import, import_with};
use inline::restrict;
pub use names::{SuiteNames, suite_names};
use parse::{Parsed, parse};
use resolve::{Referred, resolve};
use sink::Sink;

/// The result of reading a config file: the suite, or its problems.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The suite; `None` if there is any error.
    pub suite: Option<Suite>,
    /// Every error, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    /// The warnings for valid entries that are probably mistakes.
    ///
    /// The warnings are in the order of the files.
    pub warnings: Vec<Diagnostic>,
}

/// The inputs of a suite other than the config file itself.
pub struct Sources<'a> {
    /// The files that the config refers to, relative to its folder.
    pub files: &'a dyn Files,
    /// The lookup of environment variables for `{{env.NAME}}`. It is not used for secrets.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The runner of programs that generate parts of a promptfoo config, such as prompts, tests and variables.
    pub scripts: Arc<RunScript>,
    /// The runner of scripts that read the tests of a promptfoo config from the network; `None` forbids the network.
    pub network: Option<Arc<RunScript>>,
    /// The compiler of the scripts of checks. If `None`, syntax errors in scripts are found only when they run.
    pub compile_script: Option<Arc<CompileScript>>,
    /// The ids of the reporters that `reports` may name. An empty list accepts any id.
    pub reporters: Vec<&'static str>,
    /// The assertions that `expect` may name.
    pub assertions: Arc<kindlm_assertions::Registry>,
    /// The gates that `gates` may name.
    pub gates: Registry<gates::Registration>,
    /// The providers that `providers` may name.
    pub providers: Providers,
    /// True to load only providers and models. The file may then omit its project, suite, prompts and tests.
    pub only_models: bool,
    /// The server's suite, whose providers and models an inline suite may use; `None` for the suite of a trusted user.
    ///
    /// An inline suite comes from a sender who is not trusted. It names models of this suite by their ids. It cannot
    /// have providers, agents, commands, workspaces, files, reports, or scripts with permissions. The caller must pass
    /// empty [`files`](Self::files) and an empty [`env`](Self::env), because an inline suite could read their content.
    pub inline: Option<&'a Suite>,
}

impl<'a> Sources<'a> {
    /// Creates sources with files and environment variables only.
    ///
    /// Programs are refused, and `reports` may name any reporter. The suite can use only built-in assertions, gates and
    /// providers.
    pub fn new(files: &'a dyn Files, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            files,
            env,
            scripts: Arc::new(|_| Err(no_scripts())),
            network: None,
            compile_script: None,
            reporters: Vec::new(),
            assertions: kindlm_assertions::built_in(),
            gates: gates::built_in(),
            providers: kindlm_providers::built_in(),
            only_models: false,
            inline: None,
        }
    }
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("reporters", &self.reporters).finish_non_exhaustive()
    }
}

fn no_scripts() -> ScriptError {
    ScriptError::new(ScriptErrorKind::Runtime, "programs are not run here")
}

/// The prefix of a text that names a file.
const FILE: &str = "file://";

/// Reads a config file.
///
/// `name` is the path of the file for error messages. `files` reads the files that the config refers to, relative to
/// its folder. `env` looks up environment variables for `{{env.NAME}}`, but not secrets.
///
/// The caller fills in the digest of the file ([`SuiteInfo::config_sha256`](kindlm_types::SuiteInfo)).
pub fn load(
    name: &str,
    bytes: &[u8],
    files: &dyn Files,
    env: &dyn Fn(&str) -> Option<String>,
) -> Loaded {
    load_with(name, bytes, &Sources::new(files, env))
}

/// Reads a config file, with all sources that it may use.
pub fn load_with(name: &str, bytes: &[u8], sources: &Sources<'_>) -> Loaded {
    let failed = |err: Box<Diagnostic>| Loaded {
        suite: None,
        diagnostics: vec![*err],
        warnings: Vec::new(),
    };
    read_all(name, bytes, sources).map_or_else(failed, |(loaded, _)| loaded)
}

/// A variable without a value.
///
/// The parts are the pointer of its template, its name, and true if the value is `null`.
type Missing = (String, String, bool);

/// A promptfoo config, translated into the tree of a `kindlm.yaml`.
struct Translation {
    /// The promptfoo config, with its secrets replaced by asterisks.
    source: Arc<Source>,
    root: Node,
    /// The variables that a check uses, but that its test does not have.
    missing: Vec<Missing>,
}

/// Reads a config file. Also returns the translation of a promptfoo config. Fails for the same reasons as [`parse`].
fn read_all(
    name: &str,
    bytes: &[u8],
    sources: &Sources<'_>,
) -> Result<(Loaded, Option<Translation>), Box<Diagnostic>> {
    let (parsed, mut sink) = parse(name, bytes, sources)?;
    let Parsed { source, root, is_translated } = parsed;
    if let (Some(_), Some(root)) = (sources.inline, &root) {
        restrict(Piece::new(&source, root, ""), &mut sink);
        if !sink.errors.is_empty() {
            return Ok((loaded(&source, sink, None), None));
        }
    }
    // Parts that could not be translated are absent. If all tests or models are absent, do not build the suite, because
    // the builder would only report their absence.
    let is_empty = |root: &Node, key| root.get(key).is_none_or(|it| it.items().is_empty());
    let is_cut = |root: &Node| {
        !sink.errors.is_empty() && (is_empty(root, "tests") || is_empty(root, "models"))
    };
    let known = root.as_ref().filter(|it| !is_translated || !is_cut(it));
    let (loaded, missing) = load_tree(&source, known, sink, sources, is_translated);
    let root = root.filter(|_| is_translated);
    Ok((loaded, root.map(|root| Translation { source, root, missing })))
}

/// Builds a suite from a document.
///
/// For a translated promptfoo config, also returns the variables that a check uses but its test does not have.
fn load_tree(
    source: &Arc<Source>,
    root: Option<&Node>,
    mut sink: Sink,
    sources: &Sources<'_>,
    is_translated: bool,
) -> (Loaded, Vec<Missing>) {
    let Sources { files, env, .. } = *sources;
    let Some(root) = root else { return (loaded(source, sink, None), Vec::new()) };
    let default_test = default_test::find_in(root);
    let is_faulty = default_test
        .is_some_and(|it| default_test::report(Piece::new(source, root, ""), it, &mut sink));
    let default_json = default_test.map(Node::to_json);
    let whole = default_test.map(|it| default_test::with_default(root, it));
    let root = whole.as_ref().unwrap_or(root);
    let referred = Referred::new(files);
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
        inline: sources.inline,
        default_test: default_json.as_ref(),
    };
    let piece = Piece::new(source, root, "");
    let checked = check(piece, &around, &mut sink);
    // With an invalid default test, each test would have false errors.
    let Some(checked) = checked.filter(|it| !is_faulty && !it.is_faulty("/defaults/test")) else {
        return (loaded(source, sink, None), Vec::new());
    };
    let mut setup = Setup::new(&referred, None)
        .with_registry(Arc::clone(&sources.assertions))
        .with_yaml(crate::yaml)
        .with_advice();
    if sources.inline.is_some() {
        setup = setup.sandboxed();
    }
    setup.compile_script = sources.compile_script.as_ref().map(Arc::clone);
    let resolved = resolve(piece, &checked, around, setup, sink);
    let (suite, sink, missing) = build(piece, resolved);
    (loaded(source, sink, Some(suite)), missing)
}

/// Sorts the problems by their place, and removes the suite if there is any error.
fn loaded(source: &Arc<Source>, sink: Sink, suite: Option<Suite>) -> Loaded {
    let Sink { mut errors, mut warnings, .. } = sink;
    errors.sort_by_cached_key(|it| order(source, it));
    warnings.sort_by_cached_key(|it| order(source, it));
    let suite = suite.filter(|_| errors.is_empty()).map(|mut suite| {
        suite.warnings = warnings.iter().map(in_words).collect();
        suite
    });
    Loaded { suite, diagnostics: errors, warnings }
}

/// The inputs that all passes after the first pass share.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    /// The text of the config.
    source: &'a Arc<Source>,
    files: &'a dyn Files,
    env: &'a dyn Fn(&str) -> Option<String>,
    /// The ids of the known reporters; empty if any id is valid.
    reporters: &'a [&'static str],
    /// The gates that `gates` may name.
    gate_registry: &'a Registry<gates::Registration>,
    /// The providers that `providers` may name.
    known_providers: &'a Providers,
    /// The files that assertions refer to, with their digests.
    referred: &'a Referred<'a>,
    /// True for a translated promptfoo config.
    ///
    /// In such a config, a missing variable is an empty text.
    is_translated: bool,
    /// True to load only providers and models.
    only_models: bool,
    /// The server's suite, whose providers and models an inline suite may use; `None` if the config is not inline.
    inline: Option<&'a Suite>,
    /// The default test, for the tests of datasets. The other tests have its entries already.
    default_test: Option<&'a Value>,
}

/// A place in a file.
#[derive(Clone, Debug)]
struct Spot {
    source: Arc<Source>,
    span: Span,
}

/// Returns the sort key of a problem.
///
/// The config file comes first, then other files by name. Each file is sorted from top to bottom.
fn order(config: &Arc<Source>, diagnostic: &Diagnostic) -> (Option<String>, Span) {
    let is_other = !Arc::ptr_eq(&diagnostic.source, config);
    (is_other.then(|| diagnostic.file().to_owned()), diagnostic.span)
}

/// Formats a warning as one line.
fn in_words(diagnostic: &Diagnostic) -> String {
    let place = diagnostic.position();
    let help = diagnostic.help.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("{}:{}:{}: {}{help}", diagnostic.file(), place.line, place.column, diagnostic.message)
}

/// Returns the object at a key, or `None` for other values.
fn object<'v>(value: &'v Value, key: &str) -> Option<&'v Map<String, Value>> {
    value.get(key).and_then(Value::as_object)
}

/// Returns the string at a key, or `None` for other values.
fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns true if a value is the number zero.
fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}
