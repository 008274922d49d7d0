//! `kindlm evaluate`: checks recorded outputs.

use std::{io, mem};

use kindlm_run::evaluate::{EvaluateConfig, Records, evaluate};
use kindlm_run::{NamedJudge, OpenOptions, Outcome, Purpose};

use crate::args::EvaluateArgs;
use crate::{Failure, Io, opening};

pub(crate) fn run(args: &EvaluateArgs, io: &mut Io) -> Outcome {
    let suite = match &args.config {
        Some(config) => {
            let options =
                OpenOptions { allow_outside: args.allow_outside, ..OpenOptions::new(config) };
            Some(opening::open(io, &options, Purpose::Models)?)
        }
        None => None,
    };
    let config = config(args, io)?;
    if args.file.is_none() && io.screen.stdin_is_terminal {
        io.notify("reading from the terminal; end with Ctrl-D");
    }
    let stdin = || Records::Stream(mem::replace(&mut io.stdin, Box::new(io::empty())));
    let records = args.file.clone().map_or_else(stdin, Records::File);
    evaluate(&io.world, suite.as_ref(), &config, records, &mut *io.stdout)
}

fn config(args: &EvaluateArgs, io: &Io) -> Result<EvaluateConfig, Failure> {
    let access = (args.base_url.as_deref(), args.api_key_env.as_deref());
    let providers = &io.world.registries.providers;
    let judge = args.judge.as_deref().map(|it| NamedJudge::new(it, providers)).transpose()?;
    Ok(EvaluateConfig {
        base: args.base.clone(),
        allow_outside: args.allow_outside,
        judge: judge.map(|it| it.with_access(access.0, access.1)),
        responses: args.responses.source(),
        budget_usd: args.budget_usd,
        allow_unpriced: args.allow_unpriced,
        concurrency: args.concurrency as usize,
        jsonl: args.jsonl,
        echo: args.echo,
        output: args.output.clone(),
        resume: args.resume,
        summary: args.summary.clone(),
        // The text does not show the keys that `--echo` copies.
        columns: (io.screen.stdout_is_terminal && !args.json && !args.echo).then(|| io.width()),
    })
}
