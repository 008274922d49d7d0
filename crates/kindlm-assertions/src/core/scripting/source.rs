//! References to script files: `file://check.js`, `file://check.js:function`.

use std::sync::Arc;

use kindlm_types::Problem;

use crate::Setup;

/// The extensions of files with JavaScript or TypeScript.
pub(crate) const JAVASCRIPT: [&str; 6] = [".js", ".cjs", ".mjs", ".ts", ".cts", ".mts"];

/// The prefix of a reference to a script file.
const FILE: &str = "file://";

/// A script file that a text refers to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScriptFile {
    /// The path, relative to the folder of the config file.
    pub(crate) path: String,
    /// The name of the function to call; `None` for the language's default function.
    pub(crate) function: Option<String>,
    /// The text of the file.
    pub(crate) text: Arc<str>,
}

/// Returns the script file that a text refers to; `None` for any other text.
///
/// The function follows the file extension, so an earlier colon belongs to the path. A file that cannot be read is a
/// problem, and so is a file extension that is not in `endings`.
pub(crate) fn script_file(
    text: &str,
    endings: &[&str],
    setup: &Setup<'_>,
) -> Option<Result<ScriptFile, Problem>> {
    let named = text.strip_prefix(FILE)?;
    let (path, function) = split(named, endings);
    if !has_ending(path, endings) {
        let message = format!("`{path}` is not a script: unsupported file extension");
        let help = format!("scripts are {} files", endings.join(", "));
        return Some(Err(Problem::new("", message).with_help(help)));
    }
    let path = path.trim_start_matches("./").to_owned();
    let function = function.filter(|it| !it.is_empty()).map(str::to_owned);
    Some(setup.texts.load_text(&path, setup.files).map(|text| ScriptFile { path, function, text }))
}

fn split<'t>(named: &'t str, endings: &[&str]) -> (&'t str, Option<&'t str>) {
    for (colon, _) in named.match_indices(':') {
        let (path, function) = (&named[..colon], &named[colon + 1..]);
        if has_ending(path, endings) {
            return (path, Some(function));
        }
    }
    (named, None)
}

fn has_ending(path: &str, endings: &[&str]) -> bool {
    let path = path.to_ascii_lowercase();
    endings.iter().any(|it| path.ends_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_comes_after_the_ending() {
        for (named, expected) in [
            ("a.js", ("a.js", None)),
            ("a.js:check", ("a.js", Some("check"))),
            ("c:/x/a.mjs:check", ("c:/x/a.mjs", Some("check"))),
            ("A.JS:check", ("A.JS", Some("check"))),
            ("a.txt:check", ("a.txt:check", None)),
        ] {
            assert_eq!(split(named, &[".js", ".mjs"]), expected, "{named}");
        }
    }
}
