//! The arguments of `kindlm gate`.

use std::path::PathBuf;

use clap::Args;

use super::HtmlArgs;
use kindlm_run::reports::ReporterSpec;

use crate::values;

/// Evaluates gates on a past run, without sending anything
///
/// Uses the gates of the suite given with `-c`, or else those of the report. The exit code is that of `kindlm test`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm gate report.json\n  kindlm gate report.json --gate 90%\n  kindlm gate 20261120-140912-345-7f3a -c kindlm.yaml"
)]
pub(crate) struct GateArgs {
    /// The run: an id or its beginning, or the file of a report [default: the newest run]
    #[arg(value_name = "ID|FILE")]
    pub(crate) run: Option<String>,

    /// The suite with the gates; then only runs of this suite are used
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The minimum pass rate: `95`, `95%` or `0.95`
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) gate: Option<f64>,

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
