//! `kindlm import`: converts a promptfoo config into a `kindlm.yaml`.

use kindlm_types::ExitStatus;

use crate::args::ImportArgs;
use crate::{Failure, Io, opening, print};
use kindlm_run::Outcome;
use kindlm_run::project::{self, CONFIG};

/// The value of `--output` that denotes stdout.
const STDOUT: &str = "-";

pub(crate) fn run(args: &ImportArgs, io: &mut Io) -> Outcome {
    let config = kindlm_run::OpenOptions {
        config: args.file.clone(),
        allow_outside: args.allow_outside,
        allow_programs: args.allow_programs,
        allow_network: args.allow_network,
    };
    let (place, imported) = project::import(io, &config)?;
    opening::show_all(io, &imported.diagnostics, &imported.warnings);
    let Some(yaml) = imported.yaml else {
        io.notify("nothing was written");
        return Err(Failure::already_shown(ExitStatus::InvalidInput));
    };
    if args.output.as_os_str() == STDOUT {
        print(io, &yaml)?;
        return Ok(ExitStatus::Success);
    }
    let path = io.working_dir.join(&args.output);
    let shown = args.output.display();
    if path.exists() && !args.force {
        return Err(Failure::input(format!("`{shown}` already exists; nothing was written"))
            .with_help("replace it with `--force`, or write to stdout with `--output -`"));
    }
    if path.parent() != place.path.parent() {
        io.notify(&format!(
            "warning: `{shown}` is in another folder than `{}`; paths in it are relative to its own folder",
            place.name
        ));
    }
    kindlm_store::write(&path, yaml.as_bytes())
        .map_err(|err| Failure::internal(err.to_string()))?;
    print(io, &format!("wrote {shown}\n"))?;
    if args.output.as_os_str() == CONFIG {
        print(io, "\nNext: `kindlm validate` checks it, `kindlm test` runs it.\n")?;
    }
    Ok(ExitStatus::Success)
}
