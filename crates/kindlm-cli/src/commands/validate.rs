//! `kindlm validate`: checks a suite without sending anything.

use kindlm_types::ExitStatus;
use serde_json::{Map, json};

use super::schema::pretty;
use crate::args::{Format, ValidateArgs};
use crate::{Io, opening, print};
use kindlm_run::project;
use kindlm_run::secrets::Secrets;
use kindlm_run::{Outcome, Purpose, contents, keys};

pub(crate) fn run(args: &ValidateArgs, io: &mut Io) -> Outcome {
    let (place, _, loaded) =
        project::load(io, &args.suite.options(), Purpose::look(args.suite.allow_programs))?;
    let status =
        if loaded.suite.is_some() { ExitStatus::Success } else { ExitStatus::InvalidInput };
    // A missing API key on this machine is only a warning, because the suite itself is valid.
    let missing = loaded.suite.as_ref().map(|it| keys::missing(io, it)).unwrap_or_default();
    for warning in missing.all() {
        io.notify(&format!("warning: {warning}"));
    }
    match args.format {
        Format::Json => {
            let mut value = json!({
                "file": place.name,
                "valid": loaded.suite.is_some(),
                "suite": loaded.suite.as_ref().map(contents::to_json),
                "diagnostics": loaded.diagnostics.iter().chain(&loaded.warnings).collect::<Vec<_>>(),
            });
            Secrets::new(io, &Map::new()).redact_value(&mut value);
            print(io, &pretty(&value))?;
        }
        Format::Text => {
            opening::show(io, &loaded);
            if let Some(suite) = &loaded.suite {
                print(io, &contents::describe(&place.name, suite))?;
            }
        }
    }
    Ok(status)
}
