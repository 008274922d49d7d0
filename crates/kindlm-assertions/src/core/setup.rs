//! Everything that checks are made with: files, models, scripts, judges, the registry.

use std::fmt;
use std::sync::Arc;

use kindlm_types::script::CompileScript;
use kindlm_types::{Files, NoFiles, Problem, ProblemKind};
use serde_json::{Map, Value};

use crate::Registry;
use crate::core::expect::TextFiles;
use crate::core::judging::JudgeBlock;
use crate::core::schema_file::SchemaFiles;
use crate::core::scripting::ScriptSettings;
use crate::shared::pattern::Patterns;

/// Reads a YAML text, or says in words why it cannot.
pub type ReadYaml = fn(&str) -> Result<Value, String>;

/// What is at hand when checks are made out of configuration: one for a whole suite, because it keeps the
/// schemas and the patterns that it has compiled.
pub struct Setup<'a> {
    /// The files that the configuration refers to.
    pub files: &'a dyn Files,
    /// The ids of the suite's models; `None` where references to models are not checked.
    pub models: Option<&'a [String]>,
    /// Entries of the list form that may be referred to by name.
    pub assertion_templates: Map<String, Value>,
    /// Who runs scripts, and what they may do, where a check does not say.
    pub scripts: ScriptSettings,
    /// Who judges, where neither a check nor its `expect` block says.
    pub judging: JudgeBlock,
    /// The environment variables that templates may read.
    pub env: Map<String, Value>,
    /// Reads YAML, or says in words why it cannot; without it, values that are files or texts are JSON only.
    pub yaml: Option<ReadYaml>,
    /// Compiles scripts, so that one that does not parse is found before anything is sent; without it, none is.
    pub compile_script: Option<Arc<CompileScript>>,
    /// The assertions that configuration may name.
    pub registry: Arc<Registry>,
    pub(crate) tells_missing: bool,
    pub(crate) schemas: SchemaFiles,
    pub(crate) texts: TextFiles,
    pub(crate) patterns: Patterns,
}

impl fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("models", &self.models).finish_non_exhaustive()
    }
}

impl<'a> Setup<'a> {
    pub(crate) fn of(
        registry: Arc<Registry>,
        files: &'a dyn Files,
        models: Option<&'a [String]>,
    ) -> Self {
        Self {
            files,
            models,
            assertion_templates: Map::new(),
            scripts: ScriptSettings::default(),
            judging: JudgeBlock::default(),
            env: Map::new(),
            yaml: None,
            compile_script: None,
            registry,
            tells_missing: false,
            schemas: SchemaFiles::default(),
            texts: TextFiles::default(),
            patterns: Patterns::default(),
        }
    }
}

impl Setup<'_> {
    /// The same, where configuration may name the assertions of this registry and no others.
    #[must_use]
    pub fn with_registry(self, registry: Arc<Registry>) -> Self {
        Self { registry, ..self }
    }

    /// The same, where values that are files or texts may be YAML too.
    #[must_use]
    pub fn with_yaml(self, read: ReadYaml) -> Self {
        Self { yaml: Some(read), ..self }
    }

    /// The same, where variables of templates that a test does not have are told, and what decides nothing: as problems of
    /// checks that are made all the same. So are folders for scripts that do not exist.
    #[must_use]
    pub fn telling_missing(self) -> Self {
        Self { tells_missing: true, ..self }
    }

    /// The same for whoever compiles again what was compiled before: schema files are those that were read, and
    /// there are no others, and what is missing is not told again.
    pub fn without_files(self) -> Setup<'static> {
        Setup { files: &NoFiles, models: None, compile_script: None, tells_missing: false, ..self }
    }

    /// The problem of referring to a model that the suite does not have.
    pub fn check_model(&self, pointer: &str, id: &str) -> Option<Problem> {
        let models = self.models?;
        if models.iter().any(|it| it == id) {
            return None;
        }
        let help =
            kindlm_types::suggest(id, "configured models", models.iter().map(String::as_str));
        let problem = Problem::new(pointer, format!("model `{id}` is not configured"));
        Some(problem.with_kind(ProblemKind::UnknownReference).with_help(help))
    }
}
