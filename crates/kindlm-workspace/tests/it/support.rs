//! A suite on disk, an agent that is a shell script, and a backend that runs commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use kindlm_types::workspace::{Gather, Workspace};
use kindlm_types::{
    BoxFuture, CommandOutput, CommandSpec, Commands, Execution, ProviderError, ProviderErrorKind,
    WorkFor, WorkspaceError, WorkspaceSpec, Workspaces,
};
use kindlm_workspace::{Folders, FoldersOptions};

/// A backend that runs commands and records the command lines.
#[derive(Default)]
pub(crate) struct Shell {
    pub(crate) lines: Mutex<Vec<String>>,
    /// Command lines that contain this text time out; with `None`, none do.
    pub(crate) too_slow: Option<&'static str>,
    /// The environment variables of KindLM.
    pub(crate) env: Vec<(&'static str, &'static str)>,
}

impl Commands for Shell {
    fn run_command<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        Box::pin(async {
            self.lines.lock().unwrap().push(command.command_line.clone());
            if self.too_slow.is_some_and(|it| command.command_line.contains(it)) {
                let message = format!("the command did not end in time: raise {}", command.raise);
                return Err(ProviderError::new(ProviderErrorKind::Timeout, "shell", message));
            }
            let mut shell = Command::new("sh");
            shell
                .args(["-c", &command.command_line])
                .current_dir(command.folder.as_ref().unwrap())
                .envs(self.env.iter().copied());
            for name in &command.without {
                shell.env_remove(name);
            }
            let output = shell.envs(command.env.iter().cloned()).output().unwrap();
            Ok(CommandOutput {
                text: String::from_utf8(output.stdout).unwrap().trim().to_owned(),
                stderr: String::from_utf8(output.stderr).unwrap(),
                exit_code: output.status.code(),
                ..CommandOutput::default()
            })
        })
    }
}

/// A suite in a temporary folder, with a separate folder for temporary files.
pub(crate) struct Suite {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) shell: Shell,
    pub(crate) options: FoldersOptions,
}

/// Returns the default settings of a workspace in these tests.
pub(crate) fn spec() -> WorkspaceSpec {
    WorkspaceSpec {
        from: "repo".to_owned(),
        max_bytes: 1 << 20,
        max_files: 100,
        max_diff_bytes: 1 << 16,
        network: true,
        ..WorkspaceSpec::default()
    }
}

impl Suite {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("suite/repo")).unwrap();
        std::fs::create_dir_all(root.join("temp")).unwrap();
        let options = FoldersOptions {
            suite: root.join("suite"),
            temp: root.join("temp"),
            path: std::env::var_os("PATH").unwrap(),
            ..FoldersOptions::default()
        };
        let suite = Self { folder, shell: Shell::default(), options };
        for (path, text) in files {
            suite.write(path, text);
        }
        suite
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.options.suite.join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        std::fs::write(self.path(path), text).unwrap();
    }

    /// Returns the number of entries that are left in the folder for temporary files.
    pub(crate) fn left(&self) -> usize {
        std::fs::read_dir(&self.options.temp).unwrap().count()
    }

    /// Runs an agent once in a new workspace, and collects the evidence.
    pub(crate) fn agent(
        &self,
        spec: &WorkspaceSpec,
        line: &str,
        wanted: &[Gather],
    ) -> Result<Workspace, WorkspaceError> {
        let folders = Folders::new(self.options.clone());
        self.agent_in(&folders, spec, line, wanted)
    }

    pub(crate) fn agent_in(
        &self,
        folders: &Folders,
        spec: &WorkspaceSpec,
        line: &str,
        wanted: &[Gather],
    ) -> Result<Workspace, WorkspaceError> {
        folders.check(spec)?;
        let of = WorkFor::new("a case", "command", 0, Duration::from_mins(1));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let open = folders.open(spec, of, &self.shell).await?;
            let ran = self.shell.run_command(&open.command(line, of.timeout)).await.unwrap();
            assert_eq!(ran.exit_code, Some(0), "{line}: {} {}", ran.text, ran.stderr);
            let execution = Execution { output: ran.text, ..Execution::default() };
            open.close(&execution, wanted, &self.shell).await
        })
    }
}

/// Returns a command of a check, without a time limit.
pub(crate) fn command(run: &str) -> Gather {
    Gather::Command { run: run.to_owned(), timeout: None }
}

/// Writes an executable file.
#[cfg(unix)]
pub(crate) fn program(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
