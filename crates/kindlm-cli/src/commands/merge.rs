//! `kindlm merge`: merges the reports of all shards of a run.

use std::path::Path;

use kindlm_engine::merge_streamed;
use kindlm_store::SavedCases;
use kindlm_types::Report;

use crate::args::MergeArgs;
use crate::output::{Output, verbosity};
use crate::{Failure, Io};
use kindlm_run::Outcome;
use kindlm_run::gates::rebuild;
use kindlm_run::project::{CONFIG, SuiteFolder};
use kindlm_run::suite_files::SuiteFiles;
use kindlm_run::{compare, identity, saved, trust};

pub(crate) fn run(args: &MergeArgs, io: &mut Io) -> Outcome {
    let place = SuiteFolder::new(io, Path::new(CONFIG));
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
    let mut parts: Vec<(String, Report<SavedCases>)> = Vec::with_capacity(args.reports.len());
    for named in &args.reports {
        let saved = saved::find(io, &place, Some(named), None)?;
        if saved.mutation(io).is_some() {
            io.notify(&format!(
                "the mutation result of {} is not merged; run `kindlm mutate` on the merged run",
                saved.name
            ));
        }
        parts.push((saved.name, saved.report));
    }
    // The gates of the first report are sufficient, because merging verifies that all shards have equal gates.
    let gates = rebuild(io, parts.first().map_or(&[], |(_, it)| &it.gates))?;
    let before = trust::results_of_shards(io, &gates, &parts)?;
    let compared: Vec<_> = parts.iter().filter_map(|(_, it)| it.comparison.clone()).collect();
    let report = merge_streamed(parts, &gates);
    let mut report = report.map_err(|err| Failure::input(err.to_string()))?;
    trust::carry_over(io, &mut report.gates, &before);
    report.run.id = identity::begin((io.now)(), &place.folder).id;
    compare::measure_again(&place, &mut report, &compared, (&gates, false))?;
    saved::keep(io, &place, &report, args.quiet);
    output.write(io, &report)?;
    Ok(report.exit_status())
}
