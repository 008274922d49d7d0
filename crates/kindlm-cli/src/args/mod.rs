//! The command line: commands, arguments and options.
//!
//! The doc comments are the help texts. The arguments of each command are in the file with its name.

mod baseline;
mod bisect;
mod calibrate;
mod compare;
mod compliance;
mod evaluate;
mod explain;
mod gate;
mod generate;
mod history;
mod import;
mod init;
mod merge;
mod mutate;
mod plan;
mod report;
mod responses;
mod runs;
mod serve;
mod test;
mod trace;
mod validate;
mod view;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use baseline::{BaselineAction, BaselineArgs};
pub(crate) use bisect::BisectArgs;
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use compare::{CompareArgs, CompareOptions};
pub(crate) use compliance::{ComplianceAction, ComplianceArgs};
pub(crate) use evaluate::EvaluateArgs;
pub(crate) use explain::{AssertionsArgs, ExplainArgs};
pub(crate) use gate::GateArgs;
pub(crate) use generate::{CompletionsArgs, ManArgs, SchemaArgs, SchemaOf};
pub(crate) use history::HistoryArgs;
pub(crate) use import::ImportArgs;
pub(crate) use init::{Ci, InitArgs, Template};
pub(crate) use merge::MergeArgs;
pub(crate) use mutate::MutateArgs;
pub(crate) use plan::{PlanArgs, Shape};
pub(crate) use report::ReportArgs;
pub(crate) use responses::{ResponsesArgs, Source};
pub(crate) use runs::{CleanArgs, RunsAction, RunsArgs};
pub(crate) use serve::{ServeArgs, TokenArgs};
pub(crate) use test::{SelectArgs, TestArgs};
pub(crate) use trace::TraceArgs;
pub(crate) use validate::ValidateArgs;
pub(crate) use view::ViewArgs;

use kindlm_run::OpenOptions;
use kindlm_run::project::CONFIG;

/// Tests prompts and AI agents: runs a suite, checks the answers and actions, and applies gates
///
/// A suite is a file `kindlm.yaml` with test cases, models and expectations. `kindlm test` runs it, repeats cases,
/// applies gates, writes reports, and sets an exit code for CI.
#[derive(Debug, Parser)]
#[command(
    name = "kindlm",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Start here:\n  kindlm init        create a first suite that runs without a key\n  kindlm test        run it\n  kindlm explain     read about an assertion, a gate, a provider or a failure code",
    after_long_help = "Start here:\n  kindlm init        create a first suite that runs without a key\n  kindlm test        run it\n  kindlm explain     read about an assertion, a gate, a provider or a failure code\n\nExit codes:\n  0    all gates passed\n  1    one or more gates failed\n  2    the configuration or the arguments are invalid; nothing was sent\n  3    a provider failed after retries\n  4    KindLM itself failed\n  130  interrupted; resume with `kindlm test --resume`"
)]
pub(crate) struct Cli {
    /// Use colours: `auto`, `always` or `never`; `auto` follows `NO_COLOR`, `FORCE_COLOR` and the terminal
    #[arg(long, global = true, value_enum, value_name = "WHEN", hide_possible_values = true)]
    #[arg(default_value_t = Color::Auto, help_heading = "Global options")]
    pub(crate) color: Color,

    /// Read environment variables from a file with lines `NAME=value`; repeatable. A variable that is already set stays
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) env_file: Vec<PathBuf>,

    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// By the environment and the terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Returns true for `always`, false for `never`, and `None` for `auto`.
    pub(crate) fn fixed(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Always => Some(true),
            Self::Never => Some(false),
        }
    }

    /// Finds the value of `--color` in arguments that are not parsed yet, for error messages and help.
    ///
    /// Returns `None` without a valid value.
    pub(crate) fn find(args: &[OsString]) -> Option<Self> {
        let mut words = args.iter().filter_map(|it| it.to_str());
        let word = words.find(|it| *it == "--color" || it.starts_with("--color="))?;
        let value = match word.split_once('=') {
            Some((_, value)) => value,
            None => words.next()?,
        };
        Self::from_str(value, false).ok()
    }
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Test(TestArgs),
    Trace(TraceArgs),
    Init(InitArgs),
    Import(ImportArgs),
    Validate(ValidateArgs),
    Evaluate(EvaluateArgs),
    Calibrate(CalibrateArgs),
    Compare(CompareArgs),
    History(HistoryArgs),
    Bisect(BisectArgs),
    Plan(PlanArgs),
    Mutate(MutateArgs),
    Baseline(BaselineArgs),
    Report(ReportArgs),
    View(ViewArgs),
    Serve(ServeArgs),
    Token(TokenArgs),
    Runs(RunsArgs),
    Clean(CleanArgs),
    Gate(GateArgs),
    Merge(MergeArgs),
    Compliance(ComplianceArgs),
    Assertions(AssertionsArgs),
    Explain(ExplainArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// The arguments for loading a suite.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The suite: a file, or a folder with a `kindlm.yaml`
    #[arg(short, long, value_name = "FILE", default_value = "kindlm.yaml")]
    pub(crate) config: PathBuf,

    /// Let the suite refer to files outside its folder
    #[arg(long)]
    pub(crate) allow_outside: bool,

    /// For `validate` and `--dry-run`: let programs that create prompts, tests and variables run outside the sandbox
    /// and use the network, if the suite permits it
    #[arg(long)]
    pub(crate) allow_programs: bool,

    /// Let a promptfoo config read tests from the network: files, Google Sheets, datasets of Hugging Face
    #[arg(long)]
    pub(crate) allow_network: bool,
}

impl ConfigArgs {
    /// Converts the arguments into the options of the library.
    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions {
            config: self.config.clone(),
            allow_outside: self.allow_outside,
            allow_programs: self.allow_programs,
            allow_network: self.allow_network,
        }
    }
}

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    Text,
    /// One JSON object, for programs
    Json,
}

/// The argument for the size of the `html` report.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct HtmlArgs {
    /// The maximum size of an `html` report, in MB; above it, texts of passed cases are cut first
    #[arg(long = "html-limit", value_name = "MB", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4_000))]
    pub(crate) megabytes: u32,
}

/// The arguments for locating runs and baselines.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The config file of a suite; runs and baselines are in `.kindlm` next to it, and only runs of this suite are used
    /// [default: `.kindlm` in the current folder, with the runs of all suites]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl PlaceArgs {
    /// Returns the given config file, or else the default config file.
    pub(crate) fn config(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new(CONFIG))
    }
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
