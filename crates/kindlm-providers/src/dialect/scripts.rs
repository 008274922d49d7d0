//! The runner of programs and scripts, which several providers use.

use std::fmt;
use std::sync::Arc;

use kindlm_types::script::{ScriptPermissions, ScriptRunner, ScriptRuntime};

/// The runner of programs, and their permissions.
#[derive(Clone)]
#[non_exhaustive]
pub struct Scripts {
    /// Runs the programs.
    pub runner: Arc<dyn ScriptRunner>,
    /// The runtime of programs in JavaScript and TypeScript.
    pub runtime: ScriptRuntime,
    /// The permissions of programs beyond pure computation.
    pub permissions: Arc<ScriptPermissions>,
}

impl Scripts {
    /// Creates a runner of programs with the runtime of JavaScript and TypeScript, and the permissions of programs.
    pub fn new(
        runner: Arc<dyn ScriptRunner>,
        runtime: ScriptRuntime,
        permissions: Arc<ScriptPermissions>,
    ) -> Self {
        Self { runner, runtime, permissions }
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runtime, permissions, .. } = self;
        let mut shown = f.debug_struct("Scripts");
        shown.field("runtime", runtime).field("permissions", permissions).finish_non_exhaustive()
    }
}
