//! The arguments of `kindlm init`.

use clap::{Args, ValueEnum};

/// Writes a first suite that runs as it is
///
/// Writes `kindlm.yaml` into the working directory, and beside it `kindlm.schema.json`, which gives editors
/// completion. The models of the templates are scripted, so `kindlm test` works at once, without a key. The file
/// explains the next steps.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kindlm init\n  kindlm init --template agent && kindlm test")]
pub(crate) struct InitArgs {
    /// The template
    #[arg(short, long, value_enum, default_value_t = Template::Basic)]
    pub(crate) template: Template,

    /// Replace files that exist
    #[arg(short, long)]
    pub(crate) force: bool,
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
