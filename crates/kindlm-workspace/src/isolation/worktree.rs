//! Creates git checkouts for agents, without the user's uncommitted changes.
//!
//! Each agent has a separate repository. This repository reads the objects of the user's repository, and stores new
//! objects itself. `git worktree` would share branches, tags, the stash, hooks and settings, so the agent's changes
//! would remain in the user's repository.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_types::{CommandSpec, Commands, FileTree, WorkspaceError};

use super::{GIT_PLACES, own_git, quoted};
use crate::work::{blocking, copy_start, run};

/// The time limit of a git command.
const PATIENCE: Duration = Duration::from_mins(2);

/// The user's repository, from which checkouts are created.
#[derive(Debug)]
pub(crate) struct Worktrees {
    /// The path from the root of the repository to the workspace's source folder.
    prefix: String,
    /// The root of the repository.
    top: PathBuf,
    /// The commit of all checkouts.
    commit: String,
    /// The path of the git configuration file of the user's repository. The file defines remotes and filters, for
    /// example.
    config: PathBuf,
    /// The path of the objects of the user's repository, which are only read.
    objects: PathBuf,
    /// The content of git's `shallow` file; `None` if the repository is complete.
    shallow: Option<Vec<u8>>,
    /// The format of object names: `sha1` or `sha256`.
    format: String,
    /// All refs of the user's repository in the `packed-refs` format.
    ///
    /// The refs are branches, tags and remote-tracking branches.
    refs: String,
    /// The files and folders to hide from agents, relative to the repository's root.
    hidden: Vec<PathBuf>,
}

impl Worktrees {
    /// Finds the repository of a folder. Fails if the folder is in no repository, or if `reference` names no commit.
    ///
    /// `hidden` are the resolved paths of the files to hide.
    pub(crate) async fn find(
        source: &Path,
        reference: &str,
        hidden: &[PathBuf],
        commands: &dyn Commands,
    ) -> Result<Self, WorkspaceError> {
        let words = [
            "rev-parse",
            "--show-toplevel",
            "--show-prefix",
            "--git-path",
            "config",
            "--git-path",
            "objects",
            "--git-path",
            "shallow",
            "--show-object-format",
        ];
        let places = ask(source, &words, commands).await.map_err(|err| {
            let source = source.display();
            WorkspaceError(format!(
                "`isolation: worktree` needs a git repository, and `{source}` is in none: {err}"
            ))
        })?;
        // Keep empty lines: at the root of the repository, the prefix is an empty line.
        let mut places = places.split('\n').map(|it| it.trim_end_matches('\r'));
        let mut next = || places.next().unwrap_or_default().to_owned();
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let (top, prefix) = (real(PathBuf::from(next())), next());
        let [config, objects, shallow] = [next(), next(), next()].map(|it| source.join(it));
        let format = next();
        let shallow = blocking(move || match std::fs::read(&shallow) {
            Ok(ends) => Ok(Some(ends)),
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(format!("cannot read `{}`: {err}", shallow.display())),
        })
        .await?;
        let hidden = hidden.iter().filter_map(|it| it.strip_prefix(&top).ok());
        let hidden = hidden.map(Path::to_path_buf).collect();
        let commit = format!("{reference}^{{commit}}");
        let words = ["rev-parse", "--verify", "--end-of-options", &commit];
        let commit = ask(source, &words, commands).await.map_err(|err| {
            let all = "the history of this repository is incomplete (`git fetch --unshallow` completes it)";
            let why = if shallow.is_some() { format!("; {all}") } else { String::new() };
            WorkspaceError(format!("`workspace.ref` is `{reference}`, which names no commit: {err}{why}"))
        })?;
        let listed = "--format=%(objectname) %(refname)";
        let refs = ["for-each-ref", listed, "refs/heads", "refs/tags", "refs/remotes"];
        let refs = ask(source, &refs, commands).await?;
        let (config, objects) = (real(config), real(objects));
        let commit = commit.trim().to_owned();
        Ok(Self { prefix, top, commit, config, objects, shallow, format, refs, hidden })
    }

    /// Creates a checkout in a new folder, and returns the folder to work in.
    ///
    /// Fails if git fails, or if the commit does not have the workspace's source folder.
    pub(crate) async fn check_out(
        &self,
        at: &Path,
        commands: &dyn Commands,
    ) -> Result<PathBuf, WorkspaceError> {
        self.add(at, commands).await?;
        let folder = at.join(&self.prefix);
        if folder.is_dir() {
            return Ok(folder);
        }
        Err(WorkspaceError(format!(
            "`{}` is not in the commit {}: commit it, or choose `isolation: copy`",
            self.prefix, self.commit
        )))
    }

    /// Creates a checkout with the files of a starting state.
    ///
    /// Returns the folder to work in. Fails if git or a disk operation fails.
    ///
    /// The starting state includes the files that the setup created.
    pub(crate) async fn like(
        &self,
        start: &Path,
        at: &Path,
        commands: &dyn Commands,
    ) -> Result<PathBuf, WorkspaceError> {
        self.add(at, commands).await?;
        let folder = at.join(&self.prefix);
        // Replace the checked-out files by the files of the starting state.
        blocking({
            let folder = folder.clone();
            move || clear(&folder)
        })
        .await?;
        copy_start(start, &folder).await?;
        Ok(folder)
    }

