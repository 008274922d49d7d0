//! Scripts that return `true` or `false` for a value.

use std::sync::Arc;

use kindlm_types::script::{
    ScriptAnswer, ScriptErrorKind, ScriptOutcome, ScriptQuestion, ScriptSource, ScriptValue,
};
use kindlm_types::{Answer, AskError, AssertionResult, FailureCode, Problem, Question, ecma};
use serde_json::Value;

use super::body::body;
use super::grading::SCRIPT_THREW;
use super::{JAVASCRIPT, ScriptSettings, compiled, context, script_file, with_console};
use crate::{Evidence, Setup};

/// A script that returns `true` or `false` for a value.
///
/// Any other return value gives no verdict, with and without `not-`.
#[derive(Clone, Debug)]
pub(crate) struct Predicate {
    /// The code as written.
    pub(crate) code: String,
    source: ScriptSource,
    settings: ScriptSettings,
}

/// The reason why a script gives no verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NoVerdict {
    /// The failure code of the errored check.
    pub(crate) code: FailureCode,
    /// The error message.
    pub(crate) message: String,
}

impl Predicate {
    /// Parses a script. Pointers of problems start at its text.
    ///
    /// One line is an expression of `param` and `context`, or a function of the two. Several lines are a function body
    /// with its own `return`. `file://` names a file.
    pub(crate) fn new(
        written: &str,
        param: &str,
        settings: ScriptSettings,
        setup: &Setup<'_>,
    ) -> Result<Self, Problem> {
        let source = if let Some(file) = script_file(written, &JAVASCRIPT, setup) {
            let file = file?;
            ScriptSource::File { path: file.path, function: file.function }
        } else {
            let params = vec![param.to_owned(), "context".to_owned()];
            // Compile the code alone first, so that positions in errors refer to the code as written.
            let alone = ScriptSource::Body { params: params.clone(), code: body(written).into() };
            compiled(setup, settings.runtime, &settings, &alone)?;
            ScriptSource::Body { params, code: called(written, param).into() }
        };
        compiled(setup, settings.runtime, &settings, &source)?;
        Ok(Self { code: written.to_owned(), source, settings })
    }

    /// Returns the question that runs the script on a value.
    pub(crate) fn question(&self, value: &Value, evidence: &Evidence<'_>) -> Question {
        let question = ScriptQuestion::new(self.settings.runtime, self.source.clone())
            .with_args(vec![ecma::stringify(value).into(), context(evidence, None)])
            .with_permissions(Arc::clone(&self.settings.permissions))
            .with_timeout(self.settings.timeout);
        Question::Script(question)
    }

    /// Returns the script's verdict on a value, or the reason why there is no verdict.
    pub(crate) fn holds(&self, value: &Value, evidence: &Evidence<'_>) -> Result<bool, NoVerdict> {
        match evidence.answers.get(&self.question(value, evidence)) {
            Some(Ok(Answer::Script(answer))) => read_verdict(answer),
            Some(Err(AskError::Script(err))) if err.kind == ScriptErrorKind::Load => {
                Err(NoVerdict {
                    code: SCRIPT_THREW,
                    message: format!("the script cannot be read: {err}"),
                })
            }
            Some(Err(err)) => {
                let message = format!("the script did not finish: {err}");
                Err(NoVerdict { code: err.failure_code(), message })
            }
            Some(Ok(Answer::Text { .. } | Answer::Vector { .. })) | None => {
                let message = "the script was not run".to_owned();
                Err(NoVerdict { code: FailureCode::INTERNAL_ERROR, message })
            }
        }
    }

    /// Adds the script's console output to a result.
    ///
    /// If the script ran outside the sandbox, the result also gets `sandboxed: false` in its metadata.
    pub(crate) fn with_console(
        &self,
        result: AssertionResult,
        value: &Value,
        evidence: &Evidence<'_>,
    ) -> AssertionResult {
        let console = match evidence.answers.get(&self.question(value, evidence)) {
            Some(Ok(Answer::Script(answer))) => answer.console.as_slice(),
            Some(Err(AskError::Script(err))) => err.console.as_slice(),
            _ => &[],
        };
        with_console(result, self.settings.runtime, console)
    }

