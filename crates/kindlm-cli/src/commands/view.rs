//! `kindlm view`: shows a run in the browser.

use std::io::Write as _;

use kindlm_run::suites::SuiteKey;
use kindlm_run::view::{ViewConfig, open_browser, view};
use kindlm_run::{Outcome, SuiteFolder};

use crate::args::ViewArgs;
use crate::{Failure, Io, print};

pub(crate) fn run(args: &ViewArgs, io: &mut Io) -> Outcome {
    let place = SuiteFolder::new(io, args.place.config());
    let suite = SuiteKey::named(io, args.place.config.as_deref())?;
    let (run, editor) = (args.run.clone(), args.editor.clone());
    let config = ViewConfig { run, port: args.port.unwrap_or(0), editor };
    let world = io.world.clone();
    view(&world, place, suite.as_ref(), &config, &mut |url| {
        print(io, &format!("{url}\n"))?;
        Failure::of_stdout(io.stdout.flush())?;
        io.notify("the page is served until Ctrl-C");
        if args.open { open_browser(url) } else { Ok(()) }
    })
}
