//! Prepares the workspace folders for agents.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use kindlm_engine::{Plan, Suite};
use kindlm_store::Folder;
use kindlm_workspace::{Folders, FoldersOptions};

use crate::{Failure, World};

/// Returns the workspace folders for the agents of a plan.
///
/// Returns `None` if no agent needs a folder.
///
/// Fails if a source folder does not exist or may not be used. Also fails if a workspace is to be isolated, and the
/// program for the isolation is not installed. No request is sent before a failure.
pub(crate) fn open(
    world: &World,
    files: &Folder,
    suite: &Suite,
    plan: &Plan,
    (allow_outside, keep): (bool, bool),
) -> Result<Option<Folders>, Failure> {
    let mut seen = HashSet::new();
    let mut specs = HashSet::new();
    let mut wanted = Vec::new();
    for unit in plan.units.iter().filter(|it| seen.insert(it.case)) {
        let Some(case) = suite.cases.get(unit.case) else { continue };
        if let Some(spec) = case.body.workspace().filter(|it| specs.insert(Arc::clone(it))) {
            wanted.push((case, spec));
        }
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    let of_suite = suite.cases.iter().filter_map(|it| it.body.workspace());
    let hidden: BTreeSet<String> = of_suite
        .flat_map(|it| it.hidden.iter().map(|it| it.from.clone()).collect::<Vec<_>>())
        .collect();
    let hidden = hidden.into_iter().collect();
    let folders = Folders::new(FoldersOptions {
        suite: files.root().to_path_buf(),
        hidden,
        allow_outside,
        temp: world.var("TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from),
        keep,
        path: world.var("PATH").unwrap_or_default().into(),
    });
    for (case, spec) in wanted {
        folders
            .check(&spec)
            .map_err(|err| Failure::input(format!("test case `{}`: {err}", case.name)))?;
    }
    Ok(Some(folders))
}
