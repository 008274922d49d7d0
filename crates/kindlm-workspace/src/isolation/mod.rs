//! What keeps an agent in its folder.

mod bubblewrap;
mod container;
mod worktree;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_types::workspace::Isolation;
use kindlm_types::{Backend, CommandSpec, WorkspaceError, WorkspaceSpec};

use crate::folders::FoldersOptions;
use crate::open::variables;
use bubblewrap::Bubblewrap;
use container::Boxed;
pub(crate) use worktree::Worktrees;

/// What is put around every command that runs in a workspace.
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

impl Wrap {
    /// What a workspace asks for, if it is installed.
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

    /// A command in a folder, with all that is around it.
    pub(crate) fn command(
        &self,
        folder: &Path,
        line: &str,
        timeout: Duration,
        network: bool,
    ) -> CommandSpec {
        let line = match &self.kind {
            Kind::Plain => line.to_owned(),
            Kind::Bubblewrap(it) => it.line(folder, line, network),
            Kind::Container(it) => it.line(folder, line, network),
        };
        let env = variables(&self.options, folder);
        CommandSpec { command_line: line, timeout, folder: Some(folder.to_path_buf()), env }
    }

    /// The folder as commands see it.
    pub(crate) fn seen<'a>(&self, folder: &'a Path) -> &'a Path {
        match &self.kind {
            Kind::Plain | Kind::Bubblewrap(_) => folder,
            Kind::Container(_) => Path::new(container::FOLDER),
        }
    }

    /// Ends whatever a command has left running.
    pub(crate) async fn end(&self, folder: &Path, backend: &dyn Backend) {
        if let Kind::Container(it) = &self.kind {
            it.end(folder, backend).await;
        }
    }
}

impl Wrap {
    /// The same for a folder of which nothing more is wanted.
    pub(crate) fn abandon(&self, folder: &Path) {
        if let Kind::Container(it) = &self.kind {
            it.abandon(folder);
        }
    }
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
        // What cannot be quoted has a NUL byte, which no path and no command line of a suite has.
        shlex::try_quote(word).map_or_else(|_| String::new(), std::borrow::Cow::into_owned)
    });
    quoted.collect::<Vec<_>>().join(" ")
}
