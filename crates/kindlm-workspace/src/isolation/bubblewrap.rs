//! `bwrap`: everything but the folder is read-only.

use std::path::{Path, PathBuf};

use kindlm_types::{WorkspaceError, WorkspaceSpec};

use super::{installed, quoted};
use crate::folders::FoldersOptions;

/// A sandbox made by `bwrap`.
#[derive(Debug)]
pub(crate) struct Bubblewrap {
    program: PathBuf,
    /// The suite, which stays in sight even if it is below `/tmp`.
    suite: String,
    /// Files and folders of the suite that nobody in it may read.
    masked: Vec<PathBuf>,
}

impl Bubblewrap {
    pub(super) fn find(
        spec: &WorkspaceSpec,
        options: &FoldersOptions,
    ) -> Result<Self, WorkspaceError> {
        let help = "install the package `bubblewrap`, or choose another `workspace.isolation`";
        let program = installed("bwrap", options, "`isolation: bubblewrap`", help)?;
        let suite = options.suite.canonicalize().unwrap_or_else(|_| options.suite.clone());
        let masked = spec.hidden.iter().filter_map(|it| suite.join(&it.from).canonicalize().ok());
        let masked = masked.collect();
        Ok(Self { program, masked, suite: suite.display().to_string() })
    }

    /// The command line of a command in the sandbox.
    pub(super) fn line(&self, folder: &Path, line: &str, network: bool) -> String {
        let folder = folder.display().to_string();
        let program = self.program.display().to_string();
        let mut words: Vec<&str> = vec!["exec", &program, "--unshare-all"];
        if network {
            words.push("--share-net");
        }
        words.extend(["--die-with-parent", "--new-session"]);
        words.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
        words.extend(["--tmpfs", "/tmp", "--ro-bind", &self.suite, &self.suite]);
        let masked: Vec<(bool, String)> =
            self.masked.iter().map(|it| (it.is_dir(), it.display().to_string())).collect();
        for (is_folder, path) in &masked {
            match is_folder {
                true => words.extend(["--tmpfs", path]),
                false => words.extend(["--ro-bind", "/dev/null", path]),
            }
        }
        words.extend(["--bind", &folder, &folder, "--chdir", &folder]);
        words.extend(["--", "sh", "-c", line]);
        quoted(words)
    }
}
