//! `kindlm baseline`: stores the results of a run, and compares other runs with them.

use kindlm_run::baselines::{self, Insist};
use kindlm_run::compare::{Side, check_suite};
use kindlm_run::saved::{self, Saved};
use kindlm_run::suites::SuiteKey;
use kindlm_run::{Outcome, SuiteFolder};
use kindlm_store::Baselines;
use kindlm_types::ExitStatus;

use crate::args::{BaselineAction, BaselineArgs, CompareOptions, PlaceArgs};
use crate::{Failure, Io, print};

pub(crate) fn run(args: BaselineArgs, io: &mut Io) -> Outcome {
    match args.action {
        BaselineAction::Set { label, run, force, partial, place } => {
            set(io, &place, &label, run.as_deref(), Insist { force, partial })
        }
        BaselineAction::Compare { label, run, how, place } => {
            compare(io, &place, &label, run.as_deref(), how)
        }
        BaselineAction::List { place } => list(io, &place),
        BaselineAction::Remove { label, place } => remove(io, &place, &label),
    }
}

/// Finds the given run, or else the newest run. With `-c`, uses only runs of this suite.
///
/// Fails if there is no such run, or if the suite's file or its names cannot be read.
fn find(io: &mut Io, args: &PlaceArgs, run: Option<&str>) -> Result<(SuiteFolder, Saved), Failure> {
    let place = SuiteFolder::new(io, args.config());
    let suite = SuiteKey::named(io, args.config.as_deref())?;
    let saved = saved::find(io, &place, run, suite.as_ref())?;
    Ok((place, saved))
}

fn set(io: &mut Io, args: &PlaceArgs, label: &str, run: Option<&str>, insist: Insist) -> Outcome {
    // Check the label before the run is loaded.
    let baselines = Baselines::new(SuiteFolder::new(io, args.config()).state());
    baselines.path(label).map_err(|err| Failure::store(&err))?;
    let (place, saved) = find(io, args, run)?;
    let done = baselines::set(&place, label, saved, insist)?;
    print(io, &(done.summary + "\n"))?;
    Ok(ExitStatus::Success)
}

fn compare(
    io: &mut Io,
    args: &PlaceArgs,
    label: &str,
    run: Option<&str>,
    how: CompareOptions,
) -> Outcome {
    let place = SuiteFolder::new(io, args.config());
    let before = Side::of_baseline(&place, label)?;
    let (_, saved) = find(io, args, run)?;
    check_suite(label, &before.results, &saved.report.suite).map_err(|err| {
        err.with_help(
            "use the label of a baseline of that suite, or select another suite with `-c`",
        )
    })?;
    super::compare::show(io, &before, &Side::of_run(&saved)?, how)
}

fn list(io: &mut Io, place: &PlaceArgs) -> Outcome {
    let text = baselines::list(&SuiteFolder::new(io, place.config()))?;
    if text.is_empty() {
        io.notify("there is no baseline yet; `kindlm baseline set` creates one from the last run");
    }
    print(io, &text)?;
    Ok(ExitStatus::Success)
}

fn remove(io: &mut Io, place: &PlaceArgs, label: &str) -> Outcome {
    let place = SuiteFolder::new(io, place.config());
    let baselines = Baselines::new(place.state());
    baselines.remove(label).map_err(|err| kindlm_run::baseline::missing(&baselines, err))?;
    print(io, &format!("baseline `{label}` removed\n"))?;
    Ok(ExitStatus::Success)
}
