//! `kindlm test`: runs the suite and reports the results.

use kindlm_engine::RunOptions;
use kindlm_reporters::Verbosity;
use kindlm_run::suite_files::SuiteFiles;
use kindlm_run::{Outcome, Prepared, Project, Purpose, RunConfig, Selection};
use kindlm_types::ExitStatus;

use crate::args::{SelectArgs, TestArgs};
use crate::output::{Output, verbosity};
use crate::progress::Progress;
use crate::{Io, opening, print, resume};

pub(crate) fn run(args: TestArgs, io: &mut Io) -> Outcome {
    let project = opening::open(io, &args.suite.options(), purpose(&args))?;
    run_project(args, project, io)
}

/// Runs a suite that is already loaded.
pub(crate) fn run_project(args: TestArgs, project: Project, io: &mut Io) -> Outcome {
    let Project { place, suite, files, .. } = &project;
    let (args, past) = resume::settled(io, place, suite, args)?;
    let verbosity = verbosity(args.quiet, args.verbose);
    let reports = kindlm_run::project::reports(io, place, suite, args.suite.allow_outside)?;
    let output = Output::new(io, args.reporters.clone(), reports, verbosity, args.html)?;
    output.spare(io, &SuiteFiles::new(place, files, Some(suite)))?;
    let config = config(&args, resume::arguments_of(io, place, &args));
    let Some(prepared) = Prepared::new(io, project, config, past)? else {
        return Ok(ExitStatus::Success);
    };
    if args.list {
        print(io, &prepared.list(args.json)?)?;
        return Ok(ExitStatus::Success);
    }
    if args.dry_run {
        print(io, &prepared.describe(io)?)?;
        return Ok(ExitStatus::Success);
    }
    let world = io.world.clone();
    let progress =
        Progress::new(io, verbosity == Verbosity::Quiet).with_budget(prepared.budget_usd());
    prepared.run(&world, Box::new(progress), &mut |report| output.write(io, report))
}

/// Returns the configuration of the run from the arguments.
fn config(args: &TestArgs, arguments: Vec<String>) -> RunConfig {
    RunConfig {
        options: RunOptions {
            repeat: args.runs,
            concurrency: args.concurrency.map(|it| it as usize),
            timeout: args.timeout,
            fail_fast: args.fail_fast,
            max_failures: args.max_failures,
            budget_usd: args.budget_usd,
            strict: args.strict,
            ..RunOptions::default()
        },
        select: selection(&args.select),
        responses: args.responses.source(),
        pass_rate_min: args.gate,
        allow_unpriced: args.allow_unpriced,
        baseline: args.baseline.clone(),
        no_journal: args.no_journal,
        no_report: false,
        keep_workspaces: args.keep_workspaces,
        quiet: args.quiet,
        arguments,
    }
}

fn selection(args: &SelectArgs) -> Selection {
    let tests = args.names().cloned().collect();
    let SelectArgs { tags, models, failed, changed, shard, shard_durations, .. } = args.clone();
    Selection { tags, tests, models, failed, changed, shard, shard_durations }
}

/// Returns the purpose of loading the suite: to run it, or only to inspect it.
pub(crate) fn purpose(args: &TestArgs) -> Purpose {
    if args.dry_run || args.list { Purpose::look(args.suite.allow_programs) } else { Purpose::Run }
}
