//! What checks of workspaces share: finding the evidence, and saying which files are meant.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};
use kindlm_types::workspace::{FileChange, Workspace};
use kindlm_types::{AssertionResult, Problem};

use crate::behaviour::names;
use crate::codes::EVIDENCE_MISSING;
use crate::{Evidence, Own};

/// What the agent left behind; without it nothing can be said, whichever way round a check is written.
pub(crate) fn workspace<'e>(
    evidence: &Evidence<'e>,
    id: &str,
    label: &str,
) -> Result<&'e Workspace, Vec<AssertionResult>> {
    evidence.execution.workspace.as_deref().ok_or_else(|| {
        missing(id, label, "The agent had no workspace: give the test a `workspace`")
    })
}

/// The result of a check whose evidence is not there.
pub(crate) fn missing(id: &str, label: &str, why: impl Into<String>) -> Vec<AssertionResult> {
    vec![AssertionResult::errored(id, label, EVIDENCE_MISSING, why)]
}

/// A path, or a glob for paths. What is a path letter by letter is meant, even if it looks like a glob.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    written: String,
    glob: GlobMatcher,
}

impl Paths {
    /// As it is written at a place.
    pub(crate) fn new(written: &str, at: &str) -> Result<Self, Vec<Problem>> {
        let plain = written.trim_start_matches("./").to_owned();
        let leads_out = plain.starts_with('/') || plain.split('/').any(|it| it == "..");
        if plain.is_empty() || leads_out {
            let message = format!("`{written}` is no path within a workspace");
            let help = "write it from the top of the workspace: `src/cart.ts` or `src/**/*.ts`";
            return Err(vec![Problem::new(at, message).with_help(help)]);
        }
        let glob = GlobBuilder::new(&plain).literal_separator(true).build();
        let glob = glob.map_err(|err| {
            vec![Problem::new(at, format!("`{written}` is no usable glob: {}", err.kind()))]
        })?;
        Ok(Self { written: plain, glob: glob.compile_matcher() })
    }

    /// Whether a path is meant.
    pub(crate) fn is_meant(&self, path: &str) -> bool {
        path == self.written || self.glob.is_match(path)
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// What has changed, in words: `Changed: +new.ts, src/cart.ts, -old.ts`.
pub(crate) fn changed(changes: &[FileChange]) -> String {
    use kindlm_types::workspace::ChangeKind;
    let marked: Vec<String> = changes
        .iter()
        .map(|it| match it.change {
            ChangeKind::Added => format!("+{}", it.path),
            ChangeKind::Changed => it.path.clone(),
            ChangeKind::Deleted => format!("-{}", it.path),
        })
        .collect();
    format!("Changed: {}", names(marked.iter().map(String::as_str)))
}

/// The result of a check that is decided.
pub(crate) fn decided(
    id: &str,
    label: &str,
    own: Own,
    holds: bool,
    reason: String,
) -> Vec<AssertionResult> {
    vec![crate::grade::Grade::with(holds != own.negate, reason).result(id, label)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_meant_letter_by_letter_or_by_a_glob() {
        for (written, path, meant) in [
            ("src/cart.ts", "src/cart.ts", true),
            ("./src/cart.ts", "src/cart.ts", true),
            ("src/cart.ts", "src/Cart.ts", false),
            ("src/*.ts", "src/cart.ts", true),
            ("src/*.ts", "src/a/cart.ts", false),
            ("src/**/*.ts", "src/a/cart.ts", true),
            ("**/*.ts", "cart.ts", true),
            ("app/[id]/page.tsx", "app/[id]/page.tsx", true),
        ] {
            let paths = Paths::new(written, "/value").unwrap();
            assert_eq!(paths.is_meant(path), meant, "{written} {path}");
        }
        for written in ["", "/etc/passwd", "../x", "a/../../x", "a[", "./"] {
            assert_eq!(Paths::new(written, "/value").unwrap_err()[0].pointer, "/value");
        }
    }
}
