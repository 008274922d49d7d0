//! Everything that checks are made with: files, models, scripts, judges, the registry.

use std::fmt;
use std::sync::Arc;

use kindlm_types::script::CompileScript;
use kindlm_types::{Files, NoFiles, Problem, ProblemKind};
use serde_json::{Map, Value};

use super::Registry;
use crate::core::files::TextFiles;
use crate::core::judging::JudgeBlock;
use crate::core::schema_file::SchemaFiles;
use crate::core::scripting::{ScriptSettings, ScriptsBlock};
use crate::shared::pattern::Patterns;
use crate::shared::template::is_template;

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
    /// The runtime and the permissions of scripts, where a check does not say.
    pub scripts: ScriptSettings,
    /// The judges, where neither a check nor its `expect` block names them.
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

    /// True if an `expect` block has a template, so that what it compiles to depends on the variables. Of what is referred
    /// to, all counts, as that is rare.
    pub fn has_templates(&self, expect: &Value) -> bool {
        let refers = |it: &Value| it.get("$ref").is_some();
        // The file that it names is a template.
        let is_prompt = |it: &Value| it.get("rubricPrompt").is_some();
        let is_one = |it: &Value| it.as_str().is_some_and(is_template) || is_prompt(it);
        any(expect, &is_one)
            || expect.get("assert").is_some_and(|it| any(it, &refers))
                && self.assertion_templates.values().any(|it| any(it, &is_one))
    }

    /// The settings for the scripts of a check with this block of its own.
    pub(crate) fn script_settings(
        &self,
        block: Option<&ScriptsBlock>,
    ) -> Result<ScriptSettings, Vec<Problem>> {
        self.scripts.of_check(block, self.tells_missing.then_some(self.files))
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

/// True if something is true of a value, or of one within it.
fn any(value: &Value, test: &impl Fn(&Value) -> bool) -> bool {
    test(value)
        || match value {
            Value::Array(items) => items.iter().any(|it| any(it, test)),
            Value::Object(entries) => entries.values().any(|it| any(it, test)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_marks_make_a_template() {
        let mut setup = Setup::new(&kindlm_types::NoFiles, None);
        let named = json!({"x": {"type": "equals", "value": "{{x}}"}});
        setup.assertion_templates = named.as_object().unwrap().clone();
        for (expect, expected) in [
            (json!({"assert": [{"type": "equals", "value": "{ a }"}]}), false),
            (json!({"output": {"contains": ["x"]}}), false),
            (json!({"output": {"contains": ["{{x}}"]}}), true),
            (json!({"judge": [{"criteria": "Is about x"}]}), false),
            (json!({"judge": [{"criteria": "Is about {{x}}"}]}), true),
            (json!({"assert": [{"type": "equals", "value": ["{{x}}"]}]}), true),
            (json!({"assert": [{"type": "assert-set", "assert": [{"metric": "{#"}]}]}), true),
            (json!({"assert": [{"$ref": "#/assertionTemplates/x"}]}), true),
            (json!({"assert": [{"type": "moderation", "rubricPrompt": "file://a.txt"}]}), true),
        ] {
            assert_eq!(setup.has_templates(&expect), expected, "{expect}");
        }
    }
}
