//! Harmful operators on the changed files of a workspace.

use kindlm_types::Execution;
use kindlm_types::workspace::{ChangeKind, FileChange};
use kindlm_wire::mutation::MutatedEvidence;

use crate::Original;
use crate::choice::Choice;
use crate::operator::Operator;

/// The path and the text of the file that `add-file` adds.
const ADDED: (&str, &str) = ("unrequested-notes.md", "Notes that the task does not ask for.\n");

pub(crate) static FILES: [Operator; 3] = [
    Operator::harmful(
        MutatedEvidence::Files,
        "drop-file",
        "removes the change of a file",
        "no check requires this change: add `file-changed`",
        drop_file,
    ),
    Operator::harmful(
        MutatedEvidence::Files,
        "change-file",
        "changes an added line of a file",
        "no check looks at this line: add `file-matches`, `in-diff` or `tests`",
        change_file,
    ),
    Operator::harmful(
        MutatedEvidence::Files,
        "add-file",
        "adds a file that the task does not ask for",
        "no check limits the changed files: add `type: not-file-changed` for what the agent must not change",
        add_file,
    ),
];

fn drop_file(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let mut mutant = original.execution.clone();
    let workspace = mutant.workspace.as_deref_mut()?;
    // If a check reads the file, the mutant needs the earlier text of the file. A record lacks this text for changed
    // files.
    let can_drop = |it: &FileChange| {
        it.change == ChangeKind::Added || workspace.files.iter().all(|file| file.path != it.path)
    };
    let places: Vec<usize> = workspace
        .changes
        .iter()
        .enumerate()
        .filter_map(|(at, it)| can_drop(it).then_some(at))
        .collect();
    let dropped = workspace.changes.remove(*choice.pick(&places)?);
    for file in workspace.files.iter_mut().filter(|it| it.path == dropped.path) {
        file.text = None;
    }
    Some(mutant)
}

fn change_file(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let mut mutant = original.execution.clone();
    let workspace = mutant.workspace.as_deref_mut()?;
    let mut places = Vec::new();
    for (at, change) in workspace.changes.iter().enumerate() {
        let lines = added_lines(change);
        places.extend(lines.into_iter().map(|line| (at, line)));
    }
    let (at, line) = choice.pick(&places)?;
    let change = workspace.changes.get_mut(*at)?;
    let other = format!("{line} // changed");
    for text in [&mut change.text, &mut change.patch].into_iter().flatten() {
        *text = text.replacen(line.as_str(), &other, 1);
    }
    change.bytes = change.text.as_ref().map_or(change.bytes, |it| it.len() as u64);
    for file in workspace.files.iter_mut().filter(|it| it.path == change.path) {
        file.text = file.text.as_ref().map(|it| it.replacen(line.as_str(), &other, 1));
    }
    Some(mutant)
}

/// Returns the added lines that occur only once. So the same line can be replaced in the text and in the patch.
fn added_lines(change: &FileChange) -> Vec<String> {
    let Some(text) = &change.text else { return Vec::new() };
    let is_once = |it: &&str| !it.trim().is_empty() && text.matches(it).count() == 1;
    match &change.patch {
        None => text.lines().filter(is_once).map(str::to_owned).collect(),
        Some(patch) => {
            let added = patch.lines().filter(|it| !it.starts_with("+++"));
            let added = added.filter_map(|it| it.strip_prefix('+')).filter(is_once);
            added.filter(|it| patch.matches(it).count() == 1).map(str::to_owned).collect()
        }
    }
}

fn add_file(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    let mut mutant = original.execution.clone();
    let workspace = mutant.workspace.as_deref_mut()?;
    let (path, text) = ADDED;
    // The changes are sorted by path.
    let at = workspace.changes.partition_point(|it| it.path.as_str() < path);
    let added = FileChange {
        path: path.to_owned(),
        change: ChangeKind::Added,
        bytes: text.len() as u64,
        text: Some(text.to_owned()),
        ..FileChange::default()
    };
    workspace.changes.insert(at, added);
    Some(mutant)
}
