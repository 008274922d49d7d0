//! The command line of KindLM: arguments, files, environment, clock, terminal.
//!
//! [`run`] does the work of the binary in the environment [`Io`], and returns the exit status. Only `main` ends the
//! process.

mod args;
mod commands;
mod complete;
mod io;
mod opening;
mod output;
mod progress;
mod resume;
mod signals;
mod values;
mod watch;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _};
use kindlm_types::ExitStatus;

use args::{Cli, Color, Command};
pub use complete::complete;
pub use io::{Io, Screen, Stderr};
pub use kindlm_run::World;
use kindlm_run::{Failure, Outcome};

/// The first argument that makes the binary a worker for scripts; see [`kindlm_script::HostOptions::args`].
pub const SCRIPT_WORKER: &str = kindlm_run::SCRIPT_WORKER;

/// Runs a command and returns its exit status. The first argument is the program's name.
///
/// All output is flushed before this function returns.
pub fn run(args: impl IntoIterator<Item = OsString>, mut io: Io) -> ExitStatus {
    let args: Vec<OsString> = args.into_iter().collect();
    io.color = Color::find(&args).and_then(Color::fixed);
    let outcome = match parse(args, &io) {
        Ok(cli) => {
            io.color = cli.color.fixed();
            add_env_files(&cli.env_file, &mut io).and_then(|()| dispatch(cli.command, &mut io))
        }
        Err(err) => usage(&err, &mut io),
    };
    let mut status = outcome.unwrap_or_else(|failure| explain(&failure, &mut io));
    if let Err(failure) = Failure::of_stdout(io.stdout.flush()) {
        status = status.or(explain(&failure, &mut io));
    }
    io.stderr.flush();
    status
}

fn parse(args: impl IntoIterator<Item = OsString>, io: &Io) -> Result<Cli, clap::Error> {
    let command = Cli::command().term_width(io.width().min(100));
    let matches = command.try_get_matches_from(args).map_err(|mut err| {
        let version = ContextValue::String("version".into());
        if err.get(ContextKind::InvalidSubcommand) == Some(&version) {
            err.insert(ContextKind::SuggestedSubcommand, ContextValue::String("--version".into()));
        }
        err
    })?;
    Cli::from_arg_matches(&matches)
}

fn add_env_files(files: &[PathBuf], io: &mut Io) -> Result<(), Failure> {
    io.world = io.world.clone().with_env_files(files)?;
    Ok(())
}

fn dispatch(command: Command, io: &mut Io) -> Outcome {
    match command {
        Command::Test(args) if args.watch => watch::run(args, io),
        Command::Test(args) => commands::test::run(args, io),
        Command::Trace(args) => commands::trace::run(&args, io),
        Command::Init(args) => commands::init::run(&args, io),
        Command::Import(args) => commands::import::run(&args, io),
        Command::Validate(args) => commands::validate::run(&args, io),
        Command::Evaluate(args) => commands::evaluate::run(&args, io),
        Command::Calibrate(args) => commands::calibrate::run(&args, io),
        Command::Compare(args) => commands::compare::run(&args, io),
        Command::History(args) => commands::history::run(args, io),
        Command::Bisect(args) => commands::bisect::run(args, io),
        Command::Plan(args) => commands::plan::run(args, io),
        Command::Mutate(args) => commands::mutate::run(args, io),
        Command::Baseline(args) => commands::baseline::run(args, io),
        Command::Compliance(args) => commands::compliance::run(args, io),
        Command::Report(args) => commands::report::run(&args, io),
        Command::View(args) => commands::view::run(&args, io),
        Command::Serve(args) => commands::serve::run(&args.args, io),
        Command::Token(args) => commands::serve::token(args, io),
        Command::Runs(args) => commands::runs::run(&args, io),
        Command::Clean(args) => commands::clean::run(&args, io),
        Command::Gate(args) => commands::gate::run(&args, io),
        Command::Merge(args) => commands::merge::run(&args, io),
        Command::Assertions(args) => commands::assertions::run(&args, io),
        Command::Explain(args) => commands::explain::run(&args, io),
        Command::Schema(args) => commands::schema::run(&args, io),
        Command::Completions(args) => commands::completions::run(&args, io),
        Command::Man(args) => commands::man::run(&args, io),
    }
}

/// Prints clap's message: errors to stderr, requested help to stdout.
fn usage(err: &clap::Error, io: &mut Io) -> Outcome {
    let plain = err.render().to_string();
    let harmless = kindlm_reporters::visible(&plain);
    // The message repeats the typed text. If this text contains control sequences, the message is escaped and has no
    // colours.
    let text = |color| {
        if color && harmless == plain { err.render().ansi().to_string() } else { harmless.clone() }
    };
    if err.use_stderr() {
        let text = text(io.color_stderr());
        io.show(text.trim_end());
        return Err(Failure::already_shown(ExitStatus::InvalidInput));
    }
    let text = text(io.color_stdout());
    print(io, &text)?;
    Ok(ExitStatus::Success)
}

fn explain(failure: &Failure, io: &mut Io) -> ExitStatus {
    if let Some(text) = failure.render(io.color_stderr()) {
        io.show(&text);
    }
    failure.status
}

/// Writes text to stdout.
fn print(io: &mut Io, text: &str) -> Result<(), Failure> {
    Failure::of_stdout(io.stdout.write_all(text.as_bytes()))
}
