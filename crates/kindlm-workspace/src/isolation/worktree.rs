//! Git worktrees: git works in them, and what was not committed is not there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_types::{Backend, CommandSpec, WorkspaceError};

use super::quoted;
use crate::start::{copy_start, run};

/// How long git may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where worktrees come from.
#[derive(Debug)]
pub(crate) struct Worktrees {
    /// A folder in the repository.
    source: PathBuf,
    /// The way from the top of the repository to that folder.
    prefix: String,
    /// What is checked out: a commit, so that all worktrees start as the same.
    commit: String,
}

impl Worktrees {
    /// Those of the repository that a folder is in.
    pub(crate) async fn find(
        source: &Path,
        reference: &str,
        backend: &dyn Backend,
    ) -> Result<Self, WorkspaceError> {
        let prefix =
            git(source, &["rev-parse", "--show-prefix"], backend).await.map_err(|err| {
                let source = source.display();
                WorkspaceError(format!(
                    "`isolation: worktree` needs a git repository, and `{source}` is in none: {err}"
                ))
            })?;
        let commit = format!("{reference}^{{commit}}");
        let commit =
            git(source, &["rev-parse", "--verify", "--end-of-options", &commit], backend).await?;
        Ok(Self {
            source: source.to_path_buf(),
            prefix: prefix.trim().to_owned(),
            commit: commit.trim().to_owned(),
        })
    }

    /// Checks out a worktree in an empty folder; gives the folder to work in.
    pub(crate) async fn check_out(
        &self,
        at: &Path,
        backend: &dyn Backend,
    ) -> Result<PathBuf, WorkspaceError> {
        self.add(at, backend).await?;
        let folder = at.join(&self.prefix);
        if folder.is_dir() {
            return Ok(folder);
        }
        Err(WorkspaceError(format!(
            "`{}` is not in the commit {}: commit it, or choose `isolation: copy`",
            self.prefix, self.commit
        )))
    }

    /// Makes a worktree that is like a start, setup included, in an empty folder; gives the folder to work in.
    pub(crate) async fn like(
        &self,
        start: &Path,
        at: &Path,
        backend: &dyn Backend,
    ) -> Result<PathBuf, WorkspaceError> {
        self.add(at, backend).await?;
        let folder = at.join(&self.prefix);
        // Over what was checked out: the same files, and what the setup has made.
        crate::start::blocking({
            let folder = folder.clone();
            move || clear(&folder)
        })
        .await?;
        copy_start(start, &folder).await?;
        Ok(folder)
    }

    /// Removes a worktree. One that is only deleted would be remembered by git.
    pub(crate) async fn remove(&self, at: &Path, backend: &dyn Backend) {
        let at = at.display().to_string();
        let _ = git(&self.source, &["worktree", "remove", "--force", &at], backend).await;
        let _ = git(&self.source, &["worktree", "prune"], backend).await;
    }

    /// Makes a plain folder of a worktree.
    pub(crate) async fn forget(
        &self,
        at: &Path,
        backend: &dyn Backend,
    ) -> Result<(), WorkspaceError> {
        let link = at.join(".git");
        std::fs::remove_file(&link)
            .map_err(|err| WorkspaceError(format!("cannot remove `{}`: {err}", link.display())))?;
        git(&self.source, &["worktree", "prune"], backend).await.map(|_| ())
    }

    async fn add(&self, at: &Path, backend: &dyn Backend) -> Result<(), WorkspaceError> {
        let at = at.display().to_string();
        let words = ["worktree", "add", "--force", "--detach", "--quiet", &at, &self.commit];
        git(&self.source, &words, backend).await.map(|_| ())
    }
}

/// Removes everything in a folder but what git needs.
fn clear(folder: &Path) -> Result<(), String> {
    let failed = |err: std::io::Error| format!("cannot clear `{}`: {err}", folder.display());
    for item in std::fs::read_dir(folder).map_err(failed)? {
        let item = item.map_err(failed)?;
        if crate::tree::is_left_out(&item.file_name()) {
            continue;
        }
        let is_folder = item.file_type().map_err(failed)?.is_dir();
        let removed = if is_folder {
            std::fs::remove_dir_all(item.path())
        } else {
            std::fs::remove_file(item.path())
        };
        removed.map_err(failed)?;
    }
    Ok(())
}

async fn git(
    folder: &Path,
    words: &[&str],
    backend: &dyn Backend,
) -> Result<String, WorkspaceError> {
    let line = quoted(["git"].into_iter().chain(words.iter().copied()));
    let mut command = CommandSpec::new(line, PATIENCE);
    command.folder = Some(folder.to_path_buf());
    let what = format!("`git {}`", words.first().copied().unwrap_or_default());
    run(&command, &what, backend).await
}
