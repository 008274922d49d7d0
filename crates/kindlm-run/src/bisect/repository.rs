//! The commits of a repository, and their files in temporary folders.
//!
//! The working tree, the index and the references of the user are not changed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;

use crate::{Failure, git};

/// The repository around a suite.
pub(super) struct Repository {
    root: PathBuf,
    /// The folder of the suite below the root, with `/` at its end; empty for the root.
    prefix: String,
}

/// A commit of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) id: String,
    /// The first line of the message.
    pub(super) subject: String,
}

/// The files of a commit in a temporary folder. Dropping this value removes the folder.
pub(super) struct Checkout {
    folder: TempDir,
}

impl Repository {
    /// Finds the repository around a folder. Fails if the folder is in no git repository.
    pub(super) fn around(folder: &Path) -> Result<Self, Failure> {
        let ask = |word: &str| {
            run(folder, &["rev-parse", word], &[]).map_err(|why| {
                Failure::input(format!("`{}` is in no git repository: {why}", folder.display()))
                    .with_help("compare two files with `--from OLD.yaml`")
            })
        };
        Ok(Self { root: PathBuf::from(ask("--show-toplevel")?), prefix: ask("--show-prefix")? })
    }

    /// Returns the commit that the user names. Fails if there is no such commit.
    pub(super) fn commit(&self, named: &str) -> Result<Commit, Failure> {
        let revision = format!("{named}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &revision];
        let id = run(&self.root, &words, &[])
            .map_err(|_| Failure::input(format!("there is no commit `{named}`")))?;
        let words = ["log", "--max-count=1", "--format=%s", &id];
        let subject = run(&self.root, &words, &[]).map_err(Failure::internal)?;
        Ok(Commit { id, subject })
    }

    /// Returns the commits after `good` up to `bad`, oldest first. A merge counts as one commit.
    ///
    /// Fails if `bad` does not descend from `good`.
    pub(super) fn between(&self, good: &Commit, bad: &Commit) -> Result<Vec<Commit>, Failure> {
        let is_ancestor = ["merge-base", "--is-ancestor", &good.id, &bad.id];
        if run(&self.root, &is_ancestor, &[]).is_err() || good.id == bad.id {
            return Err(Failure::input(format!(
                "the good commit {} is not before the bad commit {}",
                short(&good.id),
                short(&bad.id)
            ))
            .with_help("choose a good commit from which the bad one descends"));
        }
        let range = format!("{}..{}", good.id, bad.id);
        let words = ["log", "--first-parent", "--reverse", "--format=%H %s", &range];
        let listed = run(&self.root, &words, &[]).map_err(Failure::internal)?;
        let commits = listed.lines().map(|line| {
            let (id, subject) = line.split_once(' ').unwrap_or((line, ""));
            Commit { id: id.to_owned(), subject: subject.to_owned() }
        });
        Ok(commits.collect())
    }

    /// Writes the files of a commit into a temporary folder.
    pub(super) fn check_out(&self, commit: &Commit) -> Result<Checkout, Failure> {
        let failed = |why: &str| {
            Failure::internal(format!("cannot write the files of {}: {why}", short(&commit.id)))
        };
        let folder =
            tempfile::tempdir().map_err(|err| failed(&kindlm_store::describe_io_error(&err)))?;
        // With a separate index file, git changes neither the index nor the files of the user.
        let index = folder.path().join("index").into_os_string();
        let files = format!("--prefix={}/", Checkout::files(folder.path()).display());
        for words in [&["read-tree", &commit.id][..], &["checkout-index", "--all", &files]] {
            run(&self.root, words, &[("GIT_INDEX_FILE", index.clone())])
                .map_err(|why| failed(&why))?;
        }
        Ok(Checkout { folder })
    }

    /// Returns the content of a file in a commit. `file` is relative to the folder of the suite.
    ///
    /// Fails if the commit has no such file.
    pub(super) fn text(&self, commit: &Commit, file: &str) -> Result<Vec<u8>, Failure> {
        let object = format!("{}:{}{file}", commit.id, self.prefix);
        let shown = git::command(&self.root).args(["show", &object]).stdin(Stdio::null()).output();
        match shown {
            Ok(output) if output.status.success() => Ok(output.stdout),
            _ => Err(Failure::input(format!(
                "the commit {} has no file `{}{file}`",
                short(&commit.id),
                self.prefix
            ))),
        }
    }

    /// Returns the path of a file in a checkout. `file` is relative to the folder of the suite.
    pub(super) fn path(&self, checkout: &Checkout, file: &str) -> PathBuf {
        Checkout::files(checkout.folder.path()).join(&self.prefix).join(file)
    }
}

impl Checkout {
    fn files(folder: &Path) -> PathBuf {
        folder.join("files")
    }

