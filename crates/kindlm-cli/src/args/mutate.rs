//! The arguments of `kindlm mutate`.

use std::path::PathBuf;

use clap::Args;

use super::{ConfigArgs, ResponsesArgs};
use crate::values;

/// Measures how strong the checks are
///
/// Takes the passed executions of a run, changes one thing in each, and judges the mutants with the checks of the
/// suite. A harmful mutant should fail; one that passes survives, and shows which check is missing. A harmless mutant
/// should pass; one that fails shows a brittle check. Nothing is sent without `--judges`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm mutate\n  kindlm mutate --only refund --ops truncate,negate\n  kindlm mutate --min 90% --html mutation.html\n  kindlm mutate --judges --budget-usd 1\n\nExit codes: 0 measured, 1 the score is below `gates.mutationScoreMin` or `--min`, 2 nothing can be mutated or an argument is invalid, 3 a provider that should judge did not answer, 130 interrupted"
)]
pub(crate) struct MutateArgs {
    /// The run: an id or its beginning, or the file of a report [default: the newest run of the suite]
    #[arg(value_name = "ID|FILE")]
    pub(crate) run: Option<String>,

    #[command(flatten)]
    pub(crate) suite: ConfigArgs,

    /// Mutate only test cases with this name, part of a name, or glob; repeatable
    #[arg(long, value_name = "TEST")]
    pub(crate) only: Vec<String>,

    /// Use only these operators, comma-separated [default: all]
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) ops: Vec<String>,

    /// The minimum score, instead of `gates.mutationScoreMin`: `90`, `90%` or `0.9`
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) min: Option<f64>,

    /// Evaluate the checks that ask models, too; each answer is stored, unless `--responses` selects another mode
    #[arg(long, requires = "budget_usd")]
    pub(crate) judges: bool,

    #[command(flatten)]
    pub(crate) responses: ResponsesArgs,

    /// The maximum cost of the judges, in US dollars
    #[arg(long, value_name = "USD", value_parser = values::usd, requires = "judges")]
    pub(crate) budget_usd: Option<f64>,

    /// Print one JSON object
    #[arg(long, conflicts_with = "verbose")]
    pub(crate) json: bool,

    /// Also write a page for the browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Show every survivor
    #[arg(short, long)]
    pub(crate) verbose: bool,
}
