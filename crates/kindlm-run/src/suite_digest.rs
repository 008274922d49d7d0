//! The digests of the files that a suite is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use data_encoding::HEXLOWER;
use kindlm_engine::Suite;
use kindlm_store::Folder;
use kindlm_types::{FileDigest, FileTree};
use sha2::{Digest as _, Sha256};

use crate::project::SuiteFolder;
use crate::suite_files::look_at_programs;

/// The maximum number of files of a folder that are listed one by one.
///
/// A folder with more files, such as the source folder of a workspace, is one entry.
const LISTED: usize = 200;

/// Returns the digests of the files that the suite is made of, sorted by path.
///
/// The files are the config file, and all files and folders that were requested through `files`. Unreadable files are
/// left out. Reports that the suite writes are left out too, because they change with each run.
pub fn file_digests(place: &SuiteFolder, files: &Folder, suite: &Suite) -> Vec<FileDigest> {
    look_at_programs(suite, files);
    let root = files.root();
    let outputs: Vec<PathBuf> = written(suite).map(|it| root.join(it)).collect();
    let is_output = |path: &Path| outputs.iter().any(|it| path.starts_with(it));
    let mut found = BTreeSet::new();
    found.extend(place.path.file_name().map(|it| root.join(it)));
    for path in files.requested_files() {
        found.insert(normalized(&path));
    }
    let mut digests = BTreeMap::new();
    for path in found.iter().filter(|it| it.is_file() && !is_output(it)) {
        if let Ok(sha256) = hash_file(path) {
            digests.insert(shown(root, path), sha256);
        }
    }
    for tree in files.trees() {
        add_folder(&mut digests, root, &tree, &outputs);
    }
    digests.into_iter().map(|(path, sha256)| FileDigest::new(path, sha256)).collect()
}

/// Adds the digests of the files in a folder, without the reports. A large folder is one entry.
///
/// A large folder with reports is split, because [`digest_of`] does not know which files are reports.
fn add_folder(
    digests: &mut BTreeMap<String, String>,
    root: &Path,
    folder: &Path,
    outputs: &[PathBuf],
) {
    let Ok(mut inside) = files_of(folder) else { return };
    inside.retain(|path| !outputs.iter().any(|it| path.starts_with(it)));
    if inside.len() > LISTED {
        if !outputs.iter().any(|it| it.starts_with(folder)) {
            let path = format!("{}/", shown(root, folder));
            digests.insert(path, suite_digest(&digests_in(folder, &inside)));
            return;
        }
        let child_of = |path: &PathBuf| {
            Some(folder.join(path.strip_prefix(folder).ok()?.components().next()?))
        };
        let children: BTreeSet<PathBuf> = inside.iter().filter_map(child_of).collect();
        for child in children.iter().filter(|it| it.is_dir()) {
            add_folder(digests, root, child, outputs);
        }
        inside.retain(|path| path.parent() == Some(folder));
    }
    for it in digests_in(root, &inside) {
        digests.insert(it.path, it.sha256);
    }
}

/// Returns SHA-256 over the lines `<sha256>  <path>` of the files, which is the format of `sha256sum`.
pub fn suite_digest(files: &[FileDigest]) -> String {
    let mut digest = Sha256::new();
    for FileDigest { path, sha256, .. } in files {
        digest.update(format!("{sha256}  {path}\n"));
    }
    HEXLOWER.encode(&digest.finalize())
}

/// Returns the digest of a file, or of a folder if the path ends with `/`.
///
/// # Errors
///
/// Fails if the file or the folder cannot be read.
pub fn digest_of(folder: &Path, path: &str) -> io::Result<String> {
    let at = folder.join(path);
    if path.ends_with('/') {
        Ok(suite_digest(&digests_in(&at, &files_of(&at)?)))
    } else {
        hash_file(&at)
    }
}

/// Returns the files and folders that every run of the suite writes, relative to the suite's folder.
fn written(suite: &Suite) -> impl Iterator<Item = PathBuf> {
    let compliance = suite.compliance.as_ref().filter(|it| it.enabled);
    let reports = suite.reports.iter().map(|(_, path)| path.as_str());
    let all = compliance.map(|it| it.output_dir.as_str()).into_iter().chain(reports);
    // Do not return the suite's folder itself. If reports are written there, the folder still has files of the suite.
    all.map(|it| normalized(Path::new(it))).filter(|it| !it.as_os_str().is_empty())
}

/// Returns the digests of files, sorted by path, with paths relative to `root`.
fn digests_in(root: &Path, files: &[PathBuf]) -> Vec<FileDigest> {
    let mut digests: Vec<FileDigest> = files
        .iter()
        .filter_map(|it| Some(FileDigest::new(shown(root, it), hash_file(it).ok()?)))
        .collect();
    digests.sort();
    digests
}

