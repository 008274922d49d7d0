//! A host for tests, whose workers are a separate program.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kindlm_script::{HostOptions, ScriptHost};
use kindlm_types::script::{
    ScriptAnswer, ScriptError, ScriptOutcome, ScriptPermissions, ScriptQuestion, ScriptRuntime,
    ScriptSource, ScriptValue,
};
use tempfile::TempDir;

/// The standalone worker program.
const WORKER: &str = env!("CARGO_BIN_EXE_kindlm-script-worker");

pub(crate) fn options(root: &Path) -> HostOptions {
    HostOptions::new(WORKER, [] as [&str; 0], root)
}

pub(crate) fn host(root: &Path) -> ScriptHost {
    ScriptHost::new(HostOptions { workers: 1, ..options(root) })
}

/// Creates a folder with files.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// Returns a script that is called with an output and a context.
pub(crate) fn from_source(runtime: ScriptRuntime, source: ScriptSource) -> ScriptQuestion {
    ScriptQuestion::new(runtime, source)
        .with_args(vec![r#""hello world""#.into(), r#"{"vars":{"topic":"bananas"}}"#.into()])
        .with_timeout(Duration::from_secs(20))
}

/// Returns an inline script with the parameters `output`, `context` and `process`.
pub(crate) fn body(code: &str) -> ScriptQuestion {
    let source = ScriptSource::Body {
        params: vec!["output".to_owned(), "context".to_owned(), "process".to_owned()],
        code: code.into(),
    };
    from_source(ScriptRuntime::QuickJs, source)
}

pub(crate) fn file(path: &str, function: Option<&str>) -> ScriptQuestion {
    let source =
        ScriptSource::File { path: path.to_owned(), function: function.map(str::to_owned) };
    from_source(ScriptRuntime::QuickJs, source)
}

pub(crate) fn permit(question: ScriptQuestion, permissions: ScriptPermissions) -> ScriptQuestion {
    question.with_permissions(Arc::new(permissions))
}

/// Scripts that return objects with `toJSON` or wrapped values, and the results. A boolean or a number from such an
/// object must not become a verdict.
pub(crate) const MADE_JSON: [(&str, &str); 8] = [
    ("return new Boolean(true)", "object true"),
    ("return { toJSON: () => true }", "object true"),
    ("return { toJSON: () => -1 }", "object -1"),
    ("return { toJSON: () => ({ pass: true }) }", r#"{"pass":true}"#),
    ("return { toJSON: () => 'true' }", r#""true""#),
    ("return { toJSON: () => null }", "null"),
    ("return { toJSON: () => undefined }", "undefined"),
    ("return { toJSON() { throw new Error('no') } }", "threw no"),
];

pub(crate) fn shown(result: &Result<ScriptAnswer, ScriptError>) -> String {
    match result {
        Ok(answer) => match &answer.outcome {
            ScriptOutcome::Returned(ScriptValue::Undefined) => "undefined".to_owned(),
            ScriptOutcome::Returned(ScriptValue::Number(number)) => number.to_string(),
            ScriptOutcome::Returned(ScriptValue::Json(value)) => value.to_string(),
            ScriptOutcome::Returned(ScriptValue::Opaque { type_name, text }) => {
                format!("{type_name} {text}")
            }
            ScriptOutcome::Threw { message: Some(message), .. } => format!("threw {message}"),
            ScriptOutcome::Threw { message: None, thrown, .. } => format!("threw: {thrown}"),
        },
        Err(err) => format!("{:?}: {}", err.kind, err.message),
    }
}
