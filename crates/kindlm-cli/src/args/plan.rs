//! The arguments of `kindlm plan`.

use clap::{Args, ValueEnum};

use super::PlaceArgs;
use crate::values;

/// Plans how many cases and repeats a comparison needs
///
/// Reads past runs, and prints the sizes of runs whose comparison shows a fall of the pass rate, with their calls and
/// cost. The power of each size is simulated with the test of `kindlm compare`. Nothing is sent.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm plan --effect 5pp\n  kindlm plan last 20261120-140912 --effect 10pp --repeats 1,5\n  kindlm plan main.json --effect 5pp --power 90% --shape break --json\n\nExit codes: 0 planned, 2 the goal is impossible, or a run or an argument is invalid"
)]
pub(crate) struct PlanArgs {
    /// The past runs: ids or their beginnings, files of reports, or `last`; runs of one suite are counted together
    /// [default: the newest run]
    #[arg(value_name = "RUN")]
    pub(crate) run: Vec<String>,

    /// The fall of the pass rate to detect, such as `5pp` (percentage points)
    #[arg(long, value_name = "POINTS", value_parser = kindlm_run::compare::parse_margin)]
    pub(crate) effect: f64,

    /// The probability of detecting this fall, from 0.5 to 0.99
    #[arg(long, value_name = "RATE", default_value = "0.8", value_parser = values::rate)]
    pub(crate) power: f64,

    /// The rate of false alarms, from 0.001 to 0.2; `kindlm compare` uses 0.05
    #[arg(long, value_name = "RATE", default_value = "0.05", value_parser = values::rate)]
    pub(crate) alpha: f64,

    /// The numbers of repeats to plan for, comma-separated
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,3,5,10")]
    #[arg(value_parser = values::count::<100>)]
    pub(crate) repeats: Vec<u32>,

    /// The way in which the pass rate falls: `spread`, in all cases by the same amount; `break`, some cases always fail
    #[arg(long, value_enum, default_value_t = Shape::Spread, hide_possible_values = true)]
    pub(crate) shape: Shape,

    /// Print the plan as JSON; see `kindlm schema plan`
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// The way in which the pass rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// In all cases by the same amount
    Spread,
    /// Some cases always fail
    Break,
}
