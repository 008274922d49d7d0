//! `kindlm completions`: prints completions for a shell.

use clap::CommandFactory as _;
use kindlm_types::ExitStatus;

use crate::args::{Cli, CompletionsArgs};
use crate::{Failure, Io};
use kindlm_run::Outcome;

pub(crate) fn run(args: &CompletionsArgs, io: &mut Io) -> Outcome {
    // Generate into memory first: the generator panics if its writer fails, and a pipe may be closed early.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kindlm", &mut text);
    Failure::of_stdout(io.stdout.write_all(&text))?;
    Ok(ExitStatus::Success)
}
