//! The arguments of `kindlm compare`.

use clap::Args;

use super::PlaceArgs;

/// Compares two runs, and distinguishes a regression from chance
///
/// The same cases of both runs are compared, and the result is a regression, an improvement, no regression, or too
/// little data. Exit code 1 for a regression, and with `--margin` for too little data; exit code 2 if no case can be
/// compared.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm compare default\n  kindlm compare 20261120-140912 last\n  kindlm compare main.json branch.json --margin 3pp"
)]
pub(crate) struct CompareArgs {
    /// The reference: the label of a baseline, the id of a run or its beginning, the file of a report, or `last`
    #[arg(value_name = "BEFORE")]
    pub(crate) before: String,
    /// The run that is compared with the reference, in the same forms; `last` is the newest run
    #[arg(value_name = "AFTER", default_value = kindlm_run::compare::LAST)]
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) how: CompareOptions,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// The options of each comparison.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct CompareOptions {
    /// The non-inferiority margin: the largest tolerated fall of the pass rate, such as `3pp` (percentage points).
    /// Exit code 1 also if the runs are too small to exclude a larger fall [default: 5pp, without this exit code]
    #[arg(long, value_name = "POINTS", value_parser = kindlm_run::compare::parse_margin)]
    pub(crate) margin: Option<f64>,
    /// Print the comparison as JSON; see `kindlm schema comparison`
    #[arg(long)]
    pub(crate) json: bool,
}
