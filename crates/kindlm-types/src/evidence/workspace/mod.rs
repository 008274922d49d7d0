//! The state in which an agent left the folder in which it worked.

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

/// The state of the folder in which an agent worked, recorded when the agent had finished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// The isolation of the agent.
    #[serde(default)]
    pub isolation: Isolation,
    /// The differences from the start, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Globs of paths of which no changes are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Files that checks wanted to see, as the agent left them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileSeen>,
    /// Commands that checks ran after the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandRan>,
    /// Tests that scored what the agent did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestsRan>,
    /// The path of the folder, if it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Workspace {
    /// All that changed, as one unified diff; empty if nothing did.
    ///
    /// # Errors
    ///
    /// If the new content of a file is not in it: it is binary, was too large to be stored, or is no regular file.
    pub fn diff(&self) -> Result<String, String> {
        let mut all = String::new();
        for file in &self.changes {
            let FileChange { path, change, patch, text, link, .. } = file;
            // A text without a patch is new, or only the permission to run it changed.
            let new = text.as_ref().filter(|_| file.binary || file.executable.is_none());
            match (patch, new, link) {
                (Some(patch), ..) => {
                    all.push_str(patch);
                    if !patch.ends_with('\n') {
                        all.push('\n');
                    }
                }
                (None, Some(text), _) => {
                    // Something that is not text was there before, or nothing.
                    let before = if *change == ChangeKind::Added { "/dev/null" } else { path };
                    all.extend(["--- ", before, "\n+++ b/", path, "\n"]);
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

/// A file that is not as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// Its path from the folder, with `/` between parts.
    pub path: String,
    /// The kind of change.
    pub change: ChangeKind,
    /// Its size afterwards, in bytes; 0 for what is gone.
    #[serde(default)]
    pub bytes: u64,
    /// True if it is no text, before or afterwards: it has a NUL byte.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// Its text afterwards, with replacement characters where it is not UTF-8; absent for what is gone, what is binary, and where it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The unified diff of a text that was there before, also of one that is gone; absent where it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// True if its text or diff was left out because there was too much of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The target, if it is a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Whether it may be executed, where that has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
}

impl FileChange {
    /// True if it has content that is neither in its text nor in its patch. A deleted file has none, and neither has
    /// a file of which only the permission to run it changed.
    fn has_unread_content(&self) -> bool {
        self.change != ChangeKind::Deleted && (self.binary || self.executable.is_none())
    }

    /// Its path with what happened to it: `+new.ts`, `src/cart.ts`, `-old.ts`.
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
    /// It was not there.
    Added,
    /// It was there, and is another.
    #[default]
    Changed,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    /// Its word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// A file that a check wanted to see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileSeen {
    /// Its path from the folder.
    pub path: String,
    /// Its text; absent if there is none, or if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why it cannot be read, in words. A file that is not there can be read: it has no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A command that ran after the agent, in a fresh copy with the changes of the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandRan {
    /// The command line.
    pub run: String,
    /// The time limit in milliseconds, if the check sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Its exit code; absent if it did not come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Its stdout, or the last part of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// Its stderr, or the last part of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// The duration in milliseconds.
    #[serde(default)]
    pub duration_ms: f64,
    /// Why it did not come to its end, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl CommandRan {
    /// True if this is what came of it when that was gathered: the same command under the same conditions.
    pub fn answers(&self, gathered: &Gather) -> bool {
        matches!(gathered, Gather::Command { run, timeout } if self.is_run(run, *timeout))
    }

    fn is_run(&self, run: &str, timeout: Option<Duration>) -> bool {
        self.run == run && self.timeout_ms == timeout.map(in_ms)
    }
}

impl TestsRan {
    /// True if this is what came of it when that was gathered: the same tests, reported in the same way to the same
    /// place.
    pub fn answers(&self, gathered: &Gather) -> bool {
        let Gather::Tests { run, format, report, timeout, .. } = gathered else { return false };
        self.command.is_run(run, *timeout)
            && self.format == *format
            && self.report.as_deref() == report.as_deref().or(format.default_report())
    }
}

/// A time as evidence has it, in whole milliseconds.
pub fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Workspace {
    /// The change of a file; `None` if it is as it was.
    pub fn change(&self, path: &str) -> Option<&FileChange> {
        self.changes.iter().find(|it| it.path == path)
    }

    /// True if the text or diff of a file is missing because there was too much of it.
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
            // In the place of a link, and of a binary file.
            (ChangeKind::Changed, false),
            (ChangeKind::Changed, true),
        ] {
            let workspace =
                changed(FileChange { change, binary, text: text(), ..FileChange::default() });
            assert!(workspace.diff().unwrap().contains("\n+SECRET\n"), "{change:?} {binary}");
        }
    }

    #[test]
    fn there_is_no_diff_without_the_new_content() {
        for change in [
            FileChange { binary: true, ..FileChange::default() },
            FileChange { change: ChangeKind::Added, binary: true, ..FileChange::default() },
            // A pipe.
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
