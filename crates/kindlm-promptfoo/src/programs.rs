//! Programs that generate parts of the suite while it is read.
//!
//! The parts are prompts, tests, variables and filters. [`Inputs::scripts`](crate::Inputs) runs the programs. Their
//! results become part of the suite.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kindlm_source::{Code, Diagnostic, Span};
use kindlm_types::ecma;
use kindlm_types::script::{
    ExportUse, ScriptError, ScriptErrorKind, ScriptOutcome, ScriptQuestion, ScriptRuntime,
    ScriptSource, ScriptValue,
};
use serde_json::{Number, Value};

use super::Translator;
use super::files::{extension, path};

/// A program: the export or function of a file, or a command line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Program {
    language: Language,
    /// The path, relative to the folder of the config file, or the command line.
    path: String,
    function: Option<String>,
}

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Language {
    JavaScript,
    Python,
    /// Any language: the program is a command line.
    Command,
}

impl Program {
    /// Returns the program of a command line.
    pub(super) fn command(line: &str) -> Self {
        Self { language: Language::Command, path: line.to_owned(), function: None }
    }

    /// True if the program is a command line.
    pub(super) fn is_command(&self) -> bool {
        self.language == Language::Command
    }

    /// True if the program is written in Python. Python functions reject extra arguments.
    pub(super) fn is_python(&self) -> bool {
        self.language == Language::Python
    }
}

/// Splits a text into a path and the function name behind its last colon.
///
/// The function name is `None` if the text has no function name.
pub(super) fn split(named: &str) -> (&str, Option<&str>) {
    match named.rsplit_once(':') {
        Some((path, function)) if !function.contains(['/', '\\', '.']) => (path, Some(function)),
        // A method of a class in Python: `tests.py:Maker.make`.
        Some((path, function))
            if extension(path) == "py"
                && !function.contains(['/', '\\'])
                && !function.is_empty() =>
        {
            (path, Some(function))
        }
        _ => (named, None),
    }
}

impl Translator<'_> {
    /// Returns the program that a text names, or `None` after an error.
    ///
    /// The text is a path with an optional `file://` and `:function`. A Python program needs a function; `usual` is
    /// its default.
    pub(super) fn program(
        &mut self,
        span: Span,
        named: &str,
        usual: Option<&str>,
    ) -> Option<Program> {
        let program = self.program_or_file(span, named, usual)?;
        if program.is_python() && program.function.is_none() {
            let message =
                format!("`{}` is a Python program, but no function is named", program.path);
            let help = format!("name it: `file://{}:function`", program.path);
            self.error(span, message, Some(&help));
            return None;
        }
        Some(program)
    }

    /// Returns the program that a text names, or `None` after an error.
    ///
    /// A Python program without a function is run as a whole: its output is its result.
    pub(super) fn program_or_file(
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
        // This reports a missing file with its source location. The script host would report no location.
        self.content(span, path)?;
        let language = if extension == "py" { Language::Python } else { Language::JavaScript };
        let usual = usual.filter(|_| language == Language::Python);
        let function = function.or(usual).map(str::to_owned);
        Some(Program { language, path: path.to_owned(), function })
    }

    /// Runs a program with these arguments. Returns `None` after an error, which is reported.
    ///
    /// `what` describes the program in the error message. A program that has failed is not run again, because its error
    /// is already reported.
    pub(super) fn call(
        &mut self,
        span: Span,
        program: &Program,
        what: &str,
        args: &[Value],
    ) -> Option<Value> {
        let answer = self.call_if_intact(program, args)?;
        self.reported(span, program, what, answer)
    }

    /// Runs a program; returns `None` if it has failed before.
    fn call_if_intact(&self, program: &Program, args: &[Value]) -> Option<Result<Value, Failed>> {
        (!self.broken.contains(program)).then(|| run_program(&self.runner(), program, args))
    }

    /// Returns the result of a program, or reports its error.
    fn reported(
        &mut self,
        span: Span,
        program: &Program,
        what: &str,
        answer: Result<Value, Failed>,
    ) -> Option<Value> {
        match answer {
            Ok(value) => Some(value),
            Err(why) => {
                let message = format!("{what} `{}` failed: {why}", program.path);
                self.report_broken(span, program, message);
                None
            }
        }
    }

    /// Reports an error of a program, which is not run again.
    pub(super) fn report_broken(&mut self, span: Span, program: &Program, message: String) {
        self.broken.insert(program.clone());
        self.diagnostics.push(Diagnostic::error(Code::PROGRAM, message, self.source, span));
    }

    /// Runs a program that may return nothing, which is null. Returns `None` after an error, which is reported.
    pub(super) fn call_hook(
        &mut self,
        span: Span,
        program: &Program,
        what: &str,
        args: &[Value],
    ) -> Option<Value> {
        match self.call_if_intact(program, args)? {
            Err(Failed::ReturnedNothing) => Some(Value::Null),
            answer => self.reported(span, program, what, answer),
        }
    }

    /// Returns the runner of programs, for use outside of the translator.
    pub(super) fn runner(&self) -> Runner {
        Runner { scripts: Arc::clone(&self.inputs.scripts), settings: self.scripts.clone() }
    }
}

