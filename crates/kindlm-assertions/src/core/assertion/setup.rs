//! The environment in which checks are built: files, models, scripts, judges, the registry.

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

/// A function that parses a YAML text into JSON, or returns the error message.
pub type ReadYaml = fn(&str) -> Result<Value, String>;

/// The environment in which checks are built from configuration.
///
/// A suite uses a single setup, because the setup caches compiled schemas and patterns.
#[non_exhaustive]
pub struct Setup<'a> {
    /// The files that the configuration refers to.
    pub files: &'a dyn Files,
    /// The ids of the suite's models; `None` if references to models are not checked.
    pub models: Option<&'a [String]>,
    /// The named entries for `assert` lists that `$ref` can refer to.
    pub assertion_templates: Map<String, Value>,
    /// The default runtime and permissions of scripts, for checks that do not set them.
    pub scripts: ScriptSettings,
    /// The judging options that apply if neither a check nor its `expect` block sets them.
    pub judging: JudgeBlock,
    /// The environment variables that templates may read.
    pub env: Map<String, Value>,
    /// The parser for YAML in files and texts; `None` if only JSON is read.
    pub yaml: Option<ReadYaml>,
    /// The script compiler, which finds syntax errors before any request is sent.
    ///
    /// With `None`, scripts are not compiled in advance.
    pub compile_script: Option<Arc<CompileScript>>,
    /// The assertions that configuration may name.
    pub registry: Arc<Registry>,
    pub(crate) tells_missing: bool,
    pub(crate) sandboxed: bool,
    pub(crate) keeps_written_labels: bool,
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
    pub(crate) fn from_registry(
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
            sandboxed: false,
            keeps_written_labels: false,
            schemas: SchemaFiles::default(),
            texts: TextFiles::default(),
            patterns: Patterns::default(),
        }
    }
}

impl Setup<'_> {
    /// Returns the setup with this registry. Configuration may then name only assertions of this registry.
    #[must_use]
    pub fn with_registry(self, registry: Arc<Registry>) -> Self {
        Self { registry, ..self }
    }

    /// Returns the setup with a YAML parser, so that files and texts may be YAML too.
    #[must_use]
    pub fn with_yaml(self, read: ReadYaml) -> Self {
        Self { yaml: Some(read), ..self }
    }

    /// Returns a setup that also reports missing variables, configuration without effect, and unusable script folders.
    ///
    /// Missing variables and configuration without effect are warnings. A folder in `scripts.read` that is missing or
    /// not permitted is an error.
    #[must_use]
    pub fn with_advice(self) -> Self {
        Self { tells_missing: true, ..self }
    }

    /// Returns a setup whose checks also keep the labels with unrendered templates.
    ///
    /// [`Check::name`](crate::Check::name) uses these labels.
    #[must_use]
    pub fn with_written_labels(self) -> Self {
        Self { keeps_written_labels: true, ..self }
    }

    /// Returns a setup for untrusted configuration: scripts run only in the sandbox.
    ///
    /// A check that needs the network or an interpreter outside of the sandbox is a problem. A `scripts` block that
    /// sets permissions or a time limit is a problem too. Templates read no environment variable. Files are read from
    /// [`files`](Self::files).
    #[must_use]
    pub fn sandboxed(self) -> Self {
        let (scripts, env) = (ScriptSettings::default(), Map::new());
        Self { sandboxed: true, scripts, env, ..self }
    }

    /// Returns a setup for compiling the same configuration a second time.
    ///
    /// The setup uses the files that were already read, and cannot open any other file. It does not check references to
    /// models, compile scripts, or report missing variables again.
    pub fn without_files(self) -> Setup<'static> {
        Setup { files: &NoFiles, models: None, compile_script: None, tells_missing: false, ..self }
    }

    /// Returns true if an `expect` block has a template, so it depends on variables.
    ///
    /// If the block has a `$ref`, a template in any entry of `assertion_templates` counts, even if the `$ref` names
    /// another entry.
    pub fn has_templates(&self, expect: &Value) -> bool {
        let refers = |it: &Value| it.get("$ref").is_some();
        // A `rubricPrompt` can name a file, and the content of that file is a template.
        let is_prompt = |it: &Value| it.get("rubricPrompt").is_some();
        let is_one = |it: &Value| it.as_str().is_some_and(is_template) || is_prompt(it);
        any(expect, &is_one)
            || expect.get("assert").is_some_and(|it| any(it, &refers))
                && self.assertion_templates.values().any(|it| any(it, &is_one))
    }

    /// Returns the script settings of the suite, overridden by the check's own block.
    ///
    /// Fails if the block is not valid. In a [sandboxed](Self::sandboxed) setup, also fails for a block that needs more
    /// than the sandbox.
    pub(crate) fn script_settings(
        &self,
        block: Option<&ScriptsBlock>,
    ) -> Result<ScriptSettings, Vec<Problem>> {
        if self.sandboxed
            && let Some(problem) = block.and_then(ScriptsBlock::beyond_sandbox)
        {
            return Err(vec![problem.under("/scripts")]);
        }
        self.scripts.of_check(block, self.tells_missing.then_some(self.files))
    }

    /// Fails if the setup is [sandboxed](Self::sandboxed). Call it for a check that needs more than the sandbox.
    ///
    /// `needs` completes "this check needs …".
    pub(crate) fn refuse_in_sandbox(&self, needs: &str) -> Result<(), Vec<Problem>> {
        if !self.sandboxed {
            return Ok(());
        }
        let message = format!("this check needs {needs}, which is not permitted here");
        let help = "use a check that only computes, or that asks a judge";
        Err(vec![Problem::new("", message).with_help(help)])
    }

    /// Returns a problem if the suite has no model with this id.
    ///
    /// Returns `None` if the setup does not check references to models.
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

