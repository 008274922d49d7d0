//! The interface through which folders are made for agents.

use std::path::Path;
use std::time::Duration;

use super::{Gather, Workspace, WorkspaceSpec};
use crate::{AgentFolder, Backend, BoxFuture, CommandSpec, Execution};

/// The execution that a workspace is for, by names.
#[derive(Clone, Copy, Debug)]
pub struct WorkFor<'a> {
    /// The test case's name.
    pub case: &'a str,
    /// The model's id.
    pub model: &'a str,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The timeout of commands that have none of their own.
    pub timeout: Duration,
}

/// Makes folders for agents to work in.
pub trait Workspaces: Send + Sync {
    /// Makes one that is like all others of this kind. Commands that this takes are run by the backend.
    fn open<'a>(
        &'a self,
        spec: &'a WorkspaceSpec,
        of: WorkFor<'a>,
        backend: &'a dyn Backend,
    ) -> BoxFuture<'a, Result<Box<dyn OpenWorkspace>, WorkspaceError>>;
}

/// A folder that is ready for one agent. It is removed when this is dropped, unless the user asked to keep it.
pub trait OpenWorkspace: Send + Sync {
    /// Its path. A program that works in it needs the isolation around it: see [`command`](Self::command) and
    /// [`for_agent`](Self::for_agent).
    fn folder(&self) -> &Path;

    /// A command of the agent: in this folder, with the isolation around it.
    fn command(&self, line: &str, timeout: Duration) -> CommandSpec;

    /// The folder for an agent that receives messages while it runs, with the isolation around it. `env` names the
    /// variables for the agent, if the isolation passes only variables that are named to it.
    fn for_agent(&self, env: &[String]) -> AgentFolder;

    /// Why a command of the agent was never started by what is around it, in words; `None` if it was.
    ///
    /// A sandbox that does not start ends like a program that did nothing, which would pass every negative check.
    fn not_started(&self, _exit_code: Option<i32>, _stderr: &str) -> Option<String> {
        None
    }

    /// Finds out what the agent has done, when it has finished, and what checks want to know; then removes the folder.
    fn close<'a>(
        self: Box<Self>,
        execution: &'a Execution,
        wanted: &'a [Gather],
        backend: &'a dyn Backend,
    ) -> BoxFuture<'a, Result<Workspace, WorkspaceError>>
    where
        Self: 'a;

    /// Removes the folder of an agent that failed, with whatever still runs there: nothing more is wanted of it.
    fn discard<'a>(self: Box<Self>, backend: &'a dyn Backend) -> BoxFuture<'a, ()>
    where
        Self: 'a;
}

/// Why there is no workspace, or its result is unknown; in words, with the advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkspaceError(pub String);
