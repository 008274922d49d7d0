//! What `kindlm test` can be asked for.

use std::time::Duration;

use clap::Args;
use kindlm_engine::Shard;

use super::ConfigArgs;
use crate::args::ResponsesArgs;
use kindlm_run::reports::ReporterSpec;

use crate::values;

/// Runs the suite and reports
///
/// Sends every selected test case to its models, as often as it is to be repeated, judges what comes back,
/// holds it against the gates, and writes reports. The report is kept in `.kindlm/runs` beside the suite.
///
/// Ctrl-C once: begins nothing new, finishes the executions under way with their turns and judges, and writes the report. Twice: stops now. Each finished
/// execution is on disk before it counts, so `--resume` goes on after that, and after a crash, without paying twice.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(
    after_help = "Examples:\n  kindlm test\n  kindlm test --reporter pretty --reporter junit=reports/junit.xml\n  kindlm test --tags smoke --runs 5 --gate 90%\n  kindlm test --test 'refund *' --models gpt-4o -v\n  kindlm test --failed\n  kindlm test --changed --tags '!slow'\n  kindlm test --shard 2/5 --reporter json=shard-2.json\n  kindlm test --responses cache\n  kindlm test --watch\n  kindlm test --dry-run\n  kindlm test --resume"
)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) suite: ConfigArgs,

    /// Write a report: `<id>` to stdout or `<id>=<path>` to a file; repeatable [default: pretty]
    ///
    /// `kindlm explain reporters` lists the ids.
    #[arg(short, long = "reporter", value_name = "ID[=PATH]", value_parser = values::reporter)]
    pub(crate) reporters: Vec<ReporterSpec>,

    /// How often each test case runs, whatever the suite says
    #[arg(long, value_name = "N", value_parser = values::count::<10_000>)]
    pub(crate) runs: Option<u32>,

    /// The least pass rate, instead of `gates.passRateMin`: `95`, `95%` or `0.95`
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) gate: Option<f64>,

    /// How many executions run at once [default: `defaults.concurrency`]
    #[arg(long, value_name = "N", value_parser = values::count::<4096>)]
    pub(crate) concurrency: Option<u32>,

    /// How long one request or command may take: `1500` (ms), `30s`, `2m`
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    #[command(flatten)]
    pub(crate) responses: ResponsesArgs,

    /// Go on with a run that was stopped, killed, or met provider errors: run what is missing or errored, and nothing
    /// else [default: the newest run of the suite]
    ///
    /// The run keeps its id and what it was begun with: tests, models, shard and the like need not be given again. It is
    /// refused if the suite, its models or its variables have changed since.
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the option may stand alone")]
    pub(crate) resume: Option<Option<String>>,

    /// Keep nothing on disk while the run lasts: it can be started where nothing can be written, and not resumed
    #[arg(long, conflicts_with = "resume")]
    pub(crate) no_journal: bool,

    /// Run again whenever a file of the suite is saved; answers are used again unless a change touches them
    ///
    /// Without `--responses` it is `--responses cache`. Ctrl-C ends it.
    #[arg(long, conflicts_with_all = ["dry_run", "resume"])]
    pub(crate) watch: bool,

    /// Show what would be sent and what it may cost at most; send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Spend at most so much on models and judges, in US dollars, if that is less than `gates.costMaxUsd`
    ///
    /// Before a request is sent, the most that it may cost is set aside. When what is left of the budget is not enough,
    /// nothing more is sent, and the exit code is 1; so it is when an answer costs more than was set aside and the run more
    /// than its budget: this is the threshold of the gate `costMaxUsd`, except with `--shard`, as a shard is not all of its
    /// run, with `--allow-unpriced`, and beside transcripts, which were paid for elsewhere.
    #[arg(long, value_name = "USD", value_parser = values::usd)]
    pub(crate) budget_usd: Option<f64>,

    /// Start although there is a budget and the price of a model is not known; what it costs is not counted
    #[arg(long)]
    pub(crate) allow_unpriced: bool,

    /// Send nothing more once a test case has failed or could not be judged: `--max-failures 1`
    #[arg(long)]
    pub(crate) fail_fast: bool,

    /// Send nothing more once so many test cases have failed or could not be judged, counted per model
    #[arg(long, value_name = "N", conflicts_with = "fail_fast", value_parser = values::count::<1_000_000>)]
    pub(crate) max_failures: Option<u32>,

    /// Treat soft checks like gates: a case that is only `scored` has failed
    #[arg(long)]
    pub(crate) strict: bool,

    /// The baseline that drift is measured against [default: `default`, if there is one]
    #[arg(long, value_name = "LABEL")]
    pub(crate) baseline: Option<String>,

    /// Leave the folders in which agents worked where they are, and say where
    #[arg(long)]
    pub(crate) keep_workspaces: bool,

    /// Show the verdict, the gates and what failed; no progress
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Show every check, with outputs
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Which test cases, on which models.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelectArgs {
    /// Only test cases with one of these tags, and with none of those that have a `!` in front; repeatable, or
    /// divided by commas
    #[arg(long, value_name = "[!]TAG", value_delimiter = ',', value_parser = values::tag)]
    pub(crate) tags: Vec<kindlm_run::Tag>,

    /// Only test cases whose name fits: a part of it (`refund`), a glob (`refund*`) or a regular expression
    /// (`/^refund/i`); repeatable
    #[arg(long = "test", value_name = "PATTERN")]
    pub(crate) tests: Vec<String>,

    /// Only these models, by id (`command` for tests of commands); repeatable, or divided by commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) models: Vec<String>,

    /// Only what did not pass when it was last run, each test case on the models on which it did not
    #[arg(long)]
    pub(crate) failed: bool,

    /// Only test cases whose prompt, variables or expectations have changed since they were last run, and those
    /// that did not pass then or never were run
    #[arg(long, conflicts_with = "failed")]
    pub(crate) changed: bool,

    /// Only part K of N parts: each test case is in exactly one. `kindlm merge` puts the reports together and decides
    /// over the gates; a part ends with 0 even if test cases failed
    #[arg(long, value_name = "K/N", value_parser = values::shard, conflicts_with_all = ["failed", "changed"])]
    pub(crate) shard: Option<Shard>,

    /// Make the parts equally long by the durations in this report; give all parts the same
    #[arg(long, value_name = "REPORT", requires = "shard")]
    pub(crate) shard_durations: Option<String>,
}
