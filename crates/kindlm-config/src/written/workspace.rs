//! Folders of their own for agents.

use kindlm_types::workspace::{ContainerEngine, Isolation};
use schemars::JsonSchema;
use serde::Deserialize;

/// A folder of its own for each execution: what changes in it is evidence.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WorkspaceBlock {
    /// The folder that each execution gets a copy of, relative to this file. `.git`, `.kindlm` and `hidden` files are
    /// left out.
    #[schemars(length(min = 1))]
    pub(crate) from: String,
    /// The isolation of the agent.
    #[serde(default)]
    pub(crate) isolation: Isolation,
    /// A command that is run once, before any agent: what it leaves behind belongs to the start. `npm ci`
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) setup: Option<String>,
    /// Files that are put in when the agent has finished: tests that score it, for example.
    #[serde(default)]
    pub(crate) hidden: Vec<HiddenEntry>,
    /// Globs of paths whose changes are not recorded: `node_modules/**`.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub(crate) ignore: Vec<String>,
    /// The most that may be in the folder afterwards, in bytes.
    #[serde(default = "gibibyte")]
    #[schemars(range(min = 1))]
    pub(crate) max_bytes: u64,
    /// The most files that may be in the folder afterwards.
    #[serde(default = "many_files")]
    #[schemars(range(min = 1))]
    pub(crate) max_files: u64,
    /// The most bytes of texts and diffs of changed files that are stored as evidence.
    #[serde(default = "mebibyte")]
    #[schemars(range(max = 16_777_216))]
    pub(crate) max_diff_bytes: u64,
    /// With `isolation: worktree`: what is checked out, instead of `HEAD`.
    #[serde(default, rename = "ref")]
    #[schemars(length(min = 1))]
    pub(crate) reference: Option<String>,
    /// True if the agent reaches the network; only `bubblewrap` and `container` can keep it from that.
    #[serde(default = "yes")]
    pub(crate) network: bool,
    /// With `isolation: container`: the image.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) image: Option<String>,
    /// With `isolation: container`: who runs it; Docker or else Podman if absent.
    #[serde(default)]
    pub(crate) engine: Option<ContainerEngine>,
    /// With `isolation: container`: names of environment variables that the agent gets.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    pub(crate) env: Vec<String>,
}

/// Files that the agent must not see.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum HiddenEntry {
    /// A file, which goes to the top of the workspace, or a folder, whose content goes there; relative to this file.
    Path(#[schemars(length(min = 1))] String),
    /// A file or folder, and where it goes.
    To(HiddenTo),
}

/// A file or folder, and where it goes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HiddenTo {
    /// The file or folder, relative to this file.
    #[schemars(length(min = 1))]
    pub(crate) from: String,
    /// Its path from the top of the workspace.
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
