//! The shared parts of `python` and `ruby`: scripts that an installed interpreter runs.

mod verdict;

use std::sync::Arc;

use kindlm_types::script::{
    ScriptErrorKind, ScriptOutcome, ScriptQuestion, ScriptRuntime, ScriptSource,
};
use kindlm_types::{Answer, AskError, AssertionResult, FailureCode, Problem, Question};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    ScriptSettings, ScriptsBlock, compiled, context, label, output, script_file, with_console,
};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::scripting::grading::SCRIPT_THREW;
use crate::{Assertion, EntryOptions, Evidence, Setup, Traits};

/// A language whose scripts an installed interpreter runs.
#[derive(Debug)]
pub(crate) struct Language {
    /// The id of the language's assertion.
    pub(crate) id: &'static str,
    /// The name of the language, as in promptfoo's reasons.
    pub(crate) name: &'static str,
    /// The file extensions of scripts in this language.
    pub(crate) endings: &'static [&'static str],
    /// The interpreter.
    pub(crate) runtime: ScriptRuntime,
}

/// A script for an installed interpreter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "InterpretedScript")]
pub(crate) struct Script {
    /// The script: code, or `file://` and the path of a file.
    ///
    /// One line is an expression of `output` and `context`; several lines are the body of a function of the two.
    /// `:function` after the path names a function; the default is `get_assert`.
    value: String,
    /// Any value, which the script gets as `config` in its context.
    #[serde(default)]
    config: Option<Value>,
    /// The permissions of the script, if they differ from those of the suite.
    #[serde(default)]
    scripts: Option<Block>,
}

/// The options of a script that runs outside the sandbox.
///
/// There is no `net` and no `read`, because outside the sandbox, a script can reach every host and read every file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "InterpretedScripts")]
struct Block {
    /// The environment variables of the script, besides basic ones such as `PATH`.
    #[schemars(inner(length(min = 1)))]
    #[serde(default)]
    env: Option<Vec<String>>,
    /// The time limit of one call of the script, in milliseconds. The default is the suite's limit.
    #[schemars(range(min = 1, max = 3_600_000))]
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// A check by a script in an interpreted language.
#[derive(Debug)]
pub(crate) struct Interpreted {
    language: &'static Language,
    /// The code after its templates were rendered. Failure reasons contain this code.
    code: String,
    label: String,
    source: ScriptSource,
    config: Option<Value>,
    settings: ScriptSettings,
    own: EntryOptions,
}

impl Interpreted {
    /// Builds the check from its configuration.
    ///
    /// Fails in the sandbox, for a file that cannot be read, and for a script with a syntax error.
    pub(crate) fn build(
        language: &'static Language,
        config: &Value,
        own: EntryOptions,
        setup: &Setup<'_>,
    ) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
        setup.refuse_in_sandbox(&format!(
            "an interpreter outside of the sandbox ({})",
            language.name
        ))?;
        let config: Script = parse_config(config)?;
        let source = match script_file(&config.value, language.endings, setup) {
            Some(Err(problem)) => return Err(vec![problem.under("/value")]),
            Some(Ok(file)) => ScriptSource::File { path: file.path, function: file.function },
            None => body(&config.value),
        };
        let block = config.scripts.map(|it| ScriptsBlock {
            env: it.env,
            timeout_ms: it.timeout_ms,
            ..ScriptsBlock::default()
        });
        let settings = setup.script_settings(block.as_ref())?;
        let settings = ScriptSettings { runtime: language.runtime, ..settings };
        compiled(setup, settings.runtime, &settings, &source)
            .map_err(|problem| vec![problem.under("/value")])?;
        Ok(Arc::new(Self {
            language,
            label: own.label(&label(language.name, &config.value)),
            code: config.value,
            source,
            config: config.config,
            settings,
            own,
        }))
    }

    fn question(&self, evidence: &Evidence<'_>) -> Question {
        let question = ScriptQuestion::new(self.settings.runtime, self.source.clone())
            .with_args(vec![output(evidence), context(evidence, self.config.as_ref())])
            .with_permissions(Arc::clone(&self.settings.permissions))
            .with_timeout(self.settings.timeout);
        Question::Script(question)
    }

    /// Returns the result for the outcome of the script.
    fn grade(&self, outcome: &ScriptOutcome) -> AssertionResult {
        match outcome {
            ScriptOutcome::Returned(value) => self.verdict(value),
            ScriptOutcome::Threw { stack, thrown, .. } => {
                self.raised(&format!("{thrown}\nStack Trace: {}", stack.trim_end()))
            }
        }
    }

    /// Returns the failed result for an exception, with the error message of promptfoo.
    ///
    /// `not-` inverts neither exceptions nor invalid verdicts.
    fn raised(&self, what: &str) -> AssertionResult {
        let said = format!("Error running {} script: {what}", self.language.name);
        match self.source {
            ScriptSource::File { .. } | ScriptSource::Export { .. } => self.failed(said),
            ScriptSource::Body { .. } => self.not_executed(&said),
        }
    }

    fn not_executed(&self, why: &str) -> AssertionResult {
        self.failed(format!("{} code execution failed: {why}", self.language.name))
    }

    fn failed(&self, reason: String) -> AssertionResult {
        AssertionResult::fail(self.language.id, &self.label, SCRIPT_THREW, &reason)
            .with_reasoning(reason)
    }

    fn result(&self, grade: Grade) -> AssertionResult {
        grade.result(self.language.id, &self.label)
    }

    fn errored(&self, code: FailureCode, message: String) -> AssertionResult {
        AssertionResult::errored(self.language.id, &self.label, code, message)
    }
}

/// Returns the script of a text: one line is an expression, several lines are a function body.
fn body(code: &str) -> ScriptSource {
    let code = if code.contains('\n') { code.to_owned() } else { format!("return {code}") };
    let params = vec!["output".to_owned(), "context".to_owned()];
    ScriptSource::Body { params, code: code.into() }
}

impl Assertion for Interpreted {
    fn traits(&self) -> Traits {
        Traits { measures: true, names_scores: true, ..Traits::OF_OUTPUT }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        vec![self.question(evidence)]
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let none: &[String] = &[];
        let (result, console) = match evidence.answers.get(&self.question(evidence)) {
            Some(Ok(Answer::Script(answer))) => {
                (self.grade(&answer.outcome), answer.console.as_slice())
            }
            // A script that cannot be loaded fails the check, as an exception does.
            Some(Err(AskError::Script(err))) if err.kind == ScriptErrorKind::Load => {
                (self.raised(&err.message), err.console.as_slice())
            }
            Some(Err(AskError::Script(err))) => (
                self.errored(FailureCode::SCRIPT_ERROR, err.message.clone()),
                err.console.as_slice(),
            ),
            Some(Err(err)) => (self.errored(err.failure_code(), err.to_string()), none),
            Some(Ok(Answer::Text { .. } | Answer::Vector { .. })) | None => {
                let message = "the script was not run".to_owned();
                (self.errored(FailureCode::INTERNAL_ERROR, message), none)
            }
        };
        vec![with_console(result, self.settings.runtime, console)]
    }
}
