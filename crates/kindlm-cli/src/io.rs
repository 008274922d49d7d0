//! The environment of the commands: streams, variables, working directory, screen and clock.

use std::io::{self, IsTerminal as _, Read, Write};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kindlm_run::World;

use crate::SCRIPT_WORKER;
use crate::signals::Signals;

/// The environment of the commands. Tests create their own.
pub struct Io {
    /// The environment of the library; its notices go to stderr.
    pub world: World,
    /// The input stream: records, or what the user types.
    pub stdin: Box<dyn Read + Send>,
    /// The output stream, for requested output only.
    pub stdout: Box<dyn Write + Send>,
    /// The stream for progress and diagnostics.
    pub stderr: Stderr,
    /// The properties of the devices behind the streams.
    pub screen: Screen,
    /// True or false if the user has chosen or rejected colours; `None` to decide by the environment.
    pub color: Option<bool>,
}

/// The standard error stream, which several threads share.
#[derive(Clone)]
pub struct Stderr {
    to: Arc<Mutex<Box<dyn Write + Send>>>,
    /// The columns of the terminal; `None` if the stream is not a terminal, or the terminal reports 0 columns.
    columns: Option<usize>,
}

impl Stderr {
    /// Creates a stream that writes to `to`.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        Self { to: Arc::new(Mutex::new(Box::new(to))), columns: None }
    }

    /// Writes a line, including colours, wrapped for a terminal. Errors, such as a closed stream, are ignored.
    pub(crate) fn line(&self, text: &str) {
        let text =
            self.columns.map_or_else(|| text.into(), |it| kindlm_reporters::wrapped(text, it));
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_all(text.as_bytes()).and_then(|()| to.write_all(b"\n"));
    }

    pub(crate) fn flush(&self) {
        let _ = self.to.lock().unwrap_or_else(PoisonError::into_inner).flush();
    }
}

/// The properties of the devices behind the streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// True if stdin is a terminal.
    pub stdin_is_terminal: bool,
    /// True if stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// True if stderr is a terminal.
    pub stderr_is_terminal: bool,
    /// The number of columns that the terminal reports, which may be 0; `None` if no size is known.
    pub columns: Option<usize>,
}

impl Deref for Io {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Io {
    /// Returns the environment of this process.
    pub fn system() -> Self {
        // If the working directory was deleted, the error appears when a file is opened.
        let working_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let world = World {
            variables: variables.collect(),
            now: Timestamp::now,
            ..World::new(working_dir, Arc::new(|name| std::env::var(name).ok()))
        };
        let screen = Screen {
            stdin_is_terminal: io::stdin().is_terminal(),
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            columns: terminal_size::terminal_size().map(|(width, _)| width.0.into()),
        };
        let columns = screen.columns.filter(|it| screen.stderr_is_terminal && *it > 0);
        let mut io = Self::new(world, Stderr { columns, ..Stderr::new(io::stderr()) });
        io.stdin = Box::new(io::stdin());
        io.stdout = Box::new(io::stdout());
        io.screen = screen;
        io
    }

    /// Creates an environment for commands, with empty stdin and discarded stdout.
    ///
    /// Notices go to `stderr`. The commands listen to the signals of the process. Scripts run in worker processes of
    /// this program.
    pub fn new(world: World, stderr: Stderr) -> Self {
        let notices = stderr.clone();
        // The path is only needed for scripts. If the path is wrong, scripts report an error.
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("kindlm"));
        let world = World {
            notices: Arc::new(move |text| notices.line(text)),
            interrupts: Arc::new(|| Box::new(Signals::new())),
            script_worker: (program, vec![SCRIPT_WORKER.into()]),
            ..world
        };
        Self {
            world,
            stdin: Box::new(io::empty()),
            stdout: Box::new(io::sink()),
            stderr,
            screen: Screen::default(),
            color: None,
        }
    }

    /// Returns the output width in columns: `COLUMNS` if it is a number, else the terminal's width. 80 replaces a
    /// missing width and 0.
    pub(crate) fn width(&self) -> usize {
        let columns = self.var("COLUMNS").and_then(|it| it.parse().ok());
        columns.or(self.screen.columns).filter(|&it| it > 0).unwrap_or(80)
    }

    /// Returns true if stdout should have colours.
    pub(crate) fn color_stdout(&self) -> bool {
        self.color(self.screen.stdout_is_terminal)
    }

    /// Returns true if stderr should have colours.
    pub(crate) fn color_stderr(&self) -> bool {
        self.color(self.screen.stderr_is_terminal)
    }

    /// Returns true if colours are enabled.
    ///
    /// Applies the user's choice, <https://no-color.org>, <https://force-color.org>, <https://bixense.com/clicolors/>,
    /// then the capabilities of the terminal.
    fn color(&self, terminal: bool) -> bool {
        if let Some(chosen) = self.color {
            return chosen;
        }
        if self.var("NO_COLOR").is_some() {
            return false;
        }
        if let Some(force) = self.var("FORCE_COLOR") {
            return force != "0" && force != "false";
        }
        if self.var("CLICOLOR_FORCE").is_some_and(|it| it != "0") {
            return true;
        }
        terminal
            && self.var("TERM").as_deref() != Some("dumb")
            && self.var("CLICOLOR").as_deref() != Some("0")
    }

    /// Returns true if an animated progress bar can be shown on stderr.
    ///
    /// A terminal that reports 0 columns cannot show a bar.
    pub(crate) fn can_animate(&self) -> bool {
        self.screen.stderr_is_terminal
            && self.screen.columns.is_some_and(|it| it > 0)
            && self.var("CI").is_none_or(|it| it == "false" || it == "0")
            && self.var("TERM").as_deref() != Some("dumb")
    }

    /// Writes a line to stderr, including colours, wrapped for a terminal.
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
    fn colours_depend_on_the_terminal() {
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
            (&[("FORCE_COLOR", "1")], pipe, true),
            (&[("FORCE_COLOR", "0")], TERMINAL, false),
            (&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], pipe, false),
            (&[("FORCE_COLOR", "1"), ("CLICOLOR_FORCE", "0")], pipe, true),
        ] {
            assert_eq!(io(vars, screen).color_stdout(), expected, "{vars:?} {screen:?}");
            for chosen in [true, false] {
                let io = Io { color: Some(chosen), ..io(vars, screen) };
                assert_eq!(io.color_stdout(), chosen, "{vars:?} {screen:?}");
            }
        }
    }

    #[test]
    fn a_bar_needs_a_terminal_with_columns() {
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
