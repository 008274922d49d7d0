//! `scoring`: a function that decides by the named scores of the set, instead of its checks.

use std::sync::Arc;

use kindlm_types::script::{
    ScriptAnswer, ScriptOutcome, ScriptQuestion, ScriptRuntime, ScriptSource, ScriptValue,
};
use kindlm_types::{
    Answer, AskError, AssertionResult, FailureCode, Problem, Question, Verdict, ecma, named_scores,
};
use serde_json::{Map, Value, json};

use super::{ID, LABEL, SCORING_FAILED};
use crate::core::grade::Grade;
use crate::core::scripting::{JAVASCRIPT, ScriptSettings, compiled, script_file};
use crate::{Evidence, Setup};

/// The default name of the function in a Python file.
const PYTHON: &str = "get_score";

/// The scoring function.
#[derive(Debug)]
pub(super) struct Scoring {
    runtime: ScriptRuntime,
    source: ScriptSource,
    settings: ScriptSettings,
}

impl Scoring {
    /// Parses `file://score.js` or `file://score.js:function`; `.py` is allowed too.
    ///
    /// The pointers of problems are relative to `scoring`.
    pub(super) fn new(text: &str, setup: &Setup<'_>) -> Result<Self, Problem> {
        let endings: Vec<&str> = JAVASCRIPT.iter().copied().chain([".py"]).collect();
        let file = script_file(text, &endings, setup).ok_or_else(|| {
            Problem::new("", "expected the file of a function")
                .with_help("such as `file://score.js` or `file://score.js:function`")
        })??;
        let is_python = file.path.to_ascii_lowercase().ends_with(".py");
        let function = file.function.or(is_python.then(|| PYTHON.to_owned()));
        let settings = setup.scripts.clone();
        let runtime = if is_python { ScriptRuntime::Python } else { settings.runtime };
        let source = ScriptSource::File { path: file.path, function };
        compiled(setup, runtime, &settings, &source)?;
        Ok(Self { runtime, source, settings })
    }

    /// Returns the question to ask when all checks of the set have their answers.
    pub(super) fn question(&self, parts: &[AssertionResult], threshold: Option<f64>) -> Question {
        let scores: Map<String, Value> =
            named_scores(parts).into_iter().map(|it| (it.name, json!(it.score.get()))).collect();
        let components: Vec<Value> = parts.iter().map(component).collect();
        let mut context = json!({"componentResults": components});
        if let Some(threshold) = threshold {
            context["threshold"] = json!(threshold);
        }
        let args = [Value::Object(scores), context];
        let args = args.iter().map(|it| ecma::stringify(it).into()).collect();
        let question = ScriptQuestion::new(self.runtime, self.source.clone())
            .with_args(args)
            .with_permissions(Arc::clone(&self.settings.permissions))
            .with_timeout(self.settings.timeout);
        Question::Script(question)
    }

    /// Returns the result of the set, without the results of its checks.
    pub(super) fn result(
        &self,
        parts: &[AssertionResult],
        threshold: Option<f64>,
        negate: bool,
        evidence: &Evidence<'_>,
    ) -> AssertionResult {
        let answer = match evidence.answers.get(&self.question(parts, threshold)) {
            Some(Ok(Answer::Script(answer))) => answer,
            Some(Ok(_)) | None => {
                let message = "the scoring function was not run";
                return errored(FailureCode::INTERNAL_ERROR, message.to_owned());
            }
            Some(Err(err)) => return errored(err.failure_code(), cannot(err)),
        };
        match verdict(answer) {
            Ok(grade) => {
                let pass = grade.pass != negate;
                Grade { pass, ..grade }.result(ID, LABEL)
            }
            Err(message) => errored(SCORING_FAILED, message),
        }
    }
}

fn errored(code: FailureCode, message: String) -> AssertionResult {
    AssertionResult::errored(ID, LABEL, code, message)
}

fn cannot(err: &AskError) -> String {
    format!("the scoring function did not finish: {err}")
}

/// Returns the result of a check of the set, in the format of promptfoo's scoring functions.
fn component(part: &AssertionResult) -> Value {
    let reason = part.reasoning.clone().unwrap_or_default();
    json!({
        "pass": matches!(part.verdict, Verdict::Pass),
        "score": part.score.map_or(Value::Null, |it| json!(it.get())),
        "reason": reason,
        "assertion": {"type": part.assertion, "metric": part.metric},
    })
}

/// Returns the verdict that the function returned, or an error message.
fn verdict(answer: &ScriptAnswer) -> Result<Grade, String> {
    let value = match &answer.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(value)) => value,
        ScriptOutcome::Returned(_) => {
            return Err("the scoring function returned no object".to_owned());
        }
        ScriptOutcome::Threw { message, thrown, .. } => {
            let what = message.as_ref().unwrap_or(thrown);
            return Err(format!("the scoring function threw: {what}"));
        }
    };
    let (pass, score) = (value["pass"].as_bool(), value["score"].as_f64());
    let reason = value["reason"].as_str();
    match (pass, score, reason) {
        (Some(pass), Some(score), Some(reason)) => {
            Ok(Grade { pass, score, reason: reason.to_owned() })
        }
        _ => Err("the scoring function must return an object with `pass`, `score` and `reason`"
            .to_owned()),
    }
}
