//! `kindlm clean`: removes the runs and the stored answers of a folder.

use std::io::{BufRead as _, BufReader, Read as _};

use kindlm_run::{Outcome, SuiteFolder, stored_runs};
use kindlm_types::ExitStatus;

use crate::args::CleanArgs;
use crate::{Failure, Io, print};

pub(crate) fn run(args: &CleanArgs, io: &mut Io) -> Outcome {
    let place = SuiteFolder::new(io, &args.config);
    let found = stored_runs::leftovers(io, &place)?;
    if found.text.is_empty() {
        io.notify(&format!("nothing to remove in `{}`", place.state().display()));
        return Ok(ExitStatus::Success);
    }
    print(io, &found.text)?;
    if !args.yes {
        if !io.screen.stdin_is_terminal {
            let why = "cannot ask for confirmation, because stdin is not a terminal";
            return Err(Failure::input(format!("nothing was removed: {why}"))
                .with_help("remove them with `--yes`"));
        }
        io.notify("Remove them? [y/N]");
        if !is_yes(io) {
            io.notify("nothing was removed");
            return Ok(ExitStatus::Success);
        }
    }
    stored_runs::clean(&place, &found)?;
    print(io, "removed\n").map(|()| ExitStatus::Success)
}

/// Reads one line from stdin. Returns true for `y` and `yes`.
fn is_yes(io: &mut Io) -> bool {
    let mut line = Vec::new();
    // An error counts as no answer.
    let _ = BufReader::new(&mut io.stdin).take(16).read_until(b'\n', &mut line);
    let answer = String::from_utf8_lossy(&line).trim().to_ascii_lowercase();
    matches!(&*answer, "y" | "yes")
}
