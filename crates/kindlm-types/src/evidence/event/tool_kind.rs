//! Tool kinds, which unify the tool names of different agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of tool, which agents offer under different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// The tool reads a file.
    FileRead,
    /// The tool writes a whole file.
    FileWrite,
    /// The tool changes a part of a file.
    FileEdit,
    /// The tool runs a command.
    Shell,
    /// The tool fetches a web page.
    WebFetch,
    /// The tool searches the web.
    WebSearch,
    /// The tool finds files by name.
    Glob,
    /// The tool finds lines in files.
    Grep,
    /// The tool lists a folder.
    ListDir,
    /// The tool gives a task to another agent.
    AgentTask,
    /// Any other tool.
    #[serde(other)]
    Unknown,
}

impl ToolKind {
    /// Returns the name of the kind in JSON and in suites.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileRead => "file_read",
            Self::FileWrite => "file_write",
            Self::FileEdit => "file_edit",
            Self::Shell => "shell",
            Self::WebFetch => "web_fetch",
            Self::WebSearch => "web_search",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::ListDir => "list_dir",
            Self::AgentTask => "agent_task",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the kind of the tool with this name; `Unknown` if KindLM does not know the name.
    ///
    /// The known names come from Claude Code, Codex, Gemini CLI, `OpenCode` and common APIs.
    pub fn of_name(name: &str) -> Self {
        match name {
            "Read" | "NotebookRead" | "read_file" | "read_many_files" | "read" | "view"
            | "file_read" => Self::FileRead,
            "Write" | "write_file" | "write" | "create_file" | "file_write" => Self::FileWrite,
            "Edit"
            | "MultiEdit"
            | "NotebookEdit"
            | "apply_patch"
            | "replace"
            | "edit"
            | "patch"
            | "str_replace"
            | "str_replace_editor"
            | "str_replace_based_edit_tool"
            | "file_edit"
            | "file_change" => Self::FileEdit,
            "Bash"
            | "bash"
            | "shell"
            | "shell_command"
            | "local_shell"
            | "exec_command"
            | "run_shell_command"
            | "command_execution"
            | "bash_code_execution"
            | "container.exec" => Self::Shell,
            "WebFetch" | "web_fetch" | "webfetch" | "fetch" => Self::WebFetch,
            "WebSearch" | "web_search" | "google_web_search" | "websearch" => Self::WebSearch,
            "Glob" | "glob" => Self::Glob,
            "Grep" | "grep" | "search_file_content" => Self::Grep,
            "LS" | "ls" | "list" | "list_dir" | "list_directory" => Self::ListDir,
            "Task" | "Agent" | "task" | "spawn_agent" | "agent_task" => Self::AgentTask,
            _ => Self::Unknown,
        }
    }
}
