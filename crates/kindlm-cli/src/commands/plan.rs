//! `kindlm plan`: plans the size of runs.

use kindlm_run::plan::{self, PlanConfig};
use kindlm_run::suites::SuiteKey;
use kindlm_run::{Failure, Outcome, SuiteFolder};
use kindlm_types::ExitStatus;
use kindlm_wire::plan::{PlanGoal, PlanShape};

use crate::args::{PlanArgs, Shape};
use crate::commands::schema::pretty;
use crate::{Io, print};

pub(crate) fn run(args: PlanArgs, io: &mut Io) -> Outcome {
    let place = SuiteFolder::new(io, args.place.config());
    let suite = SuiteKey::named(io, args.place.config.as_deref())?;
    let shape = match args.shape {
        Shape::Spread => PlanShape::Spread,
        Shape::Break => PlanShape::Break,
    };
    let goal = PlanGoal { effect: args.effect, power: args.power, alpha: args.alpha, shape };
    let config = PlanConfig { runs: args.run, goal, repeats: args.repeats };
    let report = plan::plan(io, &place, suite.as_ref(), &config)?;
    let text = if args.json {
        pretty(&serde_json::to_value(&report).map_err(|err| Failure::internal(err.to_string()))?)
    } else {
        plan::text(&report)
    };
    print(io, &text)?;
    Ok(ExitStatus::Success)
}
