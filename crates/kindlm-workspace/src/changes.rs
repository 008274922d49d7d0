//! The changes between a start and the state in which an agent left it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use kindlm_types::workspace::{ChangeKind, FileChange};
use similar::TextDiff;

use crate::inside::Inside;
use crate::tree::{Entry, Found, Limits, Tree, walk};

/// The longest search for the smallest diff of one file; after that, a larger diff is used.
const PATIENCE: Duration = Duration::from_secs(1);

/// The part of a file that decides whether it is text, in bytes.
const SAMPLE: usize = 8 * 1024;

/// Globs of paths, such as `node_modules/**`. `*` stays within one part of a path.
pub(crate) fn globs(globs: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let built = GlobBuilder::new(glob).literal_separator(true).build();
        set.add(built.map_err(|err| format!("`{glob}` is no usable glob: {}", err.kind()))?);
    }
    set.build().map_err(|err| err.to_string())
}

/// Compares two folders; the contents of the first are already listed. Stores at most so many bytes of texts and
/// diffs.
pub(crate) fn changes(
    (start, before): (&Inside, &Tree),
    end: &Inside,
    ignore: &GlobSet,
    limits: Limits,
    mut room: u64,
) -> Result<Vec<FileChange>, String> {
    let after = walk(end, limits).map_err(|err| err.words("what the agent left behind"))?;
    let mut changes = Vec::new();
    // List deleted files last, so that they take no room from existing ones.
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

/// The paths that differ, and the kinds of their changes. Ignored paths are not even read.
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
            Some(Found { entry: Entry::File { .. }, .. }) => {
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

/// True if two files of the same size have the same content.
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

/// A change with its description.
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
    // A text that replaces a binary file is stored whole, as there is no diff of it.
    if change.cut || (change.binary && !matches!(new, Content::Text(_))) {
        return Ok(change);
    }
    let new = match (new, &old) {
        (Content::Text(new), _) => Some(new),
        // The lines of a deleted file are lines that were removed.
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
    /// It is not there, or is no regular file.
    None,
    Text(String),
    Binary,
    /// It is larger than there is room for.
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
    // As in git, a file with a NUL byte is no text. Of a text in another encoding, the ASCII characters can be read.
    Ok(if bytes.contains(&0) {
        Content::Binary
    } else {
        Content::Text(String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// The unified diff of two texts, as git writes it; the second is absent if the file was deleted.
fn patch(path: &str, old: &str, new: Option<&str>) -> String {
    let to = new.map_or_else(|| "/dev/null".to_owned(), |_| format!("b/{path}"));
    TextDiff::configure()
        .timeout(PATIENCE)
        .diff_lines(old, new.unwrap_or_default())
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{path}"), &to)
        .to_string()
}