/// Returns all files in and below a folder. Links, and the folders of git and KindLM, are left out.
fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for item in fs::read_dir(folder)? {
            let item = item?;
            if FileTree::leaves_out(&item.file_name()) {
                continue;
            }
            let kind = item.file_type()?;
            if kind.is_dir() {
                open.push(item.path());
            } else if kind.is_file() {
                files.push(item.path());
            }
        }
    }
    Ok(files)
}

/// Removes `.` and inner `..` from a path.
fn normalized(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
            {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Returns a path relative to the suite's folder, with `/` between folders.
///
/// A file outside the folder has a path that begins with `../`.
fn shown(root: &Path, path: &Path) -> String {
    let mut up = String::new();
    for base in root.ancestors() {
        if let Ok(below) = path.strip_prefix(base) {
            let parts: Vec<_> =
                below.components().map(|it| it.as_os_str().to_string_lossy()).collect();
            return up + &parts.join("/");
        }
        up.push_str("../");
    }
    path.to_string_lossy().replace('\\', "/")
}

fn hash_file(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(HEXLOWER.encode(&digest.finalize()));
        }
        digest.update(buffer.get(..count).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::{Files as _, TreeLimits};

    use super::*;

    fn place(folder: &Path) -> SuiteFolder {
        SuiteFolder {
            path: folder.join("kindlm.yaml"),
            name: "kindlm.yaml".to_owned(),
            folder: folder.to_path_buf(),
        }
    }

    fn paths(digests: &[FileDigest]) -> Vec<&str> {
        digests.iter().map(|it| it.path.as_str()).collect()
    }

    #[test]
    fn lists_requested_files_once_and_sorted() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["kindlm.yaml", "sets/tone.yaml", "unused.txt", "app/src/a.ts", "app/.git/HEAD"]
        {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        let files = Folder::open(folder.path()).unwrap();
        for path in ["sets/tone.yaml", "./sets/../sets/tone.yaml"] {
            files.read_file(path).unwrap();
        }
        assert!(files.read_file("missing.yaml").is_err());
        files.tree("app", TreeLimits::new(1 << 20, 100)).unwrap();
        let digests = file_digests(&place(folder.path()), &files, &Suite::default());
        assert_eq!(paths(&digests), ["app/src/a.ts", "kindlm.yaml", "sets/tone.yaml"]);
        for it in &digests {
            assert_eq!(digest_of(folder.path(), &it.path).unwrap(), it.sha256, "{}", it.path);
        }
        let before = suite_digest(&digests);
        fs::write(folder.path().join("sets/tone.yaml"), "other").unwrap();
        let after = file_digests(&place(folder.path()), &files, &Suite::default());
        assert_ne!(suite_digest(&after), before);
    }

    #[test]
    fn a_large_folder_is_one_entry() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("app")).unwrap();
        for index in 0..=LISTED {
            fs::write(folder.path().join(format!("app/{index}.ts")), "text").unwrap();
        }
        let files = Folder::open(folder.path()).unwrap();
        files.tree("app", TreeLimits::new(1 << 20, 1_000)).unwrap();
        let digests = file_digests(&place(folder.path()), &files, &Suite::default());
        assert_eq!(paths(&digests), ["app/"]);
        assert_eq!(digest_of(folder.path(), "app/").unwrap(), digests[0].sha256);
    }

    #[test]
    fn new_reports_do_not_change_a_large_folder() {
        let folder = tempfile::tempdir().unwrap();
        let app = folder.path().join("app");
        fs::create_dir_all(app.join("src")).unwrap();
        for index in 0..=LISTED {
            fs::write(app.join(format!("src/{index}.ts")), "text").unwrap();
        }
        fs::write(app.join("main.ts"), "text").unwrap();
        let files = Folder::open(folder.path()).unwrap();
        files.tree("app", TreeLimits::new(1 << 20, 1_000)).unwrap();
        let reports = vec![("json".to_owned(), "app/report.json".to_owned())];
        let suite = Suite { reports, ..Suite::default() };
        let digests = file_digests(&place(folder.path()), &files, &suite);
        assert_eq!(paths(&digests), ["app/main.ts", "app/src/"]);
        fs::write(app.join("report.json"), "{}").unwrap();
        assert_eq!(file_digests(&place(folder.path()), &files, &suite), digests);
        for it in &digests {
            assert_eq!(digest_of(folder.path(), &it.path).unwrap(), it.sha256, "{}", it.path);
        }
    }

    #[test]
    fn paths_are_relative_to_the_suite() {
        for (path, expected) in
            [("/s/a/b.yaml", "b.yaml"), ("/s/c.yaml", "../c.yaml"), ("/x/d.yaml", "../../x/d.yaml")]
        {
            assert_eq!(shown(Path::new("/s/a"), Path::new(path)), expected);
        }
        assert_eq!(normalized(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(normalized(Path::new("../a")), Path::new("../a"));
    }
}
