//! Completions for shells: commands, options, and the names in the suite of the working folder.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{self, EnvCompleter, Shells};
use kindlm_run::completions::{self, Names};

use crate::Io;
use crate::args::Cli;

/// The environment variable that a shell's completion script sets to ask for completions.
const VARIABLE: &str = "KINDLM_COMPLETE";

const SHELLS: Shells<'static> = Shells(&[&BASH, &env::Elvish, &env::Fish, &env::Powershell, &ZSH]);

const BASH: AsTyped = AsTyped { shell: &env::Bash, quotes_completions: true };
const ZSH: AsTyped = AsTyped { shell: &env::Zsh, quotes_completions: false };

/// Answers a request for completions, if a shell's completion script called this program.
///
/// Returns `None` if no such script called the program, true after success, and false after an error. Errors are not
/// shown, because a shell would print them into the command line.
pub fn complete() -> Option<bool> {
    std::env::var_os(VARIABLE)?;
    let command = || with_names(Cli::command());
    let asked = clap_complete::CompleteEnv::with_factory(command).var(VARIABLE).shells(SHELLS);
    let folder = std::env::current_dir().ok();
    Some(asked.try_complete(std::env::args_os(), folder.as_deref()).is_ok())
}

/// Writes the script for a shell. Fails for an unknown shell, or if the output cannot be written.
pub(crate) fn script(shell: &str, to: &mut dyn io::Write) -> io::Result<()> {
    let shell = SHELLS.completer(shell).ok_or(io::ErrorKind::NotFound)?;
    shell.write_registration(VARIABLE, "kindlm", "kindlm", "kindlm", to)
}

/// Adds completion to the arguments that take a name, such as the name of a test case or the id of a stored run.
fn with_names(command: Command) -> Command {
    command.mut_args(with_name).mut_subcommands(with_names)
}

fn with_name(arg: Arg) -> Arg {
    let Some(names) = Names::of_argument(arg.get_id().as_str()) else { return arg };
    arg.add(ArgValueCompleter::new(move |typed: &OsStr| candidates(names, typed)))
}

fn candidates(names: Names, typed: &OsStr) -> Vec<CompletionCandidate> {
    let config = completions::config(std::env::args_os());
    let found = completions::names(&Io::system().world, &config, names, &typed.to_string_lossy());
    let described = |(name, about): (String, String)| {
        CompletionCandidate::new(name).help((!about.is_empty()).then(|| about.into()))
    };
    let mut all: Vec<CompletionCandidate> = found.into_iter().map(described).collect();
    if matches!(names, Names::Runs | Names::Sides) {
        all.extend(PathCompleter::any().complete(typed));
    }
    all
}

/// A shell whose completion script passes words as the user typed them, with quotes.
struct AsTyped {
    shell: &'static dyn EnvCompleter,
    /// True if completions must be quoted, because the shell inserts them as they are.
    quotes_completions: bool,
}

impl EnvCompleter for AsTyped {
    fn name(&self) -> &'static str {
        self.shell.name()
    }

    fn is(&self, name: &str) -> bool {
        self.shell.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        self.shell.write_registration(var, name, bin, completer, buf)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        args: Vec<OsString>,
        folder: Option<&Path>,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        let args = args.into_iter().map(completions::unquoted).collect();
        if !self.quotes_completions {
            return self.shell.write_complete(command, args, folder, buf);
        }
        let mut found = Vec::new();
        self.shell.write_complete(command, args, folder, &mut found)?;
        buf.write_all(completions::quoted(&String::from_utf8_lossy(&found)).as_bytes())
    }
}
