//! The arguments of `kindlm bisect`.

use clap::{ArgGroup, Args};

use super::ConfigArgs;
use crate::values;

/// Finds the commit, or the changes of a suite, since which a test case fails
///
/// Repeats the case on each try until a statistical test has decided, so that chance does not mislead the search. With
/// `--good`, it searches in the commits between two commits; their files are written to temporary folders, and the
/// working tree stays untouched. With `--from`, it searches in the changes between an older version of the suite and
/// the present one: lines of prompts, rules, parameters. Each try sends requests; `--dry-run` shows how many.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("range").args(["good", "from"]).required(true),
    after_help = "Examples:\n  kindlm bisect refund --good v1.2 --dry-run\n  kindlm bisect refund --good v1.2 --bad HEAD --max-executions 200\n  kindlm bisect refund --from HEAD~3\n  kindlm bisect refund --from old.yaml --fail 80%\n\nExit codes: 0 found, 1 no single answer, 2 an argument is invalid, 3 no answer because a provider failed, 130 interrupted"
)]
pub(crate) struct BisectArgs {
    /// The test case: its name, a part of it, a glob, or a regular expression
    #[arg(value_name = "CASE")]
    pub(crate) test: String,

    #[command(flatten)]
    pub(crate) suite: ConfigArgs,

    /// A commit in which the case passes
    #[arg(long, value_name = "REV")]
    pub(crate) good: Option<String>,

    /// A later commit in which the case fails
    #[arg(long, value_name = "REV", default_value = "HEAD", conflicts_with = "from")]
    pub(crate) bad: String,

    /// An older version of the suite with which the case passes: a file, or a commit
    #[arg(long, value_name = "FILE|REV")]
    pub(crate) from: Option<String>,

    /// The model, by id; needed if the case runs on several models
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,

    /// The pass rate that counts as good [default: that of `repeat` with `until: decided`, or 95%]
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) pass: Option<f64>,

    /// The pass rate that counts as bad [default: that of `repeat` with `until: decided`, or 50%]
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) fail: Option<f64>,

    /// The highest probability of a wrong answer
    #[arg(long, value_name = "RATE", value_parser = values::rate, default_value = "5%")]
    pub(crate) error: f64,

    /// The maximum number of executions
    #[arg(long, value_name = "N", value_parser = values::count::<1_000_000>)]
    pub(crate) max_executions: Option<u32>,

    /// The maximum cost of all executions and judges, in US dollars; the lower of this and `gates.costMaxUsd` applies
    #[arg(long, value_name = "USD", value_parser = values::usd)]
    pub(crate) budget_usd: Option<f64>,

    /// Allow a budget although the price of a model is unknown; its cost is not counted
    #[arg(long)]
    pub(crate) allow_unpriced: bool,

    /// Show the candidates and the expected number of executions; send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object; see `kindlm schema bisect`
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) json: bool,
}
