//! Formats the changes of an agent in its workspace for people.

use std::fmt::Write as _;

use kindlm_types::workspace::{ChangeKind, FileChange, Workspace};

use crate::amount::plural;

/// Lists the changed files as `+new.ts, src/cart.ts, -old.ts`.
///
/// Returns `None` if there are no changes.
pub(crate) fn listed(workspace: &Workspace) -> Option<String> {
    let marked: Vec<String> = workspace.changes.iter().map(FileChange::marked).collect();
    (!marked.is_empty()).then(|| marked.join(", "))
}

/// Returns the changes as text: a unified diff of each file, or a line about a file without a diff.
///
/// The text is empty if there are no changes.
pub(crate) fn diff(workspace: &Workspace) -> String {
    let mut all = String::new();
    for change in &workspace.changes {
        add(&mut all, change);
    }
    all
}

fn add(all: &mut String, change: &FileChange) {
    let path = &change.path;
    if let Some(patch) = &change.patch {
        all.push_str(patch);
        if !patch.ends_with('\n') {
            all.push('\n');
        }
    } else {
        let about = match (change.change, &change.link) {
            (ChangeKind::Deleted, _) => "deleted".to_owned(),
            (_, Some(leads_to)) => format!("a link to {leads_to}"),
            (kind, None) if change.binary => {
                format!("{}, no text, {}", kind.as_str(), plural(change.bytes, "byte"))
            }
            (kind, None) if change.cut => {
                let size = plural(change.bytes, "byte");
                format!("{}, {size}, content not stored", kind.as_str())
            }
            (kind, None) => kind.as_str().to_owned(),
        };
        let sign = if change.change == ChangeKind::Deleted { "---" } else { "+++" };
        // Writing to a string does not fail, so the result can be ignored.
        let _ = writeln!(all, "{sign} {path} ({about})");
        let text = change.text.as_deref().filter(|_| change.change == ChangeKind::Added);
        for line in text.unwrap_or_default().lines() {
            let _ = writeln!(all, "+{line}");
        }
    }
    if let Some(executable) = change.executable {
        let now = if executable { "is executable now" } else { "is no longer executable" };
        let _ = writeln!(all, "    {path} {now}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_like_a_diff() {
        let change = |path: &str, change| FileChange {
            path: path.to_owned(),
            change,
            ..FileChange::default()
        };
        let workspace = Workspace {
            changes: vec![
                FileChange {
                    patch: Some("--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-1\n+2\n".to_owned()),
                    text: Some("2\n".to_owned()),
                    executable: Some(true),
                    ..change("a.ts", ChangeKind::Changed)
                },
                FileChange { text: Some("x\ny\n".to_owned()), ..change("b.ts", ChangeKind::Added) },
                FileChange { binary: true, bytes: 1, ..change("c.png", ChangeKind::Added) },
                FileChange { cut: true, bytes: 9000, ..change("d.js", ChangeKind::Changed) },
                FileChange { link: Some("a.ts".to_owned()), ..change("e", ChangeKind::Added) },
                change("f.ts", ChangeKind::Deleted),
            ],
            ..Workspace::default()
        };
        assert_eq!(listed(&workspace).as_deref(), Some("a.ts, +b.ts, +c.png, d.js, +e, -f.ts"));
        let expected = "--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-1\n+2\n    a.ts is executable now\n+++ b.ts \
            (added)\n+x\n+y\n+++ c.png (added, no text, 1 byte)\n+++ d.js (changed, 9,000 bytes, content not \
            stored)\n+++ e (a link to a.ts)\n--- f.ts (deleted)\n";
        assert_eq!(diff(&workspace), expected);
        assert_eq!(
            (listed(&Workspace::default()), diff(&Workspace::default())),
            (None, String::new())
        );
    }
}
