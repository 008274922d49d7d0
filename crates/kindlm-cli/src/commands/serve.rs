//! `kindlm serve` and `kindlm token`: start the server.

use kindlm_run::Outcome;

use crate::Io;
use crate::args::TokenArgs;

pub(crate) fn run(args: &[String], io: &mut Io) -> Outcome {
    kindlm_run::serve::serve(&io.world, args)
}

pub(crate) fn token(args: TokenArgs, io: &mut Io) -> Outcome {
    run(&[vec!["token".to_owned()], args.args].concat(), io)
}
