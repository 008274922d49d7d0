//! Detection of syntax errors in scripts before they run.

use std::sync::Arc;

use kindlm_types::Problem;
use kindlm_types::script::{ScriptErrorKind, ScriptQuestion, ScriptRuntime, ScriptSource};

use super::ScriptSettings;
use crate::Setup;

/// Compiles a script without running it.
///
/// Only errors of the script itself, and a build without the engine, are problems. A missing interpreter is reported when
/// the script runs.
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
        Err(err) if err.kind == ScriptErrorKind::Unsupported => Err(Problem::new("", err.message)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::NoFiles;
    use kindlm_types::script::ScriptError;
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn a_build_without_the_engine_is_a_problem_of_each_script() {
        let block = json!({"assert": [
            {"type": "javascript", "value": "true"},
            {"type": "contains", "value": "x", "transform": "output.trim()"},
        ]});
        for (kind, expected) in [
            (ScriptErrorKind::Unsupported, &["/assert/0/value", "/assert/1/transform"][..]),
            (ScriptErrorKind::Runtime, &[]),
        ] {
            let mut setup = Setup::new(&NoFiles, None);
            setup.compile_script = Some(Arc::new(move |_| Err(ScriptError::new(kind, "none"))));
            let (_, problems) = crate::compile_with(&block, &setup, &Map::new());
            let places: Vec<&str> = problems.iter().map(|it| it.pointer.as_str()).collect();
            assert_eq!(places, expected, "{problems:?}");
            assert!(problems.iter().all(|it| it.message.ends_with("none")), "{problems:?}");
        }
    }
}
