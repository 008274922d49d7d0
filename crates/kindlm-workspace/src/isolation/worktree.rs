//! Git worktrees: git works in them, and what was not committed is not there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kindlm_types::{Backend, CommandSpec, FileTree, WorkspaceError};

use super::quoted;
use crate::start::{blocking, copy_start, run};

/// How long git may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Removes a worktree, even one that is locked. Its folder comes behind it.
const REMOVE: [&str; 4] = ["worktree", "remove", "--force", "--force"];

/// Where worktrees come from.
#[derive(Debug)]
pub(crate) struct Worktrees {
    /// A folder in the repository.
    source: PathBuf,
    /// The way from the top of the repository to that folder.
    prefix: String,
    /// What is checked out: a commit, so that all worktrees start as the same.
    commit: String,
    /// Files and folders of the repository that agents must not see, from its top.
    hidden: Vec<PathBuf>,
}

/// A worktree that git remembers. Exactly this one is forgotten again: the user may have others, some of whose folders are
/// not there just now.
#[derive(Debug)]
pub(crate) struct Checkout {
    source: PathBuf,
    at: PathBuf,
    is_known: bool,
}

impl Worktrees {
    /// Those of the repository that a folder is in. `hidden` are real places of what is to be out of sight.
    pub(crate) async fn find(
        source: &Path,
        reference: &str,
        hidden: &[PathBuf],
        backend: &dyn Backend,
    ) -> Result<Self, WorkspaceError> {
        let words = ["rev-parse", "--show-toplevel", "--show-prefix"];
        let places = git(source, &words, backend).await.map_err(|err| {
            let source = source.display();
            WorkspaceError(format!(
                "`isolation: worktree` needs a git repository, and `{source}` is in none: {err}"
            ))
        })?;
        let mut places = places.lines();
        let top = PathBuf::from(places.next().unwrap_or_default().trim());
        let prefix = places.next().unwrap_or_default().trim().to_owned();
        let top = top.canonicalize().unwrap_or(top);
        let hidden = hidden.iter().filter_map(|it| it.strip_prefix(&top).ok());
        let hidden = hidden.map(Path::to_path_buf).collect();
        let commit = format!("{reference}^{{commit}}");
        let commit =
            git(source, &["rev-parse", "--verify", "--end-of-options", &commit], backend).await?;
        let (source, commit) = (source.to_path_buf(), commit.trim().to_owned());
        Ok(Self { source, prefix, commit, hidden })
    }

    /// Checks out a worktree in a folder that is not there yet; gives the folder to work in.
    pub(crate) async fn check_out(
        &self,
        at: &Path,
        backend: &dyn Backend,
    ) -> Result<(PathBuf, Checkout), WorkspaceError> {
        let checkout = self.add(at, backend).await?;
        let folder = at.join(&self.prefix);
        if folder.is_dir() {
            return Ok((folder, checkout));
        }
        Err(WorkspaceError(format!(
            "`{}` is not in the commit {}: commit it, or choose `isolation: copy`",
            self.prefix, self.commit
        )))
    }

    /// Makes a worktree that is like a start, setup included; gives the folder to work in.
    pub(crate) async fn like(
        &self,
        start: &Path,
        at: &Path,
        backend: &dyn Backend,
    ) -> Result<(PathBuf, Checkout), WorkspaceError> {
        let checkout = self.add(at, backend).await?;
        let folder = at.join(&self.prefix);
        // Over what was checked out: the same files, and what the setup has made.
        blocking({
            let folder = folder.clone();
            move || clear(&folder)
        })
        .await?;
        copy_start(start, &folder).await?;
        Ok((folder, checkout))
    }

    /// Makes a plain folder of a worktree, at another place; gives the folder to work in.
    pub(crate) async fn make_plain(
        &self,
        checkout: Checkout,
        to: &Path,
        backend: &dyn Backend,
    ) -> Result<PathBuf, WorkspaceError> {
        let (from, into) = (checkout.at.clone(), to.to_path_buf());
        blocking(move || {
            let failed = |err| format!("cannot move `{}`: {err}", from.display());
            std::fs::rename(&from, &into).map_err(failed)?;
            std::fs::remove_file(into.join(".git")).map_err(failed)
        })
        .await?;
        checkout.remove(backend).await?;
        Ok(to.join(&self.prefix))
    }

    async fn add(&self, at: &Path, backend: &dyn Backend) -> Result<Checkout, WorkspaceError> {
        // Before git is asked: it may be stopped half-way.
        let (source, path) = (self.source.clone(), at.to_path_buf());
        let checkout = Checkout { source, at: path, is_known: true };
        let at = at.display().to_string();
        let words = ["worktree", "add", "--force", "--detach", "--quiet", &at, &self.commit];
        git(&self.source, &words, backend).await?;
        for hidden in &self.hidden {
            self.hide(&checkout, hidden, backend).await?;
        }
        Ok(checkout)
    }

    /// Takes a file or folder out of sight. Git does not miss it, so that it does not tell of it either.
    async fn hide(
        &self,
        checkout: &Checkout,
        hidden: &Path,
        backend: &dyn Backend,
    ) -> Result<(), WorkspaceError> {
        let path = hidden.display().to_string();
        let listed = quoted(["git", "--literal-pathspecs", "ls-files", "-z", "--", &path]);
        let line = format!("{listed} | git update-index -z --skip-worktree --stdin");
        let mut command = CommandSpec::new(line, PATIENCE);
        command.folder = Some(checkout.at.clone());
        run(&command, "`git update-index`", None, backend).await?;
        let at = checkout.at.join(hidden);
        blocking(move || {
            let removed = match std::fs::symlink_metadata(&at) {
                Ok(it) if it.is_dir() => std::fs::remove_dir_all(&at),
                Ok(_) => std::fs::remove_file(&at),
                Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(()),
                Err(err) => Err(err),
            };
            removed.map_err(|err| format!("cannot hide `{}`: {err}", at.display()))
        })
        .await
    }
}

impl Checkout {
    /// Has git forget the worktree, whose folder is gone: git does not remove what an agent has done something to.
    pub(crate) async fn remove(mut self, backend: &dyn Backend) -> Result<(), WorkspaceError> {
        let at = self.at.display().to_string();
        let words: Vec<&str> = REMOVE.into_iter().chain([at.as_str()]).collect();
        git(&self.source, &words, backend).await?;
        self.is_known = false;
        Ok(())
    }

    /// Leaves it where it is.
    pub(crate) fn keep(mut self) {
        self.is_known = false;
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        if !self.is_known {
            return;
        }
        // An error means that there is something left, and then git says no, too.
        let _ = std::fs::remove_dir_all(&self.at);
        let mut command = Command::new("git");
        command.args(REMOVE).arg(&self.at).current_dir(&self.source);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // If git cannot do it now, the next `git worktree prune` does.
        let _ = command.status();
    }
}

/// Removes everything in a folder but what git needs.
fn clear(folder: &Path) -> Result<(), String> {
    let failed = |err: std::io::Error| format!("cannot clear `{}`: {err}", folder.display());
    for item in std::fs::read_dir(folder).map_err(failed)? {
        let item = item.map_err(failed)?;
        if FileTree::leaves_out(&item.file_name()) {
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
    run(&command, &what, None, backend).await
}
