//! The arguments of `kindlm runs` and `kindlm clean`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::PlaceArgs;
use crate::values;

/// Lists the stored runs, or removes old ones
///
/// The newest run is first. Commands that take the id of a run also accept its beginning, if no other run has it.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  kindlm runs\n  kindlm runs --limit 100 --json\n  kindlm runs prune --keep 20 --older-than 30d"
)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<RunsAction>,

    /// The maximum number of runs
    #[arg(long, value_name = "N", default_value = "20", value_parser = values::count::<1_000_000>)]
    pub(crate) limit: u32,

    /// Write a JSON array, for programs
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// An action on stored runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsAction {
    /// Removes old runs; never the run of a baseline, nor one that is still running
    ///
    /// With both options, a run is removed if it is old and not among the newest.
    #[command(
        group = ArgGroup::new("which").args(["keep", "older_than"]).required(true).multiple(true),
        after_help = "Examples:\n  kindlm runs prune --keep 20\n  kindlm runs prune --keep 5 --older-than 30d"
    )]
    Prune {
        /// Keep the newest N runs
        #[arg(long, value_name = "N")]
        keep: Option<usize>,
        /// Remove only runs that began longer ago: `30d`, `12h`, `45m`
        #[arg(long, value_name = "AGE", value_parser = values::age)]
        older_than: Option<Duration>,
        #[command(flatten)]
        place: PlaceArgs,
    },
}

/// Removes the runs and the stored answers of a folder
///
/// Lists the runs and answers first, and asks on a terminal. Baselines and calibrations are not removed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kindlm clean\n  kindlm clean -c suites/refunds.yaml --yes")]
pub(crate) struct CleanArgs {
    /// Remove the runs and answers without asking
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// The suite, or its folder; `.kindlm` next to it is cleaned
    #[arg(short, long, value_name = "FILE", default_value = "kindlm.yaml")]
    pub(crate) config: std::path::PathBuf,
}
