//! `javascript`: a script of the user decides.

mod grading;

use std::sync::Arc;

use kindlm_types::script::{ScriptErrorKind, ScriptQuestion, ScriptSource};
use kindlm_types::{
    Answer, AskError, AssertionResult, Class, FailureCode, Problem, Question, Severity, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::scripting::grading::SCRIPT_THREW;
use crate::core::scripting::{
    JAVASCRIPT, ScriptSettings, ScriptsBlock, body, compiled, context, label, output, script_file,
    with_console,
};
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "javascript";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "Your own script decides: an expression, a function, or a file.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "The script rejects the output." },
            Code {
                code: SCRIPT_THREW,
                summary: "The script threw, could not be read, or returned a value that is not a verdict.",
            },
            Code {
                code: FailureCode::SCRIPT_ERROR,
                summary: "The script was stopped, or could not be run, so the check is errored.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Script>,
    build: Build::Script(build),
};

/// A script that decides whether the output is right.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Script {
    /// The script: code, `file://check.js` or `file://check.js:function`.
    ///
    /// Code is an expression, or the body of a function of `output` and `context`.
    value: String,
    /// Any value, which the script gets as `context.config`.
    #[serde(default)]
    config: Option<Value>,
    /// The runtime and the permissions of the script, if they differ from the suite's.
    #[serde(default)]
    scripts: Option<ScriptsBlock>,
}

#[derive(Debug)]
struct JavaScript {
    /// The code after its templates were rendered. It is a part of failure reasons.
    code: String,
    label: String,
    source: ScriptSource,
    config: Option<Value>,
    settings: ScriptSettings,
    own: EntryOptions,
}

fn build(
    config: &Value,
    own: EntryOptions,
    setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Script::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    if let Some(name) = config.value.strip_prefix("package:") {
        let message = format!("scripts cannot come from the npm package `{name}`");
        let help = "write a file that requires it, with `scripts: { runtime: node }`";
        return Err(vec![Problem::new("/value", message).with_help(help)]);
    }
    let source = match script_file(&config.value, &JAVASCRIPT, setup) {
        Some(Err(problem)) => return Err(vec![problem.under("/value")]),
        Some(Ok(file)) => ScriptSource::File { path: file.path, function: file.function },
        None => inline(&config.value),
    };
    let settings = setup.script_settings(config.scripts.as_ref())?;
    compiled(setup, settings.runtime, &settings, &source)
        .map_err(|problem| vec![problem.under("/value")])?;
    let label = own.label(&label("JavaScript", &config.value));
    Ok(Arc::new(JavaScript {
        code: config.value,
        label,
        source,
        config: config.config,
        settings,
        own,
    }))
}

/// Converts inline code to a script with its parameters.
fn inline(code: &str) -> ScriptSource {
    // The caller passes no argument for `process`, so the parameter gets the global variable `process`. promptfoo also
    // provides `process`.
    let params = ["output", "context", "process"].map(str::to_owned).to_vec();
    ScriptSource::Body { params, code: body(code).into() }
}

impl JavaScript {
    fn question(&self, evidence: &Evidence<'_>) -> Question {
        let question = ScriptQuestion::new(self.settings.runtime, self.source.clone())
            .with_args(vec![output(evidence), context(evidence, self.config.as_ref())])
            .with_permissions(Arc::clone(&self.settings.permissions))
            .with_timeout(self.settings.timeout);
        Question::Script(question)
    }

    fn errored(&self, code: FailureCode, message: String) -> AssertionResult {
        AssertionResult::errored(ID, &self.label, code, message)
    }
}

impl Assertion for JavaScript {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.label.clone()),
            measures: true,
            names_scores: true,
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        vec![self.question(evidence)]
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let (result, console) = match evidence.answers.get(&self.question(evidence)) {
            Some(Ok(Answer::Script(answer))) => {
                (self.grade(&answer.outcome), answer.console.as_slice())
            }
            // A script that cannot be loaded fails the check, as an exception does.
            Some(Err(AskError::Script(err))) if err.kind == ScriptErrorKind::Load => {
                (self.threw(&err.message, "", None), err.console.as_slice())
            }
            Some(Err(AskError::Script(err))) => (
                self.errored(FailureCode::SCRIPT_ERROR, err.message.clone()),
                err.console.as_slice(),
            ),
            Some(Err(err)) => (self.errored(err.failure_code(), err.to_string()), &[][..]),
            Some(Ok(Answer::Text { .. } | Answer::Vector { .. })) | None => {
                let message = "the script was not run".to_owned();
                (self.errored(FailureCode::INTERNAL_ERROR, message), &[][..])
            }
        };
        vec![with_console(result, self.settings.runtime, console)]
    }
}