    /// Removes the path of the temporary folder from a text.
    pub(super) fn without_path(&self, text: &str) -> String {
        let files = Self::files(self.folder.path());
        text.replace(&format!("{}/", files.display()), "")
    }
}

/// Returns the first 8 characters of a commit's id.
pub(super) fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Runs git, and returns its stdout without the last line break. If git fails, the error is the first line of stderr.
fn run(
    folder: &Path,
    words: &[&str],
    variables: &[(&str, std::ffi::OsString)],
) -> Result<String, String> {
    let mut command = git::command(folder);
    command.args(words).envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.stdin(Stdio::null()).output();
    let output = output
        .map_err(|err| format!("cannot start `git`: {}", kindlm_store::describe_io_error(&err)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(stderr.lines().next().unwrap_or("git failed").to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Runs git with a user name and an email address; false if git is missing or fails.
    fn git(folder: &Path, words: &[&str]) -> bool {
        let own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
        let mut command = git::command(folder);
        command.args(own).args(words).output().is_ok_and(|it| it.status.success())
    }

    #[test]
    fn files_of_a_commit_leave_the_working_tree_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        if !git(&root, &["init", "--quiet", "--initial-branch=main"]) {
            return;
        }
        let suite = root.join("suites");
        fs::create_dir(&suite).unwrap();
        for text in ["1", "2", "3"] {
            fs::write(suite.join("kindlm.yaml"), text).unwrap();
            assert!(git(&root, &["add", "."]) && git(&root, &["commit", "--quiet", "-m", text]));
        }
        fs::write(suite.join("kindlm.yaml"), "not committed").unwrap();
        fs::write(suite.join("new.txt"), "not tracked").unwrap();
        let index = fs::read(root.join(".git/index")).unwrap();

        let repository = Repository::around(&suite).unwrap();
        let (good, bad) =
            (repository.commit("HEAD~2").unwrap(), repository.commit("main").unwrap());
        let between = repository.between(&good, &bad).unwrap();
        assert_eq!(between.iter().map(|it| &*it.subject).collect::<Vec<_>>(), ["2", "3"]);
        let checkout = repository.check_out(&between[0]).unwrap();
        let path = repository.path(&checkout, "kindlm.yaml");
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
        assert_eq!(repository.text(&bad, "kindlm.yaml").unwrap(), b"3");
        let shown = checkout.without_path(&format!("cannot read {}", path.display()));
        assert_eq!(shown, "cannot read suites/kindlm.yaml");
        drop(checkout);
        assert!(!path.exists());

        assert_eq!(fs::read(root.join(".git/index")).unwrap(), index);
        assert_eq!(fs::read_to_string(suite.join("kindlm.yaml")).unwrap(), "not committed");
        assert!(!root.join(".git/worktrees").exists());
        for (result, text) in [
            (repository.commit("none").map(|_| ()), "there is no commit `none`"),
            (repository.commit("--all").map(|_| ()), "there is no commit `--all`"),
            (repository.between(&bad, &good).map(|_| ()), "is not before the bad commit"),
            (repository.between(&bad, &bad).map(|_| ()), "is not before the bad commit"),
            (repository.text(&bad, "x.yaml").map(|_| ()), "has no file `suites/x.yaml`"),
        ] {
            let message = result.unwrap_err().message.unwrap();
            assert!(message.contains(text), "{message}");
        }
    }
}
