//! The functions of `extensions`, which get the results of a run.

use kindlm_engine::{Hook, HookEvent};
use kindlm_source::Piece;
use kindlm_types::Problem;
use kindlm_types::script::{ExportUse, ScriptRuntime, ScriptSource};
use serde_json::Value;

use super::Resolved;
use crate::load::FILE;
use crate::load::check::Checked;

/// The events of promptfoo before a run. Only promptfoo configs can have them.
const BEFORE: [&str; 2] = ["beforeAll", "beforeEach"];

impl Resolved<'_> {
    /// Reads the functions of `extensions`.
    pub(super) fn extensions(&mut self, piece: Piece<'_>, checked: &Checked) {
        if checked.is_faulty("/extensions") {
            return;
        }
        let written = checked.document.get("extensions").and_then(Value::as_array);
        for (index, item) in written.into_iter().flatten().enumerate() {
            let at = format!("/extensions/{index}");
            let hook = hook(item.as_str().unwrap_or_default(), self.setup.scripts.runtime);
            match hook {
                Ok((path, hook)) => match self.around.files.read_file(&path) {
                    Ok(_) => self.suite.hooks.push(hook),
                    Err(err) => self.sink.report_file(piece, &at, &err),
                },
                Err(problem) => self.sink.report(piece, &at, vec![problem]),
            }
        }
    }
}

/// Returns the path and the function that a text such as `file://hooks.js:afterAll` names.
///
/// Fails if the text has another form, the function is a hook before a run, or the file has an unsupported language.
fn hook(written: &str, runtime: ScriptRuntime) -> Result<(String, Hook), Problem> {
    let named = written.strip_prefix(FILE).and_then(|it| it.rsplit_once(':'));
    let named = named.filter(|(path, function)| !path.is_empty() && !function.contains(['/', '.']));
    let Some((path, function)) = named else {
        let problem = Problem::new("", "expected a file and a function of it".to_owned());
        return Err(problem.with_help("write `file://hooks.js:afterAll`"));
    };
    if BEFORE.contains(&function) {
        let problem = Problem::new("", format!("`{function}` is not called in a `kindlm.yaml`"));
        return Err(problem.with_help("write what the function returns into the suite"));
    }
    let path = path.trim_start_matches("./").to_owned();
    let (runtime, source) = match path.rsplit('.').next() {
        Some("py") => {
            let function = Some(function.to_owned());
            (ScriptRuntime::Python, ScriptSource::File { path: path.clone(), function })
        }
        Some("js" | "cjs" | "mjs" | "ts" | "cts" | "mts") => {
            let (name, usage) = (Some(function.to_owned()), ExportUse::Value);
            (runtime, ScriptSource::Export { path: path.clone(), name, usage })
        }
        _ => {
            let problem = Problem::new("", format!("`{path}` is not a program"));
            return Err(problem.with_help("name a file in JavaScript, TypeScript or Python"));
        }
    };
    let event = HookEvent::ALL.into_iter().find(|it| it.as_str() == function);
    let name = format!("{path}:{function}");
    Ok((path, Hook::new(name, runtime, source, event)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_a_function_of_a_file() {
        for (written, expected) in [
            ("file://a.js:afterAll", Some(("a.js", Some(HookEvent::AfterAll)))),
            ("file://./a/b.py:afterEach", Some(("a/b.py", Some(HookEvent::AfterEach)))),
            ("file://a.py:extension_hook", Some(("a.py", None))),
            ("file://a.js:beforeAll", None),
            ("file://a.js", None),
            ("file://a.go:afterAll", None),
            ("a.js:afterAll", None),
        ] {
            let hook = hook(written, ScriptRuntime::QuickJs).ok();
            let hook = hook.as_ref().map(|(path, hook)| (path.as_str(), hook.event));
            assert_eq!(hook, expected, "{written}");
        }
    }
}
