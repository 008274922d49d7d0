//! Isolation, which restricts an agent to its workspace.

mod bubblewrap;
mod container;
mod worktree;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_types::workspace::Isolation;
use kindlm_types::{AgentFolder, CommandSpec, Commands, WorkspaceError, WorkspaceSpec};

use crate::options::{FoldersOptions, WORKSPACE, variables};
use bubblewrap::Bubblewrap;
use container::Boxed;
pub(crate) use worktree::Worktrees;

/// The isolation, which wraps every command in a workspace.
#[derive(Debug)]
pub(crate) struct Wrap {
    options: FoldersOptions,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// No wrapper: the command runs directly in the folder.
    Plain,
    Bubblewrap(Bubblewrap),
    Container(Boxed),
}

/// The requirements of a command in an isolation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner<'a> {
    /// True if the command has network access.
    pub(crate) network: bool,
    /// The names of the command's environment variables, which the container engine must pass on.
    pub(crate) env: &'a [&'a str],
    /// True if the command reads from stdin.
    pub(crate) stdin: bool,
}

impl Wrap {
    /// Returns the isolation of a workspace.
    ///
    /// Fails if the program of the isolation is not installed.
    pub(crate) fn find(
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

    /// Returns a command that runs in a folder in the isolation.
    ///
    /// `env` are additional environment variables.
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

    /// Returns the folder of an agent session, with its isolation.
    ///
    /// `env` are the names of the variables that the suite passes.
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

    /// Returns the variables that are removed from the environment of commands.
    ///
    /// Variables that the suite passes to the container stay.
    fn without(&self) -> Vec<String> {
        let mut names = own_git();
        if let Kind::Container(it) = &self.kind {
            names.retain(|name| !it.gets(name));
        }
        names
    }

    /// Returns the start of the command line; `None` if the command is not wrapped.
    ///
    /// The command follows as one quoted word.
    fn before(&self, folder: &Path, inner: Inner<'_>) -> Option<String> {
        match &self.kind {
            Kind::Plain => None,
            Kind::Bubblewrap(it) => Some(it.before(folder, inner)),
            Kind::Container(it) => Some(it.before(folder, inner)),
        }
    }

    /// Returns true if commands run in a sandbox, which can fail to start.
    pub(crate) fn is_sandbox(&self) -> bool {
        !matches!(self.kind, Kind::Plain)
    }

    /// Returns the reason why the isolation did not start a command.
    ///
    /// Returns `None` if the command started.
    pub(crate) fn not_started(&self, exit_code: Option<i32>, stderr: &str) -> Option<String> {
        match &self.kind {
            Kind::Plain => None,
            Kind::Bubblewrap(_) => Bubblewrap::not_started(exit_code, stderr),
            Kind::Container(it) => it.not_started(exit_code, stderr),
        }
    }

    /// Returns the path that the folder has for commands in the isolation.
    pub(crate) fn inner_path<'a>(&self, folder: &'a Path) -> &'a Path {
        match &self.kind {
            Kind::Plain | Kind::Bubblewrap(_) => folder,
            Kind::Container(_) => Path::new(container::FOLDER),
        }
    }

    /// Ends the remaining processes of commands in a folder. With `bwrap`, there are no remaining processes.
    pub(crate) async fn end(&self, folder: &Path, commands: &dyn Commands) {
        match &self.kind {
            Kind::Plain => {
                let folder = folder.to_path_buf();
                let ended = tokio::task::spawn_blocking(move || {
                    kindlm_process::end_marked(WORKSPACE, folder.as_os_str());
                });
                // The task does not panic. If the runtime is shutting down, the processes stay, and nothing more can be
                // done here.
                let _ = ended.await;
            }
            Kind::Bubblewrap(_) => {}
            Kind::Container(it) => it.end(folder, commands).await,
        }
    }

    /// Ends the remaining processes of an abandoned folder.
    ///
    /// This function does not wait until a container is removed.
    pub(crate) fn abandon(&self, folder: &Path) {
        match &self.kind {
            Kind::Plain => kindlm_process::end_marked(WORKSPACE, folder.as_os_str()),
            Kind::Bubblewrap(_) => {}
            Kind::Container(it) => it.abandon(folder),
        }
    }
}

/// The variables that git sets for its hooks.
///
/// If a hook starts KindLM, these variables would make git use the user's repository and index from any folder.
///
/// `git rev-parse --local-env-vars` lists these variables (except `GIT_QUARANTINE_PATH`) and those of [`GIT_SETTINGS`].
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

/// The variables with settings for one git command and its child processes.
///
/// The settings may contain `safe.directory`, without which git cannot read the user's repository.
const GIT_SETTINGS: [&str; 3] = ["GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"];

/// Returns the variables to remove, so that git uses its current folder.
fn own_git() -> Vec<String> {
    GIT_PLACES.into_iter().chain(GIT_SETTINGS).map(str::to_owned).collect()
}

/// Searches for a program in the folders of `path`, which has the format of the variable `PATH`.
///
/// Returns `None` if no folder has the program.
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

/// Searches for a required program.
///
/// If the program is not installed, the error message contains `help`.
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

/// Quotes words, and joins them to one command line for `sh -c`.
fn quoted<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let quoted = words.into_iter().map(|word| {
        // Only a word with a NUL byte cannot be quoted. No path or command line has a NUL byte, so the empty text is
        // never used.
        shlex::try_quote(word).map_or_else(|_| String::new(), std::borrow::Cow::into_owned)
    });
    quoted.collect::<Vec<_>>().join(" ")
}
