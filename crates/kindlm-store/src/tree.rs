//! Digests of files and folders, for detecting changes.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kindlm_types::{FileTree, TreeLimits};
use sha2::{Digest as _, Sha256};

/// Returns the digest of a file, or of all files and folders in a folder.
///
/// The digest of a folder covers paths, contents, link targets, and the permission to execute a file. Items that
/// [`FileTree::leaves_out`] excludes by name are ignored.
pub(crate) fn digest(path: &Path) -> io::Result<FileTree> {
    let mut digest = Sha256::new();
    let is_folder = path.is_dir();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        let is_top = relative.as_os_str().is_empty();
        let at = if is_top { path.to_path_buf() } else { path.join(&relative) };
        let metadata = if is_top { fs::metadata(&at) } else { fs::symlink_metadata(&at) }?;
        let mut add = |kind: &str, content: &[u8]| {
            for part in [relative.as_os_str().as_encoded_bytes(), kind.as_bytes(), content] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        };
        if metadata.is_dir() {
            add("folder", &[]);
            let mut names = Vec::new();
            for item in fs::read_dir(&at)? {
                let name = item?.file_name();
                if !FileTree::leaves_out(&name) {
                    names.push(name);
                }
            }
            names.sort_unstable();
            // `open` is a stack, so push the names in reverse order.
            open.extend(names.into_iter().rev().map(|it| relative.join(it)));
        } else if metadata.is_symlink() {
            add("link", fs::read_link(&at)?.as_os_str().as_encoded_bytes());
        } else if metadata.is_file() {
            let kind = if is_executable(&metadata) { "program" } else { "file" };
            add(kind, &hashed(&at)?);
        } else {
            add("other", &[]);
        }
    }
    let digest = digest.finalize().iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Ok(FileTree::new(is_folder, digest))
}

/// Returns the limit that a file or folder exceeds, and the unit of the limit.
///
/// Returns `None` if no limit is exceeded.
///
/// Only the sizes are read, not the contents. Fails if a file or folder cannot be read.
pub(crate) fn beyond(path: &Path, limits: TreeLimits) -> io::Result<Option<(u64, &'static str)>> {
    let (mut bytes, mut files) = (0_u64, 0_u64);
    let mut open = vec![(path.to_path_buf(), fs::metadata(path)?)];
    while let Some((at, metadata)) = open.pop() {
        if metadata.is_dir() {
            for item in fs::read_dir(&at)? {
                let item = item?;
                if !FileTree::leaves_out(&item.file_name()) {
                    open.push((item.path(), item.metadata()?));
                }
            }
            continue;
        }
        files += 1;
        bytes = bytes.saturating_add(if metadata.is_file() { metadata.len() } else { 0 });
        if files > limits.files {
            return Ok(Some((limits.files, "files")));
        }
        if bytes > limits.bytes {
            return Ok(Some((limits.bytes, "bytes")));
        }
    }
    Ok(None)
}

fn hashed(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = io::Read::read(&mut file, &mut buffer)?;
        if count == 0 {
            return Ok(digest.finalize().to_vec());
        }
        digest.update(&buffer[..count]);
    }
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_metadata: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_over_a_limit_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fs::write(folder.path().join("in/a"), "12345").unwrap();
        // A sparse file of one terabyte, which would take minutes to read.
        let large = fs::File::create(folder.path().join("in/large")).unwrap();
        large.set_len(1 << 40).unwrap();
        for (bytes, files, expected) in [
            (1 << 30, 100, Some((1 << 30, "bytes"))),
            (u64::MAX, 1, Some((1, "files"))),
            (u64::MAX, 2, None),
        ] {
            let found = beyond(folder.path(), TreeLimits::new(bytes, files)).unwrap();
            assert_eq!(found, expected);
        }
        let file = beyond(&folder.path().join("in/a"), TreeLimits::new(4, 1)).unwrap();
        assert_eq!(file, Some((4, "bytes")));
    }

    #[test]
    fn a_digest_depends_on_the_folder_content_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("src")).unwrap();
        fs::create_dir_all(at(".git")).unwrap();
        fs::write(at("src/a.ts"), "1").unwrap();
        let first = digest(folder.path()).unwrap();
        assert!(first.is_folder);
        fs::write(at(".git/HEAD"), "changed").unwrap();
        fs::write(at("src/a.ts"), "1").unwrap();
        assert_eq!(digest(folder.path()).unwrap(), first);
        let mut seen = vec![first.digest];
        let steps: [&dyn Fn(); 4] = [
            &|| fs::write(at("src/a.ts"), "2").unwrap(),
            &|| fs::rename(at("src/a.ts"), at("src/b.ts")).unwrap(),
            &|| fs::create_dir(at("empty")).unwrap(),
            &|| fs::remove_file(at("src/b.ts")).unwrap(),
        ];
        for step in steps {
            step();
            let now = digest(folder.path()).unwrap().digest;
            assert!(!seen.contains(&now));
            seen.push(now);
        }
        assert!(!digest(&at(".git/HEAD")).unwrap().is_folder);
    }
}
