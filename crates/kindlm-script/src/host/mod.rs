//! The host: accepts questions, and runs them in workers.

mod answer;
mod command;
mod fetch;
mod files;
mod job;
mod pool;
mod process;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kindlm_process::Guard;
use kindlm_types::script::{
    ScriptAnswer, ScriptError, ScriptErrorKind, ScriptQuestion, ScriptRuntime,
};

use crate::limits;
pub use command::Interpreters;
pub use fetch::{Fetch, FetchRequest, FetchResponse};
use files::Files;
use pool::Pool;

/// A function that returns the value of an environment variable; `None` if the variable is not set.
pub type ReadEnv = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The settings of a [`ScriptHost`].
pub struct HostOptions {
    /// The program that runs [`worker::main`](crate::worker::main), usually the current program.
    pub program: PathBuf,
    /// The arguments that start the worker.
    pub args: Vec<OsString>,
    /// The base folder of files. Scripts can only load files inside of this folder, unless permissions allow more.
    pub root: PathBuf,
    /// True if scripts of the sandbox may load modules. If false, these scripts load no file, and do not get the path
    /// of the base folder. Interpreters read files themselves, so this option does not limit them.
    pub loads_files: bool,
    /// The programs that run scripts outside the sandbox.
    pub interpreters: Interpreters,
    /// The maximum number of workers for each runtime; at least 1. The default is the number of available CPUs.
    pub workers: usize,
    /// The time limit of a call that has no time limit of its own; 5 seconds by default.
    pub timeout: Duration,
    /// The function that reads environment variables. Scripts get their permitted variables. Interpreters get `PATH`
    /// and similar variables. Without `PATH`, interpreters are searched for only in the system's default folders.
    pub env: Arc<ReadEnv>,
    /// The client for HTTP requests of scripts with network permissions. `None` disables `fetch`.
    pub fetch: Option<Arc<dyn Fetch>>,
}

impl HostOptions {
    /// Creates options with default limits, without environment variables or network.
    pub fn new(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
        root: impl Into<PathBuf>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            root: root.into(),
            loads_files: true,
            interpreters: Interpreters::default(),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            timeout: limits::TIMEOUT,
            env: Arc::new(|_| None),
            fetch: None,
        }
    }
}

impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("root", &self.root)
            .field("loads_files", &self.loads_files)
            .field("interpreters", &self.interpreters)
            .field("workers", &self.workers)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A host that runs scripts in worker processes.
///
/// Workers start on demand, and end with the host. The host reads each module once, so that all calls see the same
/// version.
#[derive(Debug)]
pub struct ScriptHost {
    shared: Arc<Shared>,
    pools: [Arc<Pool>; 4],
}

/// The state that all workers of a host share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: HostOptions,
    pub(crate) files: Files,
    /// The guard that ends the workers if KindLM is killed.
    pub(crate) guard: Guard,
}

impl ScriptHost {
    /// Creates a host. Workers start with the first call.
    pub fn new(options: HostOptions) -> Self {
        let files = Files::new(&options.root, options.loads_files);
        let workers = options.workers.max(1);
        let shared = Arc::new(Shared { options, files, guard: Guard::default() });
        let pools = [
            ScriptRuntime::QuickJs,
            ScriptRuntime::Node,
            ScriptRuntime::Python,
            ScriptRuntime::Ruby,
        ]
        .map(|runtime| Arc::new(Pool::new(runtime, workers, Arc::clone(&shared))));
        Self { shared, pools }
    }

    /// Runs a script.
    ///
    /// If the script throws, the function still returns an answer. An error means that the script did not run to its
    /// end. The function must be called inside a Tokio runtime with I/O and time enabled. If the future is dropped, a
    /// call that already runs continues until it ends or times out.
    pub async fn run(&self, question: &ScriptQuestion) -> Result<ScriptAnswer, ScriptError> {
        let pool = &self.pools[match question.runtime {
            ScriptRuntime::QuickJs => 0,
            ScriptRuntime::Node => 1,
            ScriptRuntime::Python => 2,
            ScriptRuntime::Ruby => 3,
        }];
        pool.run(question.clone(), false).await
    }

    /// Compiles a script of the sandbox or of Python, without running it. Imports are not loaded. Fails if the script
    /// does not compile.
    ///
    /// Scripts of Node.js and Ruby are not checked, and always succeed.
    pub async fn compile(&self, question: &ScriptQuestion) -> Result<(), ScriptError> {
        let pool = match question.runtime {
            ScriptRuntime::QuickJs => &self.pools[0],
            ScriptRuntime::Python => &self.pools[2],
            ScriptRuntime::Node | ScriptRuntime::Ruby => return Ok(()),
        };
        pool.run(question.clone(), true).await.map(|_| ())
    }

    /// Returns the settings of the host.
    pub fn options(&self) -> &HostOptions {
        &self.shared.options
    }
}

impl Drop for ScriptHost {
    fn drop(&mut self) {
        for pool in &self.pools {
            pool.close();
        }
    }
}

pub(crate) fn error(kind: ScriptErrorKind, message: impl Into<String>) -> ScriptError {
    ScriptError::new(kind, message)
}
