//! The arguments of `kindlm merge`.

use clap::Args;

use super::HtmlArgs;
use kindlm_run::reports::ReporterSpec;

use crate::values;

/// Merges the reports of all shards of a run
///
/// The result has the cases, the gates and the exit code of the undivided run. The shards must have the same suite and
/// the same plan. Missing and duplicate shards are errors.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm test --shard 1/2 --reporter json=shard-1.json   (on one machine)\n  kindlm test --shard 2/2 --reporter json=shard-2.json   (on another)\n  kindlm merge shard-*.json --reporter pretty --reporter junit=junit.xml"
)]
pub(crate) struct MergeArgs {
    /// The reports of all shards, as written by the `json` reporter, in any order
    #[arg(value_name = "REPORT", required = true)]
    pub(crate) reports: Vec<String>,

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
