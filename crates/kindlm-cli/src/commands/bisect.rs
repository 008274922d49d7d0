//! `kindlm bisect`: finds the commit, or the changes of a suite, that made a case fail.

use kindlm_run::Outcome;
use kindlm_run::bisect::{BisectConfig, PreparedBisection, Range, render};
use kindlm_types::ExitStatus;

use crate::args::BisectArgs;
use crate::{Io, print};

pub(crate) fn run(args: BisectArgs, io: &mut Io) -> Outcome {
    let options = args.suite.options();
    let range = match (args.good, args.from) {
        (Some(good), _) => Range::Commits { good, bad: args.bad },
        (None, from) => Range::Changes { from: from.unwrap_or_default() },
    };
    let mut config = BisectConfig::new(args.test, range, args.error);
    config.model = args.model;
    config.pass = args.pass;
    config.fail = args.fail;
    config.max_executions = args.max_executions.map(u64::from);
    config.budget_usd = args.budget_usd;
    config.allow_unpriced = args.allow_unpriced;
    let world = io.world.clone();
    let prepared = PreparedBisection::new(&world, &options, &config)?;
    if args.dry_run {
        print(io, &prepared.describe())?;
        return Ok(ExitStatus::Success);
    }
    let (report, status) = prepared.run()?;
    // The notices on stderr already show the steps.
    let is_on_screen = io.screen.stdout_is_terminal && io.screen.stderr_is_terminal;
    print(io, &render(&report, args.json, !is_on_screen)?)?;
    Ok(status)
}
