//! `kindlm schema`: prints a JSON Schema.

use kindlm_types::ExitStatus;
use serde_json::Value;

use crate::args::{SchemaArgs, SchemaOf};
use crate::{Io, print};
use kindlm_run::Outcome;

pub(crate) fn run(args: &SchemaArgs, io: &mut Io) -> Outcome {
    let schema = match args.of {
        SchemaOf::Config => kindlm_config::json_schema(),
        SchemaOf::Report => kindlm_wire::v1::schema(),
        SchemaOf::Comparison => kindlm_wire::v1::comparison_schema(),
        SchemaOf::Mutation => kindlm_wire::mutation::schema(),
        SchemaOf::History => kindlm_wire::history::schema(),
        SchemaOf::Bisect => kindlm_wire::bisect::schema(),
        SchemaOf::Plan => kindlm_wire::plan::schema(),
    };
    print(io, &pretty(&schema))?;
    Ok(ExitStatus::Success)
}

/// Formats JSON with indentation and a final line break.
pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
