//! Opens the workspaces of tests, and closes them after the execution.

use std::collections::HashSet;
use std::time::Duration;

use kindlm_assertions::Check;
use kindlm_types::workspace::Gather;
use kindlm_types::{
    Execution, ExecutionError, OpenWorkspace, ProviderError, ProviderErrorKind, WorkFor,
    WorkspaceError,
};

use super::Running;
use crate::CaseBody;

/// The provider name for errors of workspaces in reports.
const WORKSPACE: &str = "workspace";

impl Running<'_> {
    /// Opens the agent's workspace; `None` if the test has none.
    pub(super) async fn open_workspace(
        &self,
        body: &CaseBody,
        timeout: Duration,
        execution: &Execution,
    ) -> Result<Option<Box<dyn OpenWorkspace>>, ExecutionError> {
        let Some(spec) = &body.workspace else { return Ok(None) };
        let Some(workspaces) = self.run.workspaces else {
            let message = "the test has a `workspace`, but no maker of workspaces is set: set `Run::workspaces`";
            return Err(ExecutionError::Internal { message: message.to_owned() });
        };
        let of = WorkFor::new(&execution.case, &execution.model, execution.repeat, timeout);
        workspaces.open(spec, of, self.run.ports.commands).await.map(Some).map_err(failed)
    }

    /// Closes the workspace, and adds the agent's changes to the evidence.
    pub(super) async fn close_workspace(
        &self,
        open: Box<dyn OpenWorkspace>,
        body: &CaseBody,
        execution: &mut Execution,
    ) -> Result<(), ExecutionError> {
        let wanted = wanted(body);
        let closed =
            open.close(execution, &wanted, self.run.ports.commands).await.map_err(failed)?;
        execution.workspace = Some(Box::new(closed));
        Ok(())
    }
}

/// Returns the workspace queries of all checks, without duplicates.
fn wanted(body: &CaseBody) -> Vec<Gather> {
    let turns = body.conversation.iter().flat_map(|it| it.checks.iter());
    let mut seen = HashSet::new();
    let all = body.checks.iter().chain(turns).flat_map(Check::gathers);
    all.filter(|it| seen.insert(it.clone())).collect()
}

/// Converts an error of a workspace into a provider error, because the agent did not fail.
fn failed(err: WorkspaceError) -> ExecutionError {
    let mut error = ProviderError::new(ProviderErrorKind::Command, WORKSPACE, err.0);
    error.attempts = 0;
    ExecutionError::Provider(error)
}
