//! Isolation with a Docker or Podman container, in which only the files of the workspace and of the image exist.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kindlm_types::workspace::{Container, ContainerEngine};
use kindlm_types::{CommandSpec, Commands, WorkspaceError, WorkspaceSpec};

use super::{Inner, find, quoted};
use crate::options::FoldersOptions;

/// The path of the workspace in a container.
pub(crate) const FOLDER: &str = "/workspace";

/// The time limit for removing a container.
const PATIENCE: Duration = Duration::from_secs(30);

/// The settings for containers. Each command runs in a new container.
#[derive(Debug)]
pub(crate) struct Boxed {
    engine: ContainerEngine,
    program: PathBuf,
    container: Container,
    /// The suite's folder, in which the command that removes a container runs.
    suite: PathBuf,
}

impl Boxed {
    pub(super) fn find(
        spec: &WorkspaceSpec,
        options: &FoldersOptions,
    ) -> Result<Self, WorkspaceError> {
        let Some(container) = spec.container.clone() else {
            let message = "`isolation: container` needs `workspace.image`";
            return Err(WorkspaceError(message.to_owned()));
        };
        let both = [ContainerEngine::Docker, ContainerEngine::Podman];
        let wanted = container.engine.map_or(&both[..], |it| match it {
            ContainerEngine::Docker => &both[..1],
            ContainerEngine::Podman => &both[1..],
        });
        let found = wanted.iter().find_map(|it| Some((*it, find(it.program(), &options.path)?)));
        let Some((engine, program)) = found else {
            let names: Vec<String> =
                wanted.iter().map(|it| format!("`{}`", it.program())).collect();
            return Err(WorkspaceError(format!(
                "`isolation: container` needs {}, which is not installed: install it, or choose another `workspace.isolation`",
                names.join(" or ")
            )));
        };
        Ok(Self { engine, program, container, suite: options.suite.clone() })
    }

    /// Returns the start of a command line that runs a command in a container.
    pub(super) fn before(&self, folder: &Path, inner: Inner<'_>) -> String {
        let program = self.program.display().to_string();
        let volume = format!("{}:{FOLDER}", folder.display());
        let workspace = format!("KINDLM_WORKSPACE={FOLDER}");
        let user = user();
        let name = name(folder);
        let mut words: Vec<&str> = vec!["exec", &program, "run", "--rm", "--init"];
        if inner.stdin {
            words.push("--interactive");
        }
        words.extend(["--name", &name, "--volume", &volume, "--workdir", FOLDER]);
        match (self.engine, &user) {
            // Files in the workspace must belong to the user who runs KindLM.
            (ContainerEngine::Docker, Some(user)) => words.extend(["--user", user]),
            (ContainerEngine::Podman, _) => words.push("--userns=keep-id"),
            (ContainerEngine::Docker, None) => {}
        }
        words.extend(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
        if !inner.network {
            words.extend(["--network", "none"]);
        }
        words.extend(["--env", "HOME=/tmp", "--env", &workspace]);
        for name in self.container.env.iter().map(String::as_str).chain(inner.env.iter().copied()) {
            // Pass only the name, because process lists would show the value.
            words.extend(["--env", name]);
        }
        words.extend([self.container.image.as_str(), "sh", "-c"]);
        quoted(words)
    }

    /// Returns true if the suite passes this variable to the container.
    pub(super) fn gets(&self, name: &str) -> bool {
        self.container.env.iter().any(|it| it == name)
    }

    /// Returns an error message if the container did not start; `None` if the container started.
    ///
    /// Exit code 125 is reserved for this error.
    ///
    /// Exit codes 126 and 127 mean that the image has no shell, if the engine wrote an error message. Otherwise, the
    /// shell returned these codes for its command. Messages of other programs begin with `Error: ` too, so a message of
    /// Podman must name the container runtime.
    pub(super) fn not_started(&self, exit_code: Option<i32>, stderr: &str) -> Option<String> {
        let says = match self.engine {
            ContainerEngine::Docker => "docker: ",
            ContainerEngine::Podman => "Error: ",
        };
        let own = stderr.lines().find(|it| it.starts_with(says));
        let is_of_engine = |line: &str| {
            says == "docker: " || ["crun", "runc", "OCI"].iter().any(|it| line.contains(it))
        };
        let program = self.engine.program();
        let (what, help) = match exit_code {
            Some(125) => (
                "the container did not start",
                format!("; check that `{program} info` works, and that the image is available"),
            ),
            Some(126 | 127) if own.is_some_and(is_of_engine) => {
                ("the container has no usable `sh`", "; choose another image".to_owned())
            }
            _ => return None,
        };
        let last = || stderr.lines().rfind(|it| !it.trim().is_empty());
        let said = own
            .or_else(last)
            .map(|it| format!(": {}", it.trim().trim_end_matches('.')))
            .unwrap_or_default();
        let (image, code) = (&self.container.image, exit_code.unwrap_or_default());
        Some(format!(
            "{what}; `{program}` ended with exit code {code} for the image `{image}`{said}{help}"
        ))
    }

    /// Removes the container of a folder. The container may still run if the process `docker run` or `podman run` was
    /// killed.
    pub(super) async fn end(&self, folder: &Path, commands: &dyn Commands) {
        let program = self.program.display().to_string();
        let line = quoted([program.as_str(), "rm", "--force", &name(folder)]);
        let command =
            CommandSpec { folder: Some(self.suite.clone()), ..CommandSpec::new(line, PATIENCE) };
        let _ = commands.run_command(&command).await;
    }

    /// Starts to remove the container of a stopped execution, without waiting.
    pub(super) fn abandon(&self, folder: &Path) {
        let mut command = Command::new(&self.program);
        command.args(["rm", "--force", &name(folder)]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Use a separate process group, so that the removal continues after Ctrl-C and after the end of KindLM.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        // Once started, the removal completes even if KindLM ends.
        if let Ok(mut child) = command.spawn() {
            std::thread::spawn(move || child.wait());
        }
    }
}

/// Returns the container name of a folder.
///
/// The name combines the names of the folder and its parent, because a name such as `work` alone is not unique.
fn name(folder: &Path) -> String {
    let within = folder.parent().and_then(Path::file_name).unwrap_or_default();
    let (within, own) = (within.to_string_lossy(), folder.file_name().unwrap_or_default());
    let own = own.to_string_lossy();
    format!("kindlm-{}-{}", within.trim_start_matches(['.', '-']), own)
}

/// Returns the user and group ids of KindLM; `None` on systems without such ids.
fn user() -> Option<String> {
    #[cfg(unix)]
    let user = {
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        Some(format!("{}:{}", user.as_raw(), group.as_raw()))
    };
    #[cfg(not(unix))]
    let user = None;
    user
}
