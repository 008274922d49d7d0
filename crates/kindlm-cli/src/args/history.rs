//! The arguments of `kindlm history`.

use clap::Args;

use super::PlaceArgs;
use crate::values;

/// Follows a suite or a test case over the stored runs
///
/// Shows outcome, score, cost and time of each run, the runs at which the pass rate changed, and how flaky a case is.
/// For a case that flipped, it lists the changes between the two runs: commit, config, files, prompts, rules, models,
/// judges, and the version of KindLM. It sends no request.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm history\n  kindlm history refund\n  kindlm history 'refund late' --models gpt-4o --limit 100\n  kindlm history refund --json"
)]
pub(crate) struct HistoryArgs {
    /// The test case: its name, a part of it, a glob, or a regular expression [default: the whole suite]
    #[arg(value_name = "CASE")]
    pub(crate) test: Option<String>,

    /// Only these models, by id (`command` for command tests); repeatable, or comma-separated
    #[arg(long, value_name = "ID", value_delimiter = ',', requires = "test")]
    pub(crate) models: Vec<String>,

    /// The maximum number of runs
    #[arg(long, value_name = "N", default_value = "30", value_parser = values::count::<1_000_000>)]
    pub(crate) limit: u32,

    /// Print one JSON object; see `kindlm schema history`
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}
