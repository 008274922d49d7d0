//! The arguments of `kindlm test`.

use std::time::Duration;

use clap::Args;
use kindlm_engine::Shard;

use super::{ConfigArgs, HtmlArgs};
use crate::args::ResponsesArgs;
use kindlm_run::reports::ReporterSpec;

use crate::values;

/// Runs the suite and reports the results
///
/// Sends every selected test case to its models, once for each repeat, checks the answers, applies the gates, and
/// writes reports. The report is stored in `.kindlm/runs` next to the suite.
///
/// Ctrl-C once: finishes the executions in progress with their turns and judges, starts no others, and writes the
/// report. Twice: stops at once. Each finished execution is saved before it counts, so `--resume` continues after an
/// interrupt or a crash without paying twice.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(
    after_help = "Examples:\n  kindlm test\n  kindlm test --reporter pretty --reporter junit=reports/junit.xml\n  kindlm test --tags smoke --runs 5 --gate 90%\n  kindlm test --test 'refund *' --models gpt-4o -v\n  kindlm test refund 'shoes*' -j 16\n  kindlm test --tags smoke --list\n  kindlm test --failed\n  kindlm test --changed --tags '!slow'\n  kindlm test --shard 2/5 --reporter json=shard-2.json\n  kindlm test --responses cache\n  kindlm test --watch\n  kindlm test --dry-run\n  kindlm test --resume"
)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) suite: ConfigArgs,

    /// Write a report: `<id>` to stdout or `<id>=<path>` to a file; repeatable [default: pretty]
    ///
    /// `kindlm explain reporters` lists the ids.
    #[arg(help_heading = "Output", short, long = "reporter", value_name = "ID[=PATH]", value_parser = values::reporter)]
    pub(crate) reporters: Vec<ReporterSpec>,

    #[command(flatten, next_help_heading = "Output")]
    pub(crate) html: HtmlArgs,

    /// The number of repeats of each test case, instead of the suite's
    #[arg(help_heading = "Run", long, value_name = "N", value_parser = values::count::<10_000>)]
    pub(crate) runs: Option<u32>,

    /// The minimum pass rate, instead of `gates.passRateMin`: `95`, `95%` or `0.95`
    #[arg(help_heading = "Verdict", long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) gate: Option<f64>,

    /// The maximum number of concurrent executions [default: `defaults.concurrency`]
    #[arg(help_heading = "Run", short = 'j', long, value_name = "N", value_parser = values::count::<4096>)]
    pub(crate) concurrency: Option<u32>,

    /// The time limit of one request or command: `1500` (ms), `30s`, `2m`
    #[arg(help_heading = "Run", long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    #[command(flatten)]
    pub(crate) responses: ResponsesArgs,

    /// Resume a run that was stopped, killed, or had provider errors: only missing and errored executions run [default:
    /// the newest run of the suite]
    ///
    /// The run keeps its id and its arguments, so tests, models and shard need not be repeated. It is an error if the
    /// suite, its models or its variables have changed since.
    #[arg(help_heading = "Run", long, value_name = "RUN", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the option may stand alone")]
    pub(crate) resume: Option<Option<String>>,

    /// Write nothing to disk during the run; it cannot be resumed
    #[arg(help_heading = "Run", long, conflicts_with = "resume")]
    pub(crate) no_journal: bool,

    /// Run again whenever a file of the suite is saved; stored answers are used unless a change affects them
    ///
    /// Implies `--responses cache` unless `--responses` is given. Ctrl-C ends the watch. On a terminal, type `a` (all),
    /// `f` (failed), `p PATTERN` (by name) or `q` (quit), and Enter.
    #[arg(help_heading = "Run", long, conflicts_with_all = ["dry_run", "resume"])]
    pub(crate) watch: bool,

    /// List the selected test cases with their places, models and tags; send nothing
    #[arg(help_heading = "Preview", long, conflicts_with_all = ["watch", "dry_run"])]
    pub(crate) list: bool,

    /// With `--list`: write a JSON array, for programs
    #[arg(help_heading = "Preview", long, requires = "list")]
    pub(crate) json: bool,

    /// Show the requests that would be sent and their maximum cost; send nothing
    #[arg(help_heading = "Preview", long)]
    pub(crate) dry_run: bool,

    /// The maximum cost of models and judges, in US dollars; the lower of this and `gates.costMaxUsd` applies
    ///
    /// The maximum cost of each request is reserved before it is sent. If the rest of the budget is too low, nothing
    /// more is sent, and the exit code is 1. This is also the threshold of the gate `costMaxUsd`, except with
    /// `--shard`, with `--allow-unpriced`, and in suites with transcripts.
    #[arg(help_heading = "Limits", long, value_name = "USD", value_parser = values::usd)]
    pub(crate) budget_usd: Option<f64>,

    /// Allow a budget although the price of a model is unknown; its cost is not counted
    #[arg(help_heading = "Limits", long)]
    pub(crate) allow_unpriced: bool,

    /// Stop sending after the first test case that failed or could not be judged: `--max-failures 1`
    #[arg(help_heading = "Limits", long)]
    pub(crate) fail_fast: bool,

    /// Stop sending after this many test cases that failed or could not be judged, counted per model
    #[arg(help_heading = "Limits", long, value_name = "N", conflicts_with = "fail_fast", value_parser = values::count::<1_000_000>)]
    pub(crate) max_failures: Option<u32>,

    /// Treat soft checks like gates: a case that is only `scored` fails
    #[arg(help_heading = "Verdict", long)]
    pub(crate) strict: bool,

    /// The baseline for measuring drift [default: `default`, if it exists]
    #[arg(help_heading = "Verdict", long, value_name = "LABEL")]
    pub(crate) baseline: Option<String>,

    /// Do not remove the workspaces of agents, and print their folder
    #[arg(help_heading = "Run", long)]
    pub(crate) keep_workspaces: bool,

    /// Show only the verdict, the gates and the failures; no progress
    #[arg(help_heading = "Output", short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Show every check, with outputs
    #[arg(help_heading = "Output", short, long)]
    pub(crate) verbose: bool,
}

