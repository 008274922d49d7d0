//! Detection of syntax errors in scripts before they run.

use std::sync::Arc;

use kindlm_types::Problem;
use kindlm_types::script::{ScriptErrorKind, ScriptQuestion, ScriptRuntime, ScriptSource};

use super::ScriptSettings;
use crate::Setup;

/// Compiles a script without running it.
///
/// Only errors of the script itself are problems. A missing interpreter is reported when the script runs.
pub(crate) fn compiled(
    setup: &Setup<'_>,
    runtime: ScriptRuntime,
    settings: &ScriptSettings,
    source: &ScriptSource,
) -> Result<(), Problem> {
    let Some(compile) = &setup.compile_script else { return Ok(()) };
    let question = ScriptQuestion::new(runtime, source.clone())
        .with_permissions(Arc::clone(&settings.permissions))
        .with_timeout(settings.timeout);
    match compile(&question) {
        Err(err) if err.kind == ScriptErrorKind::Load => {
            let problem = Problem::new("", format!("the script does not parse: {}", err.message));
            Err(match (runtime, source) {
                (ScriptRuntime::QuickJs | ScriptRuntime::Node, ScriptSource::Body { .. }) => {
                    problem.with_help(
                        "one line is an expression, such as `output.length > 200`; several lines are the body of a function and \
                         need a `return`",
                    )
                }
                _ => problem,
            })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
