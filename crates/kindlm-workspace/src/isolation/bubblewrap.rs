//! Isolation with `bwrap`: files outside the workspace are read-only, and the hidden files are not visible.

use std::path::{Path, PathBuf};

use kindlm_types::{WorkspaceError, WorkspaceSpec};

use super::{Inner, installed, quoted};
use crate::options::FoldersOptions;

/// The folders with sockets of Docker, key agents, desktops and services.
///
/// Programs could connect to these sockets even with read-only access.
const SOCKETS: [&str; 2] = ["/run", "/var/run"];

/// The paths in the folders of [`SOCKETS`] that programs need.
///
/// The first path is for host name resolution; the others hold the programs of NixOS.
const NEEDED: [&str; 3] =
    ["/run/systemd/resolve/stub-resolv.conf", "/run/current-system", "/run/wrappers"];

/// The paths of kernel settings, which root can write without capabilities.
///
/// Some settings name a program that the kernel runs outside the sandbox. Container engines make the same paths
/// read-only.
const KERNEL: [&str; 5] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"];

/// The environment variables that point to sockets outside the sandbox.
const LEADING_OUT: [&str; 7] = [
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
];

/// A sandbox with `bwrap`.
#[derive(Debug)]
pub(crate) struct Bubblewrap {
    program: PathBuf,
    /// The suite's folder, which stays visible even inside `/tmp` or `temp`.
    suite: PathBuf,
    /// The folder for temporary files, which holds the workspaces of all agents.
    temp: PathBuf,
    /// The files and folders of the suite that agents must not read.
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

    /// Returns the start of a command line that runs a command in the sandbox.
    pub(super) fn before(&self, folder: &Path, inner: Inner<'_>) -> String {
        let shown = |path: &Path| path.display().to_string();
        let (program, suite, temp) = (shown(&self.program), shown(&self.suite), shown(&self.temp));
        let folder = shown(folder);
        let mut words: Vec<&str> = vec!["exec", &program, "--unshare-all"];
        if inner.network {
            words.push("--share-net");
        }
        words.extend(["--die-with-parent", "--new-session"]);
        // Drop all capabilities. Otherwise, root keeps them and can undo the mounts.
        words.extend(["--cap-drop", "ALL"]);
        words.extend(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
        for path in KERNEL {
            words.extend(["--ro-bind-try", path, path]);
        }
        for name in LEADING_OUT {
            words.extend(["--unsetenv", name]);
        }
        for path in SOCKETS {
            // `/var/run` is usually a link to `/run`.
            if Path::new(path).symlink_metadata().is_ok_and(|it| it.is_dir()) {
                words.extend(["--tmpfs", path]);
            }
        }
        for path in NEEDED {
            words.extend(["--ro-bind-try", path, path]);
        }
        words.extend(["--tmpfs", "/tmp"]);
        // If one of `suite` and `temp` is inside the other, the outer folder must be mounted first.
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

    /// Returns the existing paths that an agent must not read:
    /// - the hidden files,
    /// - the reports of earlier runs, which name these files and show agents' output,
    /// - and the git history, which contains these files.
    fn masked(&self) -> Vec<PathBuf> {
        let own = self.suite.join(".kindlm");
        let git = self.suite.ancestors().flat_map(|it| git_folders(&it.join(".git")));
        let all = self.hidden.iter().cloned().chain([own]).chain(git);
        // After a folder is masked, the paths inside it do not exist, so leave them out.
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

    /// Returns the error message of `bwrap` if the sandbox did not start; `None` if the sandbox started.
    ///
    /// `bwrap` has no special exit code for this error, so the message must be the first line of stderr.
    pub(super) fn not_started(exit_code: Option<i32>, stderr: &str) -> Option<String> {
        let said = stderr.lines().find(|it| !it.trim().is_empty())?;
        (exit_code == Some(1) && said.starts_with("bwrap: "))
            .then(|| format!("the sandbox did not start; `bwrap` reported: {}", said.trim()))
    }
}

/// Returns the git folders of a `.git` entry.
///
/// The entry is a folder, or the `.git` file of a worktree or submodule, which points to other folders.
fn git_folders(git: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = git.canonicalize().into_iter().collect();
    // The file has the line `gitdir: /repo/.git/worktrees/name`. In the folder that the line names, the file
    // `commondir` points to the main repository.
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
