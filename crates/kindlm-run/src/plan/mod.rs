//! Power analysis: plans how many cases and repeats a comparison of runs needs to detect a fall of the pass rate.

mod past;
mod text;

use kindlm_stats::{Goal, MOST_CLUSTERS, Pilot, PlanError, Shape};
use kindlm_wire::plan::{PilotSummary, PlanGoal, PlanReport, PlanShape, PlannedSize};

use crate::suites::SuiteKey;
use crate::{Failure, SuiteFolder, World};
use past::{Costs, Past};

pub use text::text;

/// Below this number of independent cases (clusters), the plan has a remark about its precision.
const FEW: u64 = 30;

/// Below this fall of the pass rate, from 0 to 1, the simulation takes seconds to minutes, because it needs many cases.
const SLOW_EFFECT: f64 = 0.05;

/// The past runs, and the fall to detect.
#[derive(Clone, Debug)]
pub struct PlanConfig {
    /// The runs: ids or their beginnings, `last`, or files of reports; empty for the newest run.
    pub runs: Vec<String>,
    /// The fall to detect. `effect` is above 0 and at most 1, `power` from 0.5 to 0.99, and `alpha` from 0.001 to 0.2.
    pub goal: PlanGoal,
    /// The numbers of repeats to plan for, each at least 1.
    pub repeats: Vec<u32>,
}

/// Computes how many cases a comparison needs with each number of repeats. Nothing is sent.
///
/// With `of`, the runs must belong to that suite.
///
/// # Errors
///
/// Fails if a run cannot be read, is named twice or belongs to another suite than `of`. Also fails if the runs belong
/// to several suites, if no repeat was judged, or if the goal is impossible.
pub fn plan(
    world: &World,
    place: &SuiteFolder,
    of: Option<&SuiteKey>,
    config: &PlanConfig,
) -> Result<PlanReport, Failure> {
    let goal = goal(config)?;
    let past = Past::load(world, place, of, &config.runs)?;
    let pilot = Pilot::new(&past.cases()).map_err(|_| past.nothing())?;
    let costs = past.costs();
    let mut repeats = config.repeats.clone();
    repeats.sort_unstable();
    repeats.dedup();
    if config.goal.effect < SLOW_EFFECT {
        let effect = text::points(config.goal.effect);
        world.notify(&format!(
            "simulating comparisons for a fall of {effect} pp; a small fall needs many cases, which takes up to minutes"
        ));
    }
    let sizes = repeats.into_iter().map(|it| size(&pilot, goal, it, &costs));
    let sizes = sizes.collect::<Result<Vec<_>, _>>().map_err(|err| impossible(err, config))?;
    if sizes.iter().all(|it| it.cases.is_none()) {
        return Err(impossible(PlanError::TooManyCases, config));
    }
    let summary = PilotSummary {
        cases: pilot.cases(),
        clusters: pilot.clusters(),
        judged: past.judged(),
        pass_rate: past.rate(),
    };
    let notes = notes(&past, &pilot);
    let mut report = PlanReport::new(past.runs, past.suite, summary, config.goal, sizes);
    (report.cost_per_call_usd, report.cost_unknown) = match costs {
        Costs::Known(usd) => (Some(usd), None),
        Costs::Unknown(reason) => (None, Some(reason)),
    };
    report.notes = notes;
    Ok(report)
}

fn goal(config: &PlanConfig) -> Result<Goal, Failure> {
    let PlanGoal { effect, power, alpha, shape } = config.goal;
    let shape = match shape {
        PlanShape::Spread => Shape::Spread,
        PlanShape::Break => Shape::Break,
    };
    Goal::new(effect, power, alpha, shape).map_err(|err| impossible(err, config))
}

fn size(pilot: &Pilot, goal: Goal, repeats: u32, costs: &Costs) -> Result<PlannedSize, PlanError> {
    let size = match pilot.size(goal, repeats) {
        Ok(size) => Some(size),
        Err(PlanError::TooManyCases) => None,
        Err(err) => return Err(err),
    };
    let calls = size.map(|it| it.cases * u64::from(repeats));
    #[expect(clippy::cast_precision_loss, reason = "numbers of calls are far below 2^52")]
    let cost_usd = match costs {
        Costs::Known(usd) => calls.map(|it| it as f64 * usd),
        Costs::Unknown(_) => None,
    };
    let mut planned = PlannedSize::new(repeats);
    planned.cases = size.map(|it| it.cases);
    planned.clusters = size.map(|it| it.clusters);
    planned.calls = calls;
    planned.cost_usd = cost_usd;
    planned.power = size.map(|it| it.power);
    // Round up to three digits, because the simulation is not more precise.
    planned.detectable = pilot.detectable(goal, repeats)?.map(|it| (it * 1000.0).ceil() / 1000.0);
    Ok(planned)
}

fn impossible(err: PlanError, config: &PlanConfig) -> Failure {
    let effect = text::points(config.goal.effect);
    match err {
        PlanError::Effect => Failure::input("`--effect` must be above 0 and at most 100 points"),
        PlanError::Power => Failure::input("`--power` must be from 0.5 to 0.99")
            .with_help("0.8 is usual: 80 of 100 comparisons show the fall"),
        PlanError::Alpha => Failure::input("`--alpha` must be from 0.001 to 0.2").with_help(
            "`kindlm compare` uses 0.05: 5 of 100 comparisons without a change are false alarms",
        ),
        PlanError::AboveRate { rate, .. } => Failure::input(format!(
            "the pass rate of the past runs is about {:.1}%, so it cannot fall by {effect} pp",
            100.0 * rate
        ))
        .with_help("plan for a smaller `--effect`"),
        PlanError::TooManyCases => Failure::input(format!(
            "a fall of {effect} pp needs more than {} cases that do not depend on each other",
            kindlm_reporters::count(MOST_CLUSTERS)
        ))
        .with_help("plan for a larger `--effect`, or for more `--repeats`"),
        PlanError::NoRepeats => Failure::input("`--repeats` must be above 0"),
    }
}

/// Returns the remarks about the past runs.
fn notes(past: &Past, pilot: &Pilot) -> Vec<String> {
    let mut notes = past.notes();
    if pilot.is_single() {
        notes.push(
            "each case has one repeat, which does not show how the cases differ; the plan assumes equal pass rates, and may \
             be too large. A run with `kindlm test --runs 3` gives a better plan"
                .to_owned(),
        );
    }
    if pilot.clusters() < FEW {
        notes.push(format!(
            "a plan from fewer than {FEW} independent cases is rough; plan again from a run of the larger suite"
        ));
    }
    notes
}
