//! The folder for workspaces, and the names of its contents.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kindlm_types::{WorkFor, WorkspaceError};
use tempfile::TempDir;

/// The variable with the path of the suite, for an agent.
const SUITE: &str = "KINDLM_SUITE";
/// The variable with the path of the workspace, for an agent.
pub(crate) const WORKSPACE: &str = "KINDLM_WORKSPACE";

/// The sources and the target of the folders that are made.
#[derive(Clone, Debug, Default)]
pub struct FoldersOptions {
    /// The folder of the suite; paths in the suite are relative to it.
    pub suite: PathBuf,
    /// Hidden files and folders of all tests, from that folder: no agent may read those of another test either.
    pub hidden: Vec<String>,
    /// True if a workspace may start as a folder outside of that one.
    pub allow_outside: bool,
    /// The folder for temporary files. Outside of the suite, so that tools do not take the suite for a part of the work.
    pub temp: PathBuf,
    /// True if the folders are left where they are.
    pub keep: bool,
    /// The folders in which programs are searched, as in the variable `PATH`.
    pub path: OsString,
}

/// A temporary folder. `prefix` is the part of its name that people read.
pub(crate) fn folder(within: &Path, prefix: &str, keep: bool) -> Result<TempDir, WorkspaceError> {
    let mut made = tempfile::Builder::new().prefix(prefix).tempdir_in(within).map_err(|err| {
        WorkspaceError(format!("cannot make a folder in `{}`: {err}", within.display()))
    })?;
    made.disable_cleanup(keep);
    Ok(made)
}

/// The name of an execution as a part of a file name.
pub(crate) fn slug(of: &WorkFor<'_>) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '-' };
    let case: String = of.case.chars().take(40).map(plain).collect();
    let model: String = of.model.chars().take(20).map(plain).collect();
    format!("{case}-{model}-{}", of.repeat)
}

/// The variables that describe the workspace to each command in it.
pub(crate) fn variables(options: &FoldersOptions, folder: &Path) -> Vec<(String, String)> {
    let variable = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
    let suite = options.suite.canonicalize().unwrap_or_else(|_| options.suite.clone());
    vec![variable(SUITE, &suite), variable(WORKSPACE, folder)]
}
