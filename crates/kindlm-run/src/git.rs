//! Reads the checked-out commit from the files of git, and asks git for changes that are not committed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kindlm_types::FileDigest;

/// The time limit of a git command. In a very large repository, git may be slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// The variables that point git to another repository. Git sets some of these variables for hooks.
const PLACES: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"];

/// Returns the checked-out branch of the repository around `folder`.
///
/// Returns `None` if there is no repository, or if no branch is checked out.
pub(crate) fn branch(folder: &Path) -> Option<String> {
    let head = read_trimmed(&git_folder(folder)?.join("HEAD"))?;
    head.strip_prefix("ref: refs/heads/").map(str::to_owned)
}

/// Starts to ask git for changes that are not committed.
///
/// The result of the thread is true if a tracked file of the repository is changed, or if a file of the suite is not
/// tracked. The result is `None` if git fails or takes longer than [`PATIENCE`].
pub(crate) fn ask_dirty(folder: &Path, suite: &[FileDigest]) -> JoinHandle<Option<bool>> {
    let folder = folder.to_path_buf();
    // Files outside the folder of the suite may belong to another repository, or to none.
    let inside = suite.iter().map(|it| it.path.clone()).filter(|it| !it.starts_with("../"));
    let own: Vec<String> = inside.collect();
    thread::spawn(move || is_dirty(&folder, &own))
}

fn is_dirty(folder: &Path, suite: &[String]) -> Option<bool> {
    let status =
        ["status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty"];
    if !run(folder, &status)?.is_empty() {
        return Some(true);
    }
    let listed = run(folder, &["ls-files", "-z", "--cached", "--", "."])?;
    let tracked: BTreeSet<&str> = listed.split('\0').collect();
    let is_tracked = |path: &String| match path.strip_suffix('/') {
        Some(_) => tracked.range(path.as_str()..).next().is_some_and(|it| it.starts_with(path)),
        None => tracked.contains(path.as_str()),
    };
    Some(!suite.iter().all(is_tracked))
}

/// Returns a `git` command for the repository around a folder. The caller adds the subcommand and its arguments.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    // A repository can name programs that git runs. None of these programs is needed here, so switch them off.
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    for it in PLACES {
        command.env_remove(it);
    }
    command.env("GIT_OPTIONAL_LOCKS", "0").current_dir(folder);
    command
}

/// Runs git in a folder, and returns its stdout; `None` if git fails or takes longer than [`PATIENCE`].
fn run(folder: &Path, words: &[&str]) -> Option<String> {
    let mut command = command(folder);
    command.args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let _ = send.send(stdout.read_to_string(&mut text).ok().map(|_| text));
    });
    let text = receive.recv_timeout(PATIENCE).ok().flatten();
    if text.is_none() {
        end(&mut child);
        return None;
    }
    text.filter(|_| child.wait().is_ok_and(|it| it.success()))
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the git folder of the repository around `folder`; `None` without a readable repository.
fn git_folder(folder: &Path) -> Option<PathBuf> {
    let dot_git = folder.ancestors().map(|it| it.join(".git")).find(|it| it.exists())?;
    if dot_git.is_dir() { Some(dot_git) } else { linked(&dot_git) }
}

/// Returns the checked-out commit of the repository around `folder`.
///
/// Returns `None` if there is no repository or no commit, or if the files cannot be read.
pub(crate) fn commit(folder: &Path) -> Option<String> {
    let git = git_folder(folder)?;
    let head = read_trimmed(&git.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else { return as_commit(&head) };
    // In a linked worktree, the main repository holds the branches.
    let common =
        read_trimmed(&git.join("commondir")).map_or_else(|| git.clone(), |it| git.join(it));
    if let Some(commit) = [&git, &common].iter().find_map(|it| read_trimmed(&it.join(reference))) {
        return as_commit(&commit);
    }
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    let line =
        packed.lines().find(|line| line.split_once(' ').is_some_and(|(_, it)| it == reference))?;
    as_commit(line.split_once(' ')?.0)
}

/// Returns the git folder that a `.git` file names; `None` if the file cannot be read or names no folder.
///
/// Linked worktrees and submodules have such a file.
fn linked(dot_git: &Path) -> Option<PathBuf> {
    let text = read_trimmed(dot_git)?;
    Some(dot_git.parent()?.join(text.strip_prefix("gitdir: ")?))
}

fn read_trimmed(path: &Path) -> Option<String> {
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
    fn says_that_a_change_is_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
            let mut command = Command::new("git");
            for it in PLACES {
                command.env_remove(it);
            }
            command
                .args(own)
                .args(words)
                .current_dir(folder.path())
                .output()
                .is_ok_and(|it| it.status.success())
        };
        if !git(&["init", "--quiet", "--initial-branch=topic"]) {
            return;
        }
        let at = |path: &str| folder.path().join(path);
        fs::create_dir(at("suite")).unwrap();
        fs::write(at("suite/kindlm.yaml"), "1").unwrap();
        fs::write(at("other.txt"), "1").unwrap();
        assert!(git(&["add", "suite"]) && git(&["commit", "--quiet", "-m", "first"]));
        let own =
            |paths: &[&str]| -> Vec<String> { paths.iter().map(|&it| it.to_owned()).collect() };
        let dirty = |paths: &[&str]| is_dirty(&at("suite"), &own(paths));
        assert_eq!(branch(&at("suite")).as_deref(), Some("topic"));
        assert_eq!(
            dirty(&["kindlm.yaml"]),
            Some(false),
            "untracked files outside the suite do not count"
        );
        fs::write(at("suite/data.csv"), "1").unwrap();
        assert_eq!(dirty(&["kindlm.yaml"]), Some(false));
        assert_eq!(
            dirty(&["kindlm.yaml", "data.csv"]),
            Some(true),
            "an untracked file of the suite"
        );
        fs::write(at("suite/kindlm.yaml"), "2").unwrap();
        assert_eq!(dirty(&["kindlm.yaml"]), Some(true));
        assert!(git(&["commit", "--quiet", "-a", "-m", "second"]));
        assert_eq!(dirty(&["kindlm.yaml"]), Some(false));
        assert_eq!(is_dirty(&std::env::temp_dir().join("kindlm-no-such-folder"), &[]), None);
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
