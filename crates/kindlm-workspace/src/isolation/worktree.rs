//! Checkouts in which git works, and which do not contain uncommitted changes.
//!
//! Each agent has a repository of its own, which reads the objects of the user's and writes its own. `git worktree` would
//! share branches, tags, the stash, hooks and the configuration, and what an agent does to them would stay.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_types::{Backend, CommandSpec, FileTree, WorkspaceError};

use super::{GIT_PLACES, own_git, quoted};
use crate::work::{blocking, copy_start, run};

/// The timeout of git.
const PATIENCE: Duration = Duration::from_mins(2);

/// The source of checkouts.
#[derive(Debug)]
pub(crate) struct Worktrees {
    /// The way from the top of the repository to that folder.
    prefix: String,
    /// The top of the repository.
    top: PathBuf,
    /// The commit that is checked out, so that all checkouts start the same.
    commit: String,
    /// The user's configuration of the repository: names, remotes, filters.
    config: PathBuf,
    /// The user's objects, which are read and never written.
    objects: PathBuf,
    /// The boundary of the history, if the user's repository is shallow.
    shallow: Option<Vec<u8>>,
    /// The format of object names: `sha1` or `sha256`.
    format: String,
    /// The user's branches and tags, and the commits last fetched from remotes, as git lists them in one file.
    refs: String,
    /// Files and folders of the repository that agents must not see, from its top.
    hidden: Vec<PathBuf>,
}

impl Worktrees {
    /// Those of the repository that a folder is in. `hidden` are real places of what is to be out of sight.
    pub(crate) async fn find(
        source: &Path,
        reference: &str,
        hidden: &[PathBuf],
        backend: &dyn Backend,
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
        let places = ask(source, &words, backend).await.map_err(|err| {
            let source = source.display();
            WorkspaceError(format!(
                "`isolation: worktree` needs a git repository, and `{source}` is in none: {err}"
            ))
        })?;
        // No line is left out: the prefix is an empty one at the top of the repository.
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
        let commit = ask(source, &words, backend).await.map_err(|err| {
            let all = "the history of this repository is not all there (`git fetch --unshallow` brings it)";
            let why = if shallow.is_some() { format!("; {all}") } else { String::new() };
            WorkspaceError(format!("`workspace.ref` is `{reference}`, which names no commit: {err}{why}"))
        })?;
        let listed = "--format=%(objectname) %(refname)";
        let refs = ["for-each-ref", listed, "refs/heads", "refs/tags", "refs/remotes"];
        let refs = ask(source, &refs, backend).await?;
        let (config, objects) = (real(config), real(objects));
        let commit = commit.trim().to_owned();
        Ok(Self { prefix, top, commit, config, objects, shallow, format, refs, hidden })
    }

    /// Checks out into a folder that is not there yet; gives the folder to work in.
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

    /// Makes a checkout that is like a start, setup included; gives the folder to work in.
    pub(crate) async fn like(
        &self,
        start: &Path,
        at: &Path,
        backend: &dyn Backend,
    ) -> Result<PathBuf, WorkspaceError> {
        self.add(at, backend).await?;
        let folder = at.join(&self.prefix);
        // Over the checked-out files: the same files, and those that the setup has made.
        blocking({
            let folder = folder.clone();
            move || clear(&folder)
        })
        .await?;
        copy_start(start, &folder).await?;
        Ok(folder)
    }

    /// The top of the checkout in which a folder is.
    pub(crate) fn top<'a>(&self, folder: &'a Path) -> &'a Path {
        let depth = Path::new(&self.prefix).components().count();
        folder.ancestors().nth(depth).unwrap_or(folder)
    }

    /// Makes a plain folder of a checkout, at another place; gives the folder to work in.
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

    async fn add(&self, at: &Path, backend: &dyn Backend) -> Result<(), WorkspaceError> {
        let (to, config) = (at.display().to_string(), self.config.display().to_string());
        // Without the hooks and files of a template: they are those of new repositories.
        let mut init = command(&self.top, line(&["init", "--quiet", "--template=", &to]));
        // Whatever is usual for new repositories. Versions of git that know no other do not look.
        let formats = [("GIT_DEFAULT_HASH", &*self.format), ("GIT_DEFAULT_REF_FORMAT", "files")];
        init.env = formats.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        run(&init, "`git init`", None, backend).await?;
        // No clone: one of a shallow repository, or of a commit that is on no branch, would lack the requested
        // commit.
        blocking({
            let (git, objects) = (at.join(".git"), self.objects.display().to_string());
            let (shallow, refs) = (self.shallow.clone(), self.refs.clone());
            move || share(&git, &objects, shallow.as_deref(), &refs)
        })
        .await?;
        // Before anything is checked out: filters and line ends are set there.
        git(at, &["config", "include.path", &config], backend).await?;
        git(at, &["checkout", "--quiet", "--detach", &self.commit], backend).await?;
        for hidden in &self.hidden {
            self.hide(at, hidden, backend).await?;
        }
        Ok(())
    }

    /// Takes a file or folder out of sight. Git does not miss it, so that it does not tell of it either.
    async fn hide(
        &self,
        checkout: &Path,
        hidden: &Path,
        backend: &dyn Backend,
    ) -> Result<(), WorkspaceError> {
        let path = hidden.display().to_string();
        let listed = line(&["--literal-pathspecs", "ls-files", "-z", "--", &path]);
        let skipped = line(&["update-index", "-z", "--skip-worktree", "--stdin"]);
        let command = command(checkout, format!("{listed} | {skipped}"));
        run(&command, "`git update-index`", None, backend).await?;
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

/// Lets a new repository read the objects of another one; writes down where its history ends, and its refs.
///
/// The commits last fetched from remotes are shared, so that `git diff origin/main` works. A push by the agent goes
/// to the user's remotes, and not to the user's repository.
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

/// Removes everything in a folder but the files that git needs.
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

/// A call of git's that runs no hooks: where the user keeps them elsewhere, the settings of the user's repository say so.
fn line(words: &[&str]) -> String {
    let own = ["git", "-c", "core.hooksPath=.git/no-hooks"];
    quoted(own.into_iter().chain(words.iter().copied()))
}

/// A line in which git works where it is called.
fn command(folder: &Path, line: String) -> CommandSpec {
    let folder = Some(folder.to_path_buf());
    CommandSpec { folder, without: own_git(), ..CommandSpec::new(line, PATIENCE) }
}

/// Calls git in a checkout.
async fn git(
    folder: &Path,
    words: &[&str],
    backend: &dyn Backend,
) -> Result<String, WorkspaceError> {
    let what = format!("`git {}`", words.first().copied().unwrap_or_default());
    run(&command(folder, line(words)), &what, None, backend).await
}

/// Asks git about the user's repository, with the settings that it may need to read it.
async fn ask(
    source: &Path,
    words: &[&str],
    backend: &dyn Backend,
) -> Result<String, WorkspaceError> {
    let what = format!("`git {}`", words.first().copied().unwrap_or_default());
    let without = GIT_PLACES.map(str::to_owned).into();
    run(&CommandSpec { without, ..command(source, line(words)) }, &what, None, backend).await
}
