//! `kindlm serve`: starts the server.

use kindlm_run::Outcome;

use crate::Io;
use crate::args::ServeArgs;

pub(crate) fn run(args: &ServeArgs, io: &mut Io) -> Outcome {
    kindlm_run::serve::serve(&io.world, &args.args)
}
