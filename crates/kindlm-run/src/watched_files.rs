//! The files of a suite, and the wait for a change of a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kindlm_config::Loaded;
use kindlm_store::Folder;

use crate::suite_files::look_at_programs;
use crate::{SuiteFolder, World};

/// The polling interval for files.
///
/// Polling detects every way of saving (in place, by renaming, over a network), and the number of files is small.
const EVERY: Duration = Duration::from_millis(300);

/// The number of further polls after which a missing file counts as removed.
///
/// The interval of these polls is a third of the normal interval.
const UNTIL_GONE: u32 = 5;

/// The files of a suite, with their last changes.
pub struct WatchedFiles(BTreeMap<PathBuf, Mark>);

/// The modification time and size of a file; `None` if they cannot be read, as for a missing file.
///
/// Saving a file changes its mark.
pub type Mark = Option<(SystemTime, u64)>;

impl WatchedFiles {
    /// Returns the config file, and the files and folders that loading requested. If the config could not be read,
    /// returns only the config file.
    pub fn new(world: &World, config: &Path, read: Option<&(SuiteFolder, Folder, Loaded)>) -> Self {
        let paths = match read {
            Some((place, folder, loaded)) => {
                loaded.suite.iter().for_each(|suite| look_at_programs(suite, folder));
                let mut paths = folder.requested_files();
                paths.push(place.path.clone());
                paths
            }
            None => vec![SuiteFolder::new(world, config).path],
        };
        Self(paths.into_iter().map(|it| (it.clone(), mark(&it))).collect())
    }

    /// Returns the number of existing files and folders. Missing files are watched, too.
    pub fn count(&self) -> usize {
        self.0.values().flatten().count()
    }

    /// Accepts the present state of the watched folders, so that earlier changes of folders are not reported.
    ///
    /// The run itself may write reports into a folder that is watched for datasets.
    pub fn look_at_folders_again(&mut self) {
        for (path, old) in self.0.iter_mut().filter(|(path, _)| path.is_dir()) {
            *old = mark(path);
        }
    }

    /// Waits until a file is changed, created or removed, and is then stable. Returns its path and its new mark.
    pub async fn changed(&self) -> (PathBuf, Mark) {
        loop {
            tokio::time::sleep(EVERY).await;
            let Some((path, _)) = self.0.iter().find(|(path, old)| mark(path) != **old) else {
                continue;
            };
            // Editors save in several steps, and some remove a file before they recreate it.
            let (mut last, mut looks) = (mark(path), 0);
            loop {
                tokio::time::sleep(EVERY / 3).await;
                let now = mark(path);
                looks = if now == last { looks + 1 } else { 0 };
                if looks >= if now.is_some() { 1 } else { UNTIL_GONE } {
                    return (path.clone(), now);
                }
                last = now;
            }
        }
    }
}

fn mark(path: &Path) -> Mark {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
