//! The options of workspace folders, and the names of folders and variables.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kindlm_types::{WorkFor, WorkspaceError};
use tempfile::TempDir;

/// The name of the environment variable with the path of the suite's folder.
const SUITE: &str = "KINDLM_SUITE";
/// The name of the environment variable with the path of the workspace.
pub(crate) const WORKSPACE: &str = "KINDLM_WORKSPACE";

/// The options of workspace folders.
#[derive(Clone, Debug, Default)]
pub struct FoldersOptions {
    /// The folder of the suite. Paths in the suite are relative to this folder.
    pub suite: PathBuf,
    /// The hidden files and folders of all tests, relative to the suite's folder.
    ///
    /// An agent must not read the hidden files of any test.
    pub hidden: Vec<String>,
    /// True if the source folder and the hidden files of a workspace may be outside the suite's folder.
    pub allow_outside: bool,
    /// The folder for temporary files, which should be outside the suite's folder.
    ///
    /// Inside the suite's folder, tools could mistake files of the suite for files of the agent.
    pub temp: PathBuf,
    /// True to keep workspaces after the run.
    pub keep: bool,
    /// The folders to search for programs, in the format of the variable `PATH`.
    pub path: OsString,
}

/// Creates a temporary folder whose name begins with `prefix`.
///
/// With `keep`, the folder is not removed on drop. Fails if the folder cannot be created.
pub(crate) fn folder(within: &Path, prefix: &str, keep: bool) -> Result<TempDir, WorkspaceError> {
    let mut made = tempfile::Builder::new().prefix(prefix).tempdir_in(within).map_err(|err| {
        WorkspaceError(format!("cannot make a folder in `{}`: {err}", within.display()))
    })?;
    made.disable_cleanup(keep);
    Ok(made)
}

/// Returns the case, model and repeat of an execution as a part of a file name.
pub(crate) fn slug(of: &WorkFor<'_>) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '-' };
    let case: String = of.case.chars().take(40).map(plain).collect();
    let model: String = of.model.chars().take(20).map(plain).collect();
    format!("{case}-{model}-{}", of.repeat)
}

/// Returns the variables with the paths of the suite and the workspace.
pub(crate) fn variables(options: &FoldersOptions, folder: &Path) -> Vec<(String, String)> {
    let variable = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
    let suite = options.suite.canonicalize().unwrap_or_else(|_| options.suite.clone());
    vec![variable(SUITE, &suite), variable(WORKSPACE, folder)]
}
