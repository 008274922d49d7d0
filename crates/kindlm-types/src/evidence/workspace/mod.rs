//! The workspace of an agent, as the agent left it.

mod host;
mod o11y;
mod spec;
mod tests_ran;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use host::{OpenWorkspace, WorkFor, WorkspaceError, Workspaces};
pub use o11y::{Fetched, O11y, ShellRun};
pub use spec::{
    Container, ContainerEngine, Gather, HiddenFiles, Isolation, TestFormat, WorkspaceSpec,
};
pub use tests_ran::{TestRan, TestStatus, TestsRan};

/// The state of an agent's workspace, recorded after the agent finished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// The isolation of the agent.
    #[serde(default)]
    pub isolation: Isolation,
    /// The differences from the initial state, sorted by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Globs of paths whose changes are not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// The files that checks read, as the agent left them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RecordedFile>,
    /// The commands that checks ran after the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandRan>,
    /// The test runs that scored the agent's work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestsRan>,
    /// The path of the folder; absent if the folder was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Workspace {
    /// Returns all changes as one unified diff; empty if nothing changed.
    ///
    /// # Errors
    ///
    /// Fails if the new content of a file is missing: the file is binary, too large to store, or not a regular file.
    pub fn diff(&self) -> Result<String, String> {
        let mut all = String::new();
        for file in &self.changes {
            let FileChange { path, change, patch, text, link, .. } = file;
            // A text without a patch is new, or only the permission to execute the file changed.
            let new = text.as_ref().filter(|_| file.binary || file.executable.is_none());
            match (patch, new, link) {
                (Some(patch), ..) => {
                    all.push_str(patch);
                    if !patch.ends_with('\n') {
                        all.push('\n');
                    }
                }
                (None, Some(text), _) => {
                    // Before the change, the file was binary, a link, or did not exist.
                    match change {
                        ChangeKind::Added => all.push_str("--- /dev/null"),
                        ChangeKind::Changed | ChangeKind::Deleted => all.extend(["--- a/", path]),
                    }
                    all.extend(["\n+++ b/", path, "\n"]);
                    all.extend(text.lines().flat_map(|line| ["+", line, "\n"]));
                }
                (None, None, Some(target)) => all.extend(["link ", path, " -> ", target, "\n"]),
                (None, None, None) if file.cut => {
                    return Err(format!("the change of `{path}` is too large and was not kept"));
                }
                (None, None, None) if file.has_unread_content() => {
                    return Err(format!("the new content of `{path}` is no text"));
                }
                (None, None, None) => all.extend(["file ", path, " ", change.as_str(), "\n"]),
            }
        }
        Ok(all)
    }
}

/// A changed file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// The path in the workspace, with `/` as separator.
    pub path: String,
    /// The kind of change.
    pub change: ChangeKind,
    /// The size after the change, in bytes; 0 for a deleted file.
    #[serde(default)]
    pub bytes: u64,
    /// True if the file is binary (contains a NUL byte), before or after the change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// The text after the change, with replacement characters for invalid UTF-8.
    ///
    /// Absent if the file was deleted, is binary, is not a regular file, or is too large (see `cut`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The unified diff, if the file was a text before and is now a text or deleted; absent if the diff is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// True if the text or diff was omitted because it is too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The target, if the file is a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// True if the file is now executable; absent if this did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
}

impl FileChange {
    /// Returns true if a change without text, patch and link has new content.
    ///
    /// False for a deleted file, and if only the permission to execute the file changed.
    fn has_unread_content(&self) -> bool {
        self.change != ChangeKind::Deleted && (self.binary || self.executable.is_none())
    }

    /// Returns the path with a sign for the kind of change: `+new.ts`, `src/cart.ts`, `-old.ts`.
    pub fn marked(&self) -> String {
        let sign = match self.change {
            ChangeKind::Added => "+",
            ChangeKind::Changed => "",
            ChangeKind::Deleted => "-",
        };
        format!("{sign}{}", self.path)
    }
}

