//! The definition of a workspace, and its workspace queries.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A folder of its own for each execution, and how it comes about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkspaceSpec {
    /// The folder that it starts as, relative to the suite.
    pub from: String,
    /// The isolation of the agent.
    pub isolation: Isolation,
    /// A command that runs once in the start, before any agent. Its results belong to the start.
    pub setup: Option<String>,
    /// Files that are put in when the agent has finished.
    pub hidden: Vec<HiddenFiles>,
    /// Globs of paths whose changes are not reported.
    pub ignore: Vec<String>,
    /// The most that may be in it afterwards, in bytes.
    pub max_bytes: u64,
    /// The most files that may be in it afterwards.
    pub max_files: u64,
    /// The most bytes of texts and diffs of changed files that are stored as evidence.
    pub max_diff_bytes: u64,
    /// For worktrees: the reference that is checked out; `HEAD` if absent.
    pub reference: Option<String>,
    /// True if the agent reaches the network, where the isolation can keep it from that.
    pub network: bool,
    /// For containers: which one.
    pub container: Option<Container>,
}

/// The isolation of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A copy of the folder, in which the agent starts. Nothing keeps it from leaving.
    #[default]
    Copy,
    /// A checkout in a repository of its own, so that git works in it. Nothing keeps the agent from leaving.
    Worktree,
    /// A copy, and `bwrap` around the agent: everything else is read-only.
    Bubblewrap,
    /// A copy, and a container of Docker or Podman around the agent: there is nothing else.
    Container,
}

impl Isolation {
    /// Its word in JSON.
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
    /// A file or folder, relative to the suite.
    pub from: String,
    /// Its path in the workspace.
    pub to: String,
}

/// A container around the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Container {
    /// The image.
    pub image: String,
    /// The container engine; the one that is installed if absent.
    pub engine: Option<ContainerEngine>,
    /// Names of environment variables that the agent gets.
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
    /// Its program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// A workspace query: it is made when the agent has finished, and its result is stored as evidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Gather {
    /// The text of a file, before anything hidden is put in.
    File {
        /// Its path from the workspace.
        path: String,
    },
    /// A command in a fresh copy: the start with the agent's changes and the hidden files.
    Command {
        /// The command line, for `sh -c`.
        run: String,
        /// The time limit; that of the agent if absent.
        timeout: Option<Duration>,
    },
    /// Tests in a fresh copy of their own.
    Tests {
        /// The command line, for `sh -c`.
        run: String,
        /// The format of the report.
        format: TestFormat,
        /// The file that they write the report to; stdout if absent.
        report: Option<String>,
        /// The time limit; that of the agent if absent.
        timeout: Option<Duration>,
        /// Globs of paths that are as in the start, whatever the agent did to them.
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
    /// JUnit's XML, as most runners can write it.
    Junit,
    /// The Test Anything Protocol: `node --test --test-reporter=tap`, `prove`, `bats`.
    Tap,
    /// `cargo nextest run --message-format libtest-json`, or JUnit's XML as its `junit` setting writes it.
    CargoNextest,
    /// The output of `cargo test`.
    CargoTest,
    /// `go test -json`.
    GoTestJson,
    /// `pytest --json-report`.
    PytestJson,
}

impl TestFormat {
    /// The file to which the runner writes its report by default; `None` if that is stdout.
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

    /// Its word in JSON.
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
