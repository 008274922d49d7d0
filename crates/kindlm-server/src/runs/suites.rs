//! The suites that may run: the files below the folder of suites.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use kindlm_run::project::CONFIG;
use kindlm_run::stored_runs::{Prune, prune};
use kindlm_run::{Failure, SuiteFolder};

use super::RunService;

/// The limits of the search for suites that can run. The depth of the folder of suites is 1.
const LIMITS: Limits = Limits { depth: 4, count: 1000 };

/// The limits of the search for suites that are ignored.
const LIMITS_OF_IGNORED: Limits = Limits { depth: 64, count: 100_000 };

/// The folder of the runs of inline suites, below the folder of suites.
const INLINE: &str = ".inline";

/// The limits of a search for suites. Deeper and further suites are ignored.
#[derive(Clone, Copy)]
struct Limits {
    /// The maximum depth of a folder.
    depth: usize,
    /// The maximum number of suites.
    count: usize,
}

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
    /// A suite is a file `kindlm.yaml` or `<name>.kindlm.yaml`; the ending can be `.yml` too. Without a folder of
    /// suites, the list is empty.
    ///
    /// # Errors
    ///
    /// Fails if the folder of suites cannot be read.
    pub(crate) fn suites(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        if self.inner.has_suites {
            search(&self.inner.world.working_dir, "", LIMITS, &mut found)?;
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Warns the operator if suites are ignored. The search has its own thread, so that it does not delay the start.
    pub(super) fn look_for_ignored_suites(&self) {
        if !self.inner.has_suites {
            return;
        }
        let service = self.clone();
        let look = move || {
            if let Some(warning) = service.ignored_suites() {
                service.world().notify(&warning);
            }
        };
        if let Err(err) = thread::Builder::new().name("suites".to_owned()).spawn(look) {
            self.world().notify(&format!("warning: cannot search for ignored suites: {err}"));
        }
    }

    /// Returns the warning about ignored suites; `None` if no suite is ignored.
    ///
    /// Returns `None` too if the folder of suites cannot be read, because each request for suites reports that error.
    fn ignored_suites(&self) -> Option<String> {
        let mut all = Vec::new();
        search(&self.inner.world.working_dir, "", LIMITS_OF_IGNORED, &mut all).ok()?;
        let used = self.suites().ok()?;
        all.retain(|it| used.binary_search(it).is_err());
        let first = all.iter().min()?;
        Some(format!(
            "warning: `--suites`: suites are ignored: {}, such as `{first}`; the server uses at most {} suites, in the \
             folder or at most {} levels below it; move deeper suites up, or start another server for further ones",
            all.len(),
            LIMITS.count,
            LIMITS.depth - 1
        ))
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

    /// Returns the folder that stores the runs of inline suites. The folder has no suites, and
    /// [`suites`](Self::suites) ignores its name.
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

    /// Deletes the runs of inline suites that are older than `age`, and returns the ids of the deleted runs. Runs that
    /// are going on, and runs whose results are baselines, stay.
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

fn search(folder: &Path, before: &str, limits: Limits, found: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || found.len() >= limits.count {
            continue;
        }
        // `file_type` does not follow links, so a link cannot add files from outside the folder.
        let kind = entry.file_type()?;
        if kind.is_file() && is_suite(&name) {
            found.push(format!("{before}{name}"));
        } else if kind.is_dir() && limits.depth > 1 {
            let limits = Limits { depth: limits.depth - 1, ..limits };
            // A folder that cannot be read has no suites that could run.
            let _ = search(&entry.path(), &format!("{before}{name}/"), limits, found);
        }
    }
    Ok(())
}

fn is_suite(name: &str) -> bool {
    ["yaml", "yml"].iter().any(|ending| {
        name.strip_suffix(ending).is_some_and(|it| it == "kindlm." || it.ends_with(".kindlm."))
    })
}
