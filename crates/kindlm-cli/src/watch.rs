//! `kindlm test --watch`: runs the suite again when one of its files is saved.
//!
//! Answers of models are stored and reused (`--responses cache`, unless another mode is given). A run after a change
//! sends only the requests that the change affects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kindlm_config::Loaded;
use kindlm_store::Folder;
use kindlm_types::ExitStatus;

use crate::args::Source;
use crate::args::{ConfigArgs, TestArgs};
use crate::signals::interrupted;
use crate::{Failure, Io, commands, explain, opening};
use kindlm_run::Outcome;
use kindlm_run::SuiteFolder;
use kindlm_run::project;
use kindlm_run::suite_files::look_at_programs;

/// The polling interval for files.
///
/// Polling detects every way of saving (in place, by renaming, over a network), and the number of files is small.
const EVERY: Duration = Duration::from_millis(300);

/// The number of further polls after which a missing file counts as removed.
///
/// The interval of these polls is a third of the normal interval.
const UNTIL_GONE: u32 = 5;

/// Runs the suite again after each change, until the user interrupts it.
///
/// Returns the status of the last run, which is `Interrupted` if the user interrupted it.
pub(crate) fn run(mut args: TestArgs, io: &mut Io) -> Outcome {
    args.watch = false;
    args.responses.responses.get_or_insert(Source::Cache);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
    loop {
        // Record the files before the run, so that saving a file during the run triggers another run.
        let read = project::load(io, &args.suite.options(), commands::test::purpose(&args));
        let mut files = Files::of(io, &args.suite, read.as_ref().ok());
        let project = read.and_then(|it| opening::usable(io, it, args.suite.allow_outside));
        let run = project.and_then(|it| commands::test::run_project(args.clone(), it, io));
        let status = match run {
            Ok(status) => status,
            Err(failure) => explain(&failure, io),
        };
        if status == ExitStatus::Interrupted {
            return Ok(status);
        }
        files.look_at_folders_again();
        // Missing paths are watched, too, but are not counted as files.
        let count = files.0.values().flatten().count();
        let plural = if count == 1 { "file" } else { "files" };
        io.notify(&format!(
            "\nwatching {count} {plural} (exit code {}); save one to run again, Ctrl-C to end",
            status.code()
        ));
        let changed = runtime.block_on(async {
            tokio::select! {
                () = interrupted() => None,
                changed = files.changed() => Some(changed),
            }
        });
        let Some((changed, now)) = changed else { return Ok(status) };
        let name = changed.file_name().unwrap_or(changed.as_os_str()).to_string_lossy();
        let what = if now.is_some() { "saved" } else { "removed" };
        io.notify(&format!("`{}` was {what}\n", kindlm_reporters::one_line(&name)));
    }
}

/// The files of a suite, with their last changes.
struct Files(BTreeMap<PathBuf, Mark>);

/// The modification time and size of a file; `None` if they cannot be read, as for a missing file.
///
/// They change when the file is saved.
type Mark = Option<(SystemTime, u64)>;

impl Files {
    /// Returns the config file, and the files and folders that loading requested. If the config could not be read, it
    /// is the only file.
    fn of(io: &Io, config: &ConfigArgs, read: Option<&(SuiteFolder, Folder, Loaded)>) -> Self {
        let paths = match read {
            Some((place, folder, loaded)) => {
                loaded.suite.iter().for_each(|suite| look_at_programs(suite, folder));
                let mut paths = folder.requested_files();
                paths.push(place.path.clone());
                paths
            }
            None => vec![SuiteFolder::new(io, &config.config).path],
        };
        Self(paths.into_iter().map(|it| (it.clone(), mark(&it))).collect())
    }

    /// Accepts changes of folders.
    ///
    /// The run itself may write reports into a folder that is watched for datasets.
    fn look_at_folders_again(&mut self) {
        for (path, old) in self.0.iter_mut().filter(|(path, _)| path.is_dir()) {
            *old = mark(path);
        }
    }

    /// Waits until a file is changed, created or removed, and is then stable.
    async fn changed(&self) -> (PathBuf, Mark) {
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
