//! Detection of globs for excluded folders such as `.git`.
//!
//! A check of these folders would always give the same result, because they are never read.

use std::ffi::OsStr;

use globset::GlobBuilder;
use kindlm_types::FileTree;

/// The highest number of alternatives that are expanded. Further braces are not expanded.
const ALTERNATIVES: usize = 1000;

/// Sample names. A glob that matches one of them is a glob for arbitrary names.
const NEUTRAL: [&str; 3] = ["x", ".x", "a.b"];

/// The part of a path or a glob that names an excluded folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// This part is the name of the folder.
    Is(String),
    /// A part is a glob that matches the folder.
    MayBe,
}

/// Returns the first part of a glob that names an excluded folder; `None` if no part does.
///
/// The braces of the glob are expanded first.
pub(super) fn left_out(glob: &str) -> Option<LeftOut> {
    let alternatives = alternatives(glob);
    let mut parts = alternatives.iter().flat_map(|it| it.split('/'));
    parts.find_map(|part| {
        if FileTree::leaves_out(OsStr::new(part)) {
            return Some(LeftOut::Is(part.to_owned()));
        }
        means_it(part).then_some(LeftOut::MayBe)
    })
}

/// Returns true if a glob with at least two literal characters matches an excluded folder, but no arbitrary names.
///
/// `.gi?` and `*git` are such globs. `.*` and `*` match arbitrary names, so the result is false for them.
fn means_it(part: &str) -> bool {
    let letters = part.chars().filter(|it| !"*?[]{},\\".contains(*it)).count();
    let glob = GlobBuilder::new(part).literal_separator(true).build().ok().filter(|_| letters > 1);
    glob.is_some_and(|it| {
        let it = it.compile_matcher();
        FileTree::LEFT_OUT.iter().any(|name| it.is_match(name))
            && !NEUTRAL.iter().any(|name| it.is_match(name))
    })
}

/// Expands the braces of a glob: `a{b,c}` gives `ab` and `ac`. Stops at the highest number of alternatives.
pub(super) fn alternatives(glob: &str) -> Vec<String> {
    let (mut open, mut done) = (vec![glob.to_owned()], Vec::new());
    while let Some(glob) = open.pop() {
        match braces(&glob) {
            Some((before, options, behind)) if open.len() + done.len() < ALTERNATIVES => {
                open.extend(options.iter().rev().map(|it| format!("{before}{it}{behind}")));
            }
            _ => done.push(glob),
        }
    }
    done
}

/// Returns the first braces of a glob; `None` if it has no complete braces.
///
/// The result has the text before the braces, the alternatives, and the text after the braces.
fn braces(glob: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (mut depth, mut start, mut option) = (0_usize, 0, 0);
    let mut options = Vec::new();
    let mut letters = glob.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => _ = letters.next(),
            '[' => {
                // A `]` at the first position is a member of the class and does not close it.
                letters.next_if(|it| matches!(it.1, '!' | '^'));
                letters.next_if(|it| it.1 == ']');
                letters.find(|it| it.1 == ']')?;
            }
            '{' => {
                depth += 1;
                if depth == 1 {
                    (start, option) = (at, at + 1);
                }
            }
            ',' if depth == 1 => {
                options.push(&glob[option..at]);
                option = at + 1;
            }
            '}' if depth == 1 => {
                options.push(&glob[option..at]);
                return Some((&glob[..start], options, &glob[at + 1..]));
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_written_out() {
        for (glob, expected) in [
            ("a", vec!["a"]),
            ("a{b,c}d", vec!["abd", "acd"]),
            ("{a,{b,c}/d}{,e}", vec!["a", "ae", "b/d", "b/de", "c/d", "c/de"]),
            (r"\{a,b}", vec![r"\{a,b}"]),
            ("[{]a,b}", vec!["[{]a,b}"]),
            ("[]{]{a,b}", vec!["[]{]a", "[]{]b"]),
            ("{a", vec!["{a"]),
        ] {
            assert_eq!(sorted(alternatives(glob)), sorted(expected), "{glob}");
        }
        assert!(alternatives(&"{a,b}".repeat(40)).len() <= 2 * ALTERNATIVES);
    }

    fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
        all.sort();
        all
    }

    #[test]
    fn ignored_paths_are_found_in_any_notation() {
        for glob in [
            ".git",
            ".git/config",
            "a/.kindlm",
            ".gi?/config",
            ".{git,hg}/config",
            "{.g,x}it/config",
            r"\.git/config",
            "[.]{git,hg}/x",
            "[!a]git/x",
            "*git/config",
            "?git/config",
            "**/.{git,x}/hooks",
            "{a/.git,b}/c",
            "{src,.kind*}",
        ] {
            assert!(left_out(glob).is_some(), "{glob}");
        }
        for glob in
            ["*", "**/*.ts", ".*", "*.*", "[a-z.]*", ".{env,npmrc}", "src/{a,b}.ts", "git", "*t"]
        {
            assert_eq!(left_out(glob), None, "{glob}");
        }
    }
}
