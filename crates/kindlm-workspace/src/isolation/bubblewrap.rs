//! `bwrap`: everything but the folder is read-only, and the files of others are hidden.

use std::path::{Path, PathBuf};

use kindlm_types::{WorkspaceError, WorkspaceSpec};

use super::{Inner, installed, quoted};
use crate::options::FoldersOptions;

/// Folders with the sockets of Docker, of agents that hold keys, of desktops and of services. A program can still
/// connect to a socket that it cannot write.
const SOCKETS: [&str; 2] = ["/run", "/var/run"];

/// The parts of those folders that programs need: the names of hosts, and on NixOS the programs themselves.
const NEEDED: [&str; 3] =
    ["/run/systemd/resolve/stub-resolv.conf", "/run/current-system", "/run/wrappers"];

/// Settings of the kernel. A program of root may write many of them without any capability, and some name a program that
/// the kernel runs outside of the sandbox. Container engines make the same folders read-only.
const KERNEL: [&str; 5] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// Variables that lead to sockets elsewhere.
const LEADING_OUT: [&str; 7] = [
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
];

/// A sandbox made by `bwrap`.
#[derive(Debug)]
pub(crate) struct Bubblewrap {
    program: PathBuf,
    /// The suite, which stays visible even if it is below a hidden folder.
    suite: PathBuf,
    /// The folder for temporary files, in which other agents work.
    temp: PathBuf,
    /// Files and folders of the suite that an agent may not read.
    hidden: Vec<PathBuf>,
}

impl Bubblewrap {
    pub(super) fn find(
        spec: &WorkspaceSpec,
        options: &FoldersOptions,
    ) -> Result<Self, WorkspaceError> {
        let help = "install the package `bubblewrap`, or choose another `workspace.isolation`";
        let program = installed("bwrap", options, "`isolation: bubblewrap`", help)?;
        let suite = options.suite.canonicalize().unwrap_or_else(|_| options.suite.clone());
        let temp = options.temp.canonicalize().unwrap_or_else(|_| options.temp.clone());
        let of_test = spec.hidden.iter().map(|it| suite.join(&it.from));
        let of_suite = options.hidden.iter().map(|it| suite.join(it));
        let hidden = of_test.chain(of_suite).filter_map(|it| it.canonicalize().ok()).collect();
        Ok(Self { program, suite, temp, hidden })
    }

    /// All that stands before the line of a command that runs in the sandbox.
    pub(super) fn before(&self, folder: &Path, inner: Inner<'_>) -> String {
        let shown = |path: &Path| path.display().to_string();
        let (program, suite, temp) = (shown(&self.program), shown(&self.suite), shown(&self.temp));
        let folder = shown(folder);
        let mut words: Vec<&str> = vec!["exec", &program, "--unshare-all"];
        if inner.network {
            words.push("--share-net");
        }
        words.extend(["--die-with-parent", "--new-session"]);
        // As root a sandbox has all capabilities unless they are dropped, and could undo its mounts.
        words.extend(["--cap-drop", "ALL"]);
        words.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
        for path in KERNEL {
            words.extend(["--ro-bind-try", path, path]);
        }
        for name in LEADING_OUT {
            words.extend(["--unsetenv", name]);
        }
        for path in SOCKETS {
            // A link leads to the other one.
            if Path::new(path).symlink_metadata().is_ok_and(|it| it.is_dir()) {
                words.extend(["--tmpfs", path]);
            }
        }
        for path in NEEDED {
            words.extend(["--ro-bind-try", path, path]);
        }
        words.extend(["--tmpfs", "/tmp"]);
        // Whichever of the two is in the other is put in its place later.
        if self.temp.starts_with(&self.suite) {
            words.extend(["--ro-bind", &suite, &suite, "--tmpfs", &temp]);
        } else {
            words.extend(["--tmpfs", &temp, "--ro-bind", &suite, &suite]);
        }
        let masked: Vec<(bool, String)> =
            self.masked().iter().map(|it| (it.is_dir(), shown(it))).collect();
        for (is_folder, path) in &masked {
            match is_folder {
                true => words.extend(["--tmpfs", path]),
                false => words.extend(["--ro-bind", "/dev/null", path]),
            }
        }
        words.extend(["--bind", &folder, &folder, "--chdir", &folder]);
        words.extend(["--", "sh", "-c"]);
        quoted(words)
    }

    /// The paths that an agent must not read. These are the hidden files, the reports of earlier runs, which name
    /// these files and show agents' output, and the repository's history, which contains these files.
    fn masked(&self) -> Vec<PathBuf> {
        let own = self.suite.join(".kindlm");
        let git = self.suite.ancestors().flat_map(|it| git_folders(&it.join(".git")));
        let all = self.hidden.iter().cloned().chain([own]).chain(git);
        // A folder that is in a masked one is not there any more.
        let mut masked: Vec<PathBuf> = Vec::new();
        let mut all: Vec<PathBuf> = all.filter(|it| it.exists()).collect();
        all.sort();
        for path in all {
            if !masked.iter().any(|it| path.starts_with(it)) {
                masked.push(path);
            }
        }
        masked
    }

    /// The message of `bwrap` if it could not make the sandbox. It has no exit code of its own for that, so the
    /// message counts only if no other program has written before it.
    pub(super) fn not_started(exit_code: Option<i32>, stderr: &str) -> Option<String> {
        let said = stderr.lines().find(|it| !it.trim().is_empty())?;
        (exit_code == Some(1) && said.starts_with("bwrap: "))
            .then(|| format!("the sandbox did not start, says `bwrap`: {}", said.trim()))
    }
}

/// Git's own folder, or the file that leads to it in a worktree or a submodule, with the folder that they lead to.
fn git_folders(git: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = git.canonicalize().into_iter().collect();
    // A file has one line: `gitdir: /repo/.git/worktrees/name`; in that folder `commondir` leads to that of the repository.
    let leads_to = |file: &Path, prefix: &str| {
        let text = std::fs::read_to_string(file).ok()?;
        let path = text.trim().strip_prefix(prefix)?.trim();
        file.parent()?.join(path).canonicalize().ok()
    };
    if let Some(own) = leads_to(git, "gitdir:") {
        all.extend(leads_to(&own.join("commondir"), ""));
        all.push(own);
    }
    all
}
