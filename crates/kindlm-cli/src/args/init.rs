//! The arguments of `kindlm init`.

use clap::{Args, ValueEnum};

/// Creates a first suite that runs at once
///
/// Writes `kindlm.yaml` to the working directory, with `kindlm.schema.json`, which gives editors completion. The
/// templates use scripted models, so `kindlm test` works without a key. The file explains the next steps.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kindlm init\n  kindlm init --template agent && kindlm test")]
pub(crate) struct InitArgs {
    /// The template
    #[arg(short, long, value_enum, default_value_t = Template::Basic)]
    pub(crate) template: Template,

    /// Replace existing files
    #[arg(short, long)]
    pub(crate) force: bool,
}

/// A template for the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Two prompts with checks of words, personal data, JSON and a judge
    Basic,
    /// An agent that calls tools, with simulated answers
    Agent,
    /// A suite with tags, gates and a report for the EU AI Act
    Compliance,
}
