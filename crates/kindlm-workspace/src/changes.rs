//! Finds the file changes between the starting state of a workspace and the state after the agent.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use kindlm_types::workspace::{ChangeKind, FileChange};
use similar::algorithms::{Capture, Compact, IdentifyDistinct, Replace, myers};
use similar::udiff::UnifiedHunkHeader;

use crate::inside::Inside;
use crate::tree::{Entry, FolderEntry, Limits, Tree, walk};

/// The time limit for computing the smallest diff of one file.
///
/// After the limit, a longer diff is used.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of unchanged lines before and after each change of a diff.
const CONTEXT: usize = 3;

/// The number of bytes that are read from the start of a large file. A NUL byte among them means a binary file.
const SAMPLE: usize = 8 * 1024;

/// Compiles path globs such as `node_modules/**`. Fails for an invalid glob.
///
/// `*` matches within one path component.
pub(crate) fn globs(globs: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let built = GlobBuilder::new(glob).literal_separator(true).build();
        set.add(built.map_err(|err| format!("`{glob}` is not a valid glob: {}", err.kind()))?);
    }
    set.build().map_err(|err| err.to_string())
}

/// Returns the changes between two folders.
///
/// `before` is the listing of the folder `start`.
///
/// The texts and diffs of all changes together are limited to `room` bytes. Fails if one of the `limits` is exceeded,
/// or if a file cannot be read.
pub(crate) fn changes(
    (start, before): (&Inside, &Tree),
    end: &Inside,
    ignore: &GlobSet,
    limits: Limits,
    mut room: u64,
) -> Result<Vec<FileChange>, String> {
    let after = walk(end, limits).map_err(|err| err.describe("the agent's result"))?;
    let mut changes = Vec::new();
    // Describe deleted files last, because `room` should be used for the texts of existing files first.
    let differing = differing((start, before), (end, &after), ignore)?.into_iter();
    let (gone, there): (Vec<_>, Vec<_>) =
        differing.partition(|(_, kind)| *kind == ChangeKind::Deleted);
    for (path, kind) in there.into_iter().chain(gone) {
        let (was, is) = (before.get(&path), after.get(&path));
        let entries = (was.map(|it| &it.entry), is.map(|it| &it.entry));
        let change = FileChange { path, change: kind, ..FileChange::default() };
        changes.push(described(change, start, end, entries, &mut room)?);
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(changes)
}

/// Returns the changed paths, each with the kind of change.
///
/// Ignored paths are left out. Fails if a file that exists in both folders cannot be read.
fn differing(
    (start, before): (&Inside, &Tree),
    (end, after): (&Inside, &Tree),
    ignore: &GlobSet,
) -> Result<BTreeMap<String, ChangeKind>, String> {
    let mut differing = BTreeMap::new();
    for (path, is) in after.iter().filter(|(path, _)| !ignore.is_match(path)) {
        let kind = match before.get(path) {
            None => ChangeKind::Added,
            Some(was) if was.entry != is.entry => ChangeKind::Changed,
            Some(FolderEntry { entry: Entry::File { .. }, .. }) => {
                let same = is_same((start, end), Path::new(path))
                    .map_err(|err| format!("cannot compare `{path}`: {err}"))?;
                if same {
                    continue;
                }
                ChangeKind::Changed
            }
            Some(_) => continue,
        };
        differing.insert(path.clone(), kind);
    }
    let gone = before.keys().filter(|path| !after.contains_key(*path) && !ignore.is_match(path));
    differing.extend(gone.map(|path| (path.clone(), ChangeKind::Deleted)));
    Ok(differing)
}

/// Returns true if a file has the same content in both folders. Fails if one of the files cannot be read.
fn is_same((one, other): (&Inside, &Inside), path: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (one.file(path)?, other.file(path)?);
    let (mut a, mut b) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let count = one.read(&mut a)?;
        if count == 0 {
            return Ok(other.read(&mut b)? == 0);
        }
        match other.read_exact(&mut b[..count]) {
            Ok(()) if a[..count] == b[..count] => {}
            Ok(()) => return Ok(false),
            Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(err) => return Err(err),
        }
    }
}

