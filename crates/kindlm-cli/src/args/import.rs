//! The arguments of `kindlm import`.

use std::path::PathBuf;

use clap::Args;

/// Converts a promptfoo config into a kindlm.yaml
///
/// `kindlm test -c promptfooconfig.yaml` runs such a file without conversion. If options have no equivalent, they are
/// listed with their locations, and nothing is written.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(
    after_help = "Examples:\n  kindlm import promptfooconfig.yaml\n  kindlm import promptfooconfig.yaml --output - | less"
)]
pub(crate) struct ImportArgs {
    /// The promptfoo config: YAML, JSON, JavaScript or TypeScript
    #[arg(value_name = "FILE", default_value = "promptfooconfig.yaml")]
    pub(crate) file: PathBuf,

    /// The output file; `-` for stdout
    #[arg(short, long, value_name = "FILE", default_value = "kindlm.yaml")]
    pub(crate) output: PathBuf,

    /// Replace an existing file
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Let the config refer to files outside its folder
    #[arg(long)]
    pub(crate) allow_outside: bool,

    /// Let programs that create prompts, tests and variables run outside the sandbox and use the network, if the config
    /// permits it
    #[arg(long)]
    pub(crate) allow_programs: bool,

    /// Let a promptfoo config read tests from the network: files, Google Sheets, datasets of Hugging Face
    #[arg(long)]
    pub(crate) allow_network: bool,
}
