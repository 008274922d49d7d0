//! The interface for creating workspaces for agents.

use std::path::Path;
use std::time::Duration;

use super::{Gather, Workspace, WorkspaceSpec};
use crate::{AgentFolder, BoxFuture, CommandSpec, Commands, Execution};

/// The execution that a workspace belongs to.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WorkFor<'a> {
    /// The test case's name.
    pub case: &'a str,
    /// The model's id.
    pub model: &'a str,
    /// The index of the repeat, from 0.
    pub repeat: u32,
    /// The timeout of commands that set no timeout.
    pub timeout: Duration,
}

impl<'a> WorkFor<'a> {
    /// Creates the execution of a case by a model, with the timeout of commands that set none of their own.
    pub const fn new(case: &'a str, model: &'a str, repeat: u32, timeout: Duration) -> Self {
        Self { case, model, repeat, timeout }
    }
}

/// The interface for creating workspaces: folders for agents to work in.
pub trait Workspaces: Send + Sync {
    /// Creates a fresh workspace as specified. `commands` runs the set-up command. Fails if the workspace cannot be
    /// created, or if the set-up fails.
    fn open<'a>(
        &'a self,
        spec: &'a WorkspaceSpec,
        of: WorkFor<'a>,
        commands: &'a dyn Commands,
    ) -> BoxFuture<'a, Result<Box<dyn OpenWorkspace>, WorkspaceError>>;
}

/// A workspace that is ready for one agent.
///
/// The folder is removed on drop, unless the user asked to keep it.
pub trait OpenWorkspace: Send + Sync {
    /// Returns the path of the folder.
    ///
    /// A program that works in the folder must be isolated: see [`command`](Self::command) and
    /// [`for_agent`](Self::for_agent).
    fn folder(&self) -> &Path;

    /// Builds an isolated command of the agent that runs in this folder.
    fn command(&self, line: &str, timeout: Duration) -> CommandSpec;

    /// Returns the isolated folder for an agent that receives messages while it runs.
    ///
    /// `env` lists the names of the agent's environment variables. Some kinds of isolation pass only these variables to
    /// the agent.
    fn for_agent(&self, env: &[String]) -> AgentFolder;

    /// Returns the reason why the isolation did not start the agent's command.
    ///
    /// Returns `None` if the command was started.
    ///
    /// Without this check, a sandbox that does not start looks like an agent that did nothing. Such an agent would pass
    /// every check that something is absent.
    fn not_started(&self, _exit_code: Option<i32>, _stderr: &str) -> Option<String> {
        None
    }

    /// Records the result of the finished agent, then removes the folder. Fails if the result cannot be recorded.
    ///
    /// The result holds the agent's changes and the results of the workspace queries in `wanted`.
    fn close<'a>(
        self: Box<Self>,
        execution: &'a Execution,
        wanted: &'a [Gather],
        commands: &'a dyn Commands,
    ) -> BoxFuture<'a, Result<Workspace, WorkspaceError>>
    where
        Self: 'a;

    /// Removes the folder of an agent that failed.
    ///
    /// Stops processes that still run in the folder.
    fn discard<'a>(self: Box<Self>, commands: &'a dyn Commands) -> BoxFuture<'a, ()>
    where
        Self: 'a;
}

/// The reason why a workspace could not be created or recorded, with advice for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkspaceError(pub String);