/// The arguments that select test cases and models.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelectArgs {
    /// Only test cases whose name matches, like `--test`
    #[arg(help_heading = "Selection", value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,

    /// Only test cases with one of these tags; a tag with `!` in front excludes its test cases; repeatable, or
    /// comma-separated
    #[arg(help_heading = "Selection", long, value_name = "[!]TAG", value_delimiter = ',', value_parser = values::tag)]
    pub(crate) tags: Vec<kindlm_run::Tag>,

    /// Only test cases whose name matches: a part of it (`refund`), a glob (`refund*`) or a regular expression
    /// (`/^refund/i`). The whole name of a test case selects only this test case; repeatable
    #[arg(help_heading = "Selection", long = "test", value_name = "PATTERN")]
    pub(crate) tests: Vec<String>,

    /// Only these models, by id (`command` for command tests); repeatable, or comma-separated
    #[arg(help_heading = "Selection", long, value_name = "ID", value_delimiter = ',')]
    pub(crate) models: Vec<String>,

    /// Only test cases that did not pass in their last run, on the models where they did not
    #[arg(help_heading = "Selection", long)]
    pub(crate) failed: bool,

    /// Only test cases that did not pass in their last run, that never ran, or whose prompt, variables or expectations
    /// have changed since
    #[arg(help_heading = "Selection", long, conflicts_with = "failed")]
    pub(crate) changed: bool,

    /// Only shard K of N; each test case is in one shard. `kindlm merge` merges the reports and applies the gates; a
    /// shard has exit code 0 even if test cases failed
    #[arg(help_heading = "Selection", long, value_name = "K/N", value_parser = values::shard, conflicts_with_all = ["failed", "changed"])]
    pub(crate) shard: Option<Shard>,

    /// Balance the shards by the durations in this report; use the same report for all shards
    #[arg(help_heading = "Selection", long, value_name = "REPORT", requires = "shard")]
    pub(crate) shard_durations: Option<String>,
}

impl SelectArgs {
    /// Returns the patterns of test names, with and without `--test`. Any of them may match.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.tests.iter().chain(&self.patterns)
    }
}
