//! `kindlm gate`: evaluates gates on a past run.

use crate::args::GateArgs;
use crate::output::{Output, verbosity};
use crate::{Failure, Io, opening};
use kindlm_run::gates::{rebuild, set_pass_rate};
use kindlm_run::project::{CONFIG, SuiteFolder};
use kindlm_run::suite_files::SuiteFiles;
use kindlm_run::suites::SuiteKey;
use kindlm_run::{OpenOptions, Outcome, Purpose, compare, saved, trust};

pub(crate) fn run(args: &GateArgs, io: &mut Io) -> Outcome {
    let config = args.config.clone().unwrap_or_else(|| CONFIG.into());
    let place = SuiteFolder::new(io, &config);
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
    let suite = match &args.config {
        Some(_) => {
            let config = OpenOptions::new(config);
            Some(opening::open(io, &config, Purpose::Look)?.suite)
        }
        None => None,
    };
    let key = suite.as_ref().map(|it| SuiteKey::new(&place, &it.info));
    let saved = saved::find(io, &place, args.run.as_deref(), key.as_ref())?;
    saved.require_whole_run()?;
    let output = output.with_mutation(saved.mutation(io));
    let mut report = saved.report;
    let (mut gates, models) = match suite {
        Some(suite) => (suite.gates, Some(suite.models)),
        None => (rebuild(io, &report.gates)?, None),
    };
    if let Some(rate) = args.gate {
        set_pass_rate(&mut gates, rate);
    }
    if let Some(models) = &models {
        trust::settle((io.now)(), &place.state(), trust::models_of(models), &mut gates)?;
    }
    let measured = kindlm_engine::measure_gates(&gates, &report);
    let mut results = measured.map_err(|err| Failure::input(err.to_string()))?;
    if models.is_none() {
        trust::carry_over(io, &mut results, &report.gates);
    }
    report.gates = results;
    let earlier: Vec<_> = report.comparison.iter().cloned().collect();
    compare::measure_again(&place, &mut report, &earlier, (&gates, models.is_some()))?;
    output.write(io, &report)?;
    Ok(report.exit_status())
}