/// Returns true if the test holds for the value or for any value nested in it.
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
    fn sandboxed_setup_refuses_more_than_computing() {
        let code = |more: Value| {
            let mut entry = json!({"type": "javascript", "value": "true"});
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            entry
        };
        for (entry, expected) in [
            (code(json!({})), None),
            (code(json!({"scripts": {"runtime": "quickjs", "net": []}})), None),
            (code(json!({"scripts": {"net": ["a.test"]}})), Some("/assert/0/scripts/net")),
            (code(json!({"scripts": {"read": ["."]}})), Some("/assert/0/scripts/read")),
            (code(json!({"scripts": {"env": ["KEY"]}})), Some("/assert/0/scripts/env")),
            (code(json!({"scripts": {"runtime": "node"}})), Some("/assert/0/scripts/runtime")),
            (code(json!({"scripts": {"timeoutMs": 1}})), Some("/assert/0/scripts/timeoutMs")),
            (json!({"type": "python", "value": "True"}), Some("/assert/0")),
            (json!({"type": "ruby", "value": "true"}), Some("/assert/0")),
            (json!({"type": "not-python", "value": "True"}), Some("/assert/0")),
            (
                json!({"type": "webhook", "value": "http://a.test", "scripts": {"net": ["a.test"]}}),
                Some("/assert/0"),
            ),
            (
                json!({"type": "pi", "value": "x", "scripts": {"net": ["a.test"], "env": ["KEY"]}}),
                Some("/assert/0"),
            ),
            (
                json!({"type": "assert-set", "assert": [{"type": "python", "value": "True"}]}),
                Some("/assert/0/assert/0"),
            ),
            (code(json!({"value": "file://a.js"})), Some("/assert/0/value")),
        ] {
            let setup = Setup::new(&kindlm_types::NoFiles, None).sandboxed();
            let block = json!({"assert": [entry]});
            let (_, problems) = crate::compile_with(&block, &setup, &Map::new());
            let places: Vec<&str> = problems.iter().map(|it| it.pointer.as_str()).collect();
            assert_eq!(places, Vec::from_iter(expected), "{block}: {problems:?}");
        }
    }

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
