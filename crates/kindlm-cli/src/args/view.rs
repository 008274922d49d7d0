//! The arguments of `kindlm view`.

use clap::Args;

use super::PlaceArgs;

/// Shows a run in the browser, with history and comparisons
///
/// Prints a link to a page on this machine, and serves the page until Ctrl-C. The server changes nothing, and it sends
/// data only to requests with the token of the link. Without a run, the page says what to do.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm view\n  kindlm view --open\n  kindlm view downloaded/report.json --port 8800"
)]
pub(crate) struct ViewArgs {
    /// The run: an id or its beginning, the file of a report, or a folder with a suite [default: the newest run]
    #[arg(value_name = "ID|FILE|FOLDER")]
    pub(crate) run: Option<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Listen on this port of 127.0.0.1 [default: any free port]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// Link the places of tests to an editor: `vscode`, `cursor`, `zed`, `idea` or another known name, or a URL with
    /// `{file}` and `{line}` [default: the variable `KINDLM_EDITOR`]
    #[arg(long, value_name = "NAME|URL")]
    pub(crate) editor: Option<String>,

    /// Open the page in the browser
    #[arg(long)]
    pub(crate) open: bool,
}
