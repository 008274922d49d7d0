//! Programs that make a part of the suite while it is read: prompts, tests, variables, filters.
//!
//! [`Inputs::scripts`](crate::Inputs) runs them; what they make is put into
//! the suite as if it had been written there.

use std::sync::Arc;

use kindlm_source::{Code, Diagnostic, Span};
use kindlm_types::ecma;
use kindlm_types::script::{
    ExportUse, ScriptOutcome, ScriptQuestion, ScriptRuntime, ScriptSource, ScriptValue,
};
use serde_json::{Number, Value};

use super::Translator;
use super::files::{extension, path};

/// A function of a file, or something else that the file exports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Program {
    is_python: bool,
    /// Relative to the folder of the config file.
    path: String,
    function: Option<String>,
}

impl Program {
    /// True if Python runs it, which minds how many arguments there are.
    pub(super) fn is_python(&self) -> bool {
        self.is_python
    }
}

/// A path, and the function behind its last colon.
pub(super) fn split(named: &str) -> (&str, Option<&str>) {
    match named.rsplit_once(':') {
        Some((path, function)) if !function.contains(['/', '\\', '.']) => (path, Some(function)),
        _ => (named, None),
    }
}

impl Translator<'_> {
    /// The program that a text names: a path, with or without `file://`, and maybe `:function`. Python needs a
    /// function: the one that is named, or `usual`.
    pub(super) fn program(
        &mut self,
        span: Span,
        named: &str,
        usual: Option<&str>,
    ) -> Option<Program> {
        let named = path(named).unwrap_or(named);
        let (path, function) = split(named);
        let path = path.trim_start_matches("./");
        let extension = extension(path);
        if extension == "rb" {
            let help = "write it in JavaScript or Python";
            self.unsupported(span, "a Ruby program in this place", Some(help));
            return None;
        }
        // A host would find out later, and without the place.
        self.content(span, path)?;
        let is_python = extension == "py";
        let function = function.or(usual.filter(|_| is_python)).map(str::to_owned);
        if is_python && function.is_none() {
            let message = format!("`{path}` is a Python program, and no function of it is named");
            let help = format!("name it: `file://{path}:function`");
            self.error(span, message, Some(&help));
            return None;
        }
        Some(Program { is_python, path: path.to_owned(), function })
    }

    /// What a program gives for these arguments; `what` says what it is, for messages.
    ///
    /// A program that has failed is not run again: its problem is told already.
    pub(super) fn call(
        &mut self,
        span: Span,
        program: &Program,
        what: &str,
        args: &[Value],
    ) -> Option<Value> {
        if self.broken.contains(program) {
            return None;
        }
        match self.run(program, args) {
            Ok(value) => Some(value),
            Err(why) => {
                self.broken.insert(program.clone());
                let message = format!("{what} `{}` failed: {why}", program.path);
                let diagnostic = Diagnostic::error(Code::PROGRAM, message, self.source, span);
                self.diagnostics.push(diagnostic);
                None
            }
        }
    }

    fn run(&self, program: &Program, args: &[Value]) -> Result<Value, String> {
        run(&self.runner(), program, args)
    }

    /// What runs programs.
    pub(super) fn runner(&self) -> Runner {
        Runner { scripts: Arc::clone(&self.inputs.scripts), settings: self.scripts.clone() }
    }
}

/// Runs programs, with what they may do.
#[derive(Clone)]
pub(super) struct Runner {
    scripts: Arc<kindlm_types::script::RunScript>,
    settings: kindlm_assertions::ScriptSettings,
}

/// What a program gives, or why it gives nothing.
pub(super) fn run(runner: &Runner, program: &Program, args: &[Value]) -> Result<Value, String> {
    let (path, function) = (program.path.clone(), program.function.clone());
    let (runtime, source) = if program.is_python {
        (ScriptRuntime::Python, ScriptSource::File { path, function })
    } else {
        let source = ScriptSource::Export { path, name: function, usage: ExportUse::Value };
        (runner.settings.runtime, source)
    };
    ask(runner, runtime, source, args)
}

/// What a line of code gives: an expression, or with line breaks the body of a function.
pub(super) fn evaluate(
    runner: &Runner,
    code: &str,
    params: &[&str],
    args: &[Value],
) -> Result<Value, String> {
    let code = if code.contains('\n') { code.to_owned() } else { format!("return {code}") };
    let params = params.iter().map(|&it| it.to_owned()).collect();
    let source = ScriptSource::Body { params, code: code.into() };
    ask(runner, runner.settings.runtime, source, args)
}

fn ask(
    runner: &Runner,
    runtime: ScriptRuntime,
    source: ScriptSource,
    args: &[Value],
) -> Result<Value, String> {
    let question = ScriptQuestion {
        runtime,
        source,
        args: args.iter().map(|it| ecma::stringify(it).into()).collect(),
        permissions: Arc::clone(&runner.settings.permissions),
        timeout: runner.settings.timeout,
    };
    match (runner.scripts)(&question).map_err(|err| err.message)?.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(value)) => Ok(value),
        ScriptOutcome::Returned(ScriptValue::Number(number)) => Number::from_f64(number)
            .map(|it| kindlm_schema::normalise_numbers(Value::Number(it)))
            .ok_or_else(|| format!("it returned {}, which is no number", ecma::number(number))),
        ScriptOutcome::Returned(ScriptValue::Undefined) => Err("it returned nothing".to_owned()),
        ScriptOutcome::Returned(ScriptValue::Opaque { type_name, .. }) => {
            Err(format!("it returned a {type_name}"))
        }
        ScriptOutcome::Threw { message, thrown, .. } => {
            Err(format!("it threw `{}`", message.unwrap_or(thrown)))
        }
    }
}
