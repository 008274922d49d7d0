//! The shared parts of checks of workspaces: the evidence, and the patterns for files.

mod left_out;

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};
use kindlm_types::workspace::{FileChange, Workspace};
use kindlm_types::{AssertionResult, FileTree, Problem, ResultEvidence};

use crate::core::codes::EVIDENCE_MISSING;
use crate::core::result_evidence::{MOST, absent_in, other, trajectory};
use crate::shared::words::names;
use crate::{EntryOptions, Evidence};
use left_out::{LeftOut, alternatives, left_out};

/// Returns the workspace as the agent left it.
///
/// Without a workspace, the error is an errored result, also for negated checks.
pub(crate) fn workspace<'e>(
    evidence: &Evidence<'e>,
    id: &str,
    label: &str,
) -> Result<&'e Workspace, Vec<AssertionResult>> {
    evidence.execution.workspace.as_deref().ok_or_else(|| {
        missing(id, label, "the agent had no workspace: give the test a `workspace`")
    })
}

/// Returns the errored result of a check without evidence.
pub(crate) fn missing(id: &str, label: &str, why: impl Into<String>) -> Vec<AssertionResult> {
    vec![AssertionResult::errored(id, label, EVIDENCE_MISSING, why)]
}

/// A path, or a glob for paths.
///
/// A path that equals `written` matches, even if `written` looks like a glob. If `written` names a folder, or may name
/// a folder, everything inside that folder matches.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    written: String,
    /// True if the configured path ends with `/`, so that only a folder can match.
    is_folder: bool,
    glob: GlobMatcher,
    /// The matcher of the files inside the folder; equal to `glob` if `written` cannot name a folder.
    inside: GlobMatcher,
}

impl Paths {
    /// Parses a path. `at` is its place in the configuration.
    ///
    /// Fails for a path that [`plain`] rejects, and for an invalid glob.
    pub(crate) fn new(written: &str, at: &str) -> Result<Self, Vec<Problem>> {
        let help = "write the path relative to the workspace, with `/` between parts: `src/cart.ts`, `src/**/*.ts`, \
            or `src/` for all its files";
        let plain = plain(written, at, help)?;
        let glob = |text: &str| {
            let glob = GlobBuilder::new(text).literal_separator(true).build();
            glob.map(|it| it.compile_matcher()).map_err(|err| {
                vec![Problem::new(at, format!("`{written}` is not a valid glob: {}", err.kind()))]
            })
        };
        let is_folder = written.ends_with('/');
        // `src/*.ts` and `src/*` match direct children only.
        let last = plain.rsplit('/').next().unwrap_or(&plain);
        let may_be_folder = is_folder || !last.contains(['*', '?']);
        let inside = if may_be_folder { format!("{plain}/**") } else { plain.clone() };
        Ok(Self { is_folder, glob: glob(&plain)?, inside: glob(&inside)?, written: plain })
    }

    /// Fails if `workspace.ignore` covers these files, because their changes are then not recorded.
    ///
    /// The error is the errored result of the check.
    pub(crate) fn check_recorded(
        &self,
        workspace: &Workspace,
        id: &str,
        label: &str,
    ) -> Result<(), Vec<AssertionResult>> {
        let Some(glob) = workspace.ignored.iter().find(|it| self.is_within(it)) else {
            return Ok(());
        };
        let message = format!(
            "Changes of `{self}` are not recorded, because `workspace.ignore` has `{glob}`: remove it from there, or \
             use `file-matches`, which reads the file itself"
        );
        Err(missing(id, label, message))
    }

    /// Returns true if a glob covers all of these files.
    ///
    /// The glob must match `written` itself, or any file in the folder `written`.
    fn is_within(&self, glob: &str) -> bool {
        let Ok(matcher) = GlobBuilder::new(glob).literal_separator(true).build() else {
            return false;
        };
        let matcher = matcher.compile_matcher();
        matcher.is_match(&self.written) || matcher.is_match(format!("{self}/x"))
    }

    /// Returns globs that together match the same files as these paths.
    pub(crate) fn globs(&self) -> Vec<String> {
        let plain = globset::escape(&self.written);
        let mut globs = vec![format!("{plain}/**"), self.inside.glob().glob().to_owned()];
        if !self.is_folder {
            globs.extend([plain, self.glob.glob().glob().to_owned()]);
        }
        globs
    }

    /// Returns true if a path matches.
    pub(crate) fn is_meant(&self, path: &str) -> bool {
        let is_it = || path == self.written || self.glob.is_match(path);
        let below = path.strip_prefix(&self.written).is_some_and(|it| it.starts_with('/'));
        below || self.inside.is_match(path) || (!self.is_folder && is_it())
    }
}

