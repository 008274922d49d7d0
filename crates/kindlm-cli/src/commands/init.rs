//! `kindlm init`: creates a first suite.

use kindlm_types::ExitStatus;

use super::schema::pretty;
use crate::args::{InitArgs, Template};
use crate::{Failure, Io, print};
use kindlm_run::Outcome;
use kindlm_run::project::CONFIG;

/// The path of the schema for editors, which the templates reference in their first line.
const SCHEMA: &str = "kindlm.schema.json";

pub(crate) fn run(args: &InitArgs, io: &mut Io) -> Outcome {
    if !args.force && io.working_dir.join(CONFIG).exists() {
        return Err(Failure::input(format!("`{CONFIG}` already exists; nothing was written"))
            .with_help("replace it with `--force`"));
    }
    // The schema is generated, so it may be overwritten. It is written first, so that an error does not leave a config
    // without its schema.
    let schema = pretty(&kindlm_config::json_schema());
    for (path, text) in [(SCHEMA, schema.as_str()), (CONFIG, text(args.template))] {
        kindlm_store::write(&io.working_dir.join(path), text.as_bytes())
            .map_err(|err| Failure::internal(err.to_string()))?;
        print(io, &format!("wrote {path}\n"))?;
    }
    print(io, "\nNext: `kindlm test` runs it, `kindlm validate` checks your changes.\n")?;
    Ok(ExitStatus::Success)
}

fn text(template: Template) -> &'static str {
    match template {
        Template::Basic => include_str!("../../templates/basic.yaml"),
        Template::Agent => include_str!("../../templates/agent.yaml"),
        Template::Compliance => include_str!("../../templates/compliance.yaml"),
    }
}
