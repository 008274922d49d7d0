//! The program around the library.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use kindlm_reporters::visible;
use kindlm_types::BoxFuture;

use crate::Registries;

/// Reads an environment variable.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Waits for somebody who wants a run to end.
pub trait Interrupt: Send {
    /// Ends at the next interrupt, and says in a word what it was: `interrupted`.
    fn next(&mut self) -> BoxFuture<'_, &'static str>;
}

/// The program around the library. Nothing else of it is used.
#[derive(Clone)]
pub struct World {
    /// The environment.
    pub env: Env,
    /// The names of all variables in it: the values of those that are called secrets are masked.
    pub variables: Vec<String>,
    /// The folder that relative paths are relative to.
    pub working_dir: PathBuf,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// Takes notices for people: warnings, and where things were written.
    pub notices: Arc<dyn Fn(&str) + Send + Sync>,
    /// Listens for interrupts from when it is called.
    pub interrupts: fn() -> Box<dyn Interrupt>,
    /// What suites may name.
    pub registries: Registries,
    /// The program, with its arguments, that calls [`kindlm_script::worker::main`] to run users' scripts.
    pub script_worker: (PathBuf, Vec<OsString>),
}

impl World {
    /// A world with this environment and working folder, whose notices go nowhere, in which nothing interrupts, and whose
    /// script worker is `kindlm` in the search path.
    pub fn new(working_dir: impl Into<PathBuf>, env: Env) -> Self {
        Self {
            env,
            variables: Vec::new(),
            working_dir: working_dir.into(),
            now: Timestamp::now,
            notices: Arc::new(|_| {}),
            interrupts: || Box::new(Never),
            registries: Registries::default(),
            script_worker: ("kindlm".into(), vec![crate::scripts::WORKER.into()]),
        }
    }

    /// A variable that is set to something.
    pub fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.is_empty())
    }

    /// Gives a notice. Characters that would act on a terminal are shown as text.
    pub fn tell(&self, text: &str) {
        (self.notices)(&visible(text));
    }
}

/// No interrupt ever comes.
struct Never;

impl Interrupt for Never {
    fn next(&mut self) -> BoxFuture<'_, &'static str> {
        Box::pin(std::future::pending())
    }
}
