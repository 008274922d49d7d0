//! The commands that start the workers of each runtime.

use std::io;
use std::path::PathBuf;

use kindlm_types::script::ScriptRuntime;
use tokio::process::Command;

use super::HostOptions;
use crate::typescript::TYPESCRIPT;

/// The environment variables that interpreters and their packages need. The host passes each of these variables to
/// interpreters, if the variable is set.
const BASIC: [&str; 15] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "USERPROFILE",
    "APPDATA",
    "NODE_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
];

/// The programs that run scripts outside the sandbox.
#[derive(Clone, Debug)]
pub struct Interpreters {
    /// The program of Node.js: a path, or a name that is looked up in `PATH`.
    pub node: PathBuf,
    /// The program of Python 3: a path, or a name that is looked up in `PATH`.
    pub python: PathBuf,
    /// The program of Ruby: a path, or a name that is looked up in `PATH`.
    pub ruby: PathBuf,
}

impl Default for Interpreters {
    /// Uses the common program names, looked up in `PATH`.
    fn default() -> Self {
        let python = if cfg!(windows) { "python" } else { "python3" };
        Self { node: "node".into(), python: python.into(), ruby: "ruby".into() }
    }
}

/// Returns the command that starts a worker.
pub(crate) fn command(runtime: ScriptRuntime, options: &HostOptions) -> Command {
    let interpreter = |program: &PathBuf, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env_clear().current_dir(&options.root);
        for name in BASIC {
            if let Some(value) = (options.env)(name) {
                command.env(name, value);
            }
        }
        command
    };
    let mut command = match runtime {
        ScriptRuntime::QuickJs => {
            let mut command = Command::new(&options.program);
            // The local time of scripts is UTC on every machine.
            command.args(&options.args).env_clear().env("TZ", "UTC");
            command
        }
        ScriptRuntime::Node => interpreter(
            &options.interpreters.node,
            &["-e", include_str!("../interpreters/node.js")],
        ),
        ScriptRuntime::Python => {
            let worker = include_str!("../interpreters/python.py");
            interpreter(&options.interpreters.python, &["-X", "utf8", "-c", worker])
        }
        ScriptRuntime::Ruby => {
            let worker = include_str!("../interpreters/ruby.rb");
            interpreter(&options.interpreters.ruby, &["-EUTF-8:UTF-8", "-e", worker])
        }
    };
    kindlm_process::prepare(&mut command);
    command
}

/// Returns the command that converts TypeScript to JavaScript: the worker program with an additional argument.
pub(crate) fn typescript(options: &HostOptions) -> Vec<String> {
    let program = options.program.to_string_lossy().into_owned();
    let args = options.args.iter().map(|it| it.to_string_lossy().into_owned());
    std::iter::once(program).chain(args).chain([TYPESCRIPT.to_owned()]).collect()
}

/// Returns the error message for a command that does not start. The message has advice if an interpreter is not found.
pub(crate) fn not_found(runtime: ScriptRuntime, program: &str, err: &io::Error) -> String {
    let install = match runtime {
        ScriptRuntime::QuickJs => return format!("`{program}`: {err}"),
        ScriptRuntime::Node => "install Node.js 20 or newer from https://nodejs.org",
        ScriptRuntime::Python => "install Python 3.8 or newer from https://www.python.org",
        ScriptRuntime::Ruby => "install Ruby 3 or newer from https://www.ruby-lang.org",
    };
    if err.kind() == io::ErrorKind::NotFound {
        format!("there is no program `{program}`: {install}, and check that it is in `PATH`")
    } else {
        format!("`{program}`: {err}")
    }
}
