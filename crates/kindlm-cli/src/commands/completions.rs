//! `kindlm completions`: prints completions for a shell.

use kindlm_types::ExitStatus;

use crate::args::CompletionsArgs;
use crate::{Failure, Io, complete};
use kindlm_run::Outcome;

pub(crate) fn run(args: &CompletionsArgs, io: &mut Io) -> Outcome {
    Failure::of_stdout(complete::script(&args.shell.to_string(), &mut io.stdout))?;
    Ok(ExitStatus::Success)
}