/// The runner of programs, with their permissions and limits.
#[derive(Clone)]
pub(super) struct Runner {
    scripts: Arc<kindlm_types::script::RunScript>,
    settings: kindlm_assertions::ScriptSettings,
}

/// The reason why a program has no value.
#[derive(Debug, PartialEq, Eq)]
enum Failed {
    /// The program returned `undefined`.
    ReturnedNothing,
    /// The program exceeded its time limit. The text is the error message.
    TookTooLong(String),
    /// Any other reason.
    Other(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReturnedNothing => f.write_str("it returned nothing"),
            Self::TookTooLong(reason) | Self::Other(reason) => f.write_str(reason),
        }
    }
}

impl From<String> for Failed {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl From<ScriptError> for Failed {
    fn from(err: ScriptError) -> Self {
        match err.kind {
            ScriptErrorKind::Timeout => Self::TookTooLong(err.message),
            _ => Self::Other(err.message),
        }
    }
}

/// Runs a whole Python program with its argument as JSON, and returns its output. Like promptfoo, it removes the last
/// line break.
const RUN_FILE: &str = "\
import subprocess, sys
ran = subprocess.run([sys.executable, path, json.dumps(context)], capture_output=True, text=True)
if ran.returncode != 0:
    raise RuntimeError((ran.stderr.strip().splitlines() or ['exit code %d' % ran.returncode])[-1])
return '\\n'.join(ran.stdout.splitlines())
";

/// Runs a command line with its argument as JSON, and returns its output. Like promptfoo, it reads quotes, removes
/// colors, and fails if there is only an error output. A program of the folder needs no `./`.
const RUN_COMMAND: &str = r#"import os, re, subprocess
words = re.finditer(r"[^\s\"']+|\"([^\"]*)\"|'([^']*)'", path)
command = [it[1] or it[2] or it[0] for it in words]
if os.path.exists(command[0]):
    command[0] = os.path.abspath(command[0])
command.append(json.dumps(context, separators=(",", ":"), ensure_ascii=False))
pipes = {"stdin": subprocess.DEVNULL, "capture_output": True}
ran = subprocess.run(command, encoding="utf-8", errors="replace", **pipes)
colors = r"\x1b(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])"
output, error = (re.sub(colors, "", it).strip() for it in (ran.stdout, ran.stderr))
if ran.returncode != 0 or (error and not output):
    raise RuntimeError((error.splitlines() or ["exit code %d" % ran.returncode])[-1])
return output
"#;

/// The time limit of a command without a limit of its own, as in promptfoo.
const USUAL_LIMIT: Duration = Duration::from_mins(1);

/// The longest time limit of a command.
const LONGEST_LIMIT: Duration = Duration::from_hours(24);

/// Returns the time limit of a command: `config.timeout` of its prompt, in milliseconds, or the usual limit.
fn time_limit(args: &[Value]) -> Duration {
    let own = args.first().and_then(|it| it.get("config")?.get("timeout")?.as_u64());
    // promptfoo also uses the usual limit for the number 0.
    let own = own.filter(|it| *it > 0).map(Duration::from_millis);
    own.map_or(USUAL_LIMIT, |it| it.min(LONGEST_LIMIT))
}

/// Runs a program and returns its result, or an error message.
pub(super) fn run(runner: &Runner, program: &Program, args: &[Value]) -> Result<Value, String> {
    run_program(runner, program, args).map_err(|err| err.to_string())
}

fn run_program(runner: &Runner, program: &Program, args: &[Value]) -> Result<Value, Failed> {
    let (path, function) = (program.path.clone(), program.function.clone());
    let code = match program.language {
        Language::Command => Some(RUN_COMMAND),
        Language::Python if function.is_none() => Some(RUN_FILE),
        Language::Python | Language::JavaScript => None,
    };
    if let Some(code) = code {
        let mut runner = runner.clone();
        let limit = program.is_command().then(|| time_limit(args));
        runner.settings.timeout = limit.or(runner.settings.timeout);
        let params = ["path", "context"].map(str::to_owned).to_vec();
        let source = ScriptSource::Body { params, code: code.into() };
        let args: Vec<Value> =
            std::iter::once(Value::from(path)).chain(args.iter().cloned()).collect();
        let answer = ask(&runner, ScriptRuntime::Python, source, &args);
        return match (answer, limit) {
            (Err(Failed::TookTooLong(_)), Some(limit)) => {
                let limit = limit.as_secs_f64();
                Err(Failed::Other(format!(
                    "it ran longer than {limit} s and was stopped; `config.timeout` of the prompt is its time limit in \
                     milliseconds"
                )))
            }
            (answer, _) => answer,
        };
    }
    let (runtime, source) = if program.is_python() {
        (ScriptRuntime::Python, ScriptSource::File { path, function })
    } else {
        let source = ScriptSource::Export { path, name: function, usage: ExportUse::Value };
        (runner.settings.runtime, source)
    };
    ask(runner, runtime, source, args)
}

/// Evaluates JavaScript code and returns the result, or an error message.
///
/// Code with line breaks is a function body. Other code is an expression.
pub(super) fn evaluate(
    runner: &Runner,
    code: &str,
    params: &[&str],
    args: &[Value],
) -> Result<Value, String> {
    let code = if code.contains('\n') { code.to_owned() } else { format!("return {code}") };
    let params = params.iter().map(|&it| it.to_owned()).collect();
    let source = ScriptSource::Body { params, code: code.into() };
    ask(runner, runner.settings.runtime, source, args).map_err(|err| err.to_string())
}

fn ask(
    runner: &Runner,
    runtime: ScriptRuntime,
    source: ScriptSource,
    args: &[Value],
) -> Result<Value, Failed> {
    let question = ScriptQuestion::new(runtime, source)
        .with_args(args.iter().map(|it| ecma::stringify(it).into()).collect())
        .with_permissions(Arc::clone(&runner.settings.permissions))
        .with_timeout(runner.settings.timeout);
    match (runner.scripts)(&question)?.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(value)) => Ok(value),
        ScriptOutcome::Returned(ScriptValue::Number(number)) => Number::from_f64(number)
            .map(|it| kindlm_schema::normalise_numbers(Value::Number(it)))
            .ok_or_else(|| {
                format!("it returned {}, which is not a number", ecma::number(number)).into()
            }),
        ScriptOutcome::Returned(ScriptValue::Undefined) => Err(Failed::ReturnedNothing),
        ScriptOutcome::Returned(ScriptValue::Opaque { type_name, .. }) => {
            Err(format!("it returned a {type_name}").into())
        }
        ScriptOutcome::Threw { message, thrown, .. } => {
            Err(format!("it threw `{}`", message.unwrap_or(thrown)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::script::ScriptAnswer;
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_have_the_time_limit_of_their_prompt() {
        let runner = Runner {
            scripts: Arc::new(|question: &ScriptQuestion| {
                let limit = json!(format!("{:?}", question.timeout));
                Ok(ScriptAnswer::new(ScriptOutcome::Returned(ScriptValue::Json(limit))))
            }),
            settings: kindlm_assertions::ScriptSettings::default(),
        };
        let command = Program::command("./p.sh");
        for (config, expected) in [
            (json!({}), "Some(60s)"),
            (json!({"timeout": 0}), "Some(60s)"),
            (json!({"timeout": 90_000}), "Some(90s)"),
            (json!({"timeout": u64::MAX}), "Some(86400s)"),
        ] {
            let limit = run(&runner, &command, &[json!({"config": config})]);
            assert_eq!(limit, Ok(json!(expected)), "{config}");
        }
    }

    #[test]
    fn a_slow_command_names_the_key_of_its_time_limit() {
        let runner = Runner {
            scripts: Arc::new(|_: &ScriptQuestion| {
                Err(ScriptError::new(ScriptErrorKind::Timeout, "too slow"))
            }),
            settings: kindlm_assertions::ScriptSettings::default(),
        };
        let program = |language| Program { language, ..Program::command("p") };
        for (language, expected) in [
            (Language::Command, "longer than 60 s and was stopped; `config.timeout` of the prompt"),
            (Language::Python, "too slow"),
            (Language::JavaScript, "too slow"),
        ] {
            let error = run(&runner, &program(language), &[json!({})]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