    /// Returns the first line of the script, cut to 60 characters for a report.
    pub(crate) fn shown(&self) -> String {
        const SHOWN: usize = 60;
        let first = self.code.trim().lines().next().unwrap_or_default();
        let short: String = first.chars().take(SHOWN).collect();
        let more = if short.len() < self.code.trim().len() { "…" } else { "" };
        format!("{short}{more}")
    }
}

/// Returns the script's verdict, or the reason why there is no verdict.
fn read_verdict(answer: &ScriptAnswer) -> Result<bool, NoVerdict> {
    let no_verdict = |what: String| {
        let message = format!("the script {what}: it must return `true` or `false`");
        Err(NoVerdict { code: SCRIPT_THREW, message })
    };
    match &answer.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(Value::Bool(holds))) => Ok(*holds),
        ScriptOutcome::Returned(ScriptValue::Undefined) => {
            no_verdict("returned nothing".to_owned())
        }
        ScriptOutcome::Returned(ScriptValue::Number(number)) => {
            no_verdict(format!("returned {}", ecma::number(*number)))
        }
        ScriptOutcome::Returned(ScriptValue::Json(value)) => {
            let value: String = ecma::stringify(value).chars().take(80).collect();
            no_verdict(format!("returned {value}"))
        }
        ScriptOutcome::Returned(ScriptValue::Opaque { type_name, .. }) => {
            no_verdict(format!("returned a {type_name}"))
        }
        ScriptOutcome::Threw { message, thrown, .. } => {
            let message = message.as_ref().unwrap_or(thrown);
            Err(NoVerdict { code: SCRIPT_THREW, message: format!("the script threw: {message}") })
        }
    }
}

/// Returns a function body that evaluates the code. If the value of the code is a function, the body calls it.
///
/// The code follows the rules of the `javascript` assertion.
fn called(code: &str, param: &str) -> String {
    // The code starts on the first line, so that line numbers in errors are those of the code as written. The line
    // break after the code ends a trailing `//` comment.
    let code = body(code);
    format!(
        "const said = await (async () => {{{code}\n}})();\n\
         return typeof said === 'function' ? said({param}, context) : said"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn code_is_read_as_the_javascript_assertion_reads_it() {
        for (code, expected) in [
            ("value > 3;", "return value > 3"),
            ("x => x > 3", "return x => x > 3"),
            ("value.includes('return')", "return value.includes('return')"),
            ("const n = value.length; n > 3", "const n = value.length; return n > 3"),
            ("const a = value;\nreturn a === 1", "const a = value;\nreturn a === 1"),
        ] {
            let called = called(code, "value");
            let inside = called.strip_prefix("const said = await (async () => {");
            let inside = inside.and_then(|it| it.split_once("\n})();\n"));
            assert_eq!(inside.map(|it| it.0), Some(expected), "{called}");
            assert!(called.ends_with("? said(value, context) : said"), "{called}");
        }
    }

    #[test]
    fn only_true_and_false_are_verdicts() {
        let answer = |it: ScriptValue| ScriptAnswer::new(ScriptOutcome::Returned(it));
        assert_eq!(read_verdict(&answer(json!(true).into())), Ok(true));
        assert_eq!(read_verdict(&answer(json!(false).into())), Ok(false));
        for (value, words) in [
            (json!(1).into(), "returned 1:"),
            (json!(0).into(), "returned 0:"),
            (json!("no").into(), "returned \"no\":"),
            (json!(null).into(), "returned null:"),
            (ScriptValue::Undefined, "returned nothing:"),
        ] {
            let no_verdict = read_verdict(&answer(value)).unwrap_err();
            assert!(no_verdict.message.contains(words), "{}", no_verdict.message);
        }
    }
}
