//! `kindlm gate`: holds a past run against gates again.

use kindlm_engine::gates::{self, Gate};
use kindlm_types::GateResult;

use crate::args::{ConfigArgs, GateArgs};
use crate::failure::Outcome;
use crate::output::{Output, verbosity};
use crate::programs::Purpose;
use crate::project::{self, CONFIG, Place};
use crate::{Failure, Io, saved, trust};

/// The gate that `--gate` is about.
const PASS_RATE: &str = "passRateMin";

pub(crate) fn run(args: &GateArgs, io: &mut Io) -> Outcome {
    let config = args.config.clone().unwrap_or_else(|| CONFIG.into());
    let place = Place::new(io, &config);
    let output =
        Output::new(io, args.reporters.clone(), Vec::new(), verbosity(args.quiet, args.verbose))?;
    let saved = saved::find(io, &place, args.run.as_deref())?;
    if let Some(shard) = &saved.report.shard {
        let (index, count) = (shard.index, shard.count);
        return Err(Failure::input(format!("{} is shard {index} of {count}", saved.name))
            .with_help("gates are about a whole run: merge all shards with `kindlm merge` first"));
    }
    let mut report = saved.report;
    let (mut gates, models) = match &args.config {
        Some(_) => {
            let config = ConfigArgs { config, allow_outside: false, allow_programs: false };
            let suite = project::open(io, &config, Purpose::Look)?.suite;
            (suite.gates, Some(suite.models))
        }
        None => (rebuild(&report.gates)?, None),
    };
    if let Some(rate) = args.gate {
        set_pass_rate(&mut gates, rate);
    }
    if let Some(models) = &models {
        trust::settle(&place.state(), trust::models_of(models), &mut gates)?;
    }
    let measured = kindlm_engine::measure_gates(&gates, &report.cases);
    let mut results = measured.map_err(|err| Failure::input(err.to_string()))?;
    if models.is_none() {
        trust::carry_over(&mut results, report.gates.iter());
    }
    report.gates = results;
    output.write(io, &report)?;
    Ok(report.exit_status())
}

/// The gates that a report was made with.
pub(crate) fn rebuild(results: &[GateResult]) -> Result<Vec<Box<dyn Gate>>, Failure> {
    let gate = |result: &GateResult| match gates::find(&result.gate) {
        Some(registration) => Ok((registration.build)(result.threshold)),
        None => Err(Failure::input(format!(
            "the report has a gate `{}` that this KindLM does not know",
            result.gate
        ))
        .with_help("use the KindLM that wrote it, or name a suite with `-c`")),
    };
    results.iter().map(gate).collect()
}

/// Replaces the least pass rate; puts the gate in front if there was none.
pub(crate) fn set_pass_rate(gates: &mut Vec<Box<dyn Gate>>, rate: f64) {
    let Some(registration) = gates::find(PASS_RATE) else { return };
    let gate = (registration.build)(rate);
    match gates.iter_mut().find(|it| it.evaluate(&[]).gate == PASS_RATE) {
        Some(place) => *place = gate,
        None => gates.insert(0, gate),
    }
}
