//! Reads and writes in a folder that an agent has had in its hands, and never leaves it.
//!
//! Every path goes through an open folder of `cap-std`: neither `..` nor an absolute path nor a link leads out. What
//! stands where something is to be written gives way.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, Permissions};

use kindlm_types::FileTree;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Inside(Dir);

impl Inside {
    /// Opens a folder that KindLM has made.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(folder, ambient_authority()).map(Self)
    }

    /// The text of a file of at most so many bytes; `None` if there is none.
    pub(crate) fn text(&self, path: &str, limit: u64) -> Result<Option<String>, String> {
        let metadata = match self.0.metadata(path) {
            Ok(metadata) => metadata,
            Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(err) => return Err(format!("`{path}` cannot be read: {err}")),
        };
        // Reading a pipe would wait for ever.
        if !metadata.is_file() {
            return Err(format!("`{path}` is not a regular file"));
        }
        let failed = |err: io::Error| format!("`{path}` cannot be read: {err}");
        let mut bytes = Vec::new();
        self.0
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

    /// Writes a file in the place of whatever is there.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.make_way(path)?;
        let mut options = OpenOptions::new();
        let mut file = self.0.open_with(path, options.write(true).create_new(true))?;
        io::Write::write_all(&mut file, content)
    }

    /// Removes a file, a link, or a folder with all that is in it.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        match self.0.symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.0.remove_dir_all(path),
            Ok(_) => self.0.remove_file(path),
            Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(())
            }
            Err(err) => Err(err),
        }
    }

    /// Puts a file, or all that is in a folder, at a place.
    pub(crate) fn put(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut open = vec![(from.to_path_buf(), to.to_path_buf())];
        while let Some((from, to)) = open.pop() {
            let metadata = fs::metadata(&from)?;
            if metadata.is_file() {
                self.write(&to, &fs::read(&from)?)?;
                self.0.set_permissions(&to, Permissions::from_std(metadata.permissions()))?;
                continue;
            }
            for item in fs::read_dir(&from)? {
                let item = item?;
                if !FileTree::leaves_out(&item.file_name()) {
                    open.push((item.path(), to.join(item.file_name())));
                }
            }
        }
        Ok(())
    }

    /// Makes the folders above a path real ones, and removes what is there itself.
    fn make_way(&self, path: &Path) -> io::Result<()> {
        let parts: Vec<Component<'_>> =
            path.components().filter(|it| *it != Component::CurDir).collect();
        let mut at = PathBuf::new();
        for part in parts.iter().take(parts.len().saturating_sub(1)) {
            at.push(part);
            match self.0.symlink_metadata(&at) {
                Ok(metadata) if metadata.is_dir() => {}
                // A link in the place of a folder would lead somewhere else.
                Ok(_) => {
                    self.0.remove_file(&at)?;
                    self.0.create_dir(&at)?;
                }
                Err(err) if err.kind() == ErrorKind::NotFound => self.0.create_dir(&at)?,
                Err(err) => return Err(err),
            }
        }
        self.remove(path)
    }
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
        // What is written replaces the links, and does not follow them.
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
}
