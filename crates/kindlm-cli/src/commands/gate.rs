//! `kindlm gate`: holds a past run against gates again.

use kindlm_engine::gates::{self, Gate};
use kindlm_types::GateResult;

use crate::args::{ConfigArgs, GateArgs};
use crate::failure::Outcome;
use crate::output::{Output, verbosity};
use crate::programs::Purpose;
use crate::project::{self, CONFIG, Place};
use crate::suite_files::SuiteFiles;
use crate::suites::SuiteKey;
use crate::{Failure, Io, saved, trust};

/// The gate that `--gate` is about.
const PASS_RATE: &str = "passRateMin";

/// The gate that `--budget-usd` is about.
const COST_MAX: &str = "costMaxUsd";

pub(crate) fn run(args: &GateArgs, io: &mut Io) -> Outcome {
    let config = args.config.clone().unwrap_or_else(|| CONFIG.into());
    let place = Place::new(io, &config);
    let output =
        Output::new(io, args.reporters.clone(), Vec::new(), verbosity(args.quiet, args.verbose))?;
    if output.writes_files() {
        output.spare(io, &SuiteFiles::beside(io, &place))?;
    }
    let suite = match &args.config {
        Some(_) => {
            let config = ConfigArgs { config, allow_outside: false, allow_programs: false };
            Some(project::open(io, &config, Purpose::Look)?.suite)
        }
        None => None,
    };
    let key = suite.as_ref().map(|it| SuiteKey::new(&place, &it.info));
    let saved = saved::find(io, &place, args.run.as_deref(), key.as_ref())?;
    if let Some(shard) = &saved.report.shard {
        let (index, count) = (shard.index, shard.count);
        return Err(Failure::input(format!("{} is shard {index} of {count}", saved.name))
            .with_help("gates are about a whole run: merge all shards with `kindlm merge` first"));
    }
    let mut report = saved.report;
    let (mut gates, models) = match suite {
        Some(suite) => (suite.gates, Some(suite.models)),
        None => (rebuild(&report.gates)?, None),
    };
    if let Some(rate) = args.gate {
        set_pass_rate(&mut gates, rate);
    }
    if let Some(models) = &models {
        trust::settle((io.now)(), &place.state(), trust::models_of(models), &mut gates)?;
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

/// Replaces the least pass rate; puts the gate in its place if there was none.
pub(crate) fn set_pass_rate(gates: &mut Vec<Box<dyn Gate>>, rate: f64) {
    set(gates, PASS_RATE, |_| rate);
}

/// Lets the run cost no more than this, in US dollars, if the suite does not say less.
pub(crate) fn set_cost_max(gates: &mut Vec<Box<dyn Gate>>, usd: f64) {
    set(gates, COST_MAX, |before| before.map_or(usd, |it| it.min(usd)));
}

/// Gives a gate another threshold, made of the one it has; puts it in its place among the others if there was none.
fn set(gates: &mut Vec<Box<dyn Gate>>, id: &str, threshold: impl FnOnce(Option<f64>) -> f64) {
    let order = |id: &str| gates::REGISTRY.iter().position(|it| it.meta.id == id);
    let Some(registration) = gates::find(id) else { return };
    let found: Vec<_> = gates.iter().map(|it| it.evaluate(&[])).collect();
    if let Some(at) = found.iter().position(|it| it.gate == id) {
        let before = found.get(at).map(|it| it.threshold);
        if let Some(place) = gates.get_mut(at) {
            *place = (registration.build)(threshold(before));
        }
    } else {
        let at = found.iter().filter(|it| order(&it.gate) < order(id)).count();
        gates.insert(at, (registration.build)(threshold(None)));
    }
}
