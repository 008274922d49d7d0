//! The arguments of `kindlm validate`.

use clap::Args;

use super::{ConfigArgs, Format};

/// Checks the suite without sending anything
///
/// Shows all problems with their locations and suggestions. The exit code is 2 if there are problems.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm validate\n  kindlm validate -c suites/refunds.yaml --format json"
)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) suite: ConfigArgs,

    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}
