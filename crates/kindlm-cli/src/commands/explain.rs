//! `kindlm explain`: prints the page of a registry entry, or the explanation of a failure code.

use kindlm_run::{Outcome, explain};
use kindlm_types::ExitStatus;

use crate::args::ExplainArgs;
use crate::{Io, print};

pub(crate) fn run(args: &ExplainArgs, io: &mut Io) -> Outcome {
    print(io, &explain::text(args.topic.as_deref())?)?;
    Ok(ExitStatus::Success)
}