/// The kind of change of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The file is new.
    Added,
    /// The file existed before and differs now.
    #[default]
    Changed,
    /// The file was deleted.
    Deleted,
}

impl ChangeKind {
    /// Returns the name of the kind in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// A file that a check reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FileSeen")]
pub struct RecordedFile {
    /// The path in the workspace.
    pub path: String,
    /// The text; absent if the file does not exist or could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The reason why the file could not be read; absent for a missing file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A command that ran after the agent, in a fresh copy with the agent's changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandRan {
    /// The command line.
    pub run: String,
    /// The time limit in milliseconds, if the check sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The exit code; absent if the command did not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The stdout, or its last part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// The stderr, or its last part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// The duration in milliseconds.
    #[serde(default)]
    pub duration_ms: f64,
    /// The reason why the command did not finish; absent if it finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl CommandRan {
    /// Returns true if this is the result of the query `gathered`: the command and the time limit are equal.
    pub fn answers(&self, gathered: &Gather) -> bool {
        matches!(gathered, Gather::Command { run, timeout } if self.is_run(run, *timeout))
    }

    fn is_run(&self, run: &str, timeout: Option<Duration>) -> bool {
        self.run == run && self.timeout_ms == timeout.map(in_ms)
    }
}

impl TestsRan {
    /// Returns true if this is the result of the query `gathered`.
    ///
    /// The command, the time limit, the format and the report file must be equal.
    pub fn answers(&self, gathered: &Gather) -> bool {
        let Gather::Tests { run, format, report, timeout, .. } = gathered else { return false };
        self.command.is_run(run, *timeout)
            && self.format == *format
            && self.report.as_deref() == report.as_deref().or(format.default_report())
    }
}

/// Converts a duration to whole milliseconds, as evidence stores it; at most `u64::MAX`.
pub fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Workspace {
    /// Returns the change of a file; `None` if the file is unchanged.
    pub fn change(&self, path: &str) -> Option<&FileChange> {
        self.changes.iter().find(|it| it.path == path)
    }

    /// Returns true if the text or diff of a file was omitted because it is too large.
    pub fn is_cut(&self) -> bool {
        self.changes.iter().any(|it| it.cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(change: FileChange) -> Workspace {
        Workspace {
            changes: vec![FileChange { path: "a.txt".to_owned(), ..change }],
            ..Workspace::default()
        }
    }

    #[test]
    fn a_diff_holds_all_new_text() {
        let text = || Some("SECRET\n".to_owned());
        for (change, binary) in [
            (ChangeKind::Added, false),
            // The text file replaces a link or a binary file.
            (ChangeKind::Changed, false),
            (ChangeKind::Changed, true),
        ] {
            let workspace =
                changed(FileChange { change, binary, text: text(), ..FileChange::default() });
            let before = if change == ChangeKind::Added { "/dev/null" } else { "a/a.txt" };
            let expected = format!("--- {before}\n+++ b/a.txt\n+SECRET\n");
            assert_eq!(workspace.diff(), Ok(expected), "{change:?} {binary}");
        }
    }

    #[test]
    fn there_is_no_diff_without_the_new_content() {
        for change in [
            FileChange { binary: true, ..FileChange::default() },
            FileChange { change: ChangeKind::Added, binary: true, ..FileChange::default() },
            // A named pipe.
            FileChange { change: ChangeKind::Added, ..FileChange::default() },
            FileChange { cut: true, ..FileChange::default() },
        ] {
            changed(change).diff().unwrap_err();
        }
        let same = Some("same\n".to_owned());
        for change in [
            FileChange { change: ChangeKind::Deleted, binary: true, ..FileChange::default() },
            FileChange { executable: Some(true), text: same, ..FileChange::default() },
        ] {
            assert_eq!(
                changed(change.clone()).diff().unwrap(),
                format!("file a.txt {}\n", change.change.as_str())
            );
        }
    }
}
