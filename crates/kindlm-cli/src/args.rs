//! The command line: what can be asked for.
//!
//! The doc comments are the help texts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use kindlm_engine::Shard;

use crate::responses::ResponsesArgs;
use crate::values::{self, ReporterSpec};

/// Tests AI agents: runs a suite, checks what they did and said, and gates the result
///
/// A suite is a file `kindlm.yaml`: test cases, models, and what must hold. `kindlm test` runs it, repeats what
/// should be repeated, holds the result against gates, writes reports, and ends with an exit code for CI.
#[derive(Debug, Parser)]
#[command(
    name = "kindlm",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Start here:\n  kindlm init        write a first suite that runs without any key\n  kindlm test        run it\n  kindlm explain     read about an assertion, a gate, a provider or a failure code",
    after_long_help = "Start here:\n  kindlm init        write a first suite that runs without any key\n  kindlm test        run it\n  kindlm explain     read about an assertion, a gate, a provider or a failure code\n\nExit codes:\n  0    all gates passed\n  1    one or more gates failed\n  2    the configuration or the arguments are invalid; nothing was sent\n  3    a provider failed after retries\n  4    KindLM itself failed\n  130  interrupted; `kindlm test --resume` goes on"
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Test(TestArgs),
    Init(InitArgs),
    Import(ImportArgs),
    Validate(ValidateArgs),
    Evaluate(EvaluateArgs),
    Baseline(BaselineArgs),
    Report(ReportArgs),
    Gate(GateArgs),
    Merge(MergeArgs),
    Assertions(AssertionsArgs),
    Explain(ExplainArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Which suite.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The suite: a file, or a folder that holds a `kindlm.yaml`
    #[arg(short, long, value_name = "FILE", default_value = "kindlm.yaml")]
    pub(crate) config: PathBuf,

    /// Let the suite refer to files outside its folder
    #[arg(long)]
    pub(crate) allow_outside: bool,

    /// Where a suite is only looked at (`validate`, `--dry-run`): let programs that make its prompts, tests and
    /// variables run outside the sandbox and use the network, if the suite lets them
    #[arg(long)]
    pub(crate) allow_programs: bool,
}

/// Runs the suite and reports
///
/// Sends every selected test case to its models, as often as it is to be repeated, judges what comes back,
/// holds it against the gates, and writes reports. The report is kept in `.kindlm/runs` beside the suite.
///
/// Ctrl-C once: sends nothing more, waits for what is under way, and writes the report. Twice: stops now. Each finished
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
    /// nothing more is sent, and the exit code is 1.
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
    pub(crate) tags: Vec<values::Tag>,

    /// Only test cases whose name fits: a part of it (`refund`), a glob (`refund*`) or a regular expression
    /// (`/^refund/i`); repeatable
    #[arg(long = "test", value_name = "PATTERN")]
    pub(crate) tests: Vec<String>,

    /// Only these models, by id (`command` for tests of commands); repeatable, or divided by commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) models: Vec<String>,

    /// Only what did not pass in the last run, each test case on the models on which it did not
    #[arg(long)]
    pub(crate) failed: bool,

    /// Only test cases whose prompt, variables or expectations have changed since they were last run, and those
    /// that never were
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

/// Writes a first suite that runs as it is
///
/// Writes `kindlm.yaml` into the working directory, and beside it `kindlm.schema.json`, from which editors know what
/// may stand in it. The models of the templates are scripted, so `kindlm test` works at once, without a key; the
/// file says how to go on from there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kindlm init\n  kindlm init --template agent && kindlm test")]
pub(crate) struct InitArgs {
    /// What to begin with
    #[arg(short, long, value_enum, default_value_t = Template::Basic)]
    pub(crate) template: Template,

    /// Replace files that exist
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// Writes the kindlm.yaml that does what a promptfoo config does
///
/// `kindlm test -c promptfooconfig.yaml` runs such a file as it is; this command is for moving over. What has no
/// equal here is shown at its place, and then nothing is written.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm import promptfooconfig.yaml\n  kindlm import promptfooconfig.yaml --output - | less"
)]
pub(crate) struct ImportArgs {
    /// The promptfoo config: YAML or JSON
    #[arg(value_name = "FILE", default_value = "promptfooconfig.yaml")]
    pub(crate) file: PathBuf,

