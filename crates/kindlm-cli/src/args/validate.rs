//! The arguments of `kindlm validate`.

use clap::Args;

use super::{ConfigArgs, Format};

/// Checks the suite without sending anything
///
/// Shows every problem at once, with its place and a suggestion. Exit code 2 if there is one.
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
