//! `kindlm test --watch`: runs the suite again when one of its files is saved.
//!
//! Answers of models are stored and reused (`--responses cache`, unless another mode is given). A run after a change
//! sends only the requests that the change affects. On a terminal, the user can choose the tests with short commands.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use kindlm_types::ExitStatus;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::args::Source;
use crate::args::{SelectArgs, TestArgs};
use crate::signals::interrupted;
use crate::{Failure, Io, commands, explain, opening};
use kindlm_run::Outcome;
use kindlm_run::project;
use kindlm_run::watched_files::{Mark, WatchedFiles};

/// Runs the suite again after each change, until the user interrupts it.
///
/// Returns the status of the last run, which is `Interrupted` if the user interrupted it.
pub(crate) fn run(mut args: TestArgs, io: &mut Io) -> Outcome {
    args.watch = false;
    let mut keys = Keys::listen(io);
    let given = args.select.clone();
    args.responses.responses.get_or_insert(Source::Cache);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
    loop {
        // Record the files before the run, so that saving a file during the run triggers another run.
        let read = project::load(io, &args.suite.options(), commands::test::purpose(&args));
        let mut files = WatchedFiles::new(io, &args.suite.config, read.as_ref().ok());
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
        let count = files.count();
        let plural = if count == 1 { "file" } else { "files" };
        io.notify(&format!(
            "\nwatching {count} {plural} (exit code {}); save one to run again, {}Ctrl-C to end",
            status.code(),
            keys.help()
        ));
        let event = runtime.block_on(async {
            tokio::select! {
                () = interrupted() => Event::Key(Key::Quit),
                key = keys.next(io) => Event::Key(key),
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
    /// Run the tests that did not pass in their last run.
    Failed,
    /// Run the tests whose name matches this pattern.
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

    /// Returns the selection of the next runs. `given` is the selection of the command line.
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

/// The lines that the user types on a terminal; `None` if stdin is not a terminal or was closed.
struct Keys(Option<UnboundedReceiver<String>>);

impl Keys {
    /// If stdin is a terminal, starts a thread that reads its lines until the process ends.
    fn listen(io: &mut Io) -> Self {
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

    /// Waits for the next valid command. For any other line, prints a list of the commands.
    async fn next(&mut self, io: &mut Io) -> Key {
        while let Some(lines) = &mut self.0 {
            match lines.recv().await {
                Some(line) => match Key::parse(&line) {
                    Some(key) => return key,
                    None => io.notify("unknown command; type a (all), f (failed), p PATTERN or q (quit), and Enter"),
                },
                // Stdin was closed.
                None => self.0 = None,
            }
        }
        std::future::pending().await
    }
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
