//! Runs the programs of a promptfoo config that generate prompts, tests and variables, while the config is loaded.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_script::ScriptHost;
use kindlm_types::script::{
    CompileScript, RunScript, ScriptError, ScriptErrorKind, ScriptQuestion, ScriptRuntime,
    ScriptSource,
};
use tokio::runtime::{Builder, Runtime};

use crate::scripts::host;
use crate::{Failure, World};

/// The purpose of loading a suite. It decides which programs may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A run: programs have the permissions of the suite.
    Run,
    /// An inspection without a run.
    ///
    /// Only programs that stay in the sandbox, without network access, may run.
    Look,
    /// An inspection of providers and models only.
    Models,
}

impl Purpose {
    /// Returns [`Run`](Self::Run) if programs are allowed, else [`Look`](Self::Look).
    pub fn look(allow_programs: bool) -> Self {
        if allow_programs { Self::Run } else { Self::Look }
    }
}

/// Creates two functions: one runs programs, and one compiles the scripts of checks. Their files are below `root`.
///
/// The script host starts at the first use.
pub(crate) fn runner(
    world: &World,
    root: &Path,
    purpose: Purpose,
) -> Result<(Arc<RunScript>, Arc<CompileScript>), Failure> {
    let runner = Arc::new(Runner {
        host: Mutex::new(Some(host(world, root)?)),
        running: Mutex::default(),
        compiled: Mutex::default(),
    });
    let compiler = Arc::clone(&runner);
    let run = move |question: &ScriptQuestion| match refused(question, purpose) {
        Some(refusal) => Err(refusal),
        None => runner.with(|running| running.wait(running.host.run(question))),
    };
    Ok((Arc::new(run), Arc::new(move |question: &ScriptQuestion| compiler.compile(question))))
}

/// A script host that starts at the first use.
struct Runner {
    host: Mutex<Option<ScriptHost>>,
    running: Mutex<Option<Running>>,
    /// The cached results of compiling scripts, because many tests share a script.
    compiled: Mutex<HashMap<(ScriptRuntime, ScriptSource), Result<(), ScriptError>>>,
}

impl Runner {
    fn with<T>(
        &self,
        work: impl FnOnce(&Running) -> Result<T, ScriptError>,
    ) -> Result<T, ScriptError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|err| internal(&err.to_string()))?;
            let host = self.host.lock().unwrap_or_else(PoisonError::into_inner).take();
            *running = host.map(|host| Running { host, runtime });
        }
        match &*running {
            Some(running) => work(running),
            None => Err(internal("the script host has stopped")),
        }
    }

    fn compile(&self, question: &ScriptQuestion) -> Result<(), ScriptError> {
        let key = (question.runtime, question.source.clone());
        let known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known {
            return known;
        }
        let compiled = self.with(|running| running.wait(running.host.compile(question)));
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, compiled.clone());
        compiled
    }
}

/// A started host and its runtime. Fields are dropped in order, so the host is dropped before its runtime.
struct Running {
    host: ScriptHost,
    runtime: Runtime,
}

impl Running {
    /// Waits on a separate thread, because the caller may be inside a runtime.
    fn wait<T: Send>(
        &self,
        work: impl Future<Output = Result<T, ScriptError>> + Send,
    ) -> Result<T, ScriptError> {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| self.runtime.block_on(work));
            waiting.join().unwrap_or_else(|_| Err(internal("the script host panicked")))
        })
    }
}

/// Returns the error of a program that may not run for this purpose.
///
/// Returns `None` if the program may run.
fn refused(question: &ScriptQuestion, purpose: Purpose) -> Option<ScriptError> {
    if purpose == Purpose::Run {
        return None;
    }
    let why = match question.runtime {
        ScriptRuntime::QuickJs if question.permissions.net.is_empty() => return None,
        ScriptRuntime::QuickJs => "it may use the network (`scripts.net`)",
        ScriptRuntime::Node => "Node.js would run it without a sandbox (`scripts.runtime`)",
        // Python also starts the command lines of a promptfoo config.
        ScriptRuntime::Python | ScriptRuntime::Ruby => "it would run without a sandbox",
    };
    let message = format!(
        "it was not run, because this command only reads the suite, and {why}; `--allow-programs` runs it"
    );
    Some(ScriptError::new(ScriptErrorKind::Runtime, message))
}

fn internal(message: &str) -> ScriptError {
    ScriptError::new(ScriptErrorKind::Internal, message)
}