    /// Where to write; `-` for stdout
    #[arg(short, long, value_name = "FILE", default_value = "kindlm.yaml")]
    pub(crate) output: PathBuf,

    /// Replace a file that exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Let the config refer to files outside its folder
    #[arg(long)]
    pub(crate) allow_outside: bool,

    /// Let programs that make its prompts, tests and variables run outside the sandbox and use the network, if the
    /// config lets them
    #[arg(long)]
    pub(crate) allow_programs: bool,
}

/// What to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Two prompts, with checks of words, personal data, JSON and a judge
    Basic,
    /// An agent that calls tools, with simulated answers
    Agent,
    /// A suite with tags, gates and a report for the EU AI Act
    Compliance,
}

/// Checks the suite without sending anything
///
/// Shows every problem at once, with its place and what to do. Exit code 2 if there is one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm validate\n  kindlm validate -c suites/refunds.yaml --format json"
)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) suite: ConfigArgs,

    /// How to answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// How to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs: one JSON object
    Json,
}

/// Checks outputs that exist already, one or a stream of them
///
/// Reads one JSON object, or one on each line with `--jsonl`, and writes one for each, in the same order. No
/// model under test is called; only judge questions leave the machine, and only if a record has some. A line
/// that cannot be read gives an object with `error` and `line`, and the stream goes on.
#[derive(Debug, Args)]
#[command(
    after_help = "A record:\n  {\"id\": \"1\", \"agent_output\": \"Your order has shipped.\", \"tool_calls\": [], \"expect\": {\"output\": {\"contains\": [\"shipped\"]}}}\n\nExamples:\n  echo '{\"agent_output\": \"hi\", \"expect\": {\"output\": {\"maxLength\": 5}}}' | kindlm evaluate\n  kindlm evaluate --jsonl < outputs.jsonl > results.jsonl\n  kindlm evaluate --judge openai:gpt-4o-mini record.json\n\nExit codes: 0 all held, 1 some failed or could not be judged, 2 a line is malformed, 3 a judge could not be reached"
)]
pub(crate) struct EvaluateArgs {
    /// The records [default: stdin]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// One record on each line
    #[arg(long)]
    pub(crate) jsonl: bool,

    /// What paths inside `expect` are relative to [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) base: Option<PathBuf>,

    /// Let records refer to files outside that folder
    #[arg(long)]
    pub(crate) allow_outside: bool,

    /// Who answers judge questions, such as `openai:gpt-4o-mini`
    #[arg(long, value_name = "PROVIDER:MODEL", conflicts_with = "config")]
    pub(crate) judge: Option<String>,

    /// A suite whose models may judge
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) responses: ResponsesArgs,

    /// Carry the extra keys of a record through to its result, under `input`
    #[arg(long)]
    pub(crate) echo: bool,

    /// How many records are judged at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = values::count::<256>)]
    pub(crate) concurrency: u32,
}

/// Keeps the results of a run, to compare later runs with
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm test && kindlm baseline set\n  kindlm baseline set release-1 --run 20261120-140912-345-7f3a\n  kindlm test; kindlm baseline compare"
)]
pub(crate) struct BaselineArgs {
    #[command(subcommand)]
    pub(crate) action: BaselineAction,
}

