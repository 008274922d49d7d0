//! `transform`: a script that changes the output before the check judges it.

use std::sync::Arc;

use kindlm_types::script::{
    ScriptAnswer, ScriptOutcome, ScriptQuestion, ScriptSource, ScriptValue,
};
use kindlm_types::{Execution, Problem, Question, ecma};
use serde_json::Value;

use super::context::provider_response;
use super::{JAVASCRIPT, ScriptSettings, compiled, context, output, script_file};
use crate::{Evidence, Setup};

/// A script that turns the output into the value that a check judges.
#[derive(Clone, Debug, PartialEq)]
pub struct Transform {
    source: ScriptSource,
    settings: ScriptSettings,
}

impl Transform {
    /// Parses a transform. Pointers of problems start at its text.
    ///
    /// One line is an expression; several lines are the body of a function of `output` and `context`. `file://` names a
    /// file.
    pub fn new(text: &str, setup: &Setup<'_>) -> Result<Self, Problem> {
        let source = if let Some(file) = script_file(text, &JAVASCRIPT, setup) {
            let file = file?;
            ScriptSource::File { path: file.path, function: file.function }
        } else {
            let code = if text.contains('\n') { text.to_owned() } else { format!("return {text}") };
            let params = vec!["output".to_owned(), "context".to_owned()];
            ScriptSource::Body { params, code: code.into() }
        };
        compiled(setup, setup.scripts.runtime, &setup.scripts, &source)?;
        Ok(Self { source, settings: setup.scripts.clone() })
    }

    /// Returns the question that runs the script on an output.
    pub(crate) fn question(&self, evidence: &Evidence<'_>) -> Question {
        let question = ScriptQuestion::new(self.settings.runtime, self.source.clone())
            .with_args(vec![output(evidence), context(evidence, None)])
            .with_permissions(Arc::clone(&self.settings.permissions))
            .with_timeout(self.settings.timeout);
        Question::Script(question)
    }
}

/// Returns the execution with the script's output, or an error message.
pub(super) fn changed(before: &Execution, answer: &ScriptAnswer) -> Result<Execution, String> {
    let value = match &answer.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(Value::Null) | ScriptValue::Undefined) => {
            return Err("the transform returned nothing: it must return the new output".to_owned());
        }
        ScriptOutcome::Returned(ScriptValue::Json(value)) => value.clone(),
        ScriptOutcome::Returned(ScriptValue::Number(number)) => {
            serde_json::Number::from_f64(*number).map_or_else(
                || Value::String(ecma::number(*number)),
                |it| kindlm_schema::normalise_numbers(Value::Number(it)),
            )
        }
        ScriptOutcome::Returned(ScriptValue::Opaque { type_name, .. }) => {
            return Err(format!("the transform returned a {type_name}, which cannot be an output"));
        }
        ScriptOutcome::Threw { message, thrown, .. } => {
            return Err(format!("the transform threw: {}", message.as_ref().unwrap_or(thrown)));
        }
    };
    let (output, output_json) = match value {
        Value::String(text) => (text, None),
        value => (ecma::stringify(&value), Some(value)),
    };
    // Later scripts get the provider's original response, not the transformed output.
    let provider_response = Some(provider_response(before));
    Ok(Execution { output, output_json, provider_response, ..before.clone() })
}