/// Normalizes a path: relative to the workspace, without `.` and empty parts.
///
/// Fails for the workspace itself, a path outside the workspace, a Windows path, and a path in an excluded folder.
fn plain(written: &str, at: &str, help: &str) -> Result<String, Vec<Problem>> {
    let parts = written.split('/').filter(|it| !it.is_empty() && *it != ".");
    let plain = parts.collect::<Vec<_>>().join("/");
    let drive = written.get(1..3).is_some_and(|it| it == ":/" || it == ":\\");
    let leads_out = written.starts_with('/')
        || alternatives(&plain).iter().any(|it| it.split('/').any(|it| it == ".."));
    // In a glob, a backslash before a letter or digit has no meaning, so this is a Windows path.
    let mut after = written.split('\\').skip(1);
    let is_windows = after.any(|it| it.starts_with(|it: char| it.is_alphanumeric()));
    if plain.is_empty() || leads_out || drive || is_windows {
        let message = format!("`{written}` is not a path within a workspace");
        return Err(vec![Problem::new(at, message).with_help(help)]);
    }
    if let Some(found) = left_out(&plain) {
        let message = match found {
            LeftOut::Is(part) => format!("`{written}` is in `{part}`, which is never read"),
            LeftOut::MayBe => {
                let names = FileTree::LEFT_OUT.join("` and `");
                format!("`{written}` may match `{names}`, which are never read")
            }
        };
        let help = "use `command-succeeded` with a command that looks there, such as `git diff --exit-code main`";
        return Err(vec![Problem::new(at, message).with_help(help)]);
    }
    Ok(plain)
}

/// Returns the normalized path of a file in the workspace, in the form of paths in recorded evidence.
///
/// A folder is a problem, and so is every path that [`plain`] rejects.
pub(crate) fn stays_inside(written: &str, at: &str) -> Result<String, Vec<Problem>> {
    if written.ends_with('/') {
        let message = format!("`{written}` is a folder, not a file");
        return Err(vec![Problem::new(at, message).with_help("name the file in it")]);
    }
    let help = "write the path relative to the workspace, with `/` between parts: `out/junit.xml`";
    plain(written, at, help)
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Formats the changes, such as `Changed: +new.ts, src/cart.ts, -old.ts`.
pub(crate) fn changed(changes: &[FileChange]) -> String {
    let marked: Vec<String> = changes.iter().map(FileChange::marked).collect();
    format!("Changed: {}", names(marked.iter().map(String::as_str)))
}

/// Returns the evidence of unwanted changes; without changes, the evidence that the change `missing` is absent.
pub(crate) fn change_evidence<'c>(
    changes: impl IntoIterator<Item = &'c FileChange>,
    missing: &str,
) -> ResultEvidence {
    let changes: Vec<String> = changes.into_iter().take(MOST).map(FileChange::marked).collect();
    if changes.is_empty() {
        return absent_in(other("the changes"), [missing]);
    }
    trajectory([""; 0], changes)
}

/// Returns the result of a check that the evidence decides, inverted for `not-`.
pub(crate) fn decided(
    id: &str,
    label: &str,
    own: EntryOptions,
    holds: bool,
    reason: String,
) -> Vec<AssertionResult> {
    vec![crate::core::grade::Grade::with(holds != own.negate, reason).result(id, label)]
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
            // A folder matches everything inside it, in any notation.
            ("migrations", "migrations/1.sql", true),
            ("migrations/", "migrations/old/1.sql", true),
            ("./migrations/", "migrations/1.sql", true),
            ("migrations", "migrations2/1.sql", false),
            ("migrations/", "migrations", false),
            ("packages/*/migrations", "packages/a/migrations/1.sql", true),
            ("app/[id]", "app/[id]/page.tsx", true),
            ("src/*", "src/a/cart.ts", false),
            (".//src/./cart.ts", "src/cart.ts", true),
        ] {
            let paths = Paths::new(written, "/value").unwrap();
            assert_eq!(paths.is_meant(path), meant, "{written} {path}");
            let glob = |it: &String| GlobBuilder::new(it).literal_separator(true).build().unwrap();
            let globs = paths.globs();
            let by_glob = globs.iter().any(|it| glob(it).compile_matcher().is_match(path));
            assert_eq!(by_glob, meant, "{globs:?} {path}");
        }
        assert!(Paths::new(".git/config", "/value").unwrap_err()[0].message.contains("never"));
        for (written, glob, within) in [
            ("dist/a.js", "dist/**", true),
            ("dist", "dist/**", true),
            ("dist/", "dist/**", true),
            ("dist/**", "dist/**", true),
            ("**/*.log", "**/*.log", true),
            ("src/a.log", "**/*.log", true),
            ("src/**", "**/*.log", false),
            ("src", "dist/**", false),
        ] {
            let is_within = Paths::new(written, "/value").unwrap().is_within(glob);
            assert_eq!(is_within, within, "{written} {glob}");
        }
        for written in
            ["", "/etc/passwd", "../x", "a/../../x", "a[", "./", ".", "/", "src\\cart.ts", "C:/x"]
        {
            assert_eq!(Paths::new(written, "/value").unwrap_err()[0].pointer, "/value");
        }
    }
}
