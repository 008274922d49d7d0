//! The arguments of `kindlm schema`, `kindlm completions` and `kindlm man`.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

/// Prints a JSON Schema, for editors and programs
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kindlm schema config > kindlm.schema.json")]
pub(crate) struct SchemaArgs {
    /// The file format that the schema describes
    #[arg(value_enum, default_value_t = SchemaOf::Config)]
    pub(crate) of: SchemaOf,
}

/// A file format with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// `kindlm.yaml`
    Config,
    /// The report that the `json` reporter writes
    Report,
    /// The comparison of two runs
    Comparison,
    /// The result that `kindlm mutate --json` prints
    Mutation,
    /// The result that `kindlm history --json` prints
    History,
    /// The result that `kindlm bisect --json` prints
    Bisect,
    /// The result that `kindlm plan --json` prints
    Plan,
}

/// Prints completions for a shell
///
/// They complete commands, options, and names: the test cases, tags and models of the suite, stored runs, baselines,
/// reporters, and topics of `kindlm explain`. The suite is that of the working folder, or of `-c`. It is only read.
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
    /// The command whose page is printed [default: the page of `kindlm`]
    pub(crate) command: Option<String>,
}
