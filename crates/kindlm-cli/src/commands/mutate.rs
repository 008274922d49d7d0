//! `kindlm mutate`: measures the strength of the checks.

use kindlm_run::mutate::{MutateConfig, mutate, render};
use kindlm_run::{Outcome, Purpose, Style};

use crate::args::MutateArgs;
use crate::output::verbosity;
use crate::progress::Progress;
use crate::{Io, opening, print};

pub(crate) fn run(args: MutateArgs, io: &mut Io) -> Outcome {
    let project = opening::open(io, &args.suite.options(), Purpose::Look)?;
    let config = MutateConfig {
        responses: args.responses.responses.map(|_| args.responses.source()),
        run: args.run,
        only: args.only,
        operators: args.ops,
        judges: args.judges,
        budget_usd: args.budget_usd,
        min: args.min,
        html: args.html,
    };
    let (color, width) = (io.color_stdout(), io.width());
    let verbosity = verbosity(false, args.verbose);
    let style = Style { color, width, verbosity, ..Style::default() };
    let progress = Box::new(Progress::new(io, args.json));
    let (report, status) = mutate(&io.world.clone(), project, &config, progress)?;
    print(io, &render(&report, (!args.json).then_some(&style))?)?;
    Ok(status)
}
