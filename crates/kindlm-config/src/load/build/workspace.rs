//! The workspaces of tests.

use kindlm_assertions::Check;
use kindlm_source::{Code, Piece};
use kindlm_types::MemberPart;
use serde_json::Value;

use super::Builder;
use crate::load::resolve::Workspace;
use crate::written::WorkspaceBlock;

impl Builder<'_> {
    /// Returns the workspace of a test, or else the workspace of `defaults`.
    ///
    /// Returns `None` if there is no workspace, if the workspace has errors, or if the test has no command or agent.
    pub(super) fn workspace(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        test: &Value,
    ) -> Option<Workspace> {
        test.get("command").or(test.get("agent"))?;
        let Some(own) = test.get("workspace") else { return self.base.default_workspace.clone() };
        let key = own.to_string();
        if let Some(known) = self.workspaces.get(&key) {
            return Some(known.clone());
        }
        // The check of the test's shape already reports these errors.
        let block: WorkspaceBlock = serde_json::from_value(own.clone()).ok()?;
        let resolved = self.base.make_workspace(piece, &format!("{at}/workspace"), block, own)?;
        self.workspaces.insert(key, resolved.clone());
        Some(resolved)
    }

    /// Reports checks of workspaces in a test without a workspace.
    pub(super) fn check_has_workspace(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        (test, checks): (&Value, &[Check]),
    ) {
        let Some(check) = checks.iter().find(|it| it.needs_workspace()) else { return };
        let message =
            format!("`{}` checks the agent's workspace, but this test has none", check.meta.id);
        let help = if test.get("command").is_some() || test.get("agent").is_some() {
            "give the test, or `defaults`, a `workspace: { from: ./folder }`"
        } else {
            "only a test with a `command` or an `agent` can have one: models have no folder"
        };
        let at = format!("{at}/expect");
        self.base
            .sink
            .push(piece.error(Code::MISSING_KEY, &at, MemberPart::Key, message).with_help(help));
    }
}
