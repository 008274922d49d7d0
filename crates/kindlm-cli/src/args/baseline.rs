//! The arguments of `kindlm baseline`.

use clap::{Args, Subcommand};

use super::{CompareOptions, PlaceArgs};

/// Stores the results of a run, to compare later runs with them
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm test && kindlm baseline set\n  kindlm baseline set release-1 --run 20261120-140912-345-7f3a\n  kindlm test; kindlm baseline compare"
)]
pub(crate) struct BaselineArgs {
    #[command(subcommand)]
    pub(crate) action: BaselineAction,
}

/// An action on baselines.
#[derive(Debug, Subcommand)]
pub(crate) enum BaselineAction {
    /// Creates a baseline from a run; replaces an existing one with this label
    Set {
        /// The label of the baseline
        #[arg(default_value = "default")]
        label: String,
        /// The run: an id or its beginning, or the file of a report [default: the newest run]
        #[arg(long, value_name = "ID|FILE")]
        run: Option<String>,
        /// Accept a run with cases that failed or could not be judged
        #[arg(long)]
        force: bool,
        /// Accept a run that was interrupted, is a shard, ran only a part of the suite, or lacks cases of the replaced
        /// baseline; the new baseline lacks these cases
        #[arg(long)]
        partial: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Compares a run with the baseline, like `kindlm compare`; exit code 1 for a regression, and with `--margin` for
    /// too little data; exit code 2 if no case can be compared
    Compare {
        /// The label of the baseline
        #[arg(default_value = "default")]
        label: String,
        /// The run: an id or its beginning, or the file of a report [default: the newest run]
        #[arg(long, value_name = "ID|FILE")]
        run: Option<String>,
        #[command(flatten)]
        how: CompareOptions,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Lists the baselines
    List {
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Removes a baseline
    Remove {
        /// The label of the baseline
        label: String,
        #[command(flatten)]
        place: PlaceArgs,
    },
}
