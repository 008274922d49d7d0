//! `kindlm test --watch`: runs the suite again when one of its files is saved.
//!
//! Answers of models are stored and reused (`--responses cache`, unless another mode is given). A run after a change
//! sends only the requests that the change affects. On a terminal, the user can choose the tests with short commands.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kindlm_config::Loaded;
use kindlm_store::Folder;
use kindlm_types::ExitStatus;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::args::Source;
use crate::args::{ConfigArgs, SelectArgs, TestArgs};
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
    let mut keys = Keys::of(io);
    let given = args.select.clone();
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
            "\nwatching {count} {plural} (exit code {}); save one to run again, {}Ctrl-C to end",
            status.code(),
            keys.help()
        ));
        let event = runtime.block_on(async {
            tokio::select! {
                () = interrupted() => Event::Key(Key::Quit),
                key = keys.next() => Event::Key(key),
                changed = files.changed() => Event::Changed(changed),
            }
        });
        match event {
            Event::Key(Key::Quit) => return Ok(status),
            Event::Key(key) => args.select = key.select(given.clone()),
            Event::Changed((changed, now)) => {
                let name = changed.file_name().unwrap_or(changed.as_os_str()).to_string_lossy();
                let what = if now.is_some() { "saved" } else { "removed" };
                io.notify(&format!("`{}` was {what}\n", kindlm_reporters::one_line(&name)));
            }
        }
    }
}

/// The reason for the next run, or for the end.
enum Event {
    Key(Key),
    Changed((PathBuf, Mark)),
}

/// A command that the user types while the files are watched.
#[derive(Debug, PartialEq, Eq)]
enum Key {
    /// Run all tests that the command line selects.
    All,
    /// Run those that did not pass.
    Failed,
    /// Run those whose name matches.
    Pattern(String),
    /// End the program.
    Quit,
}

impl Key {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (key, pattern) = line.split_once(' ').unwrap_or((line, ""));
        match (key, pattern.trim()) {
            ("a", "") => Some(Self::All),
            ("f", "") => Some(Self::Failed),
            ("q", "") => Some(Self::Quit),
            ("p", pattern) if !pattern.is_empty() => Some(Self::Pattern(pattern.to_owned())),
            _ => None,
        }
    }

    /// Returns the selection of the next runs. `given` is that of the command line.
    fn select(self, mut given: SelectArgs) -> SelectArgs {
        match self {
            Self::All | Self::Quit => {}
            Self::Failed => (given.failed, given.changed) = (true, false),
            Self::Pattern(pattern) => {
                given.tests.clear();
                given.patterns = vec![pattern];
            }
        }
        given
    }
}

/// The lines that the user types on a terminal.
struct Keys(Option<UnboundedReceiver<String>>);

impl Keys {
    /// Starts to read stdin if it is a terminal. The thread ends with the process.
    fn of(io: &mut Io) -> Self {
        if !io.screen.stdin_is_terminal {
            return Self(None);
        }
        let stdin = std::mem::replace(&mut io.stdin, Box::new(std::io::empty()));
        let (send, receive) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdin).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self(Some(receive))
    }

    fn help(&self) -> &'static str {
        if self.0.is_none() {
            return "";
        }
        "or type a (all), f (failed), p PATTERN or q (quit) and Enter; "
    }

    /// Waits for the next valid command. Other lines are ignored.
    async fn next(&mut self) -> Key {
        while let Some(lines) = &mut self.0 {
            match lines.recv().await.as_deref().map(Key::parse) {
                Some(Some(key)) => return key,
                Some(None) => {}
                // Stdin was closed.
                None => self.0 = None,
            }
        }
        std::future::pending().await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_letters_with_enter() {
        for (line, expected) in [
            ("a", Some(Key::All)),
            (" f \r", Some(Key::Failed)),
            ("p refund in time", Some(Key::Pattern("refund in time".to_owned()))),
            ("q", Some(Key::Quit)),
            ("p", None),
            ("", None),
            ("fa", None),
        ] {
            assert_eq!(Key::parse(line), expected, "{line:?}");
        }
    }
}
