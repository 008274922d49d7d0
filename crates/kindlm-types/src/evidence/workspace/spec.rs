//! The definition of a workspace, and workspace queries.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The definition of a workspace. Each execution gets a separate folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkspaceSpec {
    /// The folder that the workspace is copied from, relative to the suite.
    pub from: String,
    /// The isolation of the agent.
    pub isolation: Isolation,
    /// A command that prepares the workspace once, before any agent starts; `None` if there is nothing to prepare.
    pub setup: Option<String>,
    /// Files that are added after the agent has finished.
    pub hidden: Vec<HiddenFiles>,
    /// Globs of paths whose changes are not reported.
    pub ignore: Vec<String>,
    /// The maximum total size of the files in bytes: in the source, after the setup, and after the agent.
    pub max_bytes: u64,
    /// The maximum number of files: in the source, after the setup, and after the agent.
    pub max_files: u64,
    /// The maximum size of the stored texts and diffs of changed files, in bytes.
    pub max_diff_bytes: u64,
    /// The git reference to check out, for worktrees; `HEAD` if absent.
    pub reference: Option<String>,
    /// True if the agent may use the network. Only `bubblewrap` and `container` can prevent it.
    pub network: bool,
    /// The container; `None` for every isolation except `container`.
    pub container: Option<Container>,
}

/// The isolation of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A copy of the folder, in which the agent starts. The agent can still access other folders.
    #[default]
    Copy,
    /// A checkout in a separate git repository, so that git commands work. The agent can still access other folders.
    Worktree,
    /// A copy, with the agent in a `bwrap` sandbox: all other folders are read-only.
    Bubblewrap,
    /// A copy, with the agent in a container of Docker or Podman: other folders are not accessible.
    Container,
}

impl Isolation {
    /// Returns the name of the isolation in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Worktree => "worktree",
            Self::Bubblewrap => "bubblewrap",
            Self::Container => "container",
        }
    }
}

/// Files of the suite that the agent must not see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HiddenFiles {
    /// The source file or folder, relative to the suite.
    pub from: String,
    /// The target path in the workspace.
    pub to: String,
}

/// A container in which the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Container {
    /// The image.
    pub image: String,
    /// The container engine; the installed engine if absent.
    pub engine: Option<ContainerEngine>,
    /// The names of environment variables that are passed to the agent.
    pub env: Vec<String>,
}

/// A container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContainerEngine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

impl ContainerEngine {
    /// Returns the name of the engine's program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// A workspace query, which runs after the agent has finished. Its result is stored as evidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Gather {
    /// The text of a file, before hidden files are added.
    File {
        /// The path in the workspace.
        path: String,
    },
    /// A command that runs in a fresh copy of the workspace. All commands share this copy.
    ///
    /// The copy has the initial state, the agent's changes and the hidden files.
    Command {
        /// The command line, for `sh -c`.
        run: String,
        /// The time limit; the agent's time limit if absent.
        timeout: Option<Duration>,
    },
    /// Tests that run in a separate fresh copy of the workspace.
    Tests {
        /// The command line, for `sh -c`.
        run: String,
        /// The format of the report.
        format: TestFormat,
        /// The report file that the tests write; the default of the format if absent.
        report: Option<String>,
        /// The time limit; the agent's time limit if absent.
        timeout: Option<Duration>,
        /// Globs of paths that are restored to the initial state before the tests run.
        protect: Vec<String>,
    },
}

/// The report format of a test runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TestFormat {
    /// `vitest --reporter=json`, `jest --json`.
    #[default]
    Vitest,
    /// JUnit XML, which most test runners can write.
    Junit,
    /// The Test Anything Protocol: `node --test --test-reporter=tap`, `prove`, `bats`.
    Tap,
    /// `cargo nextest run --message-format libtest-json`, or the JUnit XML that nextest's `junit` setting enables.
    CargoNextest,
    /// The output of `cargo test`.
    CargoTest,
    /// `go test -json`.
    GoTestJson,
    /// `pytest --json-report`.
    PytestJson,
}

impl TestFormat {
    /// Returns the file to which the runner writes its report by default.
    ///
    /// Returns `None` for stdout.
    pub fn default_report(self) -> Option<&'static str> {
        match self {
            Self::PytestJson => Some(".report.json"),
            Self::Vitest
            | Self::Junit
            | Self::Tap
            | Self::CargoNextest
            | Self::CargoTest
            | Self::GoTestJson => None,
        }
    }

    /// Returns the name of the format in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vitest => "vitest",
            Self::Junit => "junit",
            Self::Tap => "tap",
            Self::CargoNextest => "cargo-nextest",
            Self::CargoTest => "cargo-test",
            Self::GoTestJson => "go-test-json",
            Self::PytestJson => "pytest-json",
        }
    }
}
