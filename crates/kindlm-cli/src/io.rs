//! The world as the commands see it: streams, environment, working directory, screen and clock.

use std::io::{self, IsTerminal as _, Read, Write};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kindlm_run::World;

use crate::SCRIPT_WORKER;
use crate::signals::Signals;

/// The world as the commands see it. Tests make one of their own.
pub struct Io {
    /// The context of the library beneath; the notices go to stderr.
    pub world: World,
    /// The source of records.
    pub stdin: Box<dyn Read + Send>,
    /// Carries the requested output, and nothing else.
    pub stdout: Box<dyn Write + Send>,
    /// Carries progress and diagnostics.
    pub stderr: Stderr,
    /// The devices at the other end of the streams.
    pub screen: Screen,
}

/// The standard error stream: notices come from several threads.
#[derive(Clone)]
pub struct Stderr(Arc<Mutex<Box<dyn Write + Send>>>);

impl Stderr {
    /// A stream that writes there.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(to))))
    }

    /// Writes lines as they are: with colours. A closed stream is no failure.
    pub(crate) fn line(&self, text: &str) {
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_all(text.as_bytes()).and_then(|()| to.write_all(b"\n"));
    }

    pub(crate) fn flush(&self) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).flush();
    }
}

/// The devices at the other end of the streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// True if stdin is a terminal.
    pub stdin_is_terminal: bool,
    /// True if stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// True if stderr is a terminal.
    pub stderr_is_terminal: bool,
    /// The terminal's columns, as it says; some say 0.
    pub columns: Option<usize>,
}

impl Deref for Io {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Io {
    /// The process's own streams, environment and clock.
    pub fn system() -> Self {
        // A working directory that was deleted is found out when a file is looked for in it.
        let working_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let world = World {
            variables: variables.collect(),
            now: Timestamp::now,
            ..World::new(working_dir, Arc::new(|name| std::env::var(name).ok()))
        };
        let mut io = Self::new(world, Stderr::new(io::stderr()));
        io.stdin = Box::new(io::stdin());
        io.stdout = Box::new(io::stdout());
        io.screen = Screen {
            stdin_is_terminal: io::stdin().is_terminal(),
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            columns: terminal_size::terminal_size().map(|(width, _)| width.0.into()),
        };
        io
    }

    /// Commands in this world, which tell notices on that stream, hear the process's signals, and run scripts in workers
    /// that are this same program. Nothing is read, and what was asked for goes nowhere.
    pub fn new(world: World, stderr: Stderr) -> Self {
        let notices = stderr.clone();
        // Only a script needs it, and then it says what is missing.
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("kindlm"));
        let world = World {
            notices: Arc::new(move |text| notices.line(text)),
            interrupts: || Box::new(Signals::new()),
            script_worker: (program, vec![SCRIPT_WORKER.into()]),
            ..world
        };
        Self {
            world,
            stdin: Box::new(io::empty()),
            stdout: Box::new(io::sink()),
            stderr,
            screen: Screen::default(),
        }
    }

    /// Columns to write in: `COLUMNS`, else the terminal's, else 80. Never 0.
    pub(crate) fn width(&self) -> usize {
        let said = self.var("COLUMNS").and_then(|it| it.parse().ok());
        said.or(self.screen.columns).filter(|&it| it > 0).unwrap_or(80)
    }

    /// True if colours are wanted on stdout.
    pub(crate) fn color_stdout(&self) -> bool {
        self.color(self.screen.stdout_is_terminal)
    }

    /// True if colours are wanted on stderr.
    pub(crate) fn color_stderr(&self) -> bool {
        self.color(self.screen.stderr_is_terminal)
    }

    /// <https://no-color.org> before <https://bixense.com/clicolors/> before what the terminal can do.
    fn color(&self, terminal: bool) -> bool {
        if self.var("NO_COLOR").is_some() {
            return false;
        }
        if self.var("CLICOLOR_FORCE").is_some_and(|it| it != "0") {
            return true;
        }
        terminal
            && self.var("TERM").as_deref() != Some("dumb")
            && self.var("CLICOLOR").as_deref() != Some("0")
    }

    /// True if a moving progress bar can be shown. A terminal of 0 columns cannot: a bar never fits in it.
    pub(crate) fn can_animate(&self) -> bool {
        self.screen.stderr_is_terminal
            && self.screen.columns.is_some_and(|it| it > 0)
            && self.var("CI").is_none_or(|it| it == "false" || it == "0")
            && self.var("TERM").as_deref() != Some("dumb")
    }

    /// Writes lines to stderr as they are: with colours.
    pub(crate) fn show(&self, text: &str) {
        self.stderr.line(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(vars: &'static [(&'static str, &'static str)], screen: Screen) -> Io {
        let env = |name: &str| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let world = World::new(PathBuf::new(), Arc::new(env));
        Io { screen, ..Io::new(world, Stderr::new(io::sink())) }
    }

    const TERMINAL: Screen = Screen {
        stdin_is_terminal: true,
        stdout_is_terminal: true,
        stderr_is_terminal: true,
        columns: Some(120),
    };

    #[test]
    fn colours_are_wanted_where_they_can_be_seen() {
        let pipe = Screen::default();
        for (vars, screen, expected) in [
            (&[][..], TERMINAL, true),
            (&[], pipe, false),
            (&[("NO_COLOR", "1")], TERMINAL, false),
            (&[("NO_COLOR", "")], TERMINAL, true),
            (&[("TERM", "dumb")], TERMINAL, false),
            (&[("CLICOLOR", "0")], TERMINAL, false),
            (&[("CLICOLOR_FORCE", "1")], pipe, true),
            (&[("CLICOLOR_FORCE", "0")], pipe, false),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], pipe, false),
        ] {
            assert_eq!(io(vars, screen).color_stdout(), expected, "{vars:?} {screen:?}");
        }
    }

    #[test]
    fn a_bar_moves_only_on_a_terminal_with_room() {
        let zero = Screen { columns: Some(0), ..TERMINAL };
        for (vars, screen, expected) in [
            (&[][..], TERMINAL, true),
            (&[("CI", "true")], TERMINAL, false),
            (&[("CI", "false")], TERMINAL, true),
            (&[("TERM", "dumb")], TERMINAL, false),
            (&[], zero, false),
            (&[], Screen { columns: None, ..TERMINAL }, false),
            (&[], Screen { stderr_is_terminal: false, ..TERMINAL }, false),
        ] {
            assert_eq!(io(vars, screen).can_animate(), expected, "{vars:?} {screen:?}");
        }
        assert_eq!(io(&[], zero).width(), 80);
        assert_eq!(io(&[("COLUMNS", "0")], TERMINAL).width(), 80);
        assert_eq!(io(&[("COLUMNS", "132")], TERMINAL).width(), 132);
        assert_eq!(io(&[("COLUMNS", "wide")], TERMINAL).width(), 120);
    }
}
