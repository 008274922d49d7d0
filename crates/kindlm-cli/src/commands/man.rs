//! `kindlm man`: prints the manual page.

use clap::CommandFactory as _;
use clap_mangen::Man;
use kindlm_types::{ExitStatus, suggest};

use crate::args::{Cli, ManArgs};
use crate::{Failure, Io};
use kindlm_run::Outcome;

pub(crate) fn run(args: &ManArgs, io: &mut Io) -> Outcome {
    let mut command = Cli::command();
    // `build` sets the full name of every subcommand.
    command.build();
    let command = match &args.command {
        None => command,
        Some(name) => find(&command, name)?,
    };
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|err| Failure::internal(format!("cannot render the page: {err}")))?;
    Failure::of_stdout(io.stdout.write_all(&page))?;
    Ok(ExitStatus::Success)
}

fn find(command: &clap::Command, name: &str) -> Result<clap::Command, Failure> {
    if let Some(found) = command.find_subcommand(name) {
        return Ok(found.clone());
    }
    let known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    Err(Failure::input(format!("there is no command `{name}`"))
        .with_help(suggest(name, "commands", known)))
}
