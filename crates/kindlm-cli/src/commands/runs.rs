//! `kindlm runs`: lists and removes stored runs.

use kindlm_run::stored_runs::{self, Prune};
use kindlm_run::suites::SuiteKey;
use kindlm_run::{Outcome, SuiteFolder};
use kindlm_types::ExitStatus;

use crate::args::{RunsAction, RunsArgs};
use crate::{Failure, Io, print};

pub(crate) fn run(args: &RunsArgs, io: &mut Io) -> Outcome {
    match &args.action {
        None => list(args, io),
        Some(RunsAction::Prune { keep, older_than, place }) => {
            let of = SuiteKey::named(io, place.config.as_deref())?;
            let place = SuiteFolder::new(io, place.config());
            let which = Prune { keep: keep.unwrap_or(0), older_than: *older_than };
            let removed = stored_runs::prune(io, &place, of.as_ref(), which)?;
            for id in &removed {
                print(io, &format!("removed {id}\n"))?;
            }
            if removed.is_empty() {
                print(io, "no run was removed\n")?;
            }
            Ok(ExitStatus::Success)
        }
    }
}

fn list(args: &RunsArgs, io: &mut Io) -> Outcome {
    let of = SuiteKey::named(io, args.place.config.as_deref())?;
    let place = SuiteFolder::new(io, args.place.config());
    let (runs, more) = stored_runs::list(&place, of.as_ref(), args.limit as usize)?;
    if args.json {
        let json = serde_json::to_string_pretty(&runs);
        let json = json.map_err(|err| Failure::internal(err.to_string()))?;
        print(io, &(json + "\n"))?;
    } else {
        print(io, &stored_runs::table(&runs))?;
        if runs.is_empty() {
            io.notify(&format!("there is no run in `{}`", place.state().display()));
        }
    }
    if more > 0 {
        io.notify(&format!("{more} older; `--limit` shows more"));
    }
    Ok(ExitStatus::Success)
}
