//! Reads and writes files in a folder that an agent has modified, without leaving the folder.
//!
//! `cap-std` resolves all paths inside an open folder, so `..`, absolute paths and links cannot lead out of the folder.
//! A write replaces the entry at its path.
//!
//! The folder is opened before agents and checks run in it, and stays open. So another folder that is later at the same
//! path is not used by mistake.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, Permissions, ReadDir};

/// An open folder and its path.
#[derive(Debug)]
pub(crate) struct Inside {
    dir: Dir,
    at: PathBuf,
}

impl Inside {
    /// Opens a folder that KindLM created, before agents and checks run in it. Fails if the folder cannot be opened.
    pub(crate) fn open(folder: &Path) -> Result<Self, String> {
        let dir = Dir::open_ambient_dir(folder, ambient_authority());
        let dir = dir.map_err(|err| format!("cannot open `{}`: {err}", folder.display()))?;
        Ok(Self { dir, at: folder.to_path_buf() })
    }

    /// Fails if the folder was removed, or if another folder is at the path now. Commands would use the other folder.
    pub(crate) fn is_in_place(&self) -> Result<(), String> {
        let at = self.at.display();
        match is_same(&self.dir, &self.at) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(
                "the workspace folder `{at}` was replaced by the agent or a program that it started; nothing is read \
                 from it"
            )),
            Err(err) => Err(format!("the workspace `{at}` was removed or cannot be read: {err}")),
        }
    }

    /// Lists a folder; the empty path is the root. Fails if there is no such folder, or if it cannot be read.
    pub(crate) fn list(&self, folder: &Path) -> io::Result<ReadDir> {
        if folder.as_os_str().is_empty() { self.dir.entries() } else { self.dir.read_dir(folder) }
    }

    /// Returns the metadata of an entry, without following a link. Fails if there is no such entry.
    pub(crate) fn entry(&self, path: &Path) -> io::Result<Metadata> {
        self.dir.symlink_metadata(path)
    }

    /// Returns the target of a link, as written in the link. Fails for any other entry.
    pub(crate) fn link(&self, path: &Path) -> io::Result<PathBuf> {
        self.dir.read_link_contents(path)
    }

    /// Opens a file for reading, also through a link inside the folder.
    pub(crate) fn file(&self, path: &Path) -> io::Result<File> {
        self.dir.open(path)
    }

    /// Returns the text of a file; `None` if the file does not exist.
    ///
    /// Fails for more than `limit` bytes, for text that is not UTF-8, and for entries that are not files.
    pub(crate) fn text(&self, path: &str, limit: u64) -> Result<Option<String>, String> {
        let metadata = match self.dir.metadata(path) {
            Ok(metadata) => metadata,
            Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(err) => return Err(format!("`{path}` cannot be read: {err}")),
        };
        // Reading a pipe would block.
        if !metadata.is_file() {
            return Err(format!("`{path}` is not a regular file"));
        }
        let failed = |err: io::Error| format!("`{path}` cannot be read: {err}");
        let mut bytes = Vec::new();
        self.dir
            .open(path)
            .map_err(failed)?
            .take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > limit {
            return Err(format!("`{path}` has more than the {limit} bytes that are read"));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| format!("`{path}` is not UTF-8 text"))
    }

    /// Writes a file, and replaces any existing entry at its path.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.make_way(path)?;
        let mut options = OpenOptions::new();
        let mut file = self.dir.open_with(path, options.write(true).create_new(true))?;
        io::Write::write_all(&mut file, content)
    }

    /// Removes a file, a link, or a folder with its content. A missing entry is not an error.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        match self.dir.symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.dir.remove_dir_all(path),
            Ok(_) => self.dir.remove_file(path),
            Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(())
            }
            Err(err) => Err(err),
        }
    }

    /// Creates a folder, unless the folder exists. Any other entry at the path is replaced.
    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<()> {
        if self.dir.symlink_metadata(path).is_ok_and(|it| it.is_dir()) {
            return Ok(());
        }
        self.make_way(path)?;
        self.dir.create_dir(path)
    }

    /// Copies a file of the suite to a path, with the file's permissions.
    pub(crate) fn put(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.write(to, &fs::read(from)?)?;
        self.set_mode(to, &fs::metadata(from)?.permissions())
    }

    /// Returns true if the path is a regular file with the content of `from`.
    ///
    /// `from` is a file of the suite.
    pub(crate) fn is_like(&self, from: &Path, at: &Path) -> io::Result<bool> {
        match self.dir.symlink_metadata(at) {
            Ok(it) if it.is_file() && it.len() == fs::metadata(from)?.len() => {
                Ok(self.dir.read(at)? == fs::read(from)?)
            }
            Ok(_) => Ok(false),
            Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(false)
            }
            Err(err) => Err(err),
        }
    }

    /// Copies a file or a link from another folder to the same path.
    ///
    /// A pipe, a socket or a device is not copied; only the old entry at the path is removed.
    pub(crate) fn bring(&self, from: &Self, path: &Path) -> io::Result<()> {
        let metadata = from.dir.symlink_metadata(path)?;
        if metadata.is_symlink() {
            self.make_way(path)?;
            return link(&self.dir, &from.dir.read_link_contents(path)?, path);
        }
        if !metadata.is_file() {
            return self.remove(path);
        }
        self.make_way(path)?;
        let mut options = OpenOptions::new();
        let mut to = self.dir.open_with(path, options.write(true).create_new(true))?.into_std();
        io::copy(&mut from.dir.open(path)?.into_std(), &mut to)?;
        self.set_mode(path, &from.dir.metadata(path)?.permissions().into_std(&to)?)
    }

    /// Sets permissions without `setuid` and similar bits.
    ///
    /// With these bits, a program would run with the rights of another user.
    fn set_mode(&self, path: &Path, permissions: &fs::Permissions) -> io::Result<()> {
        self.dir.set_permissions(path, Permissions::from_std(without_setuid(permissions)))
    }

    /// Prepares a path for a new entry: creates its parent folders, and removes the old entry at the path.
    ///
    /// Parents that are not folders are replaced by folders.
    fn make_way(&self, path: &Path) -> io::Result<()> {
        let parts: Vec<Component<'_>> =
            path.components().filter(|it| *it != Component::CurDir).collect();
        let mut at = PathBuf::new();
        for part in parts.iter().take(parts.len().saturating_sub(1)) {
            at.push(part);
            match self.dir.symlink_metadata(&at) {
                Ok(metadata) if metadata.is_dir() => {}
                // A link would lead to a different folder, and other entries are not folders, so replace the entry.
                Ok(_) => {
                    self.dir.remove_file(&at)?;
                    self.dir.create_dir(&at)?;
                }
                Err(err) if err.kind() == ErrorKind::NotFound => self.dir.create_dir(&at)?,
                Err(err) => return Err(err),
            }
        }
        self.remove(path)
    }
}

