//! Workspaces of agents.

use kindlm_types::workspace::{ContainerEngine, Isolation};
use schemars::JsonSchema;
use serde::Deserialize;

/// A workspace: a new folder for each execution. Changes in this folder are evidence.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WorkspaceBlock {
    /// The folder to copy for each execution, relative to this file. `.git`, `.kindlm` and `hidden` files are not
    /// copied.
    #[schemars(length(min = 1))]
    pub(crate) from: String,
    /// The isolation of the agent from the rest of the machine.
    #[serde(default)]
    pub(crate) isolation: Isolation,
    /// A command that runs once before all agents, such as `npm ci`. Its changes do not count as changes of the agent.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) setup: Option<String>,
    /// Files that are added after the agent has finished, such as tests of its work.
    #[serde(default)]
    pub(crate) hidden: Vec<HiddenEntry>,
    /// Globs of paths whose changes are not recorded: `node_modules/**`.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub(crate) ignore: Vec<String>,
    /// The maximum number of bytes in the folder: in `from`, after `setup`, and after the execution. Default: 1 GiB.
    #[serde(default = "gibibyte")]
    #[schemars(range(min = 1))]
    pub(crate) max_bytes: u64,
    /// The maximum number of files in the folder: in `from`, after `setup`, and after the execution. Default: 100000.
    #[serde(default = "many_files")]
    #[schemars(range(min = 1))]
    pub(crate) max_files: u64,
    /// The maximum number of bytes of changed files and their diffs that are stored as evidence. Default: 1 MiB.
    #[serde(default = "mebibyte")]
    #[schemars(range(max = 16_777_216))]
    pub(crate) max_diff_bytes: u64,
    /// With `isolation: worktree`: the git revision to check out. Default: `HEAD`.
    #[serde(default, rename = "ref")]
    #[schemars(length(min = 1))]
    pub(crate) reference: Option<String>,
    /// True if the agent may use the network. Only `bubblewrap` and `container` can prevent it. Default: true.
    #[serde(default = "yes")]
    pub(crate) network: bool,
    /// With `isolation: container`: the image.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) image: Option<String>,
    /// With `isolation: container`: the container engine. Default: Docker, or else Podman.
    #[serde(default)]
    pub(crate) engine: Option<ContainerEngine>,
    /// With `isolation: container`: the names of environment variables that the agent gets.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub(crate) env: Vec<String>,
}

/// Files that the agent must not see.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum HiddenEntry {
    /// A path relative to this file. A file, or the content of a folder, is copied to the top of the workspace.
    Path(#[schemars(length(min = 1))] String),
    /// A path and its destination.
    To(HiddenTo),
}

/// A file or folder and its destination.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HiddenTo {
    /// The file or folder, relative to this file.
    #[schemars(length(min = 1))]
    pub(crate) from: String,
    /// The destination, as a path from the top of the workspace.
    #[schemars(length(min = 1))]
    pub(crate) to: String,
}

fn gibibyte() -> u64 {
    1 << 30
}

fn mebibyte() -> u64 {
    1 << 20
}

fn many_files() -> u64 {
    100_000
}

fn yes() -> bool {
    true
}