/// What to do with baselines.
#[derive(Debug, Subcommand)]
pub(crate) enum BaselineAction {
    /// Makes a baseline out of a run; replaces the one that had the label
    Set {
        /// Its name
        #[arg(default_value = "default")]
        label: String,
        /// The run: an id, or the file of a report [default: the last run]
        #[arg(long, value_name = "ID|FILE")]
        run: Option<String>,
        /// Also if cases failed, could not be judged, or were not run
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Shows what changed since the baseline; exit code 1 if a pass rate fell
    Compare {
        /// Its name
        #[arg(default_value = "default")]
        label: String,
        /// The run: an id, or the file of a report [default: the last run]
        #[arg(long, value_name = "ID|FILE")]
        run: Option<String>,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Lists the baselines
    List {
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Forgets a baseline
    Remove {
        /// Its name
        label: String,
        #[command(flatten)]
        place: PlaceArgs,
    },
}

/// Where runs and baselines are kept.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The suite; runs and baselines are kept in `.kindlm` beside it
    #[arg(short, long, value_name = "FILE", default_value = "kindlm.yaml")]
    pub(crate) config: PathBuf,
}

/// Shows the report of a past run again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm report\n  kindlm report 20261120-140912-345-7f3a --reporter junit=junit.xml\n  kindlm report downloaded/report.json -v"
)]
pub(crate) struct ReportArgs {
    /// The run: an id, or the file of a report [default: the last run]
    #[arg(value_name = "ID|FILE")]
    pub(crate) run: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Write a report: `<id>` to stdout or `<id>=<path>` to a file; repeatable [default: pretty]
    #[arg(short, long = "reporter", value_name = "ID[=PATH]", value_parser = values::reporter)]
    pub(crate) reporters: Vec<ReporterSpec>,

    /// Show the verdict, the gates and what failed
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Show every check, with outputs
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Holds a past run against gates again, without sending anything
///
/// Takes the gates of the suite named with `-c`, or those that the report was made with. Ends with the exit code that
/// `kindlm test` would have ended with.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm gate report.json\n  kindlm gate report.json --gate 90%\n  kindlm gate 20261120-140912-345-7f3a -c kindlm.yaml"
)]
pub(crate) struct GateArgs {
    /// The run: an id, or the file of a report [default: the last run]
    #[arg(value_name = "ID|FILE")]
    pub(crate) run: Option<String>,

    /// The suite whose gates count
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The least pass rate: `95`, `95%` or `0.95`
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) gate: Option<f64>,

    /// Write a report: `<id>` to stdout or `<id>=<path>` to a file; repeatable [default: pretty]
    #[arg(short, long = "reporter", value_name = "ID[=PATH]", value_parser = values::reporter)]
    pub(crate) reporters: Vec<ReporterSpec>,

    /// Show the verdict, the gates and what failed
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Show every check, with outputs
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Puts the reports of all shards of a run together
///
/// Gives the report, the gates and the exit code of the undivided run, but for times and ids. The shards must be of the
/// same suite and the same plan; a missing one, or one that is given twice, is refused.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm test --shard 1/2 --reporter json=shard-1.json   (on one machine)\n  kindlm test --shard 2/2 --reporter json=shard-2.json   (on another)\n  kindlm merge shard-*.json --reporter pretty --reporter junit=junit.xml"
)]
pub(crate) struct MergeArgs {
    /// The reports of all shards, as the `json` reporter writes them, in any order
    #[arg(value_name = "REPORT", required = true)]
    pub(crate) reports: Vec<String>,

    /// Write a report: `<id>` to stdout or `<id>=<path>` to a file; repeatable [default: pretty]
    #[arg(short, long = "reporter", value_name = "ID[=PATH]", value_parser = values::reporter)]
    pub(crate) reporters: Vec<ReporterSpec>,

    /// Show the verdict, the gates and what failed
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Show every check, with outputs
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Lists the assertions
#[derive(Debug, Args)]
pub(crate) struct AssertionsArgs {
    /// How to answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Explains an assertion, a gate, a provider, a reporter or a failure code
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm explain tool-calls\n  kindlm explain TOOL_CALL_MISSING\n  kindlm explain passRateMin\n  kindlm explain providers"
)]
pub(crate) struct ExplainArgs {
    /// An id or a failure code; or `assertions`, `gates`, `providers`, `reporters` or `codes` for a list
    pub(crate) topic: Option<String>,
}

/// Prints a JSON Schema, for editors and programs
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kindlm schema config > kindlm.schema.json")]
pub(crate) struct SchemaArgs {
    /// Of what
    #[arg(value_enum, default_value_t = SchemaOf::Config)]
    pub(crate) of: SchemaOf,
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// `kindlm.yaml`
    Config,
    /// The report that the `json` reporter writes
    Report,
}

/// Prints completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kindlm completions bash > /etc/bash_completion.d/kindlm")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Prints the manual page
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kindlm man > /usr/local/share/man/man1/kindlm.1")]
pub(crate) struct ManArgs {
    /// Of one command
    pub(crate) command: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