/// Returns the permissions without the `setuid`, `setgid` and sticky bits.
#[cfg(unix)]
pub(crate) fn without_setuid(permissions: &fs::Permissions) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(permissions.mode() & 0o777)
}

/// Returns the permissions unchanged, because this system has no such bits.
#[cfg(not(unix))]
pub(crate) fn without_setuid(permissions: &fs::Permissions) -> fs::Permissions {
    permissions.clone()
}

#[cfg(unix)]
fn link(dir: &Dir, leads_to: &Path, at: &Path) -> io::Result<()> {
    dir.symlink_contents(leads_to, at)
}

#[cfg(not(unix))]
fn link(_dir: &Dir, _leads_to: &Path, _at: &Path) -> io::Result<()> {
    Err(io::Error::new(ErrorKind::Unsupported, "links cannot be made on this system"))
}

/// Returns true if the path is the open folder and not a link.
#[cfg(unix)]
fn is_same(open: &Dir, at: &Path) -> io::Result<bool> {
    use cap_std::fs::MetadataExt as _;
    use std::os::unix::fs::MetadataExt as _;

    let (is, there) = (open.dir_metadata()?, fs::symlink_metadata(at)?);
    Ok(there.is_dir() && (is.dev(), is.ino()) == (there.dev(), there.ino()))
}

/// Returns true if the path is a folder. On this system, an open folder cannot be moved.
#[cfg(not(unix))]
fn is_same(_open: &Dir, at: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(at)?.is_dir())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_that_an_agent_left_behind_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let (work, outside) = (folder.path().join("work"), folder.path().join("outside"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        fs::write(outside.join("EVAL.ts"), "as it was").unwrap();
        symlink(&outside, work.join("way")).unwrap();
        symlink("../outside/secret", work.join("file")).unwrap();
        symlink(outside.join("EVAL.ts"), work.join("EVAL.ts")).unwrap();
        symlink(&outside, work.join("tests")).unwrap();
        fs::create_dir(work.join("taken")).unwrap();
        fs::write(work.join("taken/x"), "").unwrap();

        let inside = Inside::open(&work).unwrap();
        let absolute = outside.join("secret");
        for path in ["way/secret", "file", "../outside/secret", absolute.to_str().unwrap()] {
            let words = inside.text(path, 100).unwrap_err();
            assert!(words.contains("outside of the filesystem"), "{path}: {words}");
        }
        // A write replaces a link instead of following it.
        for path in ["EVAL.ts", "tests/deep/EVAL.ts", "taken", "way/new"] {
            inside.write(Path::new(path), b"ours").unwrap();
            assert_eq!(inside.text(path, 100).unwrap().as_deref(), Some("ours"), "{path}");
        }
        assert!(inside.write(Path::new("../outside/EVAL.ts"), b"ours").is_err());
        assert!(inside.write(&outside.join("EVAL.ts"), b"ours").is_err());
        assert_eq!(fs::read_to_string(outside.join("EVAL.ts")).unwrap(), "as it was");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
        assert_eq!(inside.text("not/there", 100), Ok(None));
        assert!(inside.text("EVAL.ts", 3).unwrap_err().contains("more than the 3 bytes"));
    }

    #[test]
    fn a_replaced_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (work, outside) = (folder.path().join("work"), folder.path().join("outside"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(&outside).unwrap();
        let inside = Inside::open(&work).unwrap();
        assert_eq!(inside.is_in_place(), Ok(()));
        fs::rename(&work, folder.path().join("away")).unwrap();
        assert!(inside.is_in_place().unwrap_err().contains("was removed or cannot be read"));
        symlink(&outside, &work).unwrap();
        assert!(inside.is_in_place().unwrap_err().contains("was replaced"));
        inside.write(Path::new("EVAL.ts"), b"ours").unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        fs::remove_file(&work).unwrap();
        fs::create_dir(&work).unwrap();
        assert!(inside.is_in_place().unwrap_err().contains("was replaced"));
    }
}
