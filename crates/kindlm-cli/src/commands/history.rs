//! `kindlm history`: follows a suite or a case over the stored runs.

use kindlm_run::history::{HistoryConfig, history, render};
use kindlm_run::suites::SuiteKey;
use kindlm_run::{Outcome, SuiteFolder};
use kindlm_types::ExitStatus;

use crate::args::HistoryArgs;
use crate::{Io, print};

pub(crate) fn run(args: HistoryArgs, io: &mut Io) -> Outcome {
    let place = SuiteFolder::new(io, args.place.config());
    let suite = SuiteKey::named(io, args.place.config.as_deref())?;
    let config = HistoryConfig::new(args.test, args.models, args.limit as usize);
    let found = history(io, &place, suite, &config)?;
    print(io, &render(&found, args.json)?)?;
    if found.has_older {
        io.notify("there are older runs; `--limit` shows more");
    }
    Ok(ExitStatus::Success)
}
