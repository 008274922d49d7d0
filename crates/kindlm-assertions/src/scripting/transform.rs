//! `transform`: a script that makes what a check sees as the output.

use std::sync::Arc;

use kindlm_types::script::{
    ScriptAnswer, ScriptOutcome, ScriptQuestion, ScriptSource, ScriptValue,
};
use kindlm_types::{
    Answer, AskError, AssertionResult, Execution, FailureCode, Problem, Question, ecma,
};
use serde_json::Value;

use super::context::provider_response;
use super::{JAVASCRIPT, ScriptSettings, context, output, script_file};
use crate::{Evidence, Setup};

/// A script that makes what a check sees as the output out of what it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Transform {
    source: ScriptSource,
    settings: ScriptSettings,
}

impl Transform {
    /// Reads a transform as it is written: one line is an expression, several are the body of a function of `output`
    /// and `context`, `file://` names a file. Problems point from the text.
    pub fn new(text: &str, setup: &Setup<'_>) -> Result<Self, Problem> {
        let source = if let Some(file) = script_file(text, &JAVASCRIPT, setup) {
            let file = file?;
            ScriptSource::File { path: file.path, function: file.function }
        } else {
            let code = if text.contains('\n') { text.to_owned() } else { format!("return {text}") };
            let params = vec!["output".to_owned(), "context".to_owned()];
            ScriptSource::Body { params, code: code.into() }
        };
        Ok(Self { source, settings: setup.scripts.clone() })
    }

    /// The question that runs the script on an output.
    pub(crate) fn question(&self, evidence: &Evidence<'_>) -> Question {
        Question::Script(ScriptQuestion {
            runtime: self.settings.runtime,
            source: self.source.clone(),
            args: vec![output(evidence), context(evidence, None)],
            permissions: Arc::clone(&self.settings.permissions),
            timeout: self.settings.timeout,
        })
    }
}

/// What a check sees after its transforms.
pub(crate) enum Seen {
    /// The execution, as it was.
    Unchanged,
    /// The execution with another output.
    Changed(Box<Execution>),
    /// A script must run first.
    Ask(Box<Question>),
    /// A script failed; why, and under which code.
    Failed(FailureCode, String),
}

/// What a check with these transforms sees.
pub(crate) fn see(transforms: &[Arc<Transform>], evidence: &Evidence<'_>) -> Seen {
    let mut seen: Option<Box<Execution>> = None;
    for transform in transforms {
        let execution = seen.as_deref().unwrap_or(evidence.execution);
        let question = transform.question(&Evidence { execution, ..*evidence });
        let answer = match evidence.answers.get(&question) {
            None => return Seen::Ask(Box::new(question)),
            Some(Ok(Answer::Script(answer))) => answer,
            Some(Ok(Answer::Text { .. } | Answer::Vector(_))) => {
                let message = "the transform was answered by something that is no script";
                return Seen::Failed(FailureCode::INTERNAL_ERROR, message.to_owned());
            }
            Some(Err(err)) => return Seen::Failed(err.failure_code(), cannot(err)),
        };
        match changed(execution, answer) {
            Ok(changed) => seen = Some(Box::new(changed)),
            Err(message) => return Seen::Failed(FailureCode::SCRIPT_ERROR, message),
        }
    }
    seen.map_or(Seen::Unchanged, Seen::Changed)
}

fn cannot(err: &AskError) -> String {
    format!("The transform did not come to an end: {err}")
}

/// The execution with the output that a script made.
fn changed(before: &Execution, answer: &ScriptAnswer) -> Result<Execution, String> {
    let value = match &answer.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(Value::Null) | ScriptValue::Undefined) => {
            return Err("The transform returned nothing: it must return the new output".to_owned());
        }
        ScriptOutcome::Returned(ScriptValue::Json(value)) => value.clone(),
        ScriptOutcome::Returned(ScriptValue::Number(number)) => {
            serde_json::Number::from_f64(*number).map_or_else(
                || Value::String(ecma::number(*number)),
                |it| kindlm_schema::normalise_numbers(Value::Number(it)),
            )
        }
        ScriptOutcome::Returned(ScriptValue::Opaque { type_name, .. }) => {
            return Err(format!("The transform returned a {type_name}, which is no output"));
        }
        ScriptOutcome::Threw { message, thrown, .. } => {
            return Err(format!("The transform threw: {}", message.as_ref().unwrap_or(thrown)));
        }
    };
    let (output, output_json) = match value {
        Value::String(text) => (text, None),
        value => (ecma::stringify(&value), Some(value)),
    };
    // Scripts are told what the provider gave, not what was made of it.
    let provider_response = Some(provider_response(before));
    Ok(Execution { output, output_json, provider_response, ..before.clone() })
}

/// The result of a check whose transform failed.
pub(crate) fn failed(assertion: &str, code: FailureCode, message: String) -> AssertionResult {
    AssertionResult::errored(assertion, assertion, code, message)
}
