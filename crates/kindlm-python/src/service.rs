//! The service that evaluates the records of an evaluator.

use std::env;
use std::ffi::{CString, OsString};
use std::mem;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kindlm_run::evaluate::service::{Evaluated, RecordError, RecordService};
use kindlm_run::{Failure, OpenOptions, Project, Purpose, World};
use kindlm_wire::evaluate::{Evaluation, LineError};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{MissedTickBehavior, interval};

use crate::checks::Checks;
use crate::error::KindlmError;

/// The time between two checks for an interrupt, such as Ctrl-C.
const INTERRUPTS: Duration = Duration::from_millis(100);

/// The lowest default for the number of threads if there is a config. It equals the default concurrency of
/// `kindlm evaluate`.
const THREADS_WITH_JUDGES: usize = 8;

/// The number of records per thread that the service gets at once. Each record is evaluated, waits for a thread, or
/// waits for the results of earlier records.
const WAITING: usize = 8;

/// The program of a script worker. Its first argument is the folder of this module.
const WORKER: &str = "import os, sys; sys.path.insert(0, sys.argv[1]); from kindlm import _kindlm; \
    os._exit(_kindlm.script_worker())";

/// The result of one record.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Row {
    Evaluated(Box<Evaluation>),
    Malformed(LineError),
}

/// The notices of a service that are not shown yet.
#[derive(Clone, Default)]
pub(crate) struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    fn add(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    /// Issues the notices as warnings of Python.
    pub(crate) fn warn(&self, py: Python<'_>) -> PyResult<()> {
        let texts = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for text in texts {
            let text = CString::new(text.replace('\0', " "))?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
        }
        Ok(())
    }
}

/// Returns the number of threads: the number of the user, or the default. It is at least 1.
pub(crate) fn threads(set: Option<usize>, has_config: bool) -> usize {
    let cpus = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let least = if has_config { THREADS_WITH_JUDGES } else { 1 };
    set.unwrap_or_else(|| cpus().max(least)).max(1)
}

/// Opens the config, and starts the service.
pub(crate) fn start(
    py: Python<'_>,
    config: Option<&Path>,
    set: Option<usize>,
    notices: &Notices,
) -> PyResult<RecordService> {
    let world = world(py, notices.clone())?;
    let open = |config: &Path| Project::open(&world, &OpenOptions::new(config), Purpose::Models);
    let suite = config.map(open).transpose().map_err(exception)?;
    RecordService::start_trusted(world, suite, threads(set, config.is_some())).map_err(exception)
}

fn world(py: Python<'_>, notices: Notices) -> PyResult<World> {
    let folder = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let world = World {
        variables: env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect(),
        notices: Arc::new(move |text| notices.add(text)),
        ..World::new(folder, Arc::new(|name| env::var(name).ok()))
    };
    // A program that embeds Python has no `sys.executable`. Scripts then run in the program `kindlm` of the
    // search path.
    let program: Option<PathBuf> = py.import("sys")?.getattr("executable")?.extract()?;
    let Some(program) = program.filter(|it| !it.as_os_str().is_empty()) else { return Ok(world) };
    let file: PathBuf = py.import("kindlm")?.getattr("__file__")?.extract()?;
    let folder = file.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let options = ["-I", "-S", "-c", WORKER].map(OsString::from);
    let args = options.into_iter().chain([folder.into()]).collect();
    Ok(World { script_worker: (program, args), ..world })
}

/// Compiles the checks.
pub(crate) fn compile(service: &RecordService, checks: &Checks) -> PyResult<()> {
    let compiled = runtime()?.block_on(service.compile(checks.as_str().into()));
    compiled.map_err(|err| match err {
        RecordError::Invalid { message, .. } => KindlmError::new_err(message),
        other => exception(stopped(&other)),
    })
}

fn runtime() -> PyResult<Runtime> {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.map_err(|err| KindlmError::new_err(format!("cannot start: {err}")))
}

fn exception(failure: Failure) -> PyErr {
    let words = [failure.message, failure.help].into_iter().flatten();
    KindlmError::new_err(words.collect::<Vec<_>>().join("; "))
}

/// Returns the failure for an error that is not about one record.
fn stopped(error: &RecordError) -> Failure {
    match error {
        RecordError::NoJudge => Failure::input("some checks need a judge model, and there is none")
            .with_help("set `config` to a kindlm.yaml with `models`"),
        _ => Failure::internal("the threads of the evaluator have ended")
            .with_help("create another one"),
    }
}

/// The evaluation of the records of one call.
pub(crate) struct Batch<'py, 'a> {
    py: Python<'py>,
    service: &'a RecordService,
    threads: usize,
    /// The number of records that were evaluated.
    done: u64,
}

impl<'py, 'a> Batch<'py, 'a> {
    pub(crate) fn new(py: Python<'py>, service: &'a RecordService, threads: usize) -> Self {
        Self { py, service, threads, done: 0 }
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.py
    }

    /// Evaluates records, and returns their results in order. Other threads of Python run meanwhile.
    ///
    /// Fails if a check needs a judge that does not exist, if the service has ended, or if Python has an interrupt.
    pub(crate) fn evaluate(&mut self, lines: Vec<Vec<u8>>) -> PyResult<Vec<Row>> {
        let before = self.done;
        self.done += lines.len() as u64;
        let (service, at_once) = (self.service, self.threads.saturating_mul(WAITING));
        self.py.detach(|| runtime()?.block_on(evaluate(service, lines, before, at_once)))
    }
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is not general enough in its lifetime"
)]
async fn evaluate(
    service: &RecordService,
    lines: Vec<Vec<u8>>,
    before: u64,
    at_once: usize,
) -> PyResult<Vec<Row>> {
    let mut rows = Vec::with_capacity(lines.len());
    let mut results = stream::iter(lines).map(|json| service.evaluate(json)).buffered(at_once);
    let mut looks = interval(INTERRUPTS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let result = tokio::select! {
            biased;
            _ = looks.tick() => {
                Python::attach(|py| py.check_signals())?;
                continue;
            }
            result = results.next() => result,
        };
        let Some(result) = result else { return Ok(rows) };
        rows.push(row(result, before + rows.len() as u64 + 1)?);
    }
}

fn row(result: Result<Evaluated, RecordError>, line: u64) -> PyResult<Row> {
    let (id, error) = match result {
        Ok(evaluated) => return Ok(Row::Evaluated(Box::new(evaluated.evaluation))),
        Err(RecordError::Invalid { id, message }) => (id, message),
        Err(RecordError::Internal) => {
            let message =
                "the evaluation failed; the standard error of the process has the details";
            (None, message.to_owned())
        }
        Err(other) => return Err(exception(stopped(&other))),
    };
    Ok(Row::Malformed(LineError::new(id, error, line)))
}
