//! The environment of the library.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use kindlm_reporters::visible;
use kindlm_types::BoxFuture;

use crate::Registries;

/// A function that reads an environment variable.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A source of interrupts, such as Ctrl-C.
pub trait Interrupt: Send {
    /// Waits for the next interrupt, and returns its kind in one word, such as `interrupted`.
    fn next(&mut self) -> BoxFuture<'_, &'static str>;
}

/// The first argument with which a program is a worker for scripts; see [`kindlm_script::HostOptions::args`].
pub const SCRIPT_WORKER: &str = "__script-worker";

/// The environment, clock, working folder, notices and interrupts that the library uses.
#[derive(Clone)]
pub struct World {
    /// The function that reads environment variables.
    pub env: Env,
    /// The names of all environment variables. Values of variables with secret-like names are masked.
    pub variables: Vec<String>,
    /// The folder of relative paths.
    pub working_dir: PathBuf,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// The receiver of notices for people, such as warnings and the paths of written files.
    pub notices: Arc<dyn Fn(&str) + Send + Sync>,
    /// The function that starts to listen for interrupts.
    pub interrupts: fn() -> Box<dyn Interrupt>,
    /// The registries of everything that suites may name.
    pub registries: Registries,
    /// The program and its arguments that call [`kindlm_script::worker::main`] to run users' scripts.
    pub script_worker: (PathBuf, Vec<OsString>),
}

impl World {
    /// Creates a world without notices and interrupts. The script worker is `kindlm` from the search path.
    pub fn new(working_dir: impl Into<PathBuf>, env: Env) -> Self {
        Self {
            env,
            variables: Vec::new(),
            working_dir: working_dir.into(),
            now: Timestamp::now,
            notices: Arc::new(|_| {}),
            interrupts: || Box::new(Never),
            registries: Registries::default(),
            script_worker: ("kindlm".into(), vec![SCRIPT_WORKER.into()]),
        }
    }

    /// Returns the value of a variable; `None` if it is not set or empty.
    pub fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.is_empty())
    }

    /// Sends a notice. Control characters are escaped.
    pub fn tell(&self, text: &str) {
        (self.notices)(&visible(text));
    }
}

/// A source without interrupts.
struct Never;

impl Interrupt for Never {
    fn next(&mut self) -> BoxFuture<'_, &'static str> {
        Box::pin(std::future::pending())
    }
}
