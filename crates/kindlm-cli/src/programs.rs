//! Runs the programs of a promptfoo config that make prompts, tests and variables, while the config is read.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_script::ScriptHost;
use kindlm_types::script::{
    RunScript, ScriptAnswer, ScriptError, ScriptErrorKind, ScriptQuestion, ScriptRuntime,
};
use tokio::runtime::{Builder, Runtime};

use crate::scripts::host;
use crate::{Failure, Io};

/// What a suite is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is going to be run: programs may do what the suite permits them.
    Run,
    /// It is only looked at: programs are confined to the sandbox, without network.
    Look,
}

impl Purpose {
    /// Looks, unless programs are permitted.
    pub(crate) fn look(allow_programs: bool) -> Self {
        if allow_programs { Self::Run } else { Self::Look }
    }
}

/// What runs programs whose files are below `root`. Nothing is started before a program is run.
pub(crate) fn runner(io: &Io, root: &Path, purpose: Purpose) -> Result<Arc<RunScript>, Failure> {
    let host = host(io, root)?;
    let running: Mutex<Option<Running>> = Mutex::new(None);
    let host = Mutex::new(Some(host));
    Ok(Arc::new(move |question: &ScriptQuestion| {
        if let Some(refusal) = refused(question, purpose) {
            return Err(refusal);
        }
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|err| internal(&err.to_string()))?;
            let host = host.lock().unwrap_or_else(PoisonError::into_inner).take();
            *running = host.map(|host| Running { host, runtime });
        }
        match &*running {
            Some(running) => running.run(question),
            None => Err(internal("the host of the scripts is gone")),
        }
    }))
}

/// A host, and what drives it. The host goes first.
struct Running {
    host: ScriptHost,
    runtime: Runtime,
}

impl Running {
    /// Waits on a thread of its own, as the caller may be driven by a runtime itself.
    fn run(&self, question: &ScriptQuestion) -> Result<ScriptAnswer, ScriptError> {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| self.runtime.block_on(self.host.run(question)));
            waiting.join().unwrap_or_else(|_| Err(internal("the host of the scripts panicked")))
        })
    }
}

/// Why a program is not run when the suite is only looked at, if it is not.
fn refused(question: &ScriptQuestion, purpose: Purpose) -> Option<ScriptError> {
    if purpose == Purpose::Run {
        return None;
    }
    let why = match question.runtime {
        ScriptRuntime::QuickJs if question.permissions.net.is_empty() => return None,
        ScriptRuntime::QuickJs => "it may use the network (`scripts.net`)",
        ScriptRuntime::Node => "Node.js would run it without a sandbox (`scripts.runtime`)",
        ScriptRuntime::Python => "Python would run it without a sandbox",
        ScriptRuntime::Ruby => "Ruby would run it without a sandbox",
    };
    let message = format!(
        "it was not run, as the suite is only looked at, and {why}: `--allow-programs` runs it"
    );
    Some(ScriptError { kind: ScriptErrorKind::Runtime, message, console: Vec::new() })
}

fn internal(message: &str) -> ScriptError {
    let message = message.to_owned();
    ScriptError { kind: ScriptErrorKind::Internal, message, console: Vec::new() }
}
