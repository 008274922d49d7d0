//! Reads the checked-out commit from the files of git, without starting a process.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the checked-out commit of the repository around `folder`.
///
/// Returns `None` if there is no repository or no commit, or if the files cannot be read.
pub(crate) fn commit(folder: &Path) -> Option<String> {
    let dot_git = folder.ancestors().map(|it| it.join(".git")).find(|it| it.exists())?;
    let git = if dot_git.is_dir() { dot_git } else { linked(&dot_git)? };
    let head = read(&git.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else { return as_commit(&head) };
    // In a linked worktree, the main repository holds the branches.
    let common = read(&git.join("commondir")).map_or_else(|| git.clone(), |it| git.join(it));
    if let Some(commit) = [&git, &common].iter().find_map(|it| read(&it.join(reference))) {
        return as_commit(&commit);
    }
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    let line =
        packed.lines().find(|line| line.split_once(' ').is_some_and(|(_, it)| it == reference))?;
    as_commit(line.split_once(' ')?.0)
}

/// Returns the git folder that a `.git` file names.
///
/// Linked worktrees and submodules have such a file.
fn linked(dot_git: &Path) -> Option<PathBuf> {
    let text = read(dot_git)?;
    Some(dot_git.parent()?.join(text.strip_prefix("gitdir: ")?))
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|it| it.trim().to_owned())
}

fn as_commit(text: &str) -> Option<String> {
    (text.len() >= 40 && text.bytes().all(|it| it.is_ascii_hexdigit())).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn finds_the_commit_however_git_keeps_it() {
        let line = format!("{COMMIT}\n");
        let packed = format!("# pack-refs\n{COMMIT} refs/heads/main\n");
        let head = "ref: refs/heads/main\n";
        for files in [
            &[(".git/HEAD", line.as_str())][..],
            &[(".git/HEAD", head), (".git/refs/heads/main", &line)],
            &[(".git/HEAD", head), (".git/packed-refs", &packed)],
            &[
                (".git", "gitdir: main/.git/worktrees/w\n"),
                ("main/.git/worktrees/w/HEAD", head),
                ("main/.git/worktrees/w/commondir", "../..\n"),
                ("main/.git/refs/heads/main", &line),
            ],
        ] {
            let folder = repository(files);
            let deep = folder.path().join("suites/refunds");
            fs::create_dir_all(&deep).unwrap();
            assert_eq!(commit(&deep).as_deref(), Some(COMMIT), "{files:?}");
        }
    }

    #[test]
    fn no_commit_gives_no_git_data() {
        for files in [
            &[(".git/HEAD", "ref: refs/heads/main\n")][..],
            &[(".git/HEAD", "nonsense")],
            &[(".git", "nonsense")],
        ] {
            assert_eq!(commit(repository(files).path()), None, "{files:?}");
        }
    }
}
