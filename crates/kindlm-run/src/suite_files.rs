//! The files of a suite, which reports must not overwrite.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kindlm_config::{Programs, Sources};
use kindlm_engine::Suite;
use kindlm_store::Folder;

use crate::project::SuiteFolder;
use crate::{Failure, World};

/// The files of a suite, and the folders where reports are not allowed.
pub struct SuiteFiles {
    files: BTreeSet<PathBuf>,
    folders: Vec<(PathBuf, &'static str)>,
}

impl SuiteFiles {
    /// Collects the config file of a suite, and the files that were read through `files`.
    pub fn new(place: &SuiteFolder, files: &Folder, suite: Option<&Suite>) -> Self {
        if let Some(suite) = suite {
            look_at_programs(suite, files);
        }
        let config = place.path.canonicalize().unwrap_or_else(|_| place.path.clone());
        let mut own: BTreeSet<PathBuf> =
            files.requested_files().iter().filter_map(|it| it.canonicalize().ok()).collect();
        // Allow the folder of the suite even if workspaces start from a copy of it, because reports are often next to
        // the suite.
        let trees = files.trees().into_iter().filter(|it| !config.starts_with(it));
        let mut folders: Vec<_> =
            trees.map(|it| (it, "workspaces start from that folder")).collect();
        let state = place.state();
        let state = state.canonicalize().unwrap_or(state);
        for folder in ["baselines", "calibrations", "responses", "runs"] {
            folders.push((state.join(folder), "KindLM keeps its own files there"));
        }
        own.insert(config);
        Self { files: own, folders }
    }

    /// Collects the files of the suite at this location, if the suite can be read. No program is run.
    pub fn beside(world: &World, place: &SuiteFolder) -> Self {
        let env = |name: &str| (world.env)(name);
        let Ok(files) = Folder::open(&place.folder) else {
            return Self { files: BTreeSet::from([place.path.clone()]), folders: Vec::new() };
        };
        let suite = place.read_config().ok().and_then(|bytes| {
            kindlm_config::load_with(&place.name, &bytes, &Sources::new(&files, &env)).suite
        });
        Self::new(place, &files, suite.as_ref())
    }

    /// Refuses a report that would overwrite a file of the suite or of KindLM.
    ///
    /// `target` is the path with links resolved; `named` is the path in the error message.
    ///
    /// # Errors
    ///
    /// Fails if the target is a file of the suite, or is in a folder where reports are not allowed.
    pub fn check(&self, id: &str, target: &Path, named: &Path) -> Result<(), Failure> {
        let within = self.folders.iter().find(|(folder, _)| target.starts_with(folder));
        let why = match within {
            _ if self.files.contains(target) && target.is_file() => "the suite is read from it",
            Some((_, why)) => why,
            None => return Ok(()),
        };
        Err(Failure::input(format!("`{id}` cannot be written to `{}`: {why}", named.display()))
            .with_help("name another file"))
    }
}

/// Reads the program files of providers and agents, so that `folder` lists them.
///
/// Without this call, these files are read at the first request. The files of commands are read with the suite.
pub fn look_at_programs(suite: &Suite, folder: &Folder) {
    let programs = Programs::new(folder);
    let providers = suite.providers.values().cloned();
    let agents =
        suite.models.iter().filter_map(|it| serde_json::to_value(it.agent.as_deref()?).ok());
    for config in providers.chain(agents) {
        let _ = programs.named_in(&config);
    }
}