/// Adds the link, size, mode, text and diff to a change. Fails if the old or new file cannot be read.
fn described(
    mut change: FileChange,
    start: &Inside,
    end: &Inside,
    (was, is): (Option<&Entry>, Option<&Entry>),
    room: &mut u64,
) -> Result<FileChange, String> {
    if let Some(Entry::Link(leads_to)) = is {
        change.link = Some(leads_to.display().to_string());
    }
    if let (Some(Entry::File { executable: was, .. }), Some(Entry::File { executable: is, .. })) =
        (was, is)
        && was != is
    {
        change.executable = Some(*is);
    }
    let at = Path::new(&change.path);
    let failed = |err: io::Error| format!("cannot read `{}`: {err}", change.path);
    let old = content(was, (start, at), *room).map_err(failed)?;
    let new = content(is, (end, at), *room).map_err(failed)?;
    if let Some(Entry::File { bytes, .. }) = is {
        change.bytes = *bytes;
    }
    change.binary = [&old, &new].into_iter().any(|it| matches!(it, Content::Binary));
    change.cut = matches!(new, Content::TooLarge)
        || (matches!(old, Content::TooLarge)
            && (matches!(new, Content::Text(_)) || change.change == ChangeKind::Deleted));
    // A text that replaces a binary file is stored in full, as there is no diff.
    if change.cut || (change.binary && !matches!(new, Content::Text(_))) {
        return Ok(change);
    }
    let new = match (new, &old) {
        (Content::Text(new), _) => Some(new),
        // The diff of a deleted file lists all lines of the file.
        (_, Content::Text(_)) if change.change == ChangeKind::Deleted => None,
        _ => return Ok(change),
    };
    let patch = match &old {
        Content::Text(old) if Some(old) != new.as_ref() => {
            Some(patch(&change.path, old, new.as_deref()))
        }
        _ => None,
    };
    let size = new.as_ref().map_or(0, |it| it.len() as u64)
        + patch.as_ref().map_or(0, |it| it.len() as u64);
    if size > *room {
        change.cut = true;
        return Ok(change);
    }
    *room -= size;
    (change.text, change.patch) = (new, patch);
    Ok(change)
}

/// The content of a file.
enum Content {
    /// The file does not exist or is not a regular file.
    None,
    Text(String),
    Binary,
    /// The file is larger than the remaining space for texts.
    TooLarge,
}

fn content(
    entry: Option<&Entry>,
    (folder, path): (&Inside, &Path),
    room: u64,
) -> io::Result<Content> {
    let Some(Entry::File { bytes, .. }) = entry else { return Ok(Content::None) };
    if *bytes > room {
        let mut sample = Vec::new();
        folder.file(path)?.take(SAMPLE as u64).read_to_end(&mut sample)?;
        return Ok(if sample.contains(&0) { Content::Binary } else { Content::TooLarge });
    }
    let mut bytes = Vec::new();
    folder.file(path)?.read_to_end(&mut bytes)?;
    // A file with a NUL byte counts as binary, as in git. Bytes that are not UTF-8 are replaced.
    Ok(if bytes.contains(&0) {
        Content::Binary
    } else {
        Content::Text(String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// Returns the unified diff of two texts in git's format. `new` is `None` for a deleted file.
fn patch(path: &str, old: &str, new: Option<&str>) -> String {
    let to = new.map_or_else(|| "/dev/null".to_owned(), |_| format!("b/{path}"));
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.unwrap_or_default().split_inclusive('\n').collect();
    let ids = IdentifyDistinct::<u32>::new(&old[..], 0..old.len(), &new[..], 0..new.len());
    let mut hook = Compact::new(Replace::new(Capture::new()), &old[..], &new[..]);
    let deadline = Instant::now() + PATIENCE;
    // `similar::TextDiff` would compile every diff algorithm of that crate into the binary.
    let Ok(()) = myers::diff_deadline(
        &mut hook,
        ids.old_lookup(),
        ids.old_range(),
        ids.new_lookup(),
        ids.new_range(),
        Some(deadline),
    );
    let mut text = String::new();
    for hunk in hook.into_inner().into_inner().into_grouped_ops(CONTEXT) {
        if text.is_empty() {
            let _ = writeln!(text, "--- a/{path}\n+++ {to}");
        }
        let _ = writeln!(text, "{}", UnifiedHunkHeader::new(&hunk));
        for change in hunk.iter().flat_map(|op| op.iter_changes(&old[..], &new[..])) {
            let _ = write!(text, "{}{}", change.tag(), change.value());
            if !change.value().ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_changes_are_hunks_of_their_own() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "0\n1\n2\n3\n4\n5\n6\n7\n8\nnine";
        assert_eq!(
            patch("a", old, Some(new)),
            "--- a/a\n+++ b/a\n@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -6,4 +7,4 @@\n 6\n 7\n 8\n-9\n+nine\n\
             \\ No newline at end of file\n"
        );
        assert_eq!(patch("a", old, Some(old)), "");
    }
}