    /// Returns the root of the checkout that contains a folder.
    pub(crate) fn top<'a>(&self, folder: &'a Path) -> &'a Path {
        let depth = Path::new(&self.prefix).components().count();
        folder.ancestors().nth(depth).unwrap_or(folder)
    }

    /// Moves a checkout to a new path, and removes its repository.
    ///
    /// Returns the folder to work in. Fails if a disk operation fails.
    pub(crate) async fn make_plain(&self, at: &Path, to: &Path) -> Result<PathBuf, WorkspaceError> {
        let (from, into) = (at.to_path_buf(), to.to_path_buf());
        blocking(move || {
            let failed = |err| format!("cannot move `{}`: {err}", from.display());
            std::fs::rename(&from, &into).map_err(failed)?;
            std::fs::remove_dir_all(into.join(".git")).map_err(failed)
        })
        .await?;
        Ok(to.join(&self.prefix))
    }

    async fn add(&self, at: &Path, commands: &dyn Commands) -> Result<(), WorkspaceError> {
        let (to, config) = (at.display().to_string(), self.config.display().to_string());
        // Use an empty template, because git's default template adds hooks and files.
        let mut init = command(&self.top, line(&["init", "--quiet", "--template=", &to]));
        // Override the user's defaults for new repositories. Old versions of git ignore these variables.
        let formats = [("GIT_DEFAULT_HASH", &*self.format), ("GIT_DEFAULT_REF_FORMAT", "files")];
        init.env = formats.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        run(&init, "`git init`", None, commands).await?;
        // Do not use `git clone`: it does not copy the remote-tracking branches. From a shallow repository, it also
        // omits commits that are on no branch.
        blocking({
            let (git, objects) = (at.join(".git"), self.objects.display().to_string());
            let (shallow, refs) = (self.shallow.clone(), self.refs.clone());
            move || share(&git, &objects, shallow.as_deref(), &refs)
        })
        .await?;
        // Include the configuration of the user's repository before the checkout, because it defines filters and line
        // endings.
        git(at, &["config", "include.path", &config], commands).await?;
        git(at, &["checkout", "--quiet", "--detach", &self.commit], commands).await?;
        for hidden in &self.hidden {
            self.hide(at, hidden, commands).await?;
        }
        Ok(())
    }

    /// Removes a file or folder that agents must not see.
    ///
    /// Git skips the path, so that `git status` does not show the path as deleted. Fails if git or the removal fails.
    async fn hide(
        &self,
        checkout: &Path,
        hidden: &Path,
        commands: &dyn Commands,
    ) -> Result<(), WorkspaceError> {
        let path = hidden.display().to_string();
        let listed = line(&["--literal-pathspecs", "ls-files", "-z", "--", &path]);
        let skipped = line(&["update-index", "-z", "--skip-worktree", "--stdin"]);
        let command = command(checkout, format!("{listed} | {skipped}"));
        run(&command, "`git update-index`", None, commands).await?;
        let at = checkout.join(hidden);
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

/// Makes a repository use the objects and refs of another repository.
///
/// If the other repository is shallow, its `shallow` file is copied too. Fails if a file cannot be written.
///
/// The remote-tracking branches are included, so that `git diff origin/main` works. A push by the agent goes to the
/// remotes of the user's repository, not to the user's repository.
fn share(git: &Path, objects: &str, shallow: Option<&[u8]>, refs: &str) -> Result<(), String> {
    let write = |path: &str, content: &[u8]| {
        let path = git.join(path);
        let info = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        info.and_then(|()| std::fs::write(&path, content))
            .map_err(|err| format!("cannot write `{}`: {err}", path.display()))
    };
    write("objects/info/alternates", format!("{objects}\n").as_bytes())?;
    if let Some(shallow) = shallow {
        write("shallow", shallow)?;
    }
    let refs: String = refs.lines().flat_map(|it| [it, "\n"]).collect();
    write("packed-refs", refs.as_bytes())
}

/// Removes everything in a folder, except `.git` and `.kindlm`. Fails at the first entry that cannot be removed.
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

/// Returns a git command line that runs no hooks.
///
/// The user's settings may name a folder of hooks.
fn line(words: &[&str]) -> String {
    let own = ["git", "-c", "core.hooksPath=.git/no-hooks"];
    quoted(own.into_iter().chain(words.iter().copied()))
}

/// Returns a command in a folder. Git uses the repository of this folder.
fn command(folder: &Path, line: String) -> CommandSpec {
    let folder = Some(folder.to_path_buf());
    CommandSpec { folder, without: own_git(), ..CommandSpec::new(line, PATIENCE) }
}

/// Runs git in a checkout, and returns its stdout. Fails if git does not start, or does not end with exit code 0.
async fn git(
    folder: &Path,
    words: &[&str],
    commands: &dyn Commands,
) -> Result<String, WorkspaceError> {
    let what = format!("`git {}`", words.first().copied().unwrap_or_default());
    run(&command(folder, line(words)), &what, None, commands).await
}

/// Runs git in the user's repository, and returns its stdout. Fails if git does not start, or does not end with exit
/// code 0.
///
/// The git settings in the environment stay, because git may need them to read the repository.
async fn ask(
    source: &Path,
    words: &[&str],
    commands: &dyn Commands,
) -> Result<String, WorkspaceError> {
    let what = format!("`git {}`", words.first().copied().unwrap_or_default());
    let without = GIT_PLACES.map(str::to_owned).into();
    run(&CommandSpec { without, ..command(source, line(words)) }, &what, None, commands).await
}
