//! The arguments of `kindlm serve`.

use clap::Args;

/// Starts the server, which checks outputs over HTTP
///
/// The server is a program of its own, `kindlm-server`. It must be installed beside `kindlm` or in the `PATH`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm serve\n  kindlm serve --listen 127.0.0.1:9000 -c kindlm.yaml\n  kindlm serve token create ci --scopes evaluate\n  kindlm serve -- --help    options of the server"
)]
pub(crate) struct ServeArgs {
    /// The arguments of `kindlm-server`
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}

/// Creates, lists and revokes the tokens of the server
///
/// The same as `kindlm serve token`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm token create ci --scopes evaluate\n  kindlm token list\n  kindlm token -- --help    commands and options"
)]
pub(crate) struct TokenArgs {
    /// The arguments of `kindlm-server token`
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}
