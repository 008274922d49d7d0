//! `kindlm trace`: tests an agent by the spans that it sends.

use kindlm_reporters::Verbosity;
use kindlm_run::suite_files::SuiteFiles;
use kindlm_run::{Outcome, Project, Purpose, Selection, TraceConfig, judge_traces};
use kindlm_types::AnyReport;

use crate::args::TraceArgs;
use crate::output::{Output, verbosity};
use crate::progress::Progress;
use crate::{Io, opening};

pub(crate) fn run(args: &TraceArgs, io: &mut Io) -> Outcome {
    let project = opening::open(io, &args.suite.options(), Purpose::Run)?;
    let Project { place, suite, files, .. } = &project;
    let verbosity = verbosity(args.quiet, args.verbose);
    // Check all arguments before the agent is started.
    let reports = kindlm_run::project::reports(io, place, suite, args.suite.allow_outside)?;
    let output = Output::new(io, args.reporters.clone(), reports, verbosity, args.html)?;
    output.spare(io, &SuiteFiles::new(place, files, Some(suite)))?;
    let world = io.world.clone();
    let progress = Box::new(Progress::new(io, verbosity == Verbosity::Quiet));
    let mut take = |report: &AnyReport<'_>| output.write(io, report);
    judge_traces(&world, project, &config(args), progress, &mut take)
}

/// Returns the configuration from the arguments.
fn config(args: &TraceArgs) -> TraceConfig {
    TraceConfig {
        command: args.command.clone(),
        from: args.from.clone(),
        port: args.port,
        host: args.host,
        timeout: args.timeout,
        settle: args.settle,
        traces: args.traces.map(|it| it as usize),
        merge: args.merge,
        select: Selection {
            tags: args.tags.clone(),
            tests: args.tests.clone(),
            ..Selection::default()
        },
        responses: args.responses.source(),
        pass_rate_min: args.gate,
        allow_unpriced: args.allow_unpriced,
        no_journal: args.no_journal,
        strict: args.strict,
        baseline: args.baseline.clone(),
        quiet: args.quiet,
    }
}
