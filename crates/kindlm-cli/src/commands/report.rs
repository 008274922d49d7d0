//! `kindlm report`: shows the report of a past run.

use kindlm_types::ExitStatus;

use crate::Io;
use crate::args::ReportArgs;
use crate::output::{Output, verbosity};
use kindlm_run::Outcome;
use kindlm_run::SuiteFolder;
use kindlm_run::saved;
use kindlm_run::suite_files::SuiteFiles;
use kindlm_run::suites::SuiteKey;

pub(crate) fn run(args: &ReportArgs, io: &mut Io) -> Outcome {
    let place = SuiteFolder::new(io, args.place.config());
    let suite = SuiteKey::named(io, args.place.config.as_deref())?;
    let output = Output::new(
        io,
        args.reporters.clone(),
        Vec::new(),
        verbosity(args.quiet, args.verbose),
        args.html,
    )?;
    if output.writes_files() {
        output.spare(io, &SuiteFiles::beside(io, &place))?;
    }
    let saved = saved::find(io, &place, args.run.as_deref(), suite.as_ref())?;
    let output = output.with_mutation(saved.mutation(io));
    output.write(io, &saved.report)?;
    Ok(ExitStatus::Success)
}
