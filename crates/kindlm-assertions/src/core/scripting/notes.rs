//! The label of a script in reports, and the notes beside its verdict.

use kindlm_types::AssertionResult;
use kindlm_types::script::ScriptRuntime;

/// Returns the language and the first line of the code, cut to 60 characters.
pub(crate) fn label(language: &str, code: &str) -> String {
    const SHOWN: usize = 60;
    let mut lines = code.trim().lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let shown: String = first.chars().take(SHOWN).collect();
    let more = if shown.len() < first.len() || lines.next().is_some() { "…" } else { "" };
    format!("{language}: {shown}{more}")
}

/// Adds the script's console output to a result.
///
/// If the script ran outside the sandbox, the result also gets `sandboxed: false` in its metadata.
pub(crate) fn with_console(
    result: AssertionResult,
    runtime: ScriptRuntime,
    console: &[String],
) -> AssertionResult {
    let result = match runtime {
        ScriptRuntime::QuickJs => result,
        ScriptRuntime::Node | ScriptRuntime::Python | ScriptRuntime::Ruby => {
            result.with_metadata("sandboxed", false)
        }
    };
    if console.is_empty() { result } else { result.with_metadata("console", console.to_vec()) }
}
