//! The suites that may run: the files below the folder of suites.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_run::project::CONFIG;
use kindlm_run::stored_runs::{Prune, prune};
use kindlm_run::{Failure, SuiteFolder};

use super::RunService;

/// The maximum depth of a suite below the folder of suites; 1 is the folder itself. Deeper suites are ignored.
const MAX_DEPTH: usize = 4;

/// The folder of the runs of inline suites, below the folder of suites.
const INLINE: &str = ".inline";

/// The maximum number of suites. Further suites are ignored.
const MAX_SUITES: usize = 1000;

/// The paths of all suites: the path below the folder of suites, and the full path of the file.
pub(super) struct Suites(Vec<(String, PathBuf)>);

impl Suites {
    /// Returns the path of a file below the folder of suites; `None` if the file is no suite.
    pub(super) fn path(&self, file: &Path) -> Option<String> {
        self.0.iter().find(|(_, it)| it == file).map(|(name, _)| name.clone())
    }
}

impl RunService {
    /// Returns the names of all suites, sorted: their paths below the folder of suites.
    ///
    /// A suite is a file `kindlm.yaml` or `<name>.kindlm.yaml`, or the same with the ending `.yml`. Without a folder of
    /// suites, the list is empty.
    ///
    /// # Errors
    ///
    /// Fails if the folder of suites cannot be read.
    pub(crate) fn suites(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        if self.inner.has_suites {
            search(&self.inner.world.working_dir, "", MAX_DEPTH, &mut found)?;
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Returns the paths of all suites. Fails if the folder of suites cannot be read.
    pub(super) fn suite_paths(&self) -> io::Result<Suites> {
        let world = &self.inner.world;
        let path = |name: String| {
            let path = SuiteFolder::new(world, Path::new(&name)).path;
            (name, path)
        };
        Ok(Suites(self.suites()?.into_iter().map(path).collect()))
    }

    /// Returns the folder that stores the runs of inline suites. No suite is in it, and its name hides it from
    /// [`suites`](Self::suites).
    pub(super) fn inline_folder(&self) -> PathBuf {
        self.inner.world.working_dir.join(INLINE)
    }

    /// Returns the folders of all suites and of inline suites, without duplicates. Fails if the folder of suites cannot
    /// be read.
    pub(super) fn places(&self) -> io::Result<Vec<SuiteFolder>> {
        let mut places: Vec<SuiteFolder> = Vec::new();
        for name in self.suites()? {
            let place = SuiteFolder::new(&self.inner.world, Path::new(&name));
            if !places.iter().any(|it| it.folder == place.folder) {
                places.push(place);
            }
        }
        if self.inner.has_suites && self.inner.models.is_some() {
            places.push(self.inline_place());
        }
        Ok(places)
    }

    fn inline_place(&self) -> SuiteFolder {
        SuiteFolder::new(&self.inner.world, &Path::new(INLINE).join(CONFIG))
    }

    /// Deletes the runs of inline suites that began longer ago than `age`, and returns their ids. Runs that go on, and
    /// runs of baselines, stay.
    ///
    /// # Errors
    ///
    /// Fails if the stored runs cannot be read or deleted.
    pub(crate) fn delete_inline_runs(&self, age: Duration) -> Result<Vec<String>, Failure> {
        if !self.inline_folder().is_dir() {
            return Ok(Vec::new());
        }
        let old = Prune { keep: 0, older_than: Some(age) };
        prune(&self.inner.world, &self.inline_place(), None, old)
    }
}

fn search(folder: &Path, before: &str, depth: usize, found: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || found.len() >= MAX_SUITES {
            continue;
        }
        // `file_type` does not follow links, so a link cannot add files from outside the folder.
        let kind = entry.file_type()?;
        if kind.is_file() && is_suite(&name) {
            found.push(format!("{before}{name}"));
        } else if kind.is_dir() && depth > 1 {
            // A folder that cannot be read has no suites that could run.
            let _ = search(&entry.path(), &format!("{before}{name}/"), depth - 1, found);
        }
    }
    Ok(())
}

fn is_suite(name: &str) -> bool {
    ["yaml", "yml"].iter().any(|ending| {
        name.strip_suffix(ending).is_some_and(|it| it == "kindlm." || it.ends_with(".kindlm."))
    })
}
