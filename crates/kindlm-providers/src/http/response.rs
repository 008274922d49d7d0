//! `transformResponse`: a script that reads the answer.

use kindlm_types::Problem;
#[cfg(feature = "http")]
use kindlm_types::Prompt;
#[cfg(feature = "http")]
use kindlm_types::ecma;
use kindlm_types::script::ScriptSource;
#[cfg(feature = "http")]
use serde_json::{Map, Value, json};

#[cfg(feature = "http")]
use crate::HttpResponse;
use crate::dialect::code::is_function;
#[cfg(feature = "http")]
use crate::dialect::prompt::prompt_text;

/// The parameters of the script.
const PARAMS: [&str; 4] = ["json", "text", "context", "process"];

/// The file extensions of scripts.
const ENDINGS: [&str; 6] = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"];

/// Parses `transformResponse`, which is code or a file. Code is an expression of `json`, `text` and `context`, or a
/// function of them. A file begins with `file://`. Fails for a file with an unsupported extension.
pub(super) fn source(text: &str) -> Result<ScriptSource, Problem> {
    let text = text.trim();
    if let Some(named) = text.strip_prefix("file://") {
        let (path, function) = match named.rsplit_once(':') {
            Some((path, function)) if ENDINGS.iter().any(|it| path.ends_with(it)) => {
                (path, Some(function.to_owned()))
            }
            _ => (named, None),
        };
        if !ENDINGS.iter().any(|it| path.ends_with(it)) {
            let help = format!("scripts are {} files", ENDINGS.join(", "));
            let message = format!("`{path}` is not a supported script");
            return Err(Problem::new("/transformResponse", message).with_help(help));
        }
        let path = path.trim_start_matches("./").to_owned();
        return Ok(ScriptSource::File { path, function });
    }
    let call = if is_function(text) { "(json, text, context)" } else { "" };
    let code = format!("return ({}){call}", text.trim_end_matches(';'));
    Ok(ScriptSource::Body { params: PARAMS.map(str::to_owned).to_vec(), code: code.into() })
}

/// Returns the script's arguments for an answer, as JSON texts.
#[cfg(feature = "http")]
pub(super) fn arguments(prompt: &Prompt, response: &HttpResponse, latency_ms: f64) -> Vec<String> {
    let text = String::from_utf8_lossy(&response.body);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let parsed: Value = serde_json::from_str(text).unwrap_or_default();
    let context = json!({
        "response": {
            "data": text,
            "status": response.status,
            "headers": headers(response),
            "cached": false,
            "latencyMs": latency_ms,
        },
        "prompt": prompt_text(prompt),
    });
    [parsed, text.into(), context].iter().map(ecma::stringify).collect()
}

/// Returns the headers of an answer, without headers that hold credentials.
#[cfg(feature = "http")]
pub(super) fn headers(response: &HttpResponse) -> Map<String, Value> {
    let is_shown =
        |name: &str| !matches!(name, "set-cookie" | "authorization" | "proxy-authenticate");
    let shown = response.headers.iter().filter(|(name, _)| is_shown(name));
    shown.map(|(name, value)| (name.clone(), value.as_str().into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_files_and_their_functions() {
        let file = |path: &str, function: Option<&str>| ScriptSource::File {
            path: path.to_owned(),
            function: function.map(str::to_owned),
        };
        for (text, expected) in [
            ("file://a.js", file("a.js", None)),
            ("file://./lib/a.ts:pick", file("lib/a.ts", Some("pick"))),
        ] {
            assert_eq!(source(text), Ok(expected), "{text}");
        }
        assert!(source("file://a.py").is_err());
    }
}
