//! `kindlm init`: creates a first suite.

use kindlm_run::Outcome;
use kindlm_run::init::{self, NewSuite};
use kindlm_types::ExitStatus;

use crate::args::{Ci, InitArgs, Template};
use crate::{Io, print};

pub(crate) fn run(args: &InitArgs, io: &mut Io) -> Outcome {
    let suite = NewSuite {
        template: args.template.map(|it| match it {
            Template::Basic => init::Template::Basic,
            Template::Agent => init::Template::Agent,
            Template::Compliance => init::Template::Compliance,
        }),
        provider: args.provider,
        ci: args.ci.map(|it| match it {
            Ci::Github => init::Ci::Github,
            Ci::Gitlab => init::Ci::Gitlab,
        }),
        force: args.force,
    };
    let folder = io.working_dir.clone();
    suite.write(&folder, &mut |text| print(io, text))?;
    Ok(ExitStatus::Success)
}
