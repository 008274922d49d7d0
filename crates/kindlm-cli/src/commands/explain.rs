//! `kindlm explain`: shows the page of a registry entry or of a key, or the explanation of a failure code.

use kindlm_reporters::{Style, write_manual};
use kindlm_run::{Failure, Outcome, explain};
use kindlm_types::ExitStatus;

use crate::args::ExplainArgs;
use crate::{Io, print};

pub(crate) fn run(args: &ExplainArgs, io: &mut Io) -> Outcome {
    let page = explain::text(args.topic.as_deref())?;
    let style = Style { color: io.color_stdout(), width: io.width(), ..Style::default() };
    let mut text = String::new();
    write_manual(&page, &style, &mut text).map_err(|err| Failure::internal(err.to_string()))?;
    print(io, &text)?;
    Ok(ExitStatus::Success)
}
