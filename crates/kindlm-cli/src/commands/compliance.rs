//! `kindlm compliance`: verifies a compliance document.

use kindlm_run::compliance::{VerifyConfig, verify};
use kindlm_run::{Outcome, SuiteFolder};

use crate::args::{ComplianceAction, ComplianceArgs};
use crate::{Io, print};

pub(crate) fn run(args: ComplianceArgs, io: &mut Io) -> Outcome {
    let ComplianceAction::Verify { document, run, report, place } = args.action;
    let place = SuiteFolder::new(io, place.config());
    let verified = verify(io, &place, &VerifyConfig { document, run, report })?;
    print(io, &verified.to_string())?;
    Ok(verified.status())
}
