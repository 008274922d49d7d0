//! Rewrites expected results, and lists the files that it wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use sha2::{Digest, Sha256};
use xshell::{Shell, cmd};

use crate::registries;

/// The folders with expected results: pages, snapshots, HTTP exchanges of providers, CLI cases and generated files.
const FOLDERS: [&str; 4] = ["crates", "docs", "fixtures", "schemas"];

/// The contents of files, as digests.
type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// Runs the tests that rewrite expected results.
///
/// With an id of an assertion, gate, provider or reporter, runs only the tests of the crate that has this entry. Then
/// also rewrites the schemas, the reference pages and the output of commands.
///
/// Fails if a test fails, or if no registry has the id. Lists the written files even if a test fails, because other
/// tests may have written files.
pub(crate) fn run(sh: &Shell, root: &Path, id: Option<&str>) -> Result<()> {
    let package = id.map(|id| registries::package_of(root, id)).transpose()?;
    let before = contents(root)?;
    let result = rewrite(sh, package);
    for line in summary(&before, &contents(root)?) {
        println!("{line}");
    }
    result
}

fn rewrite(sh: &Shell, package: Option<&str>) -> Result<()> {
    let _bless = sh.push_env("KINDLM_BLESS", "1");
    let _insta = sh.push_env("INSTA_UPDATE", "always");
    // xshell prints each command, and cargo prints its progress.
    let Some(package) = package else {
        println!("rewriting the expected results of all crates (the first build takes minutes)");
        return Ok(cmd!(sh, "cargo test --workspace -- --quiet").run()?);
    };
    println!("1 of 3: rewriting the expected results of {package} (the first build takes minutes)");
    cmd!(sh, "cargo test -p {package} --test it -- --quiet").run()?;
    println!("2 of 3: rewriting the schemas and the reference pages");
    crate::codegen(sh, false)?;
    // Some commands print the ids of all entries.
    println!("3 of 3: rewriting the output of the commands in `fixtures/cli`");
    let test = "every_case_gives_the_output_of_its_folder";
    Ok(cmd!(sh, "cargo test -p kindlm-cli --test cases -- --quiet --exact {test}").run()?)
}

/// Returns the lines that list the differences between two states of the files.
fn summary(before: &Contents, after: &Contents) -> Vec<String> {
    let show = |verb: &str, path: &Path| format!("  {verb} {}", path.display());
    let mut lines: Vec<String> = after
        .iter()
        .filter_map(|(path, digest)| match before.get(path) {
            None => Some(show("made   ", path)),
            Some(old) if old != digest => Some(show("changed", path)),
            Some(_) => None,
        })
        .collect();
    let removed = before.keys().filter(|it| !after.contains_key(*it));
    lines.extend(removed.map(|it| show("removed", it)));
    match lines.len() {
        0 => lines.push("no file was changed".to_owned()),
        count => {
            let s = if count == 1 { "" } else { "s" };
            lines.insert(0, format!("{count} file{s} written; read the diff before you commit:"));
        }
    }
    lines
}

fn contents(root: &Path) -> Result<Contents> {
    let mut contents = Contents::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|it| root.join(it)).collect();
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for item in std::fs::read_dir(&folder)? {
            let item = item?;
            let (kind, path) = (item.file_type()?, item.path());
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let digest = Sha256::digest(std::fs::read(&path)?).to_vec();
                contents.insert(path.strip_prefix(root)?.to_owned(), digest);
            }
        }
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_made_changed_and_removed_files() {
        let files = |list: &[(&str, u8)]| {
            list.iter().map(|&(path, it)| (PathBuf::from(path), vec![it])).collect::<Contents>()
        };
        let before = files(&[("a", 1), ("b", 1), ("c", 1)]);
        assert_eq!(summary(&before, &before), ["no file was changed"]);
        let after = files(&[("a", 1), ("b", 2), ("d", 1)]);
        assert_eq!(
            summary(&before, &after),
            [
                "3 files written; read the diff before you commit:",
                "  changed b",
                "  made    d",
                "  removed c",
            ]
        );
    }

    #[test]
    fn reads_only_the_folders_with_expected_results() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("docs/a/b.md", "x"), ("crates/c.snap", "y"), ("target/d", "z")] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found: Vec<PathBuf> = contents(root.path()).unwrap().into_keys().collect();
        assert_eq!(found, [PathBuf::from("crates/c.snap"), PathBuf::from("docs/a/b.md")]);
    }
}
