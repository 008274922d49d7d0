//! The isolation that restricts an agent to its folder.

mod bubblewrap;
mod container;
mod worktree;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_types::workspace::Isolation;
use kindlm_types::{AgentFolder, Backend, CommandSpec, WorkspaceError, WorkspaceSpec};

use crate::options::{FoldersOptions, WORKSPACE, variables};
use bubblewrap::Bubblewrap;
use container::Boxed;
pub(crate) use worktree::Worktrees;

/// The wrapper of every command that runs in a workspace.
#[derive(Debug)]
pub(crate) struct Wrap {
    options: FoldersOptions,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Nothing: the command starts in the folder.
    Plain,
    Bubblewrap(Bubblewrap),
    Container(Boxed),
}

/// The needs of a command inside its wrapper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner<'a> {
    /// True if it reaches the network.
    pub(crate) network: bool,
    /// Names of variables that it gets, where it does not get all of them.
    pub(crate) env: &'a [&'a str],
    /// True if it receives data while it runs.
    pub(crate) stdin: bool,
}

impl Wrap {
    /// The isolation that a workspace requires, if it is installed.
    pub(crate) fn of(
        spec: &WorkspaceSpec,
        options: &FoldersOptions,
    ) -> Result<Self, WorkspaceError> {
        let kind = match spec.isolation {
            Isolation::Copy => Kind::Plain,
            Isolation::Worktree => {
                installed("git", options, "`isolation: worktree`", "install git")?;
                Kind::Plain
            }
            Isolation::Bubblewrap => Kind::Bubblewrap(Bubblewrap::find(spec, options)?),
            Isolation::Container => Kind::Container(Boxed::find(spec, options)?),
        };
        Ok(Self { options: options.clone(), kind })
    }

    /// A command in a folder, with all that is around it. `env` are variables of its own.
    pub(crate) fn command(
        &self,
        folder: &Path,
        line: &str,
        timeout: Duration,
        network: bool,
        env: &[(&str, &str)],
    ) -> CommandSpec {
        let names: Vec<&str> = env.iter().map(|(name, _)| *name).collect();
        let line = match self.before(folder, Inner { network, env: &names, stdin: false }) {
            None => line.to_owned(),
            Some(before) => format!("{before} {}", quoted([line])),
        };
        let mut all = variables(&self.options, folder);
        all.extend(env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        CommandSpec {
            folder: Some(folder.to_path_buf()),
            env: all,
            without: self.without(),
            ..CommandSpec::new(line, timeout)
        }
    }

    /// A folder for an agent that is spoken with. `env` are names of variables that the suite gives it.
    pub(crate) fn agent(&self, folder: &Path, network: bool, env: &[String]) -> AgentFolder {
        let names: Vec<&str> = env.iter().map(String::as_str).collect();
        let mut without = self.without();
        without.retain(|it| !env.contains(it));
        AgentFolder {
            path: folder.to_path_buf(),
            before: self.before(folder, Inner { network, env: &names, stdin: true }),
            env: variables(&self.options, folder),
            without,
            names_env: matches!(self.kind, Kind::Container(_)),
        }
    }

    /// The variables that commands do not get, except those that the container gets by name.
    fn without(&self) -> Vec<String> {
        let mut names = own_git();
        if let Kind::Container(it) = &self.kind {
            names.retain(|name| !it.gets(name));
        }
        names
    }

    /// The prefix of a command line that is quoted as one word; `None` if there is no prefix.
    fn before(&self, folder: &Path, inner: Inner<'_>) -> Option<String> {
        match &self.kind {
            Kind::Plain => None,
            Kind::Bubblewrap(it) => Some(it.before(folder, inner)),
            Kind::Container(it) => Some(it.before(folder, inner)),
        }
    }

    /// True if there is anything around commands that may fail to start.
    pub(crate) fn is_sandbox(&self) -> bool {
        !matches!(self.kind, Kind::Plain)
    }

    /// Why the isolation never started a command; `None` if it did.
    pub(crate) fn not_started(&self, exit_code: Option<i32>, stderr: &str) -> Option<String> {
        match &self.kind {
            Kind::Plain => None,
            Kind::Bubblewrap(_) => Bubblewrap::not_started(exit_code, stderr),
            Kind::Container(it) => it.not_started(exit_code, stderr),
        }
    }

    /// The folder as commands see it.
    pub(crate) fn seen<'a>(&self, folder: &'a Path) -> &'a Path {
        match &self.kind {
            Kind::Plain | Kind::Bubblewrap(_) => folder,
            Kind::Container(_) => Path::new(container::FOLDER),
        }
    }

    /// Ends whatever commands have left running in a folder. A sandbox of `bwrap` leaves nothing.
    pub(crate) async fn end(&self, folder: &Path, backend: &dyn Backend) {
        match &self.kind {
            Kind::Plain => {
                let folder = folder.to_path_buf();
                let ended = tokio::task::spawn_blocking(move || {
                    kindlm_process::end_marked(WORKSPACE, folder.as_os_str());
                });
                // It does not panic, and a runtime that is ending goes on with nothing.
                let _ = ended.await;
            }
            Kind::Bubblewrap(_) => {}
            Kind::Container(it) => it.end(folder, backend).await,
        }
    }

    /// The same for a folder of which nothing more is wanted, at once.
    pub(crate) fn abandon(&self, folder: &Path) {
        match &self.kind {
            Kind::Plain => kindlm_process::end_marked(WORKSPACE, folder.as_os_str()),
            Kind::Bubblewrap(_) => {}
            Kind::Container(it) => it.abandon(folder),
        }
    }
}

/// The variables that git sets for its hooks, from which KindLM may have been started. With them git works in the
/// user's repository, and on its index, wherever it is called. `git rev-parse --local-env-vars` lists them, and those
/// of [`GIT_SETTINGS`].
const GIT_PLACES: [&str; 13] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_QUARANTINE_PATH",
];

/// Settings for one call of git, and for the programs that this call starts. Without them it may not be able to read
/// the user's repository: `safe.directory` may be among them.
const GIT_SETTINGS: [&str; 3] = ["GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"];

/// The variables that lead git elsewhere; without them it works in the folder where it is called.
fn own_git() -> Vec<String> {
    GIT_PLACES.into_iter().chain(GIT_SETTINGS).map(str::to_owned).collect()
}

/// A program that is looked for where programs are.
fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|it| it.join(name)).find(|it| is_program(it))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}

/// A program that must be there; there is nothing to fall back to.
fn installed(
    name: &str,
    options: &FoldersOptions,
    wanted_by: &str,
    help: &str,
) -> Result<PathBuf, WorkspaceError> {
    find(name, &options.path).ok_or_else(|| {
        WorkspaceError(format!("{wanted_by} needs `{name}`, which is not installed: {help}"))
    })
}

/// Words as one line for `sh -c`.
fn quoted<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let quoted = words.into_iter().map(|word| {
        // A word that cannot be quoted has a NUL byte, which no path and no command line of a suite has.
        shlex::try_quote(word).map_or_else(|_| String::new(), std::borrow::Cow::into_owned)
    });
    quoted.collect::<Vec<_>>().join(" ")
}
