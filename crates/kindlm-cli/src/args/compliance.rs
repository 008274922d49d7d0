//! The arguments of `kindlm compliance`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::PlaceArgs;

/// Verifies compliance documents
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm compliance verify compliance.md\n  kindlm compliance verify compliance.html --report report.json"
)]
pub(crate) struct ComplianceArgs {
    #[command(subcommand)]
    pub(crate) action: ComplianceAction,
}

/// An action on a compliance document.
#[derive(Debug, Subcommand)]
pub(crate) enum ComplianceAction {
    /// Compares a document with its digests, the files of the suite, and the report of its run; exit code 1 if
    /// something differs, and 2 if the file is not such a document
    Verify {
        /// The document, in Markdown or HTML
        #[arg(value_name = "FILE")]
        document: PathBuf,
        /// The id of the run [default: the run that the document names]
        #[arg(long, value_name = "ID", conflicts_with = "report")]
        run: Option<String>,
        /// The JSON report of the run
        #[arg(long, value_name = "FILE")]
        report: Option<String>,
        #[command(flatten)]
        place: PlaceArgs,
    },
}
