//! The environment, clock and interrupts of the library.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use kindlm_redact::LearnedSecrets;
use kindlm_reporters::visible;
use kindlm_types::BoxFuture;

use crate::Registries;

/// A function that returns the value of an environment variable; `None` if the variable is not set.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A function that starts to listen for interrupts.
pub type Interrupts = Arc<dyn Fn() -> Box<dyn Interrupt> + Send + Sync>;

/// A source of interrupts, such as Ctrl-C.
pub trait Interrupt: Send {
    /// Waits for the next interrupt, and returns its description, such as `interrupted`.
    fn next(&mut self) -> BoxFuture<'_, &'static str>;
}

/// The first argument that makes a program a script worker.
///
/// See [`kindlm_script::HostOptions::args`].
pub const SCRIPT_WORKER: &str = "__script-worker";

/// The environment, clock, folder, notices and interrupts that the library uses.
#[derive(Clone)]
pub struct World {
    /// The function that reads environment variables.
    pub env: Env,
    /// The names of all environment variables. The values of variables with secret-like names are masked.
    pub variables: Vec<String>,
    /// The secret values that become known during runs, such as keys that commands print. They are masked, too.
    pub learned: LearnedSecrets,
    /// The folder that relative paths start from.
    pub working_dir: PathBuf,
    /// The function that returns the current time.
    pub now: fn() -> Timestamp,
    /// The receiver of notices, such as warnings or the paths of written files.
    pub notices: Arc<dyn Fn(&str) + Send + Sync>,
    /// The function that starts to listen for interrupts.
    pub interrupts: Interrupts,
    /// The registries of all assertions, gates, providers and reporters.
    pub registries: Registries,
    /// The program that runs users' scripts, and its arguments.
    ///
    /// The program calls [`kindlm_script::worker::main`].
    pub script_worker: (PathBuf, Vec<OsString>),
}

impl World {
    /// Creates a world whose notices are discarded, and that is never interrupted.
    ///
    /// The script worker is `kindlm` from the search path.
    pub fn new(working_dir: impl Into<PathBuf>, env: Env) -> Self {
        Self {
            env,
            variables: Vec::new(),
            learned: LearnedSecrets::default(),
            working_dir: working_dir.into(),
            now: Timestamp::now,
            notices: Arc::new(|_| {}),
            interrupts: Arc::new(|| Box::new(Never)),
            registries: Registries::default(),
            script_worker: ("kindlm".into(), vec![SCRIPT_WORKER.into()]),
        }
    }

    /// Returns the value of an environment variable; `None` if the variable is empty or not set.
    pub fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.is_empty())
    }

    /// Sends a notice. Control characters are escaped.
    pub fn notify(&self, text: &str) {
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
