//! The arguments of `kindlm report`.

use clap::Args;

use super::{HtmlArgs, PlaceArgs};
use kindlm_run::reports::ReporterSpec;

use crate::values;

/// Shows the report of a past run
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm report\n  kindlm report 20261120-140912-345-7f3a --reporter junit=junit.xml\n  kindlm report downloaded/report.json -v"
)]
pub(crate) struct ReportArgs {
    /// The run: an id or its beginning, or the file of a report [default: the newest run]
    #[arg(value_name = "ID|FILE")]
    pub(crate) run: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Write a report: `<id>` to stdout or `<id>=<path>` to a file; repeatable [default: pretty]
    #[arg(short, long = "reporter", value_name = "ID[=PATH]", value_parser = values::reporter)]
    pub(crate) reporters: Vec<ReporterSpec>,

    #[command(flatten)]
    pub(crate) html: HtmlArgs,

    /// Show only the verdict, the gates and the failures
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Show every check, with outputs
    #[arg(short, long)]
    pub(crate) verbose: bool,
}
